"""The replace function against the embedded cluster and a cloud, on simulated time."""

import json
import random
from dataclasses import replace as replace_fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from events import envelopes, recording
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Cause, Kind, Severity
from functions import cordon, drain, replace
from functions.edge.context import Context, Settings
from functions.gateways.aws.errors import Throttled
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.types import Node
from functions.rules import hold, incidents, keys
from functions.rules.node_view import NodeView
from functions.rules.replacing import MachineFacts, Step
from functions.rules.replacing.book import Entry, Intent, Phase
from functions.steps import active
from functions.steps.replacing import closer, gather
from functions.steps.replacing.call import Call
from functions.steps.replacing.crew import Crew
from infra.local.cluster import EmbeddedTransport, builders
from tests.support.crew import ping
from tests.support.ending_world import MINUTE, NAMESPACE, POLICY, EndingWorld
from tests.support.wrong_clock import Dated, Wrong

ROOT = Path(__file__).parents[2]
FULL = "replace: {act_in: ['*']}\n"


@pytest.fixture
def world() -> EndingWorld:
    return EndingWorld()


def test_a_sick_machine_ends_is_let_go_and_is_followed_until_another_one_serves(
    world: EndingWorld,
) -> None:
    world.minutes(21)
    assert len(world.cloud.ended) == 1
    assert world.entry().phase is Phase.ENDED
    assert world.server.get("nodes", "", "n0") is None
    world.add("n7")
    world.minutes(2)
    assert world.entry().outcome == f"replaced by n7 ({world.machine('n7')})"
    assert world.answers() == ["vm.terminated", "vm.replaced"]
    assert world.actions() == ["terminate", "terminated", "vm-replaced"]
    assert sorted(world.events()) == [
        "MachineReplaced",
        "MachineTerminated",
        "TerminationAsked",
    ]


def test_nothing_ends_before_the_settle_time(world: EndingWorld) -> None:
    outcomes = world.minutes(14)
    assert world.cloud.asked == []  # the silence before: what is known has to be seen anew
    assert all(not outcome.decisions for outcome in outcomes)


def test_a_healthy_cluster_costs_two_reads_a_look_and_no_write() -> None:
    world = EndingWorld()
    world.closed()
    world.minutes(2)
    outcome = world.minutes(1)[0]
    assert outcome.requests == {"list configmaps": 1, "list nodes": 1}


def test_machines_whose_faults_are_over_and_that_no_book_knows_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = EndingWorld()
    world.closed()
    world.sick("n1")
    looked: list[str] = []
    machine_facts = gather.machine_facts

    def noting(crew: Crew, machine: str, node: Node, view: NodeView) -> MachineFacts:
        looked.append(node.name)
        return machine_facts(crew, machine, node, view)

    monkeypatch.setattr(gather, "machine_facts", noting)
    world.minutes(1)
    assert looked == ["n1"]
    world.closed("n1")
    world.minutes(1)
    assert looked == ["n1", "n1"], "its clock ran, and stops now"
    assert world.entry("n1").over
    world.minutes(1)
    assert looked == ["n1", "n1"]


def test_an_event_that_is_none_of_its_own_connects_to_nothing() -> None:
    def connect() -> Cluster:
        raise AssertionError("connected")

    context = Context(connect, None, Settings())
    event = CloudEvent(id="1", source="x", type="dev.groundcrew.nodes.cordoned", data=b"{}")
    assert replace.handle(event, context).declined


def test_a_drained_node_is_looked_at_at_once(world: EndingWorld) -> None:
    world.minutes(15)
    world.wait(2 * MINUTE)
    data = json.dumps({"nodes": [{"node": "n0"}]}).encode()
    event = CloudEvent(id="1", source="x", type=replace.DRAINED, data=data)
    way = EmbeddedTransport(world.server, world.clock.sleep)
    context = Context(
        lambda: Cluster(way), world.clock, Settings(namespace=NAMESPACE), aws=lambda: world.cloud
    )
    replace.handle(event, context)
    assert len(world.cloud.ended) == 1


