"""When a lifecycle hook is told what, as a pure decision."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from functions.rules import lifecycle, policy
from functions.rules.lifecycle import Act, Facts, Hold, decide
from functions.rules.quantities import Duration

BEGAN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
POLICY = policy.default().lifecycle
HOUR = Hold(seconds=3600, most_seconds=172_800)
MACHINE = "aws:///us-east-1a/i-1"


def facts(hold: Hold = HOUR, **given: Any) -> Facts:
    return msgspec.structs.replace(Facts(hold=hold, since=BEGAN), **given)


def after(minutes: float) -> datetime:
    return BEGAN + timedelta(minutes=minutes)


def test_a_hook_whose_times_are_not_known_is_asked_about() -> None:
    assert decide(facts(Hold()), POLICY, BEGAN).act is Act.ASK


def test_it_is_let_go_when_the_pods_are_gone_and_not_before() -> None:
    assert decide(facts(), POLICY, after(1)).act is Act.WAIT
    assert decide(facts(done=True), POLICY, after(1)).act is Act.CONTINUE
    assert decide(facts(Hold(), done=True), POLICY, after(1)).act is Act.CONTINUE


def test_a_heartbeat_is_due_at_half_of_its_time_and_again_half_a_time_later() -> None:
    waiting = decide(facts(), POLICY, after(29))
    assert (waiting.act, waiting.look_again) == (Act.WAIT, after(30))
    assert decide(facts(), POLICY, after(30)).act is Act.BEAT
    beaten = msgspec.structs.replace(HOUR, beat=after(30), beats=1)
    assert decide(facts(beaten), POLICY, after(59)).look_again == after(60)
    assert decide(facts(beaten), POLICY, after(60)).act is Act.BEAT


def test_three_hours_of_drain_are_held_by_a_hook_of_one_hour() -> None:
    hold, told = HOUR, []
    for minute in range(180):
        if (due := decide(facts(hold), POLICY, after(minute))).act is Act.BEAT:
            told.append(minute)
            hold = msgspec.structs.replace(hold, beat=after(minute))
        assert due.act in (Act.BEAT, Act.WAIT)
    assert told == [30, 60, 90, 120, 150]
    assert decide(facts(hold, done=True), POLICY, after(180)).act is Act.CONTINUE


@pytest.mark.parametrize("seconds", [75, 90, 119, 180])
def test_a_short_hook_is_held_by_one_look_a_minute_whenever_that_comes(seconds: int) -> None:
    for first in range(1, 60, 7):
        hold = Hold(seconds=seconds, most_seconds=seconds * 100)
        runs_out = BEGAN + timedelta(seconds=seconds)
        for look in range(20):
            now = after(look) + timedelta(seconds=first)
            assert now < runs_out
            if decide(facts(hold), POLICY, now).act is Act.BEAT:
                hold = msgspec.structs.replace(hold, beat=now)
                runs_out = now + timedelta(seconds=seconds)


@pytest.mark.parametrize("ended", ["CONTINUE", "ABANDON", "gone"])
def test_what_is_over_is_told_nothing_more(ended: str) -> None:
    over = msgspec.structs.replace(HOUR, ended=ended)
    for done in (False, True):
        assert decide(facts(over, done=done), POLICY, after(60)).act is Act.NOTHING


@pytest.mark.parametrize("at_end", ["CONTINUE", "ABANDON"])
def test_when_its_time_is_over_the_policy_says_what_it_is_told(at_end: str) -> None:
    chosen = msgspec.structs.replace(POLICY, at_end=at_end, longest=Duration(hours=2))
    held = msgspec.structs.replace(HOUR, beat=after(119))
    assert decide(facts(held), chosen, after(119)).act is Act.WAIT
    assert decide(facts(held), chosen, after(120)).act is Act(at_end)


def test_aws_ends_a_short_hook_after_a_hundred_of_its_times_and_we_a_minute_before() -> None:
    short = Hold(seconds=60, most_seconds=172_800, beat=after(98.9))
    assert decide(facts(short), POLICY, after(98.9)).act is Act.WAIT
    assert decide(facts(short), POLICY, after(99)).act is Act.CONTINUE


def test_a_pause_holds_on_and_ends_nothing() -> None:
    paused = "paused by jane"
    assert decide(facts(paused=paused), POLICY, after(30)).act is Act.BEAT
    assert decide(facts(done=True, paused=paused), POLICY, after(1)).act is Act.WAIT
    assert decide(facts(paused=paused), POLICY, BEGAN + timedelta(hours=48)).act is Act.WAIT


def test_a_launch_is_held_for_its_time_and_then_left_to_its_hook() -> None:
    launch = facts(launching=True)
    assert decide(launch, POLICY, after(30)).act is Act.BEAT
    held = facts(msgspec.structs.replace(HOUR, beat=after(59)), launching=True)
    assert decide(held, POLICY, after(59)).act is Act.WAIT
    assert decide(held, POLICY, after(60)).act is Act.NOTHING
    assert decide(facts(launching=True, done=True), POLICY, after(5)).act is Act.CONTINUE


def test_what_is_written_is_read_again_for_that_machine_alone() -> None:
    hooks = {"t:h:g": msgspec.structs.replace(HOUR, beat=after(30), beats=1)}
    text = lifecycle.encode(hooks, MACHINE)
    assert lifecycle.decode(text, MACHINE) == hooks
    assert lifecycle.decode(text, "aws:///us-east-1a/i-2") == {}
    assert lifecycle.decode(None, MACHINE) == {}


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"hooks": 1}', '{"hooks": {"a": {"seconds": "x"}}}',
        '{"hooks": {"a": {"until": "2026-03-02T09:00:00"}}}',
        '{"hooks": {"a": {"seconds": 1000000000000000}}}', '{"hooks": {"a": {"most_seconds": -1}}}',
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(text: str) -> None:
    with pytest.raises(lifecycle.Unreadable):
        lifecycle.decode(text, MACHINE)
