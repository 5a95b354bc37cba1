"""The clock of the Lambda function: how often it looks within one invocation."""

from datetime import UTC, datetime, timedelta

from events.cloudevent import CloudEvent
from functions.edge.call import Reply
from functions.edge.context import Outcome
from infra.aws import entry
from infra.local import manifests
from infra.local.broker import Delivery
from infra.local.clock import SimulatedClock

NOW = datetime(2026, 3, 2, 9, 0, 30, tzinfo=UTC)


class Clock(SimulatedClock):
    """A clock that sleeping moves."""

    def sleep(self, seconds: float) -> None:
        self.advance_to(self.now() + timedelta(seconds=seconds)) if seconds else None

    def advance_to(self, when: datetime) -> None:
        self._now = when


class Crew:
    """Says of each source when it is due again; ``busy`` calls take four seconds and have more."""

    def __init__(self, clock: Clock, busy: str = "", **again: float) -> None:
        self._clock, self._again, self._busy = clock, again, busy
        self.heard: list[str] = []

    def poll(self) -> None:
        self.heard.append("poll")

    def publish(self, event: CloudEvent) -> list[Delivery]:
        name = event.source.rpartition("/")[2]
        self.heard.append(name)
        seconds = self._again.get(name.replace("-", "_"))
        look = self._clock.now() + timedelta(seconds=seconds) if seconds is not None else None
        busy = name == self._busy
        self._clock.sleep(4.0 if busy else 0.0)
        reply = Reply(204, outcomes=(Outcome(look_again=look, more=busy),))
        return [Delivery(name, name, event, reply, 1)]


def ticked(left: float = 60.0, busy: str = "", **again: float) -> list[str]:
    clock = Clock(NOW)
    crew = Crew(clock, busy, **again)
    ends = clock.now() + timedelta(seconds=left)
    entry.ticks(crew, lambda: (ends - clock.now()).total_seconds(), clock)  # type: ignore[arg-type]
    return crew.heard


def test_every_function_is_woken_once() -> None:
    assert sorted(ticked()) == sorted(["poll", *(s.name for s in manifests.ping_sources())])


def test_what_is_due_again_within_the_minute_is_woken_again() -> None:
    heard = ticked(resync_drain=5)
    assert heard.count("resync-drain") == 12
    assert heard.count("resync-cordon") == 1


def test_who_had_no_time_for_all_is_woken_again_without_a_pause() -> None:
    heard = ticked(busy="resync-drain")
    assert heard.count("resync-drain") == 14
    assert heard.count("resync-cordon") == 1
    assert ticked(left=12.0, busy="resync-drain").count("resync-drain") == 2


def test_the_invocation_ends_in_its_time() -> None:
    assert ticked(left=12.0, resync_drain=5).count("resync-drain") == 3


def test_what_is_due_later_waits_for_the_next_minute() -> None:
    assert ticked(resync_drain=61).count("resync-drain") == 1
