"""What a busy function sends away (429) comes to it all the same: by the broker's retries, by the
consumer's when those are used up, and what it answers by the next function's resync."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from events.cloudevent import CloudEvent
from functions.edge.call import Reply
from functions.edge.sqs_consumer import Consumer
from functions.edge.sqs_options import Options, Result
from infra.local.broker import Broker
from infra.local.clock import SimulatedClock
from infra.local.manifests import triggers
from tests.support import aws as cloud
from tests.support.sqs import MemoryQueue, running
from tests.support.waiting import eventually

BUSY = Reply(429, problem={"error": "14 calls are in flight; send it again"})
ATTEMPTS = 1 + triggers()[0].delivery.retries
"""Of the broker, by infra/knative/broker.yaml."""


def test_a_message_is_kept_until_the_function_has_taken_its_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("functions.edge.sqs_consumer.FIRST_WAIT_SECONDS", 0.01)
    heard: list[str] = []

    def cordon(events: Sequence[CloudEvent]) -> Reply:
        heard.extend(event.id for event in events)
        return Reply(204) if len(heard) > 3 * ATTEMPTS else BUSY

    broker = Broker({"cordon": cordon}, clock=SimulatedClock(datetime(2026, 3, 2, tzinfo=UTC)))

    def ingress(events: Sequence[CloudEvent]) -> list[Result]:
        """As Knative's with an in-memory channel: 500 when a trigger could not be served."""
        return [
            Result(500 if any(one.dead for one in broker.publish(event)) else 202)
            for event in events
        ]

    queue = MemoryQueue(cloud.spot("i-0123456789abcdef0"), receives=1)
    consumer = Consumer(queue, ingress, Options(receivers=1, failures=10))
    with running(consumer):
        eventually(lambda: queue.depth() == (0, 0))
    assert queue.dead == []
    assert (len(heard), len(set(heard)), consumer.counts.received) == (3 * ATTEMPTS + 1, 1, 1)