def test_of_five_hundred_machines_in_a_notice_three_are_ours_and_only_the_sick_one_ends() -> None:
    """The other two are emptied, and left to the cloud, which has said when it takes them."""
    world = EndingWorld(nodes=5)
    path = ROOT / "events/recorded/aws_health/multi_entity_one_page.json"
    body = json.loads(recording.load(path.read_bytes()).body)
    body["detail"] |= {
        "startTime": (world.clock.now() + timedelta(hours=1)).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "affectedEntities": [
            {"entityValue": f"i-{number:017x}"} for number in (*range(1000, 1200), 0, 1, 2,
                                                               *range(1200, 1497))
        ],
    }  # fmt: skip
    told = envelopes.from_raw({}, json.dumps(body).encode())
    for event in told:
        cordon.handle(event, world.context())
    for minute in range(150):
        if minute == 90:  # and it has not taken them
            world.wait(timedelta(days=8))
        cordon.handle(ping("resync-cordon"), world.context())
        drain.handle(ping("resync-drain"), world.context())
        world.minutes(1)
    assert [machine for _, machine in world.cloud.ended] == ["i-00000000000000000"]
    assert set(world.cloud.asked) == {"terminate i-00000000000000000"}
    assert set(world.book().machines) <= {world.machine(f"n{number}") for number in range(3)}
    out = {n: world.node(n)["spec"].get("unschedulable", False) for n in ("n1", "n2", "n3", "n4")}
    assert out == {"n1": True, "n2": True, "n3": False, "n4": False}
    for name in ("n1", "n2"):
        assert '"drained"' in world.node(name)["metadata"]["annotations"][keys.DRAIN]


@pytest.mark.parametrize(
    ("nodes", "count", "declined"),
    [
        ([{"node": "n0", "leaves": True}], 1, True),
        ([{"node": "n0", "leaves": True}, {"node": "n1"}], 2, False),
        ([{"node": "n0", "leaves": True}], 2, False),
        ([], 0, False),
    ],
)
def test_of_machines_that_go_by_themselves_nothing_is_read(
    nodes: list[object], count: int, declined: bool
) -> None:
    class Connected(Exception):
        pass

    def connect() -> Cluster:
        raise Connected

    data = json.dumps({"nodes": nodes, "count": count}).encode()
    event = CloudEvent(id="1", source="x", type=replace.DRAINED, data=data)
    context = Context(connect, None, Settings())
    if declined:
        assert replace.handle(event, context).declined
    else:
        with pytest.raises(Connected):
            replace.handle(event, context)


def test_a_drained_event_that_is_none_is_refused() -> None:
    event = CloudEvent(id="1", source="x", type=replace.DRAINED, data=b'{"nodes": 7}')
    with pytest.raises(MalformedEvent, match="data"):
        replace.handle(event, Context(lambda: None, None, Settings()))  # type: ignore[arg-type, return-value]


def test_the_ladder_is_climbed_with_a_boot_that_is_confirmed_and_watched() -> None:
    world = EndingWorld(FULL)
    world.minutes(17)
    assert world.cloud.asked == [f"reboot {world.machine().rpartition('/')[2]}"]
    found = world.node()
    found["status"]["nodeInfo"]["bootID"] = "another"
    world.server.apply(found)
    world.minutes(1)
    assert world.entry().tried == ("reboot",)
    # Quiet since the boot: whether it is well is for a test or a person to say.
    world.minutes(180)
    assert len(world.cloud.asked) == 1
    assert world.entry().holding == ("fault", "evidence")


def test_a_reboot_that_is_throttled_for_a_while_is_asked_again_and_no_machine_ends() -> None:
    world = EndingWorld(FULL)
    world.cloud.refuses = {"reboot": "throttled"}
    world.minutes(40)
    assert world.cloud.asked == []
    assert world.entry().tried == ()
    refused = [d for o in world.outcomes for d in o.decisions if "refused" in d.blocked_by]
    assert 5 <= len(refused) <= 12  # ten times each minute, then each hour
    world.cloud.refuses = {}
    world.minutes(60)
    assert world.cloud.asked == [f"reboot {world.machine().rpartition('/')[2]}"]
    assert len(world.entry().reboots) == 1


def test_a_reboot_whose_answer_is_lost_is_not_asked_a_second_time_before_its_time() -> None:
    world = EndingWorld(FULL)
    world.cloud.refuses = {"reboot": "no-answer"}
    world.minutes(20)
    world.cloud.refuses = {}
    world.minutes(20)
    assert world.cloud.asked == []
    world.minutes(15)
    assert world.cloud.asked == [f"reboot {world.machine().rpartition('/')[2]}"]
    assert len(world.entry().reboots) == 2


