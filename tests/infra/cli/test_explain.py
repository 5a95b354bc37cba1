"""``groundcrew explain``: every decision about a node, from the node and the ledger."""

import json
import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from events.notice import Cause, Identity, Kind, Severity
from functions.rules import policy
from functions.rules.replacing import Guard, book
from functions.steps import active
from infra.local.cluster import builders
from tests.support.fleet import Fleet, Shell, words


@pytest.fixture(autouse=True)
def ledger(fleet: Fleet) -> None:
    fleet.resync()


def story(groundcrew: Shell, node: str) -> Any:
    code, out, err = groundcrew("explain", node, "-o", "json")
    assert (code, err) == (0, "")
    return json.loads(out)


def told(groundcrew: Shell, node: str) -> str:
    """The text on one line, without the padding of tables."""
    code, out, err = groundcrew("explain", node)
    assert (code, err) == (0, "")
    return words(out)


def cordon_only(fleet: Fleet, node: str, **more: Any) -> None:
    fields: dict[str, Any] = {
        "severity": Severity.CORDON,
        "source": "kubernetes.node",
        "latched": True,
    }
    fleet.say(node, "AcceleratedHardwareReady", **(fields | more))


def rules(fleet: Fleet, text: str) -> None:
    document = policy.parse("version: 1\n" + text)
    fleet.config_map(active.POLICY_NAME, "policy", active.policy_data(document, "joe"))


