"""AWS in this process (moto), with what moto lacks: instances held by lifecycle hooks, and the
refusal of an instance that no group holds."""

import contextlib
import functools
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator
from moto import mock_aws
from moto.autoscaling.exceptions import AutoscalingClientError
from moto.autoscaling.models import autoscaling_backends
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import EmptyResult

from events.sources.autoscaling import Lifecycle

REGION = "us-east-1"
ACCOUNT = "123456789012"
"""moto's own."""
RETIREMENT = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"


@dataclass
class Held:
    """Instances that hooks hold, as CompleteLifecycleAction and heartbeats see them."""

    actions: dict[str, Lifecycle] = field(default_factory=dict)
    """By instance ID."""
    told: list[tuple[str, str]] = field(default_factory=list)
    """Instance ID, and CONTINUE, ABANDON or ``heartbeat``, in the order of the calls."""

    def _checked(self, response: Any) -> str:
        asked = {
            name: response._get_param(name)
            for name in (
                "AutoScalingGroupName", "LifecycleHookName", "LifecycleActionToken", "InstanceId",
            )
        }  # fmt: skip
        action = self.actions.get(asked["InstanceId"])
        named = Lifecycle(
            asked["LifecycleActionToken"] or "",
            asked["LifecycleHookName"],
            asked["AutoScalingGroupName"],
        )
        if action and not named.token:
            named = named._replace(token=action.token)
        if action != named:
            raise AutoscalingClientError(
                "ValidationError",
                f"No active Lifecycle Action found with instance ID {asked['InstanceId']}",
            )
        return str(asked["InstanceId"])

    def complete(self, response: Any) -> EmptyResult:
        instance_id = self._checked(response)
        del self.actions[instance_id]
        self.told.append((instance_id, response._get_param("LifecycleActionResult")))
        return EmptyResult()

    def heartbeat(self, response: Any) -> EmptyResult:
        self.told.append((self._checked(response), "heartbeat"))
        return EmptyResult()


def _terminate(response: Any) -> Any:
    instance_id = response._get_param("InstanceId")
    groups = response.autoscaling_backend.autoscaling_groups.values()
    if not any(s.instance.id == instance_id for g in groups for s in g.instance_states):
        raise AutoscalingClientError(
            "ValidationError",
            f"Instance Id not found - No managed instance found for instance ID: {instance_id}",
        )
    return _TERMINATE(response)


_TERMINATE = AutoScalingResponse.terminate_instance_in_auto_scaling_group


@contextlib.contextmanager
def mocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Starting one takes a second: a file of tests shares it where its tests do not mind."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    held = Held()
    for operation, answer in (
        ("complete_lifecycle_action", held.complete),
        ("record_lifecycle_action_heartbeat", held.heartbeat),
        ("terminate_instance_in_auto_scaling_group", _terminate),
    ):
        bound = functools.partialmethod(lambda self, answer: answer(self), answer)
        monkeypatch.setattr(AutoScalingResponse, operation, bound, raising=False)
    with mock_aws():
        yield held


@functools.cache
def client(service: str, region: str = REGION) -> Any:
    """boto3's. Making one takes half a second, most of it for reading the service's model."""
    return boto3.client(service, region)


@functools.cache
def image(region: str = REGION) -> str:
    return str(client("ec2", region).describe_images(Owners=["amazon"])["Images"][0]["ImageId"])


@functools.cache
def _model(service: str) -> Any:
    return get_session().get_service_model(service)


def checked(service: str, operation: str, answer: Any) -> Any:
    """``answer``, if it has the shape that botocore's model gives to the operation's."""
    shape = _model(service).operation_model(operation).output_shape
    report = ParamValidator().validate(answer, shape) if shape else None
    assert report is None or not report.has_errors(), report.generate_report()
    return answer


def instances(count: int = 1, region: str = REGION, **given: Any) -> list[str]:
    """IDs of ``count`` running instances."""
    made = client("ec2", region).run_instances(
        ImageId=image(region), MinCount=count, MaxCount=count, **given
    )
    return [one["InstanceId"] for one in made["Instances"]]