def test_a_hold_by_a_person_outlives_the_node_and_keeps_the_machine(world: EndingWorld) -> None:
    machine = world.machine()
    made = hold.Hold(
        machine=machine, node="n0", until=world.clock.now() + timedelta(days=1), reason="mine"
    )
    import msgspec

    data = {hold.key(machine): msgspec.json.encode(made).decode()}
    world.config_map(active.HOLD_NAME, "hold", data)
    world.minutes(60)
    assert world.cloud.asked == []
    assert world.entry().holding == ("hold",)
    world.config_map(active.HOLD_NAME, "hold", {hold.key(machine): "{"})
    world.minutes(5)
    assert world.cloud.asked == []
    world.config_map(active.HOLD_NAME, "hold", {})
    world.minutes(1)
    assert len(world.cloud.ended) == 1


def test_work_that_came_back_keeps_the_machine(world: EndingWorld) -> None:
    world.server.apply(builders.pod("late", node="n0"))
    world.minutes(30)
    assert world.cloud.asked == []
    assert "default/late" in str(world.outcomes[-1].decisions) or world.entry().empty is None


def label(world: EndingWorld, name: str, key: str, value: str) -> None:
    found = world.node(name)
    found["metadata"]["labels"][key] = value
    world.server.apply(found)


def test_of_reserved_capacity_so_many_end_as_idle_nodes_stand_in_for() -> None:
    rules = "replace: {act_in: ['*'], reserved: [gpu]}\nladder: [{rungs: [replace]}]\n"
    world = EndingWorld(rules + "terminate: {pool_per_day: 100%, per_hour: 10}\n", nodes=6)
    world.sick("n1")
    world.server.apply(builders.pod("work", node="n4"))
    for name in ("n3", "n4"):
        label(world, name, keys.SPARE, "true")
    world.minutes(70)
    assert len(world.cloud.ended) == 1, "n4 is labelled, and not idle"
    world.server.delete("pods", "default", "work")
    world.minutes(40)
    assert len(world.cloud.ended) == 2


def test_a_machine_that_ec2_has_in_a_reservation_is_kept_until_a_person_or_a_spare_lets_it_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = EndingWorld()
    instances = world.cloud.instances

    def reserved(*given: Any) -> Any:
        found = instances(*given)
        return {one: replace_fields(at, capacity_reservation="cr-1") for one, at in found.items()}

    monkeypatch.setattr(world.cloud, "instances", reserved)
    world.minutes(60)
    assert world.cloud.asked == []
    assert world.entry().holding == ("reserved",)
    label(world, "n2", keys.SPARE, "true")
    world.minutes(31)
    assert len(world.cloud.ended) == 1


def test_a_persons_word_is_for_the_machine_that_it_names() -> None:
    """Copied to another node, as tools do that make nodes anew with all that stood on them, it
    agrees to nothing."""
    rules = POLICY.replace("act_in", "reserved: [gpu], act_in")
    world = EndingWorld(rules)

    def agree(machine: str) -> None:
        found = world.node()
        found["metadata"]["annotations"][keys.APPROVED] = machine
        world.server.apply(found)

    agree(world.machine("n1"))
    world.minutes(40)
    assert (world.cloud.asked, world.entry().holding) == ([], ("reserved",))
    agree(world.machine())
    world.minutes(31)
    assert len(world.cloud.ended) == 1


def test_a_machine_whose_node_has_another_name_by_now_goes_on_with_its_clock() -> None:
    """Before cordon has seen it, which marks it again."""
    world = EndingWorld()
    world.minutes(5)
    began = world.entry().began
    world.server.delete("nodes", "", "n0")
    world.add("n9", provider_id=world.machine())
    label(world, "n9", keys.INSTANCE, world.machine().rpartition("/")[2])
    facts, _ = gather.facts(world.crew())
    (one,) = facts.machines
    assert one.view is not None
    assert (one.view.name, one.entry.began) == ("n9", began)


