"""Two policies and one history: what is known by hand is what comes out."""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from functions.rules import policy
from infra.local import scenario_file
from infra.local.backtest import sides
from infra.local.backtest.document import Document, as_json, document
from infra.local.backtest.sides import Choice, Played
from infra.local.history import Event, History, HistoryError
from infra.local.scenario import Scenario
from tests.support.histories import (
    DOUBLE_BIT_ERROR,
    NVLINK_ERROR,
    START,
    marked,
    node,
    posted,
    told,
    write,
)

NODES = [f"gpu-{number:02}" for number in range(1, 21)]
DEFAULT = "version: 1"
LOOSE = """\
version: 1
breaker: {share: 100%, day_share: 100%, more_than: 1000}
budget: {pool: 100%, cluster: 100%}
"""
STRICT = "version: 1\nseverity: [{reason: NvidiaXID74Error, severity: evict}]\n"
LATE = "version: 1\nwaits: [{check: AcceleratedHardwareReady, wait: 30m}]\n"
SHADOW = 'version: 1\nshadow: [{check: "*"}]\n'


def choices(**texts: str | None) -> list[Choice]:
    return [Choice(name, policy.parse(text) if text else None) for name, text in texts.items()]


def played(folder: Path, events: Iterable[Event], chosen: list[Choice], *more: Any) -> Played:
    found = [*[node(name) for name in NODES], *more]
    history = History.open(write(folder / "week", found, events))
    return sides.play_history(history, chosen, lambda name, now, events: None)


def backtest(folder: Path, events: Iterable[Event], *more: Any, **texts: str | None) -> Document:
    chosen = choices(**texts)
    return document(chosen, [played(folder, events, chosen, *more)], timedelta(minutes=5))


def first_days(until: str) -> Scenario:
    """A bad week, to a point."""
    found = scenario_file.find("a-bad-week")
    end = scenario_file.moment(until, found.start)
    steps = tuple(timed for timed in found.steps if timed.at < end)
    return msgspec.structs.replace(found, end=end, steps=steps, expect=())


def backtest_scenario(found: Scenario, **texts: str | None) -> Document:
    chosen = choices(**texts)
    played = sides.play_scenario(found, chosen, lambda name, now, events: None)
    return document(chosen, [played], timedelta(minutes=5))


def test_without_breaker_and_budget_a_mad_monitor_takes_out_half_the_fleet() -> None:
    # Thursday, 03:00: a monitor accuses 24 of 60 nodes, 14 of the h100 and 10 of the a100. The
    # default lets three go (the budget of the cluster) until it opens its breakers.
    made = backtest_scenario(first_days("Thu 03:10"), default=DEFAULT, loose=LOOSE)
    default, loose = (under.totals for under in made.policies)
    assert (default.most_out["all"], loose.most_out["all"]) == (3, 24)
    alone = [one for one in made.differences if one.kinds == ("only",)]
    assert len(alone) == 21
    assert {f"{one.at:%a %H:%M}" for one in alone} == {"Thu 03:00"}
    assert all(one.sides[0].instead.startswith("held back: ") for one in alone)
    # Shadow: what replace would do about the machines of the days before.
    assert default.held.keys() == {"breaker", "budget", "shadow"}
    assert loose.held.keys() <= {"shadow"}
    # Four were out earlier in the week, a100-05 and h100-07 among them. (h100-20 was Alice's.)
    assert (default.nodes_out, loose.nodes_out) == (4 + 3, 4 + 24 - 2)
    assert made.headline.startswith("loose would have taken out 26 nodes instead of 7, ")


def test_a_stricter_severity_empties_what_the_default_only_cordons() -> None:
    # Tuesday, 15:30: XID 74 on h100-20, which Alice has cordoned. Nothing else has XID 74 by then.
    made = backtest_scenario(first_days("Tue 17:00"), default=DEFAULT, strict=STRICT)
    (difference,) = made.differences
    assert (difference.node, difference.kinds[0]) == ("h100-20", "severity")
    assert [side.severity for side in difference.sides] == ["cordon", "evict"]


