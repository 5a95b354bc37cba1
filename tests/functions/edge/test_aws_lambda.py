"""What Lambda is answered: which messages come again, and when an invocation has failed."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from events import registry
from events.cloudevent import CloudEvent
from functions.edge import aws_lambda
from functions.edge.aws_lambda import NotHandled
from functions.edge.sqs_options import Result
from tests.support import aws as cloud

OURS, BAD = "i-0123456789abcdef0", "i-0bad"


class Acting:
    """Handles what it is given; refuses any call in which `BAD` is."""

    def __init__(self, status: int = 204, bad: int = 400) -> None:
        self.status, self.bad = status, bad
        self.calls: list[list[str]] = []
        self.ticks = 0

    def __call__(self, events: Sequence[CloudEvent]) -> list[Result]:
        said = [n.identity.instance_id for e in events for n in registry.read(e).notices]
        self.calls.append(said)
        return [Result(self.bad if BAD in said else self.status)] * len(events)

    def tick(self) -> None:
        self.ticks += 1


def handle(event: dict[str, Any], acting: Acting) -> dict[str, Any]:
    return aws_lambda.handle(event, acting, acting.tick)


def batch(*bodies: str) -> dict[str, Any]:
    return {
        "Records": [
            {"messageId": f"m{n}", "eventSource": "aws:sqs", "body": body}
            for n, body in enumerate(bodies)
        ]
    }


def failures(answer: dict[str, Any]) -> list[str]:
    return [one["itemIdentifier"] for one in answer["batchItemFailures"]]


def test_a_batch_is_handled_in_one_call_and_answered_as_done() -> None:
    acting = Acting()
    assert failures(handle(batch(cloud.spot(OURS), cloud.spot("i-02")), acting)) == []
    assert acting.calls == [[OURS, "i-02"]]


def test_what_cannot_be_read_comes_again_alone() -> None:
    acting = Acting()
    answer = handle(batch(cloud.spot(OURS), "no JSON", cloud.spot("i-02")), acting)
    assert failures(answer) == ["m1"]
    assert acting.calls == [[OURS, "i-02"]]


@pytest.mark.parametrize("status", [400, 500])
def test_what_is_refused_takes_nobody_with_it(status: int) -> None:
    acting = Acting(bad=status)
    answer = handle(batch(cloud.spot(OURS), cloud.spot(BAD), cloud.spot("i-02")), acting)
    assert failures(answer) == ["m1"]
    assert acting.calls == [[OURS, BAD, "i-02"], [OURS], [BAD], ["i-02"]]


def test_while_the_api_server_is_away_all_of_them_come_again() -> None:
    answer = handle(batch(cloud.spot(OURS), cloud.spot("i-02")), Acting(status=503))
    assert failures(answer) == ["m0", "m1"]


def test_an_event_without_a_queue_is_handled_or_the_invocation_fails() -> None:
    acting = Acting()
    assert handle(json.loads(cloud.spot(OURS)), acting) == {}
    assert acting.calls == [[OURS]]
    with pytest.raises(NotHandled, match="503"):
        handle(json.loads(cloud.spot(OURS)), Acting(status=503))
    with pytest.raises(NotHandled, match="cannot be read"):
        handle({"what": "is this"}, acting)


def test_a_topic_that_calls_the_function_cannot_be_told_of_some_messages() -> None:
    told = {"Type": "Notification", "Message": cloud.spot(OURS)}
    records = {"Records": [{"EventSource": "aws:sns", "Sns": told}]}
    assert handle(records, Acting()) == {"batchItemFailures": []}
    with pytest.raises(NotHandled):
        handle(records, Acting(status=503))


def test_the_schedule_is_a_tick() -> None:
    acting = Acting()
    event = json.loads(cloud.bridged("Scheduled Event", {}, source="aws.events"))
    assert handle(event, acting) == {}
    assert (acting.ticks, acting.calls) == (1, [])