def group(name: str = "gpus", size: int = 2, region: str = REGION) -> list[str]:
    """IDs of the instances of a new Auto Scaling group."""
    scaling = client("autoscaling", region)
    scaling.create_launch_configuration(
        LaunchConfigurationName=name, ImageId=image(region), InstanceType="p5.48xlarge"
    )
    scaling.create_auto_scaling_group(
        AutoScalingGroupName=name,
        LaunchConfigurationName=name,
        MinSize=0,
        MaxSize=2 * size,
        DesiredCapacity=size,
        AvailabilityZones=[f"{region}a"],
    )
    return members(name, region)


def members(name: str = "gpus", region: str = REGION) -> list[str]:
    (found,) = client("autoscaling", region).describe_auto_scaling_groups(
        AutoScalingGroupNames=[name]
    )["AutoScalingGroups"]
    return [one["InstanceId"] for one in found["Instances"]]


def state(instance_id: str, region: str = REGION) -> str:
    (found,) = client("ec2", region).describe_instances(InstanceIds=[instance_id])["Reservations"]
    return str(found["Instances"][0]["State"]["Name"])


def queue(name: str, *, receives: int = 0, visibility: int = 30) -> str:
    """URL of a new queue; with ``receives``, one whose dead-letter queue has what was received
    more often than that."""
    sqs = client("sqs")
    attributes = {"VisibilityTimeout": str(visibility)}
    if receives:
        dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
        (arn,) = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])[
            "Attributes"
        ].values()
        policy = {"deadLetterTargetArn": arn, "maxReceiveCount": receives}
        attributes["RedrivePolicy"] = json.dumps(policy)
    return str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


def put(url: str, *bodies: str) -> None:
    for start in range(0, len(bodies), 10):
        some = bodies[start : start + 10]
        client("sqs").send_message_batch(
            QueueUrl=url,
            Entries=[{"Id": str(n), "MessageBody": body} for n, body in enumerate(some)],
        )


def depth(url: str) -> tuple[int, int]:
    """Messages that can be received, and messages that somebody has received."""
    said = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return (
        int(said["ApproximateNumberOfMessages"]),
        int(said["ApproximateNumberOfMessagesNotVisible"]),
    )


def bridged(kind: str, detail: Mapping[str, Any], *, source: str = "aws.ec2", **more: Any) -> str:
    """An event as EventBridge writes it."""
    made = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": kind,
        "source": source,
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [],
        "detail": detail,
    }
    return json.dumps({**made, **more})


def spot(instance_id: str) -> str:
    return bridged(
        "EC2 Spot Instance Interruption Warning",
        {"instance-id": instance_id, "instance-action": "terminate"},
    )


def retirement(
    *instances: Mapping[str, Any] | str,
    starts: datetime | None = None,
    status: str = "upcoming",
) -> str:
    """An AWS Health event about ``instances``: their IDs, or entities as they are written."""
    starts = starts or datetime.now(UTC) + timedelta(days=14)
    detail = {
        "eventArn": f"arn:aws:health:{REGION}::event/EC2/{RETIREMENT}/{RETIREMENT}_1",
        "service": "EC2",
        "eventTypeCode": RETIREMENT,
        "eventTypeCategory": "scheduledChange",
        "statusCode": status,
        "startTime": f"{starts:%a, %d %b %Y %H:%M:%S} GMT",
        "affectedEntities": [
            {"entityValue": one} if isinstance(one, str) else one for one in instances
        ],
    }
    return bridged("AWS Health Event", detail, source="aws.health")


def state_change(instance_id: str, state: str = "running") -> str:
    return bridged(
        "EC2 Instance State-change Notification", {"instance-id": instance_id, "state": state}
    )


def hook(name: str, group: str, transition: str = "TERMINATING", *, seconds: int = 3600) -> None:
    client("autoscaling").put_lifecycle_hook(
        LifecycleHookName=name,
        AutoScalingGroupName=group,
        LifecycleTransition=f"autoscaling:EC2_INSTANCE_{transition}",
        HeartbeatTimeout=seconds,
        DefaultResult="ABANDON",
    )


def put_into(state: str, instance_id: str) -> None:
    """``Terminating:Wait`` and the like, in which moto never puts an instance by itself."""
    groups = autoscaling_backends[ACCOUNT][REGION].autoscaling_groups.values()
    (found,) = (s for g in groups for s in g.instance_states if s.instance.id == instance_id)
    found.lifecycle_state = state