def test_what_others_had_cordoned_no_policy_took_out(tmp_path: Path) -> None:
    well, sick = node("gpu-03"), node("gpu-03", NVLINK_ERROR)
    for one in (well, sick):
        one["spec"]["unschedulable"] = True
    events = [told(60, well), told(120, sick), told(7320, node("gpu-05"))]
    made = backtest(tmp_path, events, default=DEFAULT, strict=STRICT)
    (difference,) = made.differences
    assert (difference.node, difference.kinds[0]) == ("gpu-03", "severity")
    for under in made.policies:
        assert (under.totals.nodes_out, under.totals.outages) == (0, 0)
        assert under.totals.node_hours == {"all": 0.0, "gpu": 0.0}
        assert under.totals.most_out == {"all": 0, "gpu": 0}
    assert made.headline.startswith("strict would have taken out as many nodes (0), ")


def test_a_history_without_a_node_is_refused(tmp_path: Path) -> None:
    events = [posted(2, "/from/eventbridge", "{")]
    history = History.open(write(tmp_path / "bare", [], events))
    with pytest.raises(HistoryError, match="not one node is known"):
        sides.play_history(history, choices(mine=DEFAULT), lambda name, now, events: None)


def test_a_node_that_a_scenario_takes_away_is_out_no_longer() -> None:
    text = """\
shows: a test
start: 2026-03-02T08:00:00Z
until: Mon 12:00
cluster: {pools: {gpu: {count: 20, instance_type: p5.48xlarge}}}
steps:
  - at: Mon 09:00
    condition: {node: gpu-03, type: KernelDeadlock, status: "True", reason: DockerHung}
  - at: Mon 10:00
    gone: {node: gpu-03}
"""
    made = backtest_scenario(scenario_file.parse(text, "t", "t.yaml"), none=None, mine=DEFAULT)
    assert made.policies[1].totals.node_hours["all"] == 1.0


def test_who_only_marks_what_others_had_cordoned_differs_from_nobody_in_nothing(
    tmp_path: Path,
) -> None:
    sick = node("gpu-03", NVLINK_ERROR)
    sick["spec"]["unschedulable"] = True
    made = backtest(tmp_path, [told(60, sick), told(90, node("gpu-05"))], none=None, mine=DEFAULT)
    assert (made.differences, made.same) == ((), 0)


def test_a_policy_against_itself_does_the_same(tmp_path: Path) -> None:
    events = [told(60, node("gpu-03", DOUBLE_BIT_ERROR)), told(7200, node("gpu-05"))]
    made = backtest(tmp_path, events, one=DEFAULT, other=DEFAULT)
    assert (made.differences, made.same) == ((), 1)
    assert made.headline == "one and other would have done the same."


def test_a_longer_wait_takes_the_node_out_so_much_later(tmp_path: Path) -> None:
    events = [told(60, node("gpu-03", DOUBLE_BIT_ERROR)), told(7260, node("gpu-05"))]
    made = backtest(tmp_path, events, default=DEFAULT, late=LATE)
    (difference,) = made.differences
    assert difference.kinds == ("since", "drained")
    one, other = (under.totals for under in made.policies)
    assert (one.median_seconds, other.median_seconds) == (0.0, 1800.0)
    assert (one.node_hours, other.node_hours) == (
        {"all": 2.0, "gpu": 2.0},
        {"all": 1.5, "gpu": 1.5},
    )


def test_a_fault_that_heals_within_the_wait_is_out_under_one_alone(tmp_path: Path) -> None:
    events = [
        told(60, node("gpu-03", NVLINK_ERROR)),
        told(600, node("gpu-03", machine=1), "add"),
        told(7200, node("gpu-05")),
    ]
    made = backtest(tmp_path, events, default=DEFAULT, late=LATE)
    (difference,) = made.differences
    assert difference.kinds == ("only",)
    assert difference.sides[0].until == START + timedelta(seconds=600)
    assert difference.sides[1].instead.startswith("recorded; it was over")


def test_against_no_policy_all_that_would_be_done_is_said(tmp_path: Path) -> None:
    events = [told(60, node("gpu-03", DOUBLE_BIT_ERROR)), told(3660, node("gpu-05"))]
    made = backtest(tmp_path, events, none=None, mine=DEFAULT)
    assert made.headline == (
        "mine would have taken out 1 of 20 nodes, evicted 0 pods, and cost 1.0 node-hours."
    )
    assert made.policies[0].fingerprint is None
    assert [d.sides[0].instead for d in made.differences] == ["nobody acts"]
    none, mine = (under.totals for under in made.policies)
    assert (none.median_seconds, none.slowest_seconds) == (None, None), "nobody cordoned anything"
    assert (mine.median_seconds, mine.slowest_seconds) == (0.0, 0.0)