def test_a_machine_that_gets_its_provider_id_late_is_not_missed_under_its_uid() -> None:
    """A cloud controller fills it in some time after the Node has registered."""
    world = EndingWorld()
    found = world.node("n1")
    machine = found["spec"].pop("providerID")
    world.server.delete("nodes", "", "n1")
    world.server.apply(found)
    early = f"uid:{world.node('n1')['metadata']['uid']}"
    ago = world.clock.now() - timedelta(hours=1)
    bad = {"kind": Kind.FAULT, "severity": Severity.EVICT, "cause": Cause.HARDWARE, "first": ago}
    found = world.node("n1")
    record = incidents.Record(
        machine=early,
        cordon=incidents.Cordon(at=ago),
        incidents=(incidents.Incident(source="s", check="c", last=ago, **bad),),  # type: ignore[arg-type]
    )
    found["metadata"]["annotations"] = {keys.INCIDENTS: incidents.encode(record)}
    found["metadata"]["labels"][keys.STATE] = "evict"
    found["spec"]["unschedulable"] = True
    world.server.apply(found)
    world.minutes(1)
    assert world.book().machines[early].began == ago
    found = world.node("n1")
    found["spec"]["providerID"] = machine
    world.server.apply(found)
    world.minutes(1)
    assert world.book().machines[early].outcome == f"known as {machine} since"
    assert world.book().machines[machine].began == ago


def test_a_volume_that_we_may_not_see_keeps_the_machine(world: EndingWorld) -> None:
    world.server.faults.fail("list", "/volumeattachments", 403, times=99)
    world.minutes(40)
    assert (world.cloud.asked, world.entry().holding) == ([], ("volumes",))
    said = [d.reason for o in world.outcomes for d in o.decisions if "volumes" in d.blocked_by]
    assert "a volume that we may not see (list volumeattachments)" in said[0]


@pytest.mark.parametrize(
    ("owner", "asked", "wanted", "way"),
    [
        ("", "cluster-api", "auto", "cluster-api"),
        ("", "event", "auto", "event"),
        ("karpenter", "", "auto", "karpenter"),
        ("karpenter", "autoscaling", "auto", "karpenter"),
        ("", "autoscaling", "auto", "auto"),
        ("karpenter", "", "ec2", "ec2"),
    ],
)
def test_a_machine_whose_node_is_gone_is_asked_after_where_it_was_known(
    world: EndingWorld, owner: str, asked: str, wanted: str, way: str
) -> None:
    """The provider ID alone would show EC2, which knows nothing of NodeClaims and Machines."""
    world.set_policy(f"replace: {{ways: [{{pool: '*', way: {wanted}}}]}}\n")
    at = world.clock.now()
    intent = Intent(rung="replace", token="t", at=at, way=asked) if asked else None
    entry = Entry(node="n0", changed=at, owner=owner, intent=intent)
    lost = MachineFacts(machine=world.machine(), pool="gpu", entry=entry)
    assert closer._wanted(world.crew(), lost, None) == way


def test_what_one_answer_cannot_say_is_left_to_the_next_call(world: EndingWorld) -> None:
    """Written down, it would never be said."""
    world.minutes(1)
    made = []
    for number, kind in enumerate(("x", "y", "x")):
        one = MachineFacts(machine=f"m{number}", pool="gpu")
        entry = Entry(node=f"a{number}", changed=world.clock.now())
        made.append(Step(facts=one, entry=entry, answer=(kind, {"node": entry.node})))
    call = Call(world.crew(), {})
    call.carry_out(made)
    assert call.answer() == ("x", {"nodes": [{"node": "a0"}, {"node": "a2"}], "count": 2})
    assert set(world.book().machines) == {world.machine(), "m0", "m2"}


def test_hardware_that_comes_back_at_once_is_told_once(world: EndingWorld) -> None:
    def with_gpu(name: str) -> None:
        found = world.node(name)
        found["metadata"].setdefault("annotations", {})[keys.GPU_UUIDS] = "GPU-1"
        world.server.apply(found)

    with_gpu("n0")
    world.minutes(21)
    world.add("n7")
    with_gpu("n7")
    (outcome,) = world.minutes(1)
    assert outcome.answer is not None
    assert outcome.answer.type == "dev.groundcrew.hardware.returned"
    assert outcome.answer.data["count"] == 1
    assert [d.action.value for d in outcome.decisions] == ["hardware-back"]


def test_hardware_that_comes_back_days_after_its_replacement_is_found_and_told(
    world: EndingWorld,
) -> None:
    label(world, "n0", keys.HOST, "rack7-03")
    world.minutes(21)
    world.add("n7")
    world.minutes(2)
    assert world.entry().over
    world.wait(timedelta(days=3))
    world.add("n8")
    label(world, "n8", keys.HOST, "rack7-03")
    world.minutes(11)
    assert world.answers()[-1] == "hardware.returned"
    said = [d for o in world.outcomes for d in o.decisions if d.action.value == "hardware-back"]
    assert {d.node for d in said} == {"n8"}
    assert said[0].reason.startswith(f"host rack7-03 was that of {world.machine()} (node n0)")


