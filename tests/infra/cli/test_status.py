"""``groundcrew status``: what is out of service and why, at a glance."""

import io
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from events.notice import Cause, Identity, Kind, Severity
from functions.steps import active
from infra.cli import screen
from infra.local.cluster import builders
from tests.support.fleet import NAMESPACE, Fleet, Shell, words


def report(groundcrew: Shell, *arguments: str) -> Any:
    return json.loads(groundcrew("status", "-o", "json", *arguments)[1])


def cordon_only(fleet: Fleet, node: str, check: str = "AcceleratedHardwareReady") -> None:
    fleet.say(node, check, severity=Severity.CORDON, source="kubernetes.node", latched=True)


def test_a_quiet_fleet_says_so_in_one_line(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    code, out, err = groundcrew("status")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert "All quiet: 40 nodes in 2 pools, none marked or cordoned." in out
    assert "(defaults), ledger 0s old" in out


def test_asks_for_two_lists_and_writes_nothing(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    fleet.say("a-01")
    before = fleet.written()
    groundcrew("status")
    assert [(r.path.rpartition("/")[2], r.query["labelSelector"]) for r in groundcrew.asked] == [
        ("configmaps", "groundcrew.dev/part"),
        ("nodes", "groundcrew.dev/state"),
    ]
    assert fleet.written() == before


def test_shows_a_node_that_is_out_with_its_incident_and_the_budget(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.resync()
    fleet.say("a-01")
    fleet.pass_time(hours=1)
    fleet.resync()
    code, out, _ = groundcrew("status")
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("a-01"))
    assert row.split() == ["a-01", "a", "evict", "1h", "xid-79", "(kubernetes.event)"]
    pool = next(line for line in out.splitlines() if line.startswith("a "))
    assert pool.split() == ["a", "20", "1", "0", "1", "of", "2"]


def test_shows_how_far_a_drain_is_and_what_blocks_it(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    fleet.server.apply(builders.pdb("web", labels={"app": "web"}, min_available=1))
    fleet.server.apply(builders.workload("Deployment", "web", replicas=1))
    fleet.pass_time(minutes=1)
    fleet.server.advance(fleet.now)
    node = fleet.server.all("pods")[0]["spec"]["nodeName"]
    fleet.say(node)
    fleet.drain()
    out = groundcrew("status")[1]
    assert "blocked" in next(line for line in out.splitlines() if line.startswith(node))
    assert "PodDisruptionBudget default/web" in words(out)
    fleet.pass_time(minutes=10)
    (shown,) = report(groundcrew)["nodes"]
    assert shown["drain"]["state"] == "blocked"
    # What drain wrote at its last change has passed: it looks on, and writes nothing.
    fleet.pass_time(minutes=170)
    (shown,) = report(groundcrew)["nodes"]
    left = datetime.fromisoformat(shown["next_look"]) - fleet.now
    assert timedelta(0) < left <= timedelta(minutes=5)


def test_says_what_holds_a_node_back_and_when_it_is_looked_at_again(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.resync()
    for node in ("a-01", "a-02", "a-03"):
        fleet.say(node)
    fleet.resync()
    out = groundcrew("status")[1]
    assert "budget of the cluster: 2 of 2 nodes are out" in words(out)
    assert "in 2m" in words(out)
    held = next(n for n in report(groundcrew)["nodes"] if n["state"] == "held")
    assert list(held["held_by"]) == ["budget"]


def test_an_open_breaker_is_told_with_its_numbers_and_its_nodes_share_a_row(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.resync()
    for number in range(1, 8):
        cordon_only(fleet, f"a-{number:02}")
    fleet.resync()
    out = groundcrew("status")[1]
    assert "BREAKER OPEN AcceleratedHardwareReady in pool a" in out
    assert re.search("accuses [57] of 20 nodes within 10m", words(out))
    assert "5 nodes" in out
    assert "a-03, a-04, a-05, a-06, a-07" in out
    assert len(report(groundcrew)["nodes"]) == 7


def test_a_pause_stands_on_top(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    groundcrew("pause", "--pool", "b", "--for", "1d", "--reason", "benchmark")
    out = groundcrew("status")[1]
    assert out.startswith("PAUSED pool b, until 2026-03-03 12:00Z (in 1d) by jane: benchmark")


def test_a_pause_that_is_over_is_not_shown(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    groundcrew("pause", "--pool", "b", "--for", "1m", "--reason", "benchmark")
    fleet.pass_time(minutes=2)
    assert "PAUSED" not in groundcrew("status")[1]


def test_without_a_ledger_it_says_that_nothing_runs_there(groundcrew: Shell) -> None:
    code, out, _ = groundcrew("status")
    assert code == 1
    assert "no ledger in namespace groundcrew-system" in out
    assert "--namespace" in out


def test_a_ledger_that_nobody_rebuilds_is_told(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    fleet.pass_time(minutes=14)
    assert groundcrew("status")[0] == 0
    fleet.pass_time(minutes=2)
    code, out, _ = groundcrew("status")
    assert code == 1
    assert "last rebuilt 16m ago, not within 15m: is the resync running?" in words(out)


def test_a_ledger_that_nobody_ever_rebuilt_is_told(groundcrew: Shell, fleet: Fleet) -> None:
    # An event about a machine that is not there yet comes before the first resync.
    fleet.say("a-01", identity=Identity(instance_id="i-0fffffffffffffff0"))
    code, out, _ = groundcrew("status")
    assert code == 1
    assert "the ledger was never rebuilt" in words(out)


def test_a_pool_that_is_new_is_no_trouble(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    fleet.server.apply(builders.node("c-01", pool="c"))
    code, out, _ = groundcrew("status", "--all")
    assert code == 0
    assert "41 nodes in 3 pools" in out


def test_a_policy_that_counts_no_more_is_told(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    fleet.config_map(active.POLICY_NAME, "policy", {"policy.json": "{}", "sha256": "0"})
    code, out, _ = groundcrew("status")
    assert code == 1
    assert "changed by hand" in out
    assert "nothing but recoveries is done" in words(out)


def test_a_policy_that_is_gone_stops_what_it_might_have_stopped_until_one_is_applied(
    groundcrew: Shell, fleet: Fleet, tmp_path: Path
) -> None:
    """By the defaults the node would be cordoned; the policy that is gone only watched."""
    mild = tmp_path / "mild.yaml"
    mild.write_text("version: 1\nshadow: [{check: Accelerated*}]\n")
    assert groundcrew("policy", "apply", str(mild), "--confirm")[0] == 0
    fleet.resync()
    fleet.server.delete("ConfigMap", NAMESPACE, active.POLICY_NAME)
    for minutes in (0, 6):
        fleet.pass_time(minutes=minutes)
        cordon_only(fleet, "a-01")
        fleet.resync()
        code, out, _ = groundcrew("status")
        assert code == 1
        assert "groundcrew-policy-active is gone" in words(out)
        assert "nothing but recoveries is done" in words(out)
        assert report(groundcrew)["nodes"][0]["state"] == "held"
    defaults = tmp_path / "defaults.yaml"
    defaults.write_text("version: 1\n")
    assert groundcrew("policy", "apply", str(defaults), "--confirm")[0] == 0
    fleet.resync()
    assert groundcrew("status")[0] == 0
    assert report(groundcrew)["nodes"][0]["state"] == "cordon"


def test_others_cordons_are_counted_and_shown_by_name_with_all(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.change("b-09", lambda n: n["spec"].update(unschedulable=True))
    fleet.resync()
    out = groundcrew("status")[1]
    assert next(x for x in out.splitlines() if x.startswith("b ")).split()[3] == "1"
    assert "b-09" not in out
    assert "b-09" in groundcrew("status", "--all")[1]


def test_who_took_a_node_when_and_why_is_shown_with_all(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    assert groundcrew("drain", "b-09", "--reason", "swap the NIC, ticket 4711")[0] == 0
    fleet.pass_time(hours=3)
    fleet.resync()
    out = groundcrew("status", "--all")[1]
    row = words(out[out.index("b-09") :])
    assert row.startswith("b-09 b by hand 3h taken by ")
    assert "3h ago: swap the NIC, ticket 4711" in row
    (node,) = report(groundcrew, "--all")["nodes"]
    assert node["taken"]["reason"] == "swap the NIC, ticket 4711"
    fleet.change("b-09", lambda n: n["spec"].pop("unschedulable"))
    assert report(groundcrew, "--all")["nodes"] == []


def test_who_took_a_node_with_an_incident_is_shown(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    fleet.say("a-01")
    assert groundcrew("drain", "a-01")[0] == 0
    fleet.pass_time(hours=1)
    fleet.resync()
    out = words(groundcrew("status")[1])
    assert "1h ago; stays so" in out
    (node,) = report(groundcrew)["nodes"]
    assert node["taken"]["by"]
    assert groundcrew("uncordon", "a-01")[0] == 0
    fleet.resync()
    assert report(groundcrew)["nodes"][0]["taken"] is None


def test_a_node_that_others_cordoned_before_is_counted_once(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.change("a-01", lambda n: n["spec"].update(unschedulable=True))
    fleet.resync()
    fleet.say("a-01")
    pool = report(groundcrew)["pools"][0]
    assert (pool["out"], pool["others"]) == (1, 0)
    assert "the cordon is somebody else's and stays" in words(groundcrew("status")[1])


def test_all_counts_the_nodes_as_they_are_now(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    fleet.server.apply(builders.node("a-21", pool="a"))
    fleet.change("a-02", lambda n: n["spec"].update(unschedulable=True))
    assert (report(groundcrew)["cluster"]["nodes"], report(groundcrew)["cluster"]["others"]) == (
        40,
        0,
    )
    fleet.pass_time(minutes=1)
    counted = report(groundcrew, "--all")
    assert (counted["cluster"]["nodes"], counted["cluster"]["others"]) == (41, 1)
    assert counted["ledger_rebuilt"] == report(groundcrew)["ledger_rebuilt"]


def test_what_only_has_history_is_one_line_unless_all_is_asked_for(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.resync()
    cordon_only(fleet, "a-01")
    fleet.change("a-01", lambda n: n["status"]["nodeInfo"].update(bootID="boot-2"))
    fleet.resync()
    fleet.pass_time(minutes=20)
    fleet.resync()
    out = groundcrew("status")[1]
    assert out.startswith("All quiet")
    assert "Back in service, with history: a-01" in out
    assert "released" in groundcrew("status", "--all")[1]
    fleet.change(
        "a-01", lambda n: n["metadata"]["labels"].update({"groundcrew.dev/state": "returning"})
    )
    assert "Back in service, with history: a-01" in groundcrew("status")[1]


def test_an_annotation_that_cannot_be_read_is_told_and_shown(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.resync()
    fleet.change(
        "a-01",
        lambda n: (
            n["metadata"]["annotations"].update({"groundcrew.dev/incidents": "{garbled"}),
            n["metadata"]["labels"].update({"groundcrew.dev/state": "evict"}),
        ),
    )
    code, out, _ = groundcrew("status")
    assert code == 0
    assert "a-01" in out
    assert "annotation cannot be read" in words(out)


def test_a_notice_far_ahead_says_when_it_will_be_acted_on(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    fleet.say(
        "b-08",
        "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        kind=Kind.MAINTENANCE,
        cause=Cause.PROVIDER,
        source="aws.health",
        deadline=fleet.now + timedelta(days=9),
    )
    (node,) = report(groundcrew)["nodes"]
    assert (node["state"], node["next_look"]) == ("watch", "2026-03-10T12:00:00Z")


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_wider_than_the_screen_and_every_name_is_whole(
    groundcrew: Shell, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    name = "ip-10-0-112-134.us-west-2.compute.internal"
    fleet.server.apply(builders.node(name, pool="a-pool-of-a-long-name"))
    fleet.resync()
    fleet.say(name, "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", source="aws.health")
    monkeypatch.setenv("COLUMNS", str(width))
    out = groundcrew("status")[1]
    assert max(len(line) for line in out.splitlines()) <= width
    assert name in "".join(line[:26].strip() for line in out.splitlines()) or name in out
    assert "a-pool-of-a-long-name" in out


def test_what_a_node_says_is_never_taken_for_markup(
    groundcrew: Shell, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.resync()
    fleet.say("a-01", "[red]odd[/red]")
    assert "[red]odd[/red]" in groundcrew("status")[1]
    on_terminal = io.StringIO()
    monkeypatch.setattr(
        screen,
        "console",
        lambda: Console(file=on_terminal, force_terminal=True, markup=False, width=80),
    )
    groundcrew("status")
    assert "\x1b[" in on_terminal.getvalue()
    assert "[red]odd[/red]" in on_terminal.getvalue()


def test_a_pipe_gets_no_colours(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    fleet.say("a-01")
    assert "\x1b" not in groundcrew("status")[1]
