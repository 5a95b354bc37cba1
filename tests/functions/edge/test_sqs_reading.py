"""What a message of a queue says, and how urgent it is."""

import json

import pytest

from functions.edge import sqs_reading
from functions.edge.held import NOTHING, NOTICES, URGENT, Held
from functions.gateways.aws.queue import Message
from tests.support import aws as cloud

ID = "i-0123456789abcdef0"


def read(body: str, *, keep_body: bool = False) -> Held:
    return sqs_reading.read(Message("m", "handle", body), keep_body=keep_body)


REBALANCE = cloud.bridged("EC2 Instance Rebalance Recommendation", {"instance-id": ID})


@pytest.mark.parametrize(
    ("body", "rank"),
    [
        (cloud.spot(ID), URGENT),
        (cloud.state_change(ID, "stopping"), URGENT),
        (cloud.state_change(ID, "running"), NOTHING),
        (REBALANCE, NOTICES),
    ],
)
def test_an_interruption_is_urgent_and_an_advice_is_not(body: str, rank: int) -> None:
    assert read(body).rank == rank


def test_in_whatever_envelope_it_comes() -> None:
    wrapped = json.dumps({"Type": "Notification", "Message": cloud.spot(ID)})
    held = read(wrapped)
    assert (held.rank, held.machines, held.refused) == (URGENT, frozenset({ID}), False)
    assert held.deadline < float("inf")


@pytest.mark.parametrize(
    "body",
    [
        "no JSON",
        "",
        "{}",
        "[]]",
        cloud.state_change(ID, "stop"),
        cloud.state_change(ID, ""),
        cloud.bridged("S3 Object Created", {}, source="aws.s3"),
        '{"Type": "Notification", "Message": "no JSON"}',
        "\ud800",
    ],
)
def test_what_cannot_be_read_is_refused_and_raises_nothing(body: str) -> None:
    held = read(body)
    assert held.refused
    assert held.events == ()


def test_of_a_batch_with_a_bad_part_the_good_ones_are_read() -> None:
    held = read(json.dumps({"Records": [{"messageId": "a", "body": "no JSON"},
                                        {"messageId": "b", "body": cloud.spot(ID)}]}))  # fmt: skip
    assert held.refused
    assert (len(held.events), held.machines) == (1, frozenset({ID}))


def test_a_health_event_with_500_entities_of_256_kb_is_one_message() -> None:
    entities = [
        {"entityValue": f"i-{number:017x}", "tags": {"team": "x" * 400}} for number in range(500)
    ]
    body = cloud.retirement(*entities)
    assert len(body) > 230_000
    held = read(body)
    assert (held.rank, len(held.machines), held.size) == (NOTICES, 500, len(body))


def test_the_body_is_kept_only_where_it_may_have_to_be_forwarded() -> None:
    assert read(cloud.spot(ID)).body == ""
    body = cloud.spot(ID)
    assert read(body, keep_body=True).body == body