def test_two_nodes_that_claim_one_machine_keep_it(world: EndingWorld) -> None:
    world.add("n8", provider_id=world.machine())
    world.minutes(30)
    assert world.cloud.asked == []
    assert world.entry().holding == ("node",)


@pytest.mark.parametrize("how", ["throttled", "unauthorised", "expired", "no-answer"])
def test_a_cloud_that_refuses_to_look_keeps_the_machine_and_is_told_once(
    world: EndingWorld, how: str
) -> None:
    world.cloud.refuses = {"describe": how}
    world.minutes(60)
    assert world.cloud.asked == []
    assert world.entry().holding == ("cloud",)
    assert world.events().count("ActionHeld") <= 2


def test_a_machine_of_another_account_is_never_ended(world: EndingWorld) -> None:
    world.cloud.strangers.add(world.machine().rpartition("/")[2])
    world.minutes(180)
    assert world.cloud.asked == []
    assert world.entry().phase is Phase.SICK


def test_a_machine_that_somebody_ended_is_not_ended_again(world: EndingWorld) -> None:
    world.cloud.end_by_somebody(world.machine().rpartition("/")[2])
    world.minutes(60)
    assert world.cloud.asked == []


def test_a_refused_end_is_asked_again_and_succeeds_when_it_is_allowed(world: EndingWorld) -> None:
    world.cloud.refuses = {"terminate": "throttled"}
    world.minutes(25)
    assert world.cloud.ended == []
    assert world.entry().phase is Phase.ENDING
    world.cloud.refuses = {}
    world.minutes(3)
    assert len(world.cloud.ended) == 1


class HalfThrottled:
    """A cloud that refuses half of all calls, by the dice of ``seed``."""

    def __init__(self, world: EndingWorld, seed: int) -> None:
        self._cloud, self._dice = world.cloud, random.Random(seed)
        self.refused = 0

    def bounded(self, left: object) -> "HalfThrottled":
        return self

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._cloud, name)

        def may_be_refused(*given: Any, **more: Any) -> Any:
            if self._dice.random() < 0.5:
                self.refused += 1
                raise Throttled(name, "RequestLimitExceeded", "Request limit exceeded.")
            return call(*given, **more)

        return may_be_refused


@pytest.mark.parametrize("rules", [POLICY, FULL])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_cloud_that_throttles_half_of_all_calls_ends_one_machine_once(
    seed: int, rules: str
) -> None:
    world = EndingWorld(rules)
    cloud = HalfThrottled(world, seed)
    booted = False
    for _ in range(300):
        world.wait(MINUTE)
        world.call(aws=cloud)
        if world.cloud.asked and rules == FULL and not booted:
            booted = True
            found = world.node()
            found["status"]["nodeInfo"]["bootID"] = "another"
            world.server.apply(found)
            world.sick("n0")
    assert cloud.refused > 10
    ended = [instance for _, instance in world.cloud.ended]
    assert ended == [world.machine().rpartition("/")[2]]
    kinds = [asked.partition(" ")[0] for asked in world.cloud.asked]
    assert kinds == (["reboot"] if rules == FULL else []) + ["terminate"]
    assert world.entry().phase in (Phase.ENDED, Phase.CLOSED)


def test_what_needs_a_person_is_asked_each_hour_and_no_more(world: EndingWorld) -> None:
    world.cloud.refuses = {"terminate": "unauthorised"}
    world.minutes(16 + 180)
    refused = [d for o in world.outcomes for d in o.decisions if "refused" in d.blocked_by]
    assert 3 <= len(refused) <= 4
    assert "UnauthorizedOperation" in refused[0].reason


def test_a_provider_id_that_changes_between_decision_and_call_ends_nothing(
    world: EndingWorld,
) -> None:
    world.minutes(14)

    def another(_: object) -> None:
        found = world.node()
        found["spec"]["providerID"] = "aws:///us-east-1a/i-0000000000000beef"
        world.server.apply(found)

    world.server.faults.before("get", "/nodes/n0", another)
    world.minutes(30)
    assert world.cloud.asked == []


