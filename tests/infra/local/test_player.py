"""The player: what it skips it may skip, what happens is told, what does not hold is seen."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from functions.edge.context import Context, Outcome
from infra.local import player, scenario_file, stage
from infra.local.clock import Ticks
from infra.local.player import Played
from infra.local.scenario import Scenario
from infra.local.summary import failures_of, rows_of
from infra.local.timeline import Checked, Did, Happened, Trouble
from tests.support.worlds import play

HEAD = """\
shows: a test
start: 2026-03-02T08:00:00Z
until: Mon {until}
cluster:
  pools:
    gpu: {{count: 20, instance_type: p5.48xlarge}}
  workloads:
    - {{name: job, kind: StatefulSet, pool: gpu, replicas: 19, gpus: 8, stop_seconds: 20}}
steps:
"""
DOUBLE_BIT_ERROR = """\
    condition:
      node: gpu-03
      type: AcceleratedHardwareReady
      status: "False"
      reason: NvidiaDoubleBitError
      message: Uncorrectable ECC error on GPU 5
"""


def scenario(steps: str, until: str = "08:30") -> Scenario:
    return scenario_file.parse(HEAD.format(until=until) + steps, "mine", "mine.yaml")


def decided(played: Played) -> list[tuple[str, str, str]]:
    """When, what and about which node."""
    return [
        (f"{entry.at:%H:%M:%S}", entry.decision.action.value, entry.decision.node)
        for entry in played.entries
        if isinstance(entry, Did)
    ]


def of_kind(played: Played, kind: type) -> list[Any]:
    return [entry for entry in played.entries if isinstance(entry, kind)]


def every_tick(found: Scenario) -> list[tuple[datetime, str]]:
    ticks = Ticks().due(found.start - player.WARM_UP, found.end)
    return [(tick.at, tick.source.name) for tick in ticks]


@pytest.mark.parametrize("name", ["lost-events-found-by-resync", "human-races-us"])
def test_what_is_skipped_changes_nothing(name: str) -> None:
    found = scenario_file.find(name)
    chosen, all_of_them = play(found), play(found, ticks=every_tick(found))
    assert len(chosen.ticks) * 10 < len(all_of_them.ticks)
    assert chosen.entries == all_of_them.entries
    assert chosen.final == all_of_them.final


def test_a_waiting_time_comes_due_although_nothing_changes() -> None:
    steps = """\
  - at: Mon 08:01
    condition: {node: gpu-03, type: NetworkUnavailable, status: "True", reason: NoRoute}
"""
    played = play(scenario(steps))
    assert decided(played) == [("08:01:00", "open", "gpu-03"), ("08:06:00", "cordon", "gpu-03")]


def test_two_plays_are_the_same() -> None:
    found = scenario_file.find("api-server-restart")
    one, other = play(found), play(found)
    assert one.entries == other.entries
    one.counts.seconds = other.counts.seconds
    assert one.counts == other.counts


def test_a_fault_is_told_at_once_and_a_lost_one_is_found_within_five_minutes() -> None:
    told = play(scenario("  - at: Mon 08:02\n" + DOUBLE_BIT_ERROR))
    lost = play(scenario("  - at: Mon 08:02\n" + DOUBLE_BIT_ERROR + "    lost: true\n"))
    assert ("08:02:00", "cordon", "gpu-03") in decided(told)
    assert ("08:05:00", "cordon", "gpu-03") in decided(lost)
    assert told.counts.slowest[0].total_seconds() == 0
    assert lost.counts.slowest == (lost.counts.slowest[0], "gpu-03")
    assert lost.counts.slowest[0].total_seconds() == 180


def test_late_events_arrive_late_and_it_is_said() -> None:
    steps = "  - at: Mon 08:02\n    says: told late\n" + DOUBLE_BIT_ERROR + "    late: 2m\n"
    played = play(scenario(steps))
    assert ("08:04:00", "cordon", "gpu-03") in decided(played)
    assert [e.says for e in of_kind(played, Happened)] == [
        "told late",
        "What was sent at Mon 08:02 arrives only now.",
    ]


def test_while_nobody_reaches_the_api_server_nobody_is_told() -> None:
    steps = (
        "  - at: Mon 08:01:30\n    api_server: {down: 10m}\n  - at: Mon 08:02\n" + DOUBLE_BIT_ERROR
    )
    played = play(scenario(steps))
    first = decided(played)[0]
    assert "08:11:30" < first[0] <= "08:16:30"
    assert played.counts.failures == 0


def test_an_event_that_is_refused_is_told_and_nothing_is_done() -> None:
    steps = """\
  - at: Mon 08:02
    event:
      path: /from/eventbridge
      headers: {content-type: application/json}
      body: {version: "0", detail-type: EC2 Spot Instance Interruption Warning}