def test_writes_nothing(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.server.set_condition("a-01", "KernelDeadlock", "True")
    before = fleet.written()
    groundcrew("explain", "a-01")
    assert fleet.written() == before


def test_a_node_that_is_well(groundcrew: Shell, fleet: Fleet) -> None:
    said = told(groundcrew, "a-01")
    assert said.startswith(f"a-01 pool a in service machine {fleet.provider_id('a-01')}")
    assert "not cordoned" in said
    assert "No incident" in said
    assert "pool a: 0 of 2 out (20 nodes); cluster: 0 of 2 (40 nodes)" in said


def test_a_cordoned_node_with_its_incident_cordon_end_and_events(
    groundcrew: Shell, fleet: Fleet
) -> None:
    cordon_only(fleet, "a-01")
    fleet.pass_time(hours=2)
    said = told(groundcrew, "a-01")
    assert "cordoned by groundcrew, 2026-03-02 12:00Z (2h ago)" in said
    assert "evidence NVRM: Xid (PCI:0000:0f:00)" in said
    assert "first 2026-03-02 12:00Z (2h ago)" in said
    assert "cordon, as kubernetes.node says; no rule of the policy is about it" in said
    assert "with a new boot ID, then 15m of quiet with all its GPUs" in said
    assert "proves nothing (latched)" in said
    assert "NodeCordoned: kubernetes.node says" in said


def test_names_the_rule_of_the_policy_that_gave_the_severity(
    groundcrew: Shell, fleet: Fleet
) -> None:
    rules(fleet, "severity: [{check: x, severity: watch}, {check: Disk*, severity: cordon}]")
    fleet.server.set_condition("a-01", "DiskPressure", "True")
    fleet.look("a-01")
    (incident,) = story(groundcrew, "a-01")["incidents"]
    assert incident["severity"] == "cordon"
    assert incident["severity_from"] == (
        "by the policy, severity[1] (cordon); kubernetes.node itself says watch now"
    )


def test_a_waiting_time_says_when_it_is_over(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.server.set_condition("a-01", "Ready", "False", reason="KubeletNotReady")
    assert "would open: kubernetes.node says Ready (KubeletNotReady)" in told(groundcrew, "a-01")
    fleet.look("a-01")
    said = told(groundcrew, "a-01")
    assert "watch now; cordon from 2026-03-02 12:05Z (in 5m) if it lasts (waiting time)" in said


def test_a_maintenance_window_says_when_it_cordons_and_when_it_drains(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.say(
        "a-01",
        "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        kind=Kind.MAINTENANCE,
        cause=Cause.PROVIDER,
        source="aws.health",
        deadline=fleet.now + timedelta(days=9),
    )
    assert (
        "watch now; cordon from 2026-03-10 12:00Z (in 8d); evict from 2026-03-11 08:00Z "
        "(in 8d 20h) (maintenance window)"
    ) in told(groundcrew, "a-01")


def test_severity_evict_never_ends_by_itself_and_says_how_it_may(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.say("a-01")
    assert story(groundcrew, "a-01")["other_machines"] == []
    assert "never by itself: when an active test passes, or a human decides so" in told(
        groundcrew, "a-01"
    )


def test_the_budget_that_is_in_the_way_is_told_each_time(groundcrew: Shell, fleet: Fleet) -> None:
    for node in ("a-01", "a-02", "a-03"):
        fleet.say(node)
    fleet.resync()
    for _ in range(2):
        assert story(groundcrew, "a-03")["blocks"] == [
            {"what": "budget", "why": "budget of the cluster: 2 of 2 nodes are out"}
        ]


def test_the_breaker_that_is_in_the_way_has_its_numbers_and_the_end_changes(
    groundcrew: Shell, fleet: Fleet
) -> None:
    for number in range(1, 8):
        cordon_only(fleet, f"a-{number:02}")
    fleet.resync()
    said = told(groundcrew, "a-07")
    assert re.search("circuit breaker: AcceleratedHardwareReady accuses [57] of 20 nodes", said)
    assert re.search("open; accuses [57] of 20 nodes within 10m", said)
    assert "the check is doubted rather than the node" in said


def test_a_pause_an_opt_out_and_a_shadow_are_named(groundcrew: Shell, fleet: Fleet) -> None:
    rules(fleet, "shadow: [{check: xid-*}]")
    fleet.say("a-01")
    groundcrew("pause", "--for", "1h", "--reason", "test")
    fleet.change(
        "a-01", lambda n: n["metadata"]["labels"].update({"groundcrew.dev/managed": "false"})
    )
    blocks = {b["what"]: b["why"] for b in story(groundcrew, "a-01")["blocks"]}
    assert "groundcrew.dev/managed=false" in blocks["opt-out"]
    assert blocks["pause"] == "paused until 2026-03-02 13:00Z by jane: test"

    groundcrew("resume")
    fleet.change("a-01", lambda n: n["metadata"]["labels"].pop("groundcrew.dev/managed"))
    blocks = {b["what"]: b["why"] for b in story(groundcrew, "a-01")["blocks"]}
    assert blocks == {"shadow": "shadow mode for xid-79: would evict"}
    assert "in shadow mode: told, not done" in told(groundcrew, "a-01")


def test_a_dismissal_says_until_when_the_check_keeps_quiet(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.say("a-01")
    fleet.change("a-01", lambda n: n["spec"].pop("unschedulable"))
    fleet.resync()
    said = told(groundcrew, "a-01")
    assert "dismissed (was evict)" in said
    assert "uncordoned by somebody else" in said
    assert "keeps quiet until 2026-03-03 12:00Z (in 1d)" in said


def test_an_uncordon_that_was_not_seen_yet_says_what_will_come_of_it(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.say("a-01")
    fleet.change("a-01", lambda n: n["spec"].pop("unschedulable"))
    said = told(groundcrew, "a-01")
    assert "uncordoned by somebody else since: noted at the next look" in said
    assert "would dismiss: somebody else uncordoned the node" in said


@pytest.mark.parametrize("sick", [False, True])
def test_somebody_elses_cordon_is_theirs(groundcrew: Shell, fleet: Fleet, sick: bool) -> None:
    fleet.change("a-01", lambda n: n["spec"].update(unschedulable=True))
    if sick:
        fleet.say("a-01")
    assert "cordoned by somebody else" in told(groundcrew, "a-01")


def test_who_took_the_node_when_and_why_is_told(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    assert groundcrew("drain", "b-01", "--reason", "swap the NIC")[0] == 0
    fleet.pass_time(hours=3)
    out = words(groundcrew("explain", "b-01")[1])
    assert "cordon by hand: groundcrew leaves it as it is (groundcrew uncordon b-01)" in out
    assert re.search(r"taken by .*, .* \(3h ago\): swap the NIC", out)
    fleet.say("a-01")
    assert groundcrew("drain", "a-01")[0] == 0
    out = words(groundcrew("explain", "a-01")[1])
    assert "by groundcrew, and held by hand: stays when this is over" in out
    assert "taken by" in out


def test_the_drain_with_what_blocks_it(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.server.apply(builders.pdb("web", labels={"app": "web"}, min_available=1))
    fleet.server.apply(builders.workload("Deployment", "web", replicas=1))
    fleet.pass_time(minutes=1)
    fleet.server.advance(fleet.now)
    node = fleet.server.all("pods")[0]["spec"]["nodeName"]
    fleet.say(node)
    fleet.drain()
    said = told(groundcrew, node)
    assert "Drain state blocked started 2026-03-02 12:01Z (0s ago)" in said
    assert "PodDisruptionBudget default/web" in said


def test_an_incident_that_is_over_says_why(groundcrew: Shell, fleet: Fleet) -> None:
    cordon_only(fleet, "a-01")
    fleet.change("a-01", lambda n: n["status"]["nodeInfo"].update(bootID="boot-2"))
    fleet.resync()
    assert "booted anew by 2026-03-02 12:00Z" in told(groundcrew, "a-01")
    fleet.pass_time(minutes=20)
    fleet.resync()
    said = told(groundcrew, "a-01")
    assert "closed 2026-03-02 12:20Z (0s ago): a new boot ID, quiet for 15m" in said
    assert "releases 1 of 2 within 7d" in said


def test_a_gone_node_is_explained_from_the_ledger_by_name_provider_id_and_instance_id(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.say("a-01")
    machine = fleet.provider_id("a-01")
    fleet.server.delete("nodes", "", "a-01")
    fleet.pass_time(hours=1)
    for name in ("a-01", machine, machine.rpartition("/")[2]):
        found = story(groundcrew, name)
        assert (found["found"], found["state"], found["pool"]) == ("ledger", "gone", "a")
        assert found["provider_id"] == machine
        assert found["incidents"][0]["check"] == "xid-79"
        assert [event["reason"] for event in found["events"]] == ["NodeCordoned"]
    assert "the Node that registers with this provider ID" in told(groundcrew, "a-01")


def test_a_node_is_found_by_its_instance_id_and_provider_id_too(
    groundcrew: Shell, fleet: Fleet
) -> None:
    machine = fleet.provider_id("a-01")
    for name in (machine, machine.rpartition("/")[2]):
        assert story(groundcrew, name)["name"] == "a-01"


def test_another_machine_under_the_name_of_one_that_is_gone_is_told_apart(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.say("a-01")
    old = fleet.provider_id("a-01")
    fleet.server.delete("nodes", "", "a-01")
    fleet.server.apply(builders.node("a-01", pool="a", provider_id="aws:///us-east-1a/i-new"))
    found = story(groundcrew, "a-01")
    assert (found["provider_id"], found["incidents"]) == ("aws:///us-east-1a/i-new", [])
    assert found["events"] == []
    assert found["other_machines"] == [f"{old}, seen 2026-03-02 12:00Z"]


def test_a_notice_that_waits_for_its_machine_is_told(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.say("a-01", identity=Identity(instance_id="i-0fffffffffffffff0"))
    said = told(groundcrew, "i-0fffffffffffffff0")
    assert "kubernetes.event/xid-79: no node was there for it; kept until" in said


@pytest.mark.parametrize("name", ["nosuch", "aws:///us-east-1a/i-0", "No Such/Node", "*"])
def test_what_is_neither_node_nor_machine_is_refused(groundcrew: Shell, name: str) -> None:
    code, out, err = groundcrew("explain", name)
    assert (code, out) == (2, "")
    assert f"no node is called {name}" in err
    assert "groundcrew status --all" in err


def test_an_annotation_that_cannot_be_read_says_how_to_put_it_right(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.change(
        "a-01", lambda n: n["metadata"]["annotations"].update({"groundcrew.dev/incidents": "{x"})
    )
    said = told(groundcrew, "a-01")
    assert "cannot be read" in said
    assert "kubectl annotate node a-01 groundcrew.dev/incidents-" in said


def test_without_the_right_to_list_events_the_rest_is_told(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.say("a-01")
    fleet.server.faults.fail("list", "events", 403, message="no")
    said = told(groundcrew, "a-01")
    assert "you may not list Events in namespace default" in said
    assert "xid-79" in said


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_wider_than_the_screen(
    groundcrew: Shell, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    fleet.say("a-01", ref="arn:aws:health:us-east-1::event/EC2/" + "X" * 120)
    monkeypatch.setenv("COLUMNS", str(width))
    out = groundcrew("explain", "a-01")[1]
    assert max(len(line) for line in out.splitlines()) <= width
    assert "X" * 40 in out


# its machine


def sick(fleet: Fleet, **more: Any) -> None:
    fleet.resync()
    fleet.replace()
    fleet.pass_time(hours=2)
    fleet.say("a-03", **more)
    fleet.resync()
    fleet.replace()
    fleet.pass_time(minutes=30)
    fleet.resync()
    fleet.drain()
    for _ in range(2):
        fleet.pass_time(minutes=16)
        fleet.resync()
        fleet.replace()


def test_shows_the_clock_and_every_guard_before_the_end_of_a_machine(
    groundcrew: Shell, fleet: Fleet
) -> None:
    sick(fleet)
    _, out, _ = groundcrew("explain", "a-03")
    told = words(out)
    assert "Its machine" in told
    assert "seven days end 2026-03-09 14:00Z" in told
    assert "fault passed: kubernetes.event says xid-79" in told
    assert "evidence holds: one source alone says so" in told
    assert "shadow holds: pool a is not in the policy's replace.act_in" in told
    for guard in Guard:
        if guard is not Guard.REBOOTS:
            assert f" {guard.value} passed: " in told or f" {guard.value} holds: " in told, guard
    report = json.loads(groundcrew("explain", "a-03", "-o", "json")[1])
    assert report["replacement"]["phase"] == "sick"
    assert report["replacement"]["would"] == ["reboot"]
    assert report["replacement"]["rung"] == "replace", "the other one is told, and behind it"
    assert {g["name"] for g in report["replacement"]["guards"]} >= {"fault", "caps", "hold"}


def test_tells_of_a_machine_that_is_gone_why_it_ended(groundcrew: Shell, fleet: Fleet) -> None:
    sick(fleet)
    machine = fleet.provider_id("a-03")
    fleet.server.delete("nodes", "", "a-03")
    for _ in range(15):
        fleet.pass_time(minutes=1)
        fleet.aws.end_by_somebody(machine.rpartition("/")[2])
        fleet.replace()
    for name in ("a-03", machine, machine.rpartition("/")[2]):
        code, out, _ = groundcrew("explain", name)
        assert code == 0
        assert "not by us" in words(out)


def test_tells_of_a_machine_that_ended_by_us_what_spoke_for_its_end(
    groundcrew: Shell, fleet: Fleet
) -> None:
    acts = "replace: {act_in: [a]}\nladder: [{rungs: [replace]}]\nterminate: {settle: 10m}"
    rules(fleet, acts)
    sick(fleet, in_log=True)
    machine = fleet.provider_id("a-03")
    for minute in range(8):
        fleet.pass_time(minutes=1)
        fleet.aws.advance(fleet.now)
        if minute % 4 == 0:
            fleet.resync()
        fleet.replace()
    assert fleet.server.get("nodes", "", "a-03") is None
    for name in ("a-03", machine, machine.rpartition("/")[2]):
        assert "state ended clock" in told(groundcrew, name)
    # Events are gone after an hour: the book says it all.
    report = story(groundcrew, machine)["replacement"]
    assert "(the kernel log says so (xid-79); empty since" in report["intent"]
    assert report["intent"].endswith("no workload is left)")
    fleet.server.apply(builders.node("a-21", pool="a", now=fleet.now))
    fleet.replace()
    closed = story(groundcrew, machine)["replacement"]
    assert (closed["phase"], closed["intent"]) == ("closed", report["intent"])
    assert closed["outcome"].startswith("replaced by a-21")


def test_tells_of_a_machine_that_is_gone_where_only_the_book_can_be_read(
    groundcrew: Shell, fleet: Fleet
) -> None:
    sick(fleet)
    machine = fleet.provider_id("a-03")
    fleet.server.delete("nodes", "", "a-03")
    name = active.ledger_name("a")
    fleet.config_map(name, "ledger", {**fleet.data(name), "ledger": "{garbage"})
    found = story(groundcrew, machine)
    assert (found["state"], found["replacement"]["phase"]) == ("gone", "sick")


def test_status_shows_clocks_and_rungs(groundcrew: Shell, fleet: Fleet) -> None:
    sick(fleet)
    out = words(groundcrew("status")[1])
    assert "of the seven days left" in out
    assert "would have: reboot" in out


def test_says_who_else_acts_on_its_nodes(groundcrew: Shell, fleet: Fleet) -> None:
    handler = builders.pod("nth-1", namespace="kube-system", node="b-01")
    handler["metadata"]["labels"] = {"app.kubernetes.io/name": "aws-node-termination-handler"}
    fleet.server.apply(handler)
    sick(fleet)
    for command in (("status",), ("explain", "a-03")):
        out = words(groundcrew(*command)[1])
        assert "aws-node-termination-handler acts on" in out


def test_tells_of_a_machine_that_is_gone_what_was_found_on_it_and_what_held_its_end(
    groundcrew: Shell, fleet: Fleet
) -> None:
    sick(fleet)
    machine = fleet.provider_id("a-03")
    data = fleet.data(active.ledger_name("a"))
    kept = book.decode(data[book.KEY])
    told = msgspec.structs.replace(
        kept.machines[machine],
        host="h-7",
        gpus=("GPU-1",),
        collected="collected by Job evidence-1: 0, 1653121000123",
        holding=("hold", "caps"),
    ).close("gone: EC2 says terminated, and not by us", fleet.now)
    data[book.KEY] = book.encode(book.with_entry(kept, machine, told))
    fleet.config_map(active.ledger_name("a"), "ledger", data)
    fleet.server.delete("nodes", "", "a-03")
    out = words(groundcrew("explain", machine)[1])
    assert "was held by hold, caps" in out
    assert "host h-7" in out
    assert "GPUs GPU-1" in out
    assert "evidence collected by Job evidence-1: 0, 1653121000123" in out
    assert "outcome gone: EC2 says terminated" in out