def test_shadow_mode_takes_nothing_out_and_says_what_it_would_have_done(tmp_path: Path) -> None:
    events = [told(60, node("gpu-03", DOUBLE_BIT_ERROR)), told(3660, node("gpu-05"))]
    made = backtest(tmp_path, events, shadow=SHADOW, default=DEFAULT)
    assert made.policies[0].totals.held == {"shadow": 1}
    (difference,) = made.differences
    assert "would evict" in difference.sides[0].instead


def test_what_we_did_while_it_was_recorded_does_not_count(tmp_path: Path) -> None:
    ours = {"v": 1, "cordon": {"at": START.isoformat()}}
    events = [
        told(60, node("gpu-03", NVLINK_ERROR)),
        told(61, marked(node("gpu-03", NVLINK_ERROR), "cordon", ours)),
        told(3660, marked(node("gpu-03", NVLINK_ERROR), "cordon", ours)),
    ]
    watch = "version: 1\nseverity: [{severity: watch}]\n"
    made = backtest(tmp_path, events, watch=watch, default=DEFAULT)
    assert [under.totals.nodes_out for under in made.policies] == [0, 1]
    assert made.differences[0].sides[0].instead == "watched only"


def test_a_sick_node_at_the_start_is_out_from_the_start(tmp_path: Path) -> None:
    sick = node("gpu-99", DOUBLE_BIT_ERROR)
    made = backtest(tmp_path, [told(3600, node("gpu-05"))], sick, none=None, mine=DEFAULT)
    (difference,) = made.differences
    assert (difference.at, difference.sides[1].hours) == (START, 1.0)


def test_without_a_starting_point_the_nodes_are_those_that_speak_first(tmp_path: Path) -> None:
    first = [told(place, node(name)) for place, name in enumerate(NODES)]
    events = [*first, told(600, node("gpu-03", DOUBLE_BIT_ERROR)), told(4200, node("gpu-01"))]
    history = History.open(write(tmp_path / "bare", [], events))
    chosen = choices(none=None, mine=DEFAULT)
    found = sides.play_history(history, chosen, lambda name, now, events: None)
    assert found.nodes == 20
    assert "no starting point was recorded" in found.notes[0]
    assert [out.node for out in found.books[1].outages] == ["gpu-03"]


def test_events_are_counted_by_what_became_of_them(tmp_path: Path) -> None:
    events = [
        told(1, node("gpu-01")),
        posted(2, "/from/eventbridge", "{"),
        told(60, node("gpu-03", DOUBLE_BIT_ERROR)),
    ]
    made = backtest(tmp_path, events, none=None, mine=DEFAULT).histories[0]
    assert (made.events, made.refused, made.failures, made.kind) == (3, 1, 0, "recorded")
    assert made.needed_nothing == 2


def test_two_runs_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    events = [
        *[told(60 + n, node(name, DOUBLE_BIT_ERROR)) for n, name in enumerate(NODES[:6])],
        told(7200, node("gpu-19")),
    ]
    texts = {"default": DEFAULT, "loose": LOOSE}
    assert as_json(backtest(tmp_path, events, **texts)) == as_json(
        backtest(tmp_path, events, **texts)
    )


def test_node_hours_and_times_out_are_those_of_all_histories(tmp_path: Path) -> None:
    events = [told(60, node("gpu-03", DOUBLE_BIT_ERROR)), told(3660, node("gpu-05"))]
    chosen = choices(none=None, mine=DEFAULT)
    twice = [played(tmp_path / name, events, chosen) for name in ("one", "two")]
    made = document(chosen, twice, timedelta(minutes=5))
    assert made.policies[1].totals.node_hours["all"] == 2.0
    assert [past.totals[1].node_hours["all"] for past in made.histories] == [1.0, 1.0]
    assert made.headline.startswith("mine would have taken out 2 of 40 nodes")