"""
    played = play(scenario(steps))
    (trouble,) = of_kind(played, Trouble)
    assert trouble.says.startswith("refused, nothing done:")
    assert decided(played) == []


def test_a_function_that_fails_fails_the_play(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(event: Any, context: Context) -> Outcome:
        raise ZeroDivisionError

    monkeypatch.setattr(stage, "handlers", lambda: {"cordon": handle})
    played = play(scenario("  - at: Mon 08:02\n    says: nothing\n", until="08:05"))
    assert played.counts.failures > 0
    assert any("calls failed" in failure for failure in failures_of(played))


def test_evictions_and_the_nodes_out_are_counted() -> None:
    counts = play(scenario("  - at: Mon 08:02\n" + DOUBLE_BIT_ERROR)).counts
    assert (counts.evictions, counts.deletions, counts.violations) == (1, 0, [])
    assert counts.most_out == {"all": 1, "gpu": 1}


def test_what_the_steps_of_a_scenario_take_out_is_not_counted_as_ours() -> None:
    steps = f"""\
  - at: Mon 08:01
    human: {{cordon: [gpu-01, gpu-02]}}
  - at: Mon 08:02
{DOUBLE_BIT_ERROR}
  - at: Mon 08:05
    gone: {{node: gpu-03}}
  - at: Mon 08:06
    condition: {{node: gpu-01, type: KernelDeadlock, status: "True", reason: DockerHung}}
  - at: Mon 08:10
    event: {{recorded: ec2_spot/terminate, node: gpu-06}}
"""
    played = play(scenario(steps))
    assert played.counts.most_out == {"all": 1, "gpu": 1}
    assert played.counts.most_out_by == {"us": 1, "cloud": 1, "others": 2}
    (row,) = [text for title, text in rows_of(played) if title == "out of service"]
    assert row == (
        "at most 1 of 20 at once (the budget is 1); of those at most 1 that the cloud took anyway; "
        "at most 2 cordoned by others"
    )


EXPECTED = [
    ("{node: gpu-03, schedulable: true}", "gpu-03 takes work", "it is cordoned"),
    ("{node: gpu-03, state: watch}", "gpu-03 has state watch", "evict"),
    ("{node: gpu-03, emptied: false}", "gpu-03 keeps its pods", "no pods"),
    (
        "{node: gpu-03, incidents: {AcceleratedHardwareReady: closed}}",
        "gpu-03 has its incident AcceleratedHardwareReady closed",
        "open",
    ),
    ("{node: gpu-0*, schedulable: true}", "gpu-03 takes work", "it is cordoned"),
    (
        "{decided: {action: uncordon, node: gpu-03}}",
        "uncordon gpu-03",
        "no such decision; there were Mon 08:02:00 start-drain gpu-03",
    ),
    ("{decided: {action: cordon, node: gpu-04}}", "cordon gpu-04", "no decision"),
    (
        "{decided: {action: cordon, node: gpu-03, times: 2}}",
        "cordon gpu-03 2 times",
        "1 times. Mon 08:02:00 gpu-03",
    ),
    (
        '{decided: {action: cordon, since: "Mon 08:03"}}',
        "cordon any node since Mon 08:03",
        "no such decision",
    ),
    (
        '{decided: {action: drained, by: "Mon 08:02"}}',
        "drained any node by Mon 08:02",
        "no such decision",
    ),
    (
        "{decided: {action: cordon, reason: xid-79}}",
        "cordon any node (xid-79)",
        "no such decision",
    ),
    ("{never: {action: cordon}}", "never cordon any node", "Mon 08:02:00 gpu-03"),
    (
        "{most_out: {gpu: 0}}",
        "never more than 0 nodes of pool gpu are out of service at once",
        "1 were",
    ),
    ("{evictions: {at_least: 2}}", "at least 2 pods are evicted", "1 were"),
]


@pytest.fixture(scope="module")
def sick() -> Callable[[str], Scenario]:
    steps = "  - at: Mon 08:02\n" + DOUBLE_BIT_ERROR
    return lambda expect: scenario(f"{steps}expect:\n  - {expect}\n")


@pytest.mark.parametrize(("expect", "expected", "seen"), EXPECTED)
def test_what_does_not_hold_is_told_with_what_was_seen(
    sick: Callable[[str], Scenario], expect: str, expected: str, seen: str
) -> None:
    played = play(sick(expect))
    failed = [check for check in of_kind(played, Checked) if not check.holds]
    assert [check.expected for check in failed] == [expected]
    assert seen in failed[0].seen
    assert failures_of(played) == [f"mine.yaml:18: expected: {expected}; seen: {failed[0].seen}"]


def test_of_many_nodes_that_hold_one_line_is_told(sick: Callable[[str], Scenario]) -> None:
    played = play(sick("{node: gpu-1*, schedulable: true, state: none}"))
    assert [(check.expected, check.holds) for check in of_kind(played, Checked)] == [
        ("gpu-1*: takes work", True),
        ("gpu-1*: has state none", True),
    ]


def test_another_policy_can_be_played() -> None:
    found = scenario("  - at: Mon 08:02\n" + DOUBLE_BIT_ERROR)
    played = play(found, policy='version: 1\nshadow: [{check: "*"}]\n')
    assert [action for _, action, _ in decided(played)] == ["open", "hold"]


def test_a_play_says_how_its_nodes_ended(sick: Callable[[str], Scenario]) -> None:
    final = play(sick("{node: gpu-03, state: evict}")).final
    assert final == {
        "gpu-03": {
            "state": "evict",
            "schedulable": False,
            "incidents": {"AcceleratedHardwareReady": "open"},
        }
    }
    assert msgspec.json.encode(final)
