"""When a drain is looked at, and when it goes about it in another way."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.notice import Kind, Severity
from functions.rules import incidents, policy
from functions.rules.drain_state import DrainState, State
from functions.rules.drain_times import TICK, Looks, last_resort_at, lost_at
from functions.rules.incidents import Cordon, Incident, Record
from functions.rules.lifecycle import Hold, encode
from functions.rules.node_view import NodeView

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
DRAIN = policy.default().drain
MINUTE = timedelta(minutes=1)


def view(lost: datetime | None = None) -> NodeView:
    incident = Incident(
        source="s",
        check="c",
        kind=Kind.INTERRUPTION if lost else Kind.FAULT,
        severity=Severity.EVICT,
        first=NOW,
        last=NOW,
        deadline=lost,
    )
    record = Record(machine="p", cordon=Cordon(at=NOW), incidents=(incident,))
    return NodeView(name="n1", uid="u", provider_id="p", incidents=incidents.encode(record))


def blocked(**fields: Any) -> DrainState:
    made = DrainState(state=State.BLOCKED, started=NOW, changed=NOW)
    return msgspec.structs.replace(made, **fields)


def looks(
    drain: DrainState,
    until: timedelta,
    *,
    lost: datetime | None = None,
    tick: timedelta = TICK,
) -> list[timedelta]:
    """When a clock that ticks so often looks at a node, from ``NOW`` on."""
    found = Looks.of(drain, view(lost))
    ticks = [tick * n for n in range(1, until // tick + 1)]
    return [at for at in ticks if found.due(NOW + at)]


def gaps(times: list[timedelta]) -> timedelta:
    return max(b - a for a, b in itertools.pairwise(times))


@pytest.mark.parametrize(
    ("begins", "ends", "every"),
    [(0, 1, 5), (1, 10, 15), (10, 20, 30), (20, 40, 60), (40, 60, 120), (60, 600, 300)],
)
def test_the_longer_a_drain_is_blocked_the_less_often_it_is_looked_at(
    begins: int, ends: int, every: int
) -> None:
    found = looks(blocked(), ends * MINUTE - TICK)
    within = [at for at in found if at >= begins * MINUTE]
    assert gaps(within) <= timedelta(seconds=every)
    # Twice each time at most, where missing a tick would cost a minute or more.
    times = 2 if every >= 60 else 1
    assert len(within) <= times * ((ends - begins) * 60 / every + 1)


def test_a_clock_that_ticks_late_misses_no_look() -> None:
    late = timedelta(seconds=5.5)
    assert gaps(looks(blocked(), 10 * 60 * MINUTE, tick=late)) <= 5 * MINUTE + 2 * late


@pytest.mark.parametrize("deadline", [timedelta(minutes=90), timedelta(minutes=93, seconds=2)])
def test_the_policys_deadline_is_not_overslept(deadline: timedelta) -> None:
    """Even where the policy cannot be known yet, since it is read only when a drain is due."""
    found = looks(blocked(deadline=NOW + deadline), 120 * MINUTE)
    assert any(deadline <= at < deadline + TICK for at in found)
    after = [at for at in found if deadline <= at < deadline + MINUTE]
    assert len(after) >= 11, "what is tried then is followed up at once"
    told = Looks.of(blocked(deadline=NOW + deadline), view())
    assert told.next(NOW + deadline - TICK) == NOW + deadline


def test_a_machine_that_will_be_lost_is_looked_at_often_and_at_the_end_each_tick() -> None:
    """However long before the loss the policy wants blocked pods deleted."""
    lost = 4 * 60 * MINUTE
    found = looks(blocked(), lost, lost=NOW + lost)
    assert gaps(found) <= timedelta(seconds=30)
    last = [at for at in found if at > lost - 15 * MINUTE]
    assert gaps(last) == TICK


def test_a_machine_that_should_be_lost_and_is_still_there_is_waited_for_like_any_other() -> None:
    found = looks(blocked(), 12 * 60 * MINUTE, lost=NOW + MINUTE)
    assert gaps(found) == 5 * MINUTE - TICK


def test_a_drained_node_is_looked_at_every_five_minutes_and_one_that_is_drained_each_tick() -> None:
    assert gaps(looks(blocked(state=State.DRAINED), 60 * MINUTE)) <= 5 * MINUTE
    assert gaps(looks(blocked(state=State.DRAINING), 60 * MINUTE)) == TICK


def test_a_clock_that_went_back_holds_nothing_up() -> None:
    ahead = Looks.of(blocked(changed=NOW + 5 * MINUTE), view())
    assert ahead.due(NOW)
    assert ahead.next(NOW) <= NOW + timedelta(seconds=30)


@given(
    changed=st.integers(0, 20_000),
    now=st.integers(0, 20_000),
    deadline=st.none() | st.integers(0, 20_000),
    lost=st.none() | st.integers(0, 20_000),
)
def test_what_is_said_about_the_next_look_is_true(
    changed: int, now: int, deadline: int | None, lost: int | None
) -> None:
    """A simulated clock may skip to it."""

    def at(seconds: int | None) -> datetime | None:
        return None if seconds is None else NOW + timedelta(seconds=seconds)

    drain = blocked(changed=at(changed), deadline=at(deadline))
    found = Looks.of(drain, view(at(lost)))
    here = NOW + timedelta(seconds=now)
    following = found.next(here)
    assert following > here
    assert found.due(following)
    if deadline is not None and deadline > now:
        assert following <= NOW + timedelta(seconds=deadline)


def test_the_last_resort_is_the_earlier_of_both_deadlines() -> None:
    lost = NOW + timedelta(hours=1)
    assert lost_at(view(lost)) == lost
    assert last_resort_at(NOW, None, DRAIN) is None
    assert last_resort_at(NOW, lost, DRAIN) == lost - DRAIN.before_loss
    strict = policy.parse("version: 1\ndrain: {deadline: 10m, past_deadline: delete}").drain
    assert last_resort_at(NOW, lost, strict) == NOW + 10 * MINUTE
    kept = policy.parse("version: 1\ndrain: {deadline: 10m, before_loss: 0s}").drain
    assert last_resort_at(NOW, lost, kept) is None


def test_the_end_of_a_hook_counts_while_a_loss_is_open() -> None:
    ends = NOW + timedelta(hours=2)
    hooks = {"a": Hold(until=ends), "b": Hold(until=NOW, ended="CONTINUE"), "c": Hold()}
    text = encode(hooks, "p")
    told = msgspec.structs.replace(view(NOW + timedelta(hours=3)), lifecycle=text)
    assert lost_at(told) == ends
    # Of another machine, or of one that is not lost: none.
    assert lost_at(msgspec.structs.replace(view(), lifecycle=text)) is None
    another = msgspec.structs.replace(told, lifecycle=encode(hooks, "q"))
    assert lost_at(another) == NOW + timedelta(hours=3)
    broken = msgspec.structs.replace(told, lifecycle="{")
    assert lost_at(broken) == NOW + timedelta(hours=3)
