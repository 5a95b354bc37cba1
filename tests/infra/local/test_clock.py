"""Schedules of PingSources, and time that is moved by hand."""

from datetime import UTC, datetime, timedelta

import pytest

from infra.local.clock import SimulatedClock, Ticks
from infra.local.manifests import ManifestError, PingSource

START = datetime(2026, 11, 2, 9, 0, 0, tzinfo=UTC)


def _source(schedule: str, name: str = "tick", timezone: str = "UTC") -> PingSource:
    return PingSource(
        name=name,
        namespace="demo",
        schedule=schedule,
        timezone=timezone,
        data='{"nodes": "marked"}',
        sink="Broker/groundcrew",
    )


def test_the_first_of_six_fields_is_the_second() -> None:
    ticks = Ticks([_source("*/5 * * * * *")])
    times = [tick.at for tick in ticks.due(START, START + timedelta(seconds=15))]
    assert times == [START + timedelta(seconds=s) for s in (5, 10, 15)]


def test_five_fields_tick_on_the_minute() -> None:
    ticks = Ticks([_source("*/2 * * * *")])
    times = [tick.at for tick in ticks.due(START, START + timedelta(minutes=4))]
    assert times == [START + timedelta(minutes=m) for m in (2, 4)]


def test_a_stretch_of_time_begins_after_its_first_moment_and_ends_with_its_last() -> None:
    ticks = Ticks([_source("*/5 * * * * *")])
    first = [t.at for t in ticks.due(START, START + timedelta(seconds=7))]
    second = [t.at for t in ticks.due(START + timedelta(seconds=7), START + timedelta(seconds=10))]
    assert first + second == [START + timedelta(seconds=s) for s in (5, 10)]


def test_a_stretch_may_begin_within_a_second() -> None:
    ticks = Ticks([_source("*/5 * * * * *")])
    after = START + timedelta(seconds=4.999)
    assert [t.at for t in ticks.due(after, START + timedelta(seconds=5))] == [
        START + timedelta(seconds=5)
    ]


def test_sources_take_their_turns_by_time_and_then_by_their_order() -> None:
    ticks = Ticks([_source("0 * * * * *", "b"), _source("*/30 * * * * *", "a")])
    told = [(t.source.name, t.at.second) for t in ticks.due(START, START + timedelta(minutes=1))]
    assert told == [("a", 30), ("b", 0), ("a", 0)]


def test_the_next_tick_is_found_without_those_before_it() -> None:
    ticks = Ticks([_source("0 0 3 * * *", "nightly"), _source("*/5 * * * * *", "drain")])
    nightly = ticks.next_after(START, "nightly")
    assert nightly is not None
    assert nightly.at == datetime(2026, 11, 3, 3, tzinfo=UTC)
    drain = ticks.next_after(START)
    assert drain is not None
    assert drain.source.name == "drain"
    assert Ticks([]).next_after(START) is None


def test_a_schedule_is_in_its_own_time_zone() -> None:
    ticks = Ticks([_source("0 9 * * *", timezone="America/New_York")])
    tick = ticks.next_after(START)
    assert tick is not None
    assert tick.at == datetime(2026, 11, 2, 14, tzinfo=UTC)


def test_a_tick_is_the_event_that_a_ping_source_sends() -> None:
    tick = Ticks([_source("*/5 * * * * *")]).next_after(START)
    assert tick is not None
    assert tick.sink == "Broker/groundcrew"
    assert tick.event.type == "dev.knative.sources.ping"
    assert tick.event.source == "/apis/v1/namespaces/demo/pingsources/tick"
    assert tick.event.id == "tick-2026-11-02T09:00:05Z"
    assert tick.event.data == b'{"nodes": "marked"}'


@pytest.mark.parametrize(
    ("schedule", "timezone"), [("every minute", "UTC"), ("61 * * * *", "UTC"), ("* * * * *", "X/Y")]
)
def test_a_schedule_that_means_nothing_is_refused_by_name(schedule: str, timezone: str) -> None:
    with pytest.raises(ManifestError, match="PingSource tick"):
        Ticks([_source(schedule, timezone=timezone)])


def test_inside_a_call_only_the_monotonic_clock_moves() -> None:
    clock = SimulatedClock(START)
    clock.sleep(1.5)
    clock.waited(2)
    assert clock.monotonic() == 3.5
    assert clock.now() == START


def test_time_that_is_moved_on_passes_on_both_clocks() -> None:
    clock = SimulatedClock(START)
    clock.advance_to(START + timedelta(minutes=1))
    assert clock.now() == START + timedelta(minutes=1)
    assert clock.monotonic() == 60


def test_time_does_not_go_back() -> None:
    clock = SimulatedClock(START)
    with pytest.raises(ValueError, match="is before that"):
        clock.advance_to(START - timedelta(seconds=1))
