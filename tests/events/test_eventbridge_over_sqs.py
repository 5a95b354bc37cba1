"""EventBridge -> SQS, in an emulation: what lies in the queue is what we read."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from events import registry
from events.notice import Kind

REGION = "us-east-1"
RULE = {"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield


@pytest.mark.usefixtures("aws")
def test_a_spot_interruption_that_a_rule_puts_into_a_queue_is_understood() -> None:
    sqs, bridge = boto3.client("sqs"), boto3.client("events")
    queue = sqs.create_queue(QueueName="groundcrew")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    bridge.put_rule(Name="spot", EventPattern=json.dumps(RULE), State="ENABLED")
    target = {"Id": "queue", "Arn": arn["Attributes"]["QueueArn"]}
    bridge.put_targets(Rule="spot", Targets=[target])
    detail = {"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"}
    entry: dict[str, Any] = {"Source": "aws.ec2", "Detail": json.dumps(detail)}
    other = {**entry, "DetailType": "EC2 Instance State-change Notification"}
    bridge.put_events(Entries=[{**entry, "DetailType": RULE["detail-type"][0]}, other])

    messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert len(messages) == 1
    (event,) = registry.from_raw("eventbridge", {}, messages[0]["Body"].encode())
    (notice,) = registry.read(event).notices
    assert notice.kind is Kind.INTERRUPTION
    assert notice.identity.instance_id == "i-0123456789abcdef0"
    assert notice.identity.region == REGION
    assert notice.dedup == event.id