@pytest.mark.parametrize("last", ["uncordon", "claim", "opt-out", "closed", "gone", "pause"])
def test_whatever_happens_before_the_last_test_ends_nothing(world: EndingWorld, last: str) -> None:
    world.minutes(14)

    def act(_: object) -> None:
        if last == "closed":
            world.closed()
        elif last == "gone":
            world.server.delete("nodes", "", "n0")
        elif last == "pause":
            text = '{"until": "2027-01-01T00:00:00Z", "reason": "x"}'
            world.config_map(active.PAUSE_NAME, "pause", {"cluster": text})
        else:
            found = world.node()
            if last == "uncordon":
                found["spec"]["unschedulable"] = False
            elif last == "claim":
                found["metadata"]["annotations"][keys.CORDONED_BY] = (
                    '{"by": "bob", "at": "2026-03-02T12:00:00Z"}'
                )
            else:
                found["metadata"]["labels"][keys.OPT_OUT] = "false"
            world.server.apply(found)

    # The intent stands; the node, or our own ConfigMaps, change just before they are read again
    # (a pause), or just before the patch that tests all of it.
    place = ("list", "/configmaps") if last == "pause" else ("patch", "/nodes/n0")
    if last == "pause":
        world.minutes(0)
    world.server.faults.before(*place, act)
    world.minutes(30)
    assert world.cloud.asked == []


def test_our_clock_an_hour_back_ends_nothing(world: EndingWorld) -> None:
    world.minutes(13)
    world.clock._passed -= 3600
    for _ in range(10):
        world.clock.sleep(60)
        world.call()
    assert world.cloud.asked == []


@pytest.mark.parametrize("hours", [1, -1])
def test_an_instance_whose_clock_is_an_hour_wrong_ends_a_machine_at_its_time(
    world: EndingWorld, hours: int
) -> None:
    """By the API server's clock: ahead of it the machine would not have been watched for long, and
    behind it never."""
    ahead = timedelta(hours=hours)
    wrong = Wrong(world.clock, ahead)
    way = Dated(EmbeddedTransport(world.server, world.clock.sleep), ahead)
    settings = Settings(namespace=NAMESPACE, call_seconds=4.0, parallel=1)
    context = Context(lambda: Cluster(way), wrong, settings, aws=lambda: world.cloud)
    world.minutes(8)
    for _ in range(6):
        world.wait(MINUTE)
        replace.handle(ping("resync-replace"), context)
    assert world.cloud.asked == []
    for _ in range(4):
        world.wait(MINUTE)
        replace.handle(ping("resync-replace"), context)
    assert len(world.cloud.ended) == 1


def test_a_book_that_cannot_be_read_ends_nothing_and_is_not_written_over(
    world: EndingWorld,
) -> None:
    name = active.ledger_name("gpu")
    found = world.server.get("configmaps", NAMESPACE, name)
    assert found is not None
    world.config_map(name, "ledger", {**found["data"], "replacements": "{garbage"})
    world.minutes(60)
    assert world.cloud.asked == []
    kept = world.server.get("configmaps", NAMESPACE, name)
    assert kept is not None
    assert kept["data"]["replacements"] == "{garbage"


def test_a_ledger_that_was_deleted_ends_nothing_for_an_hour(world: EndingWorld) -> None:
    world.minutes(13)
    for pool in ("", "gpu"):
        world.config_map(active.ledger_name(pool), "ledger", {"pool": pool})
        world._ledger(pool, 3)
    world.minutes(59)
    assert world.cloud.asked == []
    world.minutes(3)
    assert len(world.cloud.ended) == 1


def test_in_shadow_nothing_is_asked_and_it_is_told_what_would_be() -> None:
    world = EndingWorld("ladder: [{rungs: [reboot, replace]}]\n")
    world.minutes(60 * 24)
    assert world.cloud.asked == []
    assert world.entry().would == ("reboot", "replace")
    assert [a for a in world.actions() if a != "hold"] == []


def test_caps_let_so_many_end_and_no_more() -> None:
    world = EndingWorld(POLICY + "terminate: {per_hour: 1, pool_per_day: 100%}\n", nodes=6)
    for name in ("n1", "n2", "n3"):
        world.sick(name)
    world.minutes(20)
    assert len(world.cloud.ended) == 1
    world.minutes(60)
    assert len(world.cloud.ended) == 2
