"""cordon on the embedded cluster: what goes wrong between an event and a cordoned node."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from events import registry
from events.cloudevent import CloudEvent
from events.notice import Identity, Kind, Notice, Severity
from events.sources import kubernetes_node
from functions import cordon
from functions.edge.call import Function
from functions.edge.context import Context, Outcome, Settings
from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request
from functions.gateways.together import Together
from functions.rules import cordoning, incidents, keys, policy
from functions.rules.cordoning import Facts, Plan
from functions.steps import active
from infra.local.clock import SimulatedClock
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport
from infra.local.cluster.builders import node as build_node
from tests.support.crew import Between, NodesRead, node_update, ping
from tests.support.facts import notice as fault

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NAMESPACE = "groundcrew-system"
XID_79 = ("AcceleratedHardwareReady", "False", "NvidiaXID79Error", "fell off the bus")


@dataclass
class Fleet:
    """Ten nodes of one pool, cordon, and a policy that lets all of them go."""

    size: int = 10
    clock: SimulatedClock = field(default_factory=lambda: SimulatedClock(NOW))
    seconds: float = 4.0
    parallel: int = 1
    together: Together = field(default_factory=Together)

    def __post_init__(self) -> None:
        self.cluster = EmbeddedCluster(self.clock)
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        for number in range(self.size):
            self.cluster.apply(build_node(f"n{number}", now=NOW))
        self.policy("version: 1\nbudget: {pool: 100%, cluster: 100%}\nbreaker: {share: 100%}")

    def policy(self, text: str) -> None:
        self.config_map(
            active.POLICY_NAME, active.policy_data(policy.parse(text), "a test"), "policy"
        )

    def config_map(self, name: str, data: dict[str, str], part: str) -> None:
        meta = {"name": name, "namespace": NAMESPACE, "labels": {keys.PART: part}}
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        )

    def node(self, name: str = "n0") -> Any:
        return self.cluster.get("Node", "", name)

    def change(self, name: str, **meta: Any) -> None:
        node = self.node(name)
        node["metadata"] |= meta
        self.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)

    def condition(self, name: str, kind: str, status: str, reason: str, message: str = "") -> Any:
        """Set it on the node as an agent would; returns the node."""
        node = self.node(name)
        kept = [c for c in node["status"]["conditions"] if c["type"] != kind]
        moment = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        kept.append(
            {
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": moment, "lastHeartbeatTime": moment,
            }
        )  # fmt: skip
        node["status"]["conditions"] = kept
        self.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
        return self.node(name)

    def set_cordon(self, name: str, cordoned: bool) -> None:
        """As a person does with kubectl."""
        node = self.node(name)
        node["spec"].pop("unschedulable", None)
        if cordoned:
            node["spec"]["unschedulable"] = True
        self.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)

    def sick(self, name: str = "n0") -> CloudEvent:
        return self.update(self.condition(name, *XID_79))

    def update(self, node: Any, verb: str = "update") -> CloudEvent:
        return node_update({"apiVersion": "v1", "kind": "Node"} | node, verb)

    def context(self) -> Context:
        settings = Settings(namespace=NAMESPACE, call_seconds=self.seconds, parallel=self.parallel)
        transport = EmbeddedTransport(self.cluster, self.clock.waited)
        return Context(lambda: Cluster(transport), self.clock, settings, together=self.together)

    def handle(self, event: CloudEvent) -> Outcome:
        return cordon.handle(event, self.context())

    def resync(self) -> Outcome:
        return self.handle(ping())

    def pass_time(self, length: timedelta) -> None:
        self.clock.advance_to(self.clock.now() + length)
        self.cluster.advance(self.clock.now())

    def cordoned(self) -> list[str]:
        return [
            f"n{n}" for n in range(self.size) if self.node(f"n{n}")["spec"].get("unschedulable")
        ]

    def record(self, name: str = "n0") -> incidents.Record:
        return incidents.decode(self.node(name)["metadata"]["annotations"][keys.INCIDENTS])

    def writes(self) -> list[str]:
        return [
            f"{one.verb} {one.path}"
            for one in self.cluster.requests()
            if one.verb in ("create", "patch", "update", "delete")
        ]


@pytest.fixture
def fleet() -> Fleet:
    made = Fleet()
    made.resync()
    made.cluster.seen.clear()
    return made


def aws(detail_type: str, source: str = "aws.ec2", **detail: Any) -> CloudEvent:
    envelope = {
        "version": "0",
        "id": "11111111-2222-3333-4444-555555555555",
        "detail-type": detail_type,
        "source": source,
        "account": "111122223333",
        "time": "2026-03-02T09:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail": detail,
    }
    (event,) = registry.from_raw("eventbridge", {}, json.dumps(envelope).encode())
    return event


def spot(instance: str) -> CloudEvent:
    return aws(
        "EC2 Spot Instance Interruption Warning",
        **{"instance-id": instance, "instance-action": "terminate"},
    )


def retirement(entities: list[dict[str, str]], number: str = "1") -> CloudEvent:
    code = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"
    return aws(
        "AWS Health Event",
        source="aws.health",
        eventArn=f"arn:aws:health:us-east-1::event/EC2/{code}/{number}",
        service="EC2",
        eventTypeCode=code,
        eventTypeCategory="scheduledChange",
        eventScopeCode="ACCOUNT_SPECIFIC",
        communicationId=f"abc-{number}",
        startTime="Mon, 2 Mar 2026 10:00:00 GMT",
        lastUpdatedTime="Mon, 2 Mar 2026 08:00:00 GMT",
        statusCode="open",
        eventRegion="us-east-1",
        affectedEntities=entities,
        affectedAccount="111122223333",
        page="1",
        totalPages="1",
        backupEvent="false",
    )


def instance_of(fleet: Fleet, name: str = "n0") -> str:
    return fleet.node(name)["spec"]["providerID"].rpartition("/")[2]


def test_an_event_that_needs_nothing_asks_the_api_server_nothing(fleet: Fleet) -> None:
    outcome = fleet.handle(fleet.update(fleet.node()))
    assert outcome.declined
    assert not fleet.cluster.requests()


def test_a_sick_node_is_cordoned_with_its_story(fleet: Fleet) -> None:
    outcome = fleet.handle(fleet.sick())
    assert fleet.cordoned() == ["n0"]
    assert outcome.answer is not None
    assert outcome.answer.type == "dev.groundcrew.nodes.cordoned"
    told = [e["reason"] for e in fleet.cluster.all("Event", "default")]
    assert told == ["NodeCordoned"]


def test_the_same_event_thirty_times_acts_once(fleet: Fleet) -> None:
    event = fleet.sick()
    fleet.handle(event)
    fleet.cluster.seen.clear()
    for _ in range(30):
        assert fleet.handle(event).decisions == ()
    assert fleet.writes() == []


def test_it_answers_with_the_nodes_and_says_nothing_of_what_it_only_watches(fleet: Fleet) -> None:
    watched = fleet.handle(fleet.update(fleet.condition("n1", "DiskPressure", "True", "Full")))
    assert watched.decisions
    assert watched.answer is None
    outcome = fleet.handle(fleet.sick())
    assert outcome.answer is not None
    assert outcome.answer.data == {"nodes": [{"node": "n0", "severity": "evict"}]}


def test_several_nodes_at_once_are_patched_side_by_side(fleet: Fleet) -> None:
    fleet.policy(
        "version: 1\nbudget: {pool: 100%, cluster: 100%}\nbreaker: {share: 100%, day_share: 100%}"
    )
    for number in range(5):
        fleet.condition(f"n{number}", *XID_79)
    fleet.pass_time(timedelta(minutes=6))
    fleet.parallel = 4
    fleet.resync()
    assert len(fleet.cordoned()) == 5


def test_a_race_that_is_lost_is_stepped_out_of_and_lost_again_to_nobody(fleet: Fleet) -> None:
    event = fleet.sick()
    for _ in range(3):
        fleet.cluster.faults.before("patch", "configmaps", lambda call: _touch(fleet))
    before = fleet.clock.monotonic()
    fleet.handle(event)
    assert fleet.cordoned() == ["n0"]
    assert 0 < fleet.clock.monotonic() - before < 2


def _touch(fleet: Fleet) -> None:
    """Somebody else writes each ledger."""
    for found in fleet.cluster.all("ConfigMap", NAMESPACE):
        if found["metadata"]["labels"].get(keys.PART) == "ledger":
            found["metadata"].setdefault("annotations", {})["touched"] = str(id(found))
            fleet.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap"} | found)


def test_of_many_nodes_that_lose_a_race_those_that_are_gone_hold_up_no_other(fleet: Fleet) -> None:
    for name in ("n0", "n1", "n2"):
        fleet.condition(name, *XID_79)
    fleet.pass_time(timedelta(minutes=6))

    def meanwhile(call: Any) -> None:
        fleet.cluster.delete("Node", "", "n0")
        for name in ("n1", "n2"):
            fleet.change(name, annotations={keys.INCIDENTS: '{"v":1}'})

    fleet.cluster.faults.before("patch", "nodes/n0", meanwhile)
    fleet.resync()
    assert fleet.node("n0") is None
    assert [fleet.node(n)["spec"].get("unschedulable") for n in ("n1", "n2")] == [True, True]


def test_a_late_event_about_a_node_that_is_well_again_by_now_does_not_release_it(
    fleet: Fleet,
) -> None:
    well = fleet.update(fleet.node())
    sick = fleet.sick()
    fleet.handle(sick)
    fleet.handle(well)
    fleet.pass_time(timedelta(hours=3))
    fleet.resync()
    assert fleet.cordoned() == ["n0"]


def test_a_machine_that_is_not_registered_yet_is_cordoned_when_it_comes(fleet: Fleet) -> None:
    outcome = fleet.handle(spot("i-0abcdef0123456789"))
    assert "kept in case it registers" in outcome.decisions[0].reason
    fleet.pass_time(timedelta(minutes=10))
    fleet.cluster.apply(build_node("n9", provider_id="aws:///us-east-1a/i-0abcdef0123456789"))
    fleet.resync()
    assert fleet.cordoned() == ["n9"]


def test_news_of_unknown_machines_that_ask_for_nothing_cost_no_read_of_all_nodes(
    fleet: Fleet,
) -> None:
    """A launch storm of somebody else's scaling group must not read our nodes once each."""
    launch = aws(
        "EC2 Instance-launch Lifecycle Action",
        source="aws.autoscaling",
        LifecycleActionToken="87654321-4321-4321-4321-210987654321",
        AutoScalingGroupName="others",
        LifecycleHookName="hook",
        EC2InstanceId="i-0abcdef0123456789",
        LifecycleTransition="autoscaling:EC2_INSTANCE_LAUNCHING",
        Origin="EC2",
        Destination="AutoScalingGroup",
    )
    fleet.pass_time(timedelta(minutes=2))
    outcome = fleet.handle(launch)
    assert [d.action for d in outcome.decisions] == ["nothing"]
    assert fleet.writes() == []
    selectors = [one for one in fleet.cluster.requests("list") if one.path == "/api/v1/nodes"]
    assert len(selectors) == 1  # by its label alone


def test_a_machine_that_never_registers_is_declined_and_said_so(fleet: Fleet) -> None:
    fleet.handle(spot("i-0abcdef0123456789"))
    fleet.pass_time(timedelta(minutes=14))
    waiting = fleet.resync()
    assert not waiting.decisions
    assert waiting.look_again == fleet.clock.now() + timedelta(minutes=1)
    fleet.pass_time(timedelta(minutes=5))
    outcome = fleet.resync()
    assert outcome.decisions[0].node == "i-0abcdef0123456789"
    assert any("no such machine registered in time" in d.reason for d in outcome.decisions)
    fleet.pass_time(timedelta(minutes=1))
    assert not fleet.resync().decisions


def test_nor_is_it_declined_without_a_word_by_an_event_about_another(fleet: Fleet) -> None:
    fleet.handle(spot("i-0abcdef0123456789"))
    fleet.pass_time(timedelta(minutes=16))
    fleet.handle(fleet.sick())
    outcome = fleet.resync()  # it reads all nodes
    assert any("no such machine registered in time" in d.reason for d in outcome.decisions)


def test_one_that_registers_at_the_last_moment_is_cordoned(fleet: Fleet) -> None:
    """Without a stamp it is found by the next reading of all nodes, which comes later."""
    machine = "i-0abcdef0123456789"
    for minute in range(22):
        if minute == 2:
            fleet.handle(spot(machine))
        if minute == 16:
            fleet.cluster.apply(build_node("n9", provider_id=f"aws:///us-east-1a/{machine}"))
        fleet.resync()
        fleet.pass_time(timedelta(minutes=1))
    assert fleet.cordoned() == ["n9"]


@pytest.mark.parametrize("newest_first", [False, True])
def test_of_two_words_about_one_thing_the_newest_is_waited_for(
    fleet: Fleet, newest_first: bool
) -> None:
    machine = "i-0abcdef0123456789"
    told = [
        fault(
            "retirement", kind=Kind.MAINTENANCE, source="aws.health", severity=Severity.EVICT,
            identity=Identity(instance_id=machine), deadline=NOW + timedelta(days=days),
            since=NOW - timedelta(hours=days),
        )
        for days in (9, 5)
    ]  # fmt: skip
    for one in reversed(told) if newest_first else told:
        cordon.hear([one], fleet.context())
    fleet.cluster.seen.clear()
    cordon.hear(told, fleet.context())
    assert fleet.writes() == []  # it is known by now
    fleet.cluster.apply(build_node("n9", provider_id=f"aws:///us-east-1a/{machine}"))
    fleet.pass_time(timedelta(minutes=6))
    fleet.resync()
    assert fleet.record("n9").open[0].deadline == NOW + timedelta(days=5)


def test_two_messages_of_one_code_about_a_machine_are_both_waited_for(fleet: Fleet) -> None:
    for number in "12":
        fleet.handle(retirement([{"entityValue": "i-0abcdef0123456789"}], number))
    assert len(_ledgers(fleet)[""].pending) == 2


def test_an_event_that_was_waited_for_is_taken_up_by_the_nodes_add_event() -> None:
    fleet = Fleet()
    fleet.resync()
    fleet.handle(spot("i-0abcdef0123456789"))
    fleet.cluster.apply(build_node("n9", provider_id="aws:///us-east-1a/i-0abcdef0123456789"))
    fleet.handle(fleet.update(fleet.node("n9"), "add"))
    assert fleet.cordoned() == ["n9"]
    assert not _ledgers(fleet)[""].pending


def test_a_stamped_node_is_found_without_reading_all_of_them(fleet: Fleet) -> None:
    fleet.handle(spot(instance_of(fleet)))
    assert fleet.cordoned() == ["n0"]
    lists = [one for one in fleet.cluster.requests("list") if one.path == "/api/v1/nodes"]
    assert len(lists) == 1  # by stamp; the ledgers know that there is room


def test_machines_that_all_nodes_were_read_for_make_room_for_others(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account's spot storm must not keep the word about our own new machine from being kept."""
    monkeypatch.setattr("functions.steps.carry_out.MOST_PENDING", 3)
    for number in range(3):
        fleet.handle(spot(f"i-{number:017x}"))
    fleet.pass_time(timedelta(minutes=1))
    fleet.resync()
    outcome = fleet.handle(spot("i-0abcdef0123456789"))
    assert "kept in case it registers" in outcome.decisions[0].reason
    kept = _ledgers(fleet)[""].pending
    assert {key.partition("/")[0] for key in kept} == {
        f"i-{1:017x}",
        f"i-{2:017x}",
        "i-0abcdef0123456789",
    }


def test_of_more_machines_than_can_be_waited_for_it_is_not_said_that_they_are(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functions.steps.carry_out.MOST_PENDING", 2)
    fleet.pass_time(timedelta(minutes=1))
    outcome = fleet.handle(retirement([{"entityValue": f"i-{n:017x}"} for n in range(3)]))
    said = [d.reason.partition("; ")[0].partition(", and ")[2] for d in outcome.decisions]
    assert said == ["", "", "too many are waited for already"]


class TestUnknownMachines:
    """An account holds many machines that are none of the cluster's, and its events name them."""

    @pytest.fixture
    def full_reads(self, monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
        """A line for each read of all nodes."""
        reads: list[datetime] = []
        original = Cluster.list_nodes

        def counting(cluster: Cluster, selector: str = "") -> Any:
            if not selector:
                reads.append(NOW)
            return original(cluster, selector)

        monkeypatch.setattr(Cluster, "list_nodes", counting)
        return reads

    def test_all_nodes_are_read_for_them_once_a_minute_at_most(
        self, fleet: Fleet, full_reads: list[datetime]
    ) -> None:
        fleet.pass_time(timedelta(minutes=1))
        for number in range(20):
            fleet.handle(spot(f"i-{number:017x}"))
            fleet.pass_time(timedelta(seconds=2))
        assert len(full_reads) == 1
        fleet.pass_time(timedelta(minutes=1))
        fleet.handle(spot("i-0abcdef0123456789"))
        assert len(full_reads) == 2

    def test_one_of_ours_without_a_stamp_is_found_by_the_next_resync(
        self, fleet: Fleet, full_reads: list[datetime]
    ) -> None:
        fleet.handle(spot("i-0abcdef0123456789"))
        fleet.cluster.apply(build_node("n9", provider_id="aws:///us-east-1a/i-0new"))
        fleet.pass_time(timedelta(seconds=5))
        fleet.handle(spot("i-0123456789abcdef0"))
        fleet.cluster.apply(build_node("n8", provider_id="aws:///us-east-1a/i-0123456789abcdef0"))
        full_reads.clear()
        fleet.resync()
        assert fleet.cordoned() == ["n8"]
        assert len(full_reads) == 1
        full_reads.clear()
        fleet.pass_time(timedelta(minutes=1))
        fleet.resync()
        assert len(full_reads) == 0


def test_five_hundred_entities_in_one_event_cost_one_read_and_harm_nobody(fleet: Fleet) -> None:
    entities = [{"entityValue": f"i-{n:017x}", "status": "PENDING"} for n in range(499)]
    entities.append({"entityValue": instance_of(fleet), "status": "PENDING"})
    fleet.handle(retirement(entities))
    assert fleet.cordoned() == ["n0"]
    assert len(fleet.cluster.requests("list")) <= 10


def _at(node: Any, kind: str, moment: str) -> Any:
    """The node with that time of transition on the condition, as another clock would write it."""
    for condition in node["status"]["conditions"]:
        if condition["type"] == kind:
            condition["lastTransitionTime"] = moment
    return node


class TestReadLive:
    """The cluster as read now decides; the event is a hint."""

    RUNTIME = "ContainerRuntimeUnhealthy"

    def runtime(self, fleet: Fleet, status: str, moment: str = "") -> Any:
        node = fleet.condition("n0", self.RUNTIME, status, "ContainerdUnhealthy")
        if moment:
            fleet.cluster.apply(
                {"apiVersion": "v1", "kind": "Node"} | _at(node, self.RUNTIME, moment)
            )
        return fleet.node()

    def test_a_late_event_does_not_cordon_a_node_that_is_well_again(self, fleet: Fleet) -> None:
        late = fleet.update(self.runtime(fleet, "True"))
        self.runtime(fleet, "False")
        outcome = fleet.handle(late)
        assert fleet.cordoned() == []
        assert "no longer says" in outcome.decisions[0].reason
        assert fleet.writes() == []

    def test_one_that_the_node_still_says_is_not_called_late(self, fleet: Fleet) -> None:
        outcome = fleet.handle(fleet.update(self.runtime(fleet, "True")))
        assert [d.action for d in outcome.decisions] == ["open", "cordon"]

    def test_but_where_its_source_cannot_clear_the_fault_was_there(self, fleet: Fleet) -> None:
        late = fleet.sick()
        fleet.condition("n0", "AcceleratedHardwareReady", "True", "Restarted")
        fleet.handle(late)
        assert fleet.cordoned() == ["n0"]

    def test_so_it_was_beside_another_that_stands(self, fleet: Fleet) -> None:
        late = fleet.sick()
        fleet.condition("n0", "AcceleratedHardwareReady", "True", "Restarted")
        self.runtime(fleet, "True")
        fleet.handle(late)
        assert len(fleet.record().open) == 2

    def test_a_late_event_that_all_is_well_writes_nothing_on_a_node_that_is_sick(
        self, fleet: Fleet
    ) -> None:
        sick = fleet.sick()
        fleet.handle(sick)
        well = json.loads(json.dumps(fleet.node()))
        for condition in well["status"]["conditions"]:
            if condition["type"] == "AcceleratedHardwareReady":
                condition["status"] = "True"
        fleet.cluster.seen.clear()
        fleet.pass_time(timedelta(minutes=1))
        fleet.handle(fleet.update(well))
        assert fleet.writes() == []

    def test_an_event_that_says_less_than_the_node_does_is_not_the_last_word(
        self, fleet: Fleet
    ) -> None:
        well = fleet.update(fleet.node(), "add")
        self.runtime(fleet, "True")
        fleet.handle(well)
        assert fleet.cordoned() == ["n0"]

    def test_what_is_taken_back_by_a_clock_behind_ours_is_taken_back(self, fleet: Fleet) -> None:
        fleet.handle(fleet.update(self.runtime(fleet, "True")))
        assert fleet.cordoned() == ["n0"]
        fleet.pass_time(timedelta(minutes=1))
        self.runtime(fleet, "False", "2026-03-02T08:59:50Z")
        fleet.resync()
        fleet.pass_time(timedelta(minutes=16))
        fleet.resync()
        assert fleet.cordoned() == []

    def test_a_late_word_does_not_release_a_node_that_says_it_is_sick(self, fleet: Fleet) -> None:
        sick = self.runtime(fleet, "True")
        fleet.handle(fleet.update(sick))
        well = json.loads(json.dumps(fleet.node()))
        for condition in well["status"]["conditions"]:
            if condition["type"] == self.RUNTIME:
                condition["status"] = "False"
        for _ in range(20):
            fleet.pass_time(timedelta(minutes=1))
            fleet.handle(fleet.update(well))
            fleet.resync()
        assert fleet.cordoned() == ["n0"]
        assert fleet.record().open[0].claimed is None

    def test_a_fault_within_the_second_in_which_it_was_taken_back_is_heard(
        self, fleet: Fleet
    ) -> None:
        for status in ("True", "False", "True"):
            self.runtime(fleet, status, "2026-03-02T09:00:00Z")
            fleet.handle(fleet.update(fleet.node()))
        fleet.pass_time(timedelta(minutes=16))
        fleet.resync()
        assert fleet.cordoned() == ["n0"]

    def test_a_reboot_frees_a_node_whose_agents_start_after_the_kubelet(self, fleet: Fleet) -> None:
        dcgm = ("AcceleratedHardwareReady", "False", "DCGMError")
        fleet.handle(fleet.update(fleet.condition("n0", *dcgm)))
        assert fleet.cordoned() == ["n0"]
        fleet.pass_time(timedelta(minutes=1))
        node = fleet.node()
        node["status"]["nodeInfo"]["bootID"] = "another"
        fleet.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
        fleet.handle(fleet.update(fleet.node()))
        fleet.pass_time(timedelta(minutes=1))
        fleet.handle(fleet.update(fleet.condition("n0", dcgm[0], "True", "Started")))
        fleet.pass_time(timedelta(minutes=14))
        fleet.resync()
        assert fleet.cordoned() == ["n0"]
        fleet.pass_time(timedelta(minutes=1))
        fleet.resync()
        assert fleet.cordoned() == []

    def test_not_while_its_agent_still_says_it(self, fleet: Fleet) -> None:
        fleet.handle(fleet.update(fleet.condition("n0", "KernelReady", "False", "ForkFailed")))
        node = fleet.node()
        node["status"]["nodeInfo"]["bootID"] = "another"
        fleet.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
        for _ in range(4):
            fleet.pass_time(timedelta(minutes=10))
            fleet.resync()
        assert fleet.cordoned() == ["n0"]


class TestIdentity:
    def test_a_cordon_stays_ours_when_the_cloud_fills_the_provider_id_in(
        self, fleet: Fleet
    ) -> None:
        bare = build_node("n9")
        provider_id = bare["spec"].pop("providerID")
        fleet.cluster.apply(bare)
        fleet.handle(fleet.sick("n9"))
        assert fleet.record("n9").cordoned_by_us
        node = fleet.node("n9")
        node["spec"]["providerID"] = provider_id
        fleet.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
        first = fleet.record("n9").open[0].first
        fleet.pass_time(timedelta(minutes=1))
        fleet.resync()
        assert fleet.record("n9").cordoned_by_us
        assert fleet.record("n9").machine == provider_id
        assert fleet.record("n9").open[0].first == first

    def test_a_new_node_without_a_provider_id_is_not_the_machine_of_an_old_event(
        self, fleet: Fleet
    ) -> None:
        event = fleet.sick()
        fleet.cluster.delete("Node", "", "n0")
        bare = build_node("n0")
        del bare["spec"]["providerID"]
        fleet.cluster.apply(bare)
        outcome = fleet.handle(event)
        assert "made anew" in outcome.decisions[0].reason
        assert fleet.cordoned() == []

    def test_a_machine_that_comes_back_in_another_pool_inherits(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        fleet.cluster.delete("Node", "", "n0")
        fleet.cluster.apply(build_node("n0", pool="other"))
        fleet.handle(fleet.update(fleet.node(), "add"))
        fleet.pass_time(timedelta(minutes=6))
        fleet.resync()
        assert fleet.cordoned() == ["n0"]
        ledgers = _ledgers(fleet)
        assert not ledgers["gpu"].machines
        assert len(ledgers["other"].machines) == 1

    def test_a_node_back_under_its_name_as_another_machine_is_not_touched(
        self, fleet: Fleet
    ) -> None:
        event = fleet.sick()
        fleet.cluster.delete("Node", "", "n0")
        fleet.cluster.apply(build_node("n0", provider_id="aws:///us-east-1a/i-0new"))
        outcome = fleet.handle(event)
        assert "another machine" in outcome.decisions[0].reason
        assert fleet.cordoned() == []

    def test_a_node_back_under_another_uid_as_the_same_machine_inherits(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        first = fleet.record().open[0].first
        fleet.cluster.delete("Node", "", "n0")
        fleet.pass_time(timedelta(minutes=4))
        fleet.cluster.apply(build_node("n0", now=fleet.clock.now()))
        fleet.handle(fleet.update(fleet.node(), "add"))
        assert fleet.cordoned() == ["n0"]
        assert fleet.record().open[0].first == first

    def test_even_when_its_add_event_is_lost(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        fleet.cluster.delete("Node", "", "n0")
        fleet.pass_time(timedelta(minutes=6))
        fleet.cluster.apply(build_node("n0", now=fleet.clock.now()))
        fleet.resync()
        assert fleet.cordoned() == ["n0"]


class TestAnnotation:
    @pytest.mark.parametrize("text", ["", "}{", '{"v":1,"incidents":3}', "x" * 200_000])
    def test_garbled_it_is_restored_from_the_ledger(self, fleet: Fleet, text: str) -> None:
        fleet.handle(fleet.sick())
        whole = fleet.record()
        fleet.change("n0", annotations={keys.INCIDENTS: text})
        fleet.resync()
        assert fleet.record().open == whole.open
        assert fleet.record().cordoned_by_us

    def test_garbled_where_nobody_remembers_it_nothing_is_done_and_it_is_said(
        self, fleet: Fleet
    ) -> None:
        fleet.change("n0", annotations={keys.INCIDENTS: "}{"})
        outcome = fleet.handle(fleet.sick())
        assert fleet.cordoned() == []
        assert "kubectl annotate node n0 groundcrew.dev/incidents-" in outcome.decisions[0].reason

    @pytest.mark.parametrize("time", ["2026-03-02T09:00:00", "0001-01-01T00:00:00Z"])
    def test_one_that_anybody_wrote_there_does_not_end_the_reading_of_the_fleet(
        self, fleet: Fleet, time: str
    ) -> None:
        """A kubelet may annotate its own Node."""
        incident = {"source": "s", "check": "c", "kind": "maintenance", "severity": "cordon"}
        text = {"v": 1, "incidents": [incident | {"first": time, "last": time, "deadline": time}]}
        fleet.change("n0", annotations={keys.INCIDENTS: json.dumps(text)})
        fleet.condition("n1", *XID_79)
        fleet.pass_time(timedelta(minutes=6))
        fleet.resync()
        assert fleet.cordoned() == ["n1"]

    def test_of_a_newer_version_its_unknown_fields_stay(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        newer = json.loads(incidents.encode(fleet.record())) | {"v": 7, "ladder": ["reset"]}
        fleet.change("n0", annotations={keys.INCIDENTS: json.dumps(newer)})
        fleet.handle(fleet.update(fleet.condition("n0", "KernelDeadlock", "True", "DockerHung")))
        after = json.loads(fleet.node()["metadata"]["annotations"][keys.INCIDENTS])
        assert after["v"] == 7
        assert after["ladder"] == ["reset"]
        assert len(after["incidents"]) == 2


class TestSomebodyElse:
    def test_cordons_between_our_read_and_our_patch(self, fleet: Fleet) -> None:
        def human(call: Any) -> None:
            node = fleet.node()
            node["spec"]["unschedulable"] = True
            fleet.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)

        event = fleet.sick()
        fleet.cluster.faults.before("patch", "nodes/n0", human)
        fleet.handle(event)
        assert fleet.record().cordon is not None
        assert fleet.record().cordon.theirs

    def test_uncordons_between_our_read_and_our_patch(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())

        def human(call: Any) -> None:
            node = fleet.node()
            node["spec"].pop("unschedulable", None)
            fleet.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)

        worse = fleet.update(fleet.condition("n0", "KernelDeadlock", "True", "DockerHung"))
        fleet.cluster.faults.before("patch", "nodes/n0", human)
        fleet.handle(worse)
        first = [i for i in fleet.record().incidents if i.check == "AcceleratedHardwareReady"]
        assert first[0].state == "dismissed"

    def test_deletes_the_node_between_our_read_and_our_patch(self, fleet: Fleet) -> None:
        event = fleet.sick()
        fleet.cluster.faults.before(
            "patch", "nodes/n0", lambda call: fleet.cluster.delete("Node", "", "n0")
        )
        assert fleet.handle(event).answer is None

    def test_is_another_instance_of_us_that_was_faster(self, fleet: Fleet) -> None:
        event = fleet.sick()
        fleet.cluster.faults.before("patch", "nodes/n0", lambda call: fleet.handle(event))
        fleet.handle(event)
        assert fleet.cordoned() == ["n0"]
        assert len(fleet.record().incidents) == 1
        reservations = [
            m for led in _ledgers(fleet).values() for m in led.reservations if m.endswith("n0")
        ]
        assert len(set(reservations)) <= 1


def _ledgers(fleet: Fleet) -> dict[str, Any]:
    return dict(active.read(fleet.context().cluster, NAMESPACE).ledgers)


COUNTED = """version: 1
budget: {pool: 100%, cluster: 100%, domains: [{label: a-rack, share: 100%}]}
breaker: {share: 100%}
"""
"""With a share of failure domains the nodes out of service are counted each time."""
VERBS = [
    ("get", "nodes/n0"),
    ("list", "configmaps"),
    ("list", "/api/v1/nodes$"),
    ("patch", "configmaps"),
    ("patch", "nodes/n0"),
]


class TestApiServer:
    @pytest.mark.parametrize(("verb", "path"), VERBS)
    @pytest.mark.parametrize("status", [429, 500, 503, 504])
    def test_errors_on_every_verb_in_turn_end_in_a_retry_that_succeeds(
        self, fleet: Fleet, verb: str, path: str, status: int
    ) -> None:
        fleet.policy(COUNTED)
        event = fleet.sick()
        fleet.cluster.faults.fail(verb, path, status)
        with pytest.raises((errors.ServerError, errors.TooManyRequests)):
            fleet.handle(event)
        fleet.handle(event)
        assert fleet.cordoned() == ["n0"]
        assert len(fleet.record().incidents) == 1

    @pytest.mark.parametrize(("verb", "path"), VERBS)
    @pytest.mark.parametrize("carried_out", [False, True])
    def test_an_answer_that_is_lost_does_no_harm_whether_it_was_carried_out_or_not(
        self, fleet: Fleet, verb: str, path: str, carried_out: bool
    ) -> None:
        fleet.policy(COUNTED)
        event = fleet.sick()
        fleet.cluster.faults.drop(verb, path, carried_out=carried_out)
        with pytest.raises(errors.Unreachable):
            fleet.handle(event)
        fleet.handle(event)
        assert fleet.cordoned() == ["n0"]
        assert len(fleet.record().incidents) == 1
        assert fleet.record().cordoned_by_us

    def test_events_that_cannot_be_written_hold_nothing_up(self, fleet: Fleet) -> None:
        event = fleet.sick()
        fleet.cluster.faults.fail("create", "events", 403, times=5)
        fleet.handle(event)
        assert fleet.cordoned() == ["n0"]

    def test_a_refused_patch_is_an_error_and_never_called_success(self, fleet: Fleet) -> None:
        event = fleet.sick()
        fleet.cluster.faults.fail("patch", "nodes/n0", 403, reason="Forbidden")
        with pytest.raises(errors.Forbidden):
            fleet.handle(event)

    def test_so_is_one_that_is_refused_as_a_failed_test_would_be(self, fleet: Fleet) -> None:
        """An admission policy answers 422, and nobody has changed the node."""
        event = fleet.sick()
        fleet.cluster.faults.fail("patch", "nodes/n0", 422, reason="Invalid", times=99)
        with pytest.raises(errors.TestFailed):
            fleet.handle(event)
        assert len(fleet.cluster.requests("patch", "nodes/n0")) == 1

    def test_what_fails_for_one_node_of_a_batch_does_not_lose_the_others(
        self, fleet: Fleet
    ) -> None:
        for name in ("n0", "n1", "n2"):
            fleet.condition(name, *XID_79)
        fleet.pass_time(timedelta(minutes=6))
        fleet.cluster.faults.fail("patch", "nodes/n1", 500)
        with pytest.raises(errors.ServerError):
            fleet.resync()
        fleet.resync()
        fleet.pass_time(timedelta(minutes=6))
        fleet.resync()
        assert fleet.cordoned() == ["n0", "n1", "n2"]


class TestLedger:
    def test_without_one_the_resync_makes_it_and_acts(self) -> None:
        fleet = Fleet()
        held = fleet.handle(fleet.sick())
        assert fleet.cordoned() == []
        assert any("resync" in d.reason for d in held.decisions)
        fleet.resync()
        assert fleet.cordoned() == ["n0"]

    def test_what_a_full_read_cordons_is_reserved_in_both(self, fleet: Fleet) -> None:
        fleet.condition("n0", *XID_79)
        fleet.pass_time(timedelta(minutes=6))
        fleet.resync()
        assert fleet.cordoned() == ["n0"]
        ledgers = _ledgers(fleet)
        assert ledgers[""].reservations.keys() == ledgers["gpu"].reservations.keys() != set()

    def test_one_that_only_keeps_a_notice_is_no_ledger_to_act_by(self) -> None:
        fleet = Fleet()
        fleet.handle(spot("i-0abcdef0123456789"))
        held = fleet.handle(fleet.sick())
        assert any("resync" in d.reason for d in held.decisions)
        fleet.resync()
        assert fleet.cordoned() == ["n0"]

    def test_all_nodes_are_read_each_five_minutes_and_written_only_when_new(
        self, fleet: Fleet
    ) -> None:
        fleet.pass_time(timedelta(minutes=4))
        assert fleet.resync().reads_all_again is None
        assert fleet.writes() == []
        fleet.pass_time(timedelta(minutes=1))
        outcome = fleet.resync()
        assert outcome.reads_all_again == fleet.clock.now() + timedelta(minutes=5)
        assert not [w for w in fleet.writes() if "/nodes/" in w]

    def test_damaged_it_is_made_anew_from_the_nodes(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        for found in fleet.cluster.all("ConfigMap", NAMESPACE):
            if found["metadata"]["labels"].get(keys.PART) == "ledger":
                pool = found["data"]["pool"]
                fleet.config_map(found["metadata"]["name"], {"pool": pool, "ledger": "{"}, "ledger")
        fleet.handle(fleet.sick("n1"))
        assert fleet.cordoned() == ["n0"]
        fleet.resync()
        assert fleet.cordoned() == ["n0", "n1"]
        assert set(_ledgers(fleet)) == {"", "gpu"}

    def test_the_budget_holds_over_resyncs(self, fleet: Fleet) -> None:
        fleet.policy(
            "version: 1\nbudget: {pool: 30%, cluster: 100%}\n"
            "breaker: {share: 100%, day_share: 100%}"
        )
        for number in range(10):
            fleet.condition(f"n{number}", *XID_79)
        for _ in range(20):
            fleet.pass_time(timedelta(minutes=3))
            fleet.resync()
            assert len(fleet.cordoned()) <= 3
        assert len(fleet.cordoned()) == 3

    def test_a_node_that_somebody_uncordoned_holds_no_place_for_itself(self, fleet: Fleet) -> None:
        fleet.policy(
            "version: 1\nbudget: {pool: 10%, cluster: 100%}\n"
            "breaker: {share: 100%, day_share: 100%}"
        )
        bad = ("AcceleratedHardwareReady", "False")
        fleet.handle(fleet.update(fleet.condition("n0", *bad, "DCGMError")))
        assert fleet.cordoned() == ["n0"]
        fleet.set_cordon("n1", True)
        fleet.pass_time(timedelta(minutes=6))
        fleet.resync()
        fleet.set_cordon("n0", False)
        fleet.condition("n0", *bad, "NvidiaDoubleBitError")
        fleet.resync()
        assert fleet.record().open[0].severity == "evict"
        assert fleet.cordoned() == ["n1"]


class TestPolicy:
    def test_one_that_was_changed_by_hand_stops_every_act_and_says_so(self, fleet: Fleet) -> None:
        data = active.policy_data(policy.default(), "a test") | {"policy.json": '{"version":1}'}
        fleet.config_map(active.POLICY_NAME, data, "policy")
        outcome = fleet.handle(fleet.sick())
        assert fleet.cordoned() == []
        assert any("groundcrew policy apply" in d.reason for d in outcome.decisions)

    def test_an_unreadable_pause_is_a_pause(self, fleet: Fleet) -> None:
        fleet.config_map(active.PAUSE_NAME, {"cluster": "tomorrow"}, "pause")
        outcome = fleet.handle(fleet.sick())
        assert fleet.cordoned() == []
        assert any("groundcrew resume" in d.reason for d in outcome.decisions)

    def test_a_pause_of_another_pool_stops_nothing_here(self, fleet: Fleet) -> None:
        until = {"until": "2026-03-09T00:00:00Z", "reason": "upgrade"}
        fleet.config_map(active.PAUSE_NAME, {"pool.other": json.dumps(until)}, "pause")
        fleet.handle(fleet.sick())
        assert fleet.cordoned() == ["n0"]


def test_past_its_time_a_call_leaves_the_rest_to_the_resync() -> None:
    fleet = Fleet(seconds=1.0)
    fleet.resync()
    event = spot(instance_of(fleet))
    fleet.cluster.faults.before("patch", "configmaps", lambda call: fleet.clock.sleep(2))
    fleet.handle(event)
    assert fleet.cordoned() == []
    fleet.resync()
    assert fleet.cordoned() == ["n0"]


@pytest.mark.parametrize("marked", [False, True])
def test_a_reading_that_takes_all_the_time_of_a_call_comes_to_something_all_the_same(
    marked: bool,
) -> None:
    """7,500 nodes from a busy API server: else what no event told would never be acted on."""
    fleet = Fleet()
    fleet.resync()
    fleet.sick()
    fleet.pass_time(timedelta(minutes=6))
    if marked:
        fleet.change("n0", labels=fleet.node()["metadata"]["labels"] | {keys.STATE: "watch"})
    fleet.cluster.faults.before("list", "/api/v1/nodes", lambda call: fleet.clock.sleep(5))
    fleet.resync()
    assert fleet.cordoned() == ["n0"]


def test_what_was_said_of_a_node_by_its_name_is_left_to_it_too() -> None:
    fleet = Fleet(seconds=1.0)
    fleet.resync()
    fleet.cluster.faults.before("patch", "configmaps", lambda call: fleet.clock.sleep(2))
    cordon.hear(
        [fault("HighTemp", source="alertmanager", identity=Identity(node="n0"))], fleet.context()
    )
    assert fleet.cordoned() == []
    fleet.resync()
    assert fleet.cordoned() == ["n0"]


def test_a_whole_recovery_from_fault_to_back_in_service(fleet: Fleet) -> None:
    fleet.handle(fleet.update(fleet.condition("n0", "KernelDeadlock", "True", "DockerHung")))
    assert fleet.cordoned() == ["n0"]
    node = fleet.condition("n0", "KernelDeadlock", "False", "KernelHasNoDeadlock")
    node["status"]["nodeInfo"]["bootID"] = "another"
    fleet.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
    fleet.resync()
    assert fleet.cordoned() == ["n0"]
    fleet.pass_time(timedelta(minutes=16))
    outcome = fleet.resync()
    assert fleet.cordoned() == []
    assert outcome.answer is not None
    assert outcome.answer.type == "dev.groundcrew.nodes.released"
    assert outcome.answer.data == {"nodes": [{"node": "n0"}]}
    labels = fleet.node()["metadata"]["labels"]
    assert labels[keys.STATE] == "released"
    assert keys.EXCLUDE_FROM_LOAD_BALANCERS not in labels
    fleet.pass_time(timedelta(days=8))
    fleet.resync()
    assert keys.STATE not in fleet.node()["metadata"]["labels"]
    assert keys.INCIDENTS not in fleet.node()["metadata"]["annotations"]


def test_a_decision_can_be_written_as_json(fleet: Fleet) -> None:
    outcome = fleet.handle(fleet.sick())
    for decision in outcome.decisions:
        assert json.loads(msgspec.json.encode(decision))["node"] == "n0"


def _contend(fleet: Fleet, times: int, go_on: Callable[[], bool] = lambda: True) -> None:
    """Another instance writes a ledger just before each of our next ``times`` writes of one."""

    def other(call: Any) -> None:
        if not go_on():
            return
        for found in fleet.cluster.all("ConfigMap", NAMESPACE):
            if found["metadata"]["labels"].get(keys.PART) == "ledger":
                found["metadata"].setdefault("annotations", {})["other"] = str(
                    fleet.cluster.resource_version
                )
                fleet.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap"} | found)
        fleet.clock.sleep(0.2)

    fleet.cluster.faults.before("patch", "configmaps", other, times=times)


class TestContention:
    """Many instances at one ledger: an event may wait, and is never lost without a word."""

    @pytest.mark.parametrize("races", [1, 5, 20, 21, 22, 23, 24, 25])
    def test_races_that_end_lose_nothing(self, races: int) -> None:
        fleet = Fleet()
        fleet.resync()
        event = spot(instance_of(fleet))
        _contend(fleet, races)
        try:
            fleet.handle(event)
        except errors.Contended:
            fleet.cluster.faults.clear()
            fleet.handle(event)  # the broker's second delivery
        fleet.resync()
        assert fleet.cordoned() == ["n0"]

    def test_a_race_that_does_not_end_is_told_to_the_sender_who_tries_again(self) -> None:
        fleet = Fleet()
        fleet.resync()
        _contend(fleet, 10_000)
        with pytest.raises(errors.Contended, match="neither done nor kept"):
            fleet.handle(spot(instance_of(fleet)))
        assert fleet.cordoned() == []

    def test_the_edge_answers_it_with_503(self) -> None:
        fleet = Fleet()
        fleet.resync()
        _contend(fleet, 10_000)
        function = Function(
            "cordon",
            cordon.handle,
            lambda: Cluster(EmbeddedTransport(fleet.cluster, fleet.clock.waited)),
            fleet.clock,
            Settings(namespace=NAMESPACE, parallel=1),
        )
        reply = function([spot(instance_of(fleet))])
        assert reply.status == 503
        assert reply.retry_after_seconds

    def test_one_about_a_machine_that_nobody_knows_is_not_lost_either(self) -> None:
        fleet = Fleet()
        fleet.resync()
        fleet.pass_time(timedelta(minutes=2))
        _contend(fleet, 10_000)
        with pytest.raises(errors.Contended):
            fleet.handle(spot("i-0abcdef0123456789"))

    def test_what_is_waited_for_is_still_there_after_a_crash_before_the_patch(self) -> None:
        fleet = Fleet()
        fleet.resync()
        fleet.handle(spot("i-0abcdef0123456789"))
        fleet.cluster.apply(build_node("n9", provider_id="aws:///us-east-1a/i-0abcdef0123456789"))
        fleet.cluster.faults.drop("patch", "nodes/n9")
        added = fleet.update(fleet.node("n9"), "add")
        with pytest.raises(errors.Unreachable):
            fleet.handle(added)
        assert fleet.cordoned() == []
        assert _ledgers(fleet)[""].pending
        fleet.handle(added)  # the broker's second delivery
        assert fleet.cordoned() == ["n9"]
        assert not _ledgers(fleet)[""].pending

    def test_calls_of_one_process_take_turns_at_the_ledgers(self) -> None:
        """Forty sick nodes in forty threads: every one is cordoned, and hardly a race is lost."""
        fleet = Fleet(size=40, seconds=60)  # to wait for a turn takes real time
        fleet.resync()
        events = [spot(instance_of(fleet, f"n{n}")) for n in range(40)]
        fleet.cluster.seen.clear()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(fleet.handle, events))
        assert len(fleet.cordoned()) == 40
        lost = [s for s in fleet.cluster.requests("patch", "configmaps") if s.status == 422]
        assert len(lost) <= 4


def _room_for(fleet: Fleet, nodes: int) -> None:
    share = f"{100 * nodes // fleet.size}%"
    fleet.policy(
        f"version: 1\nbudget: {{pool: {share}, cluster: {share}}}\n"
        "breaker: {share: 100%, day_share: 100%}"
    )


def _change_ledgers(fleet: Fleet, **fields: Any) -> None:
    """As a ledger that forgot what it knew."""
    read = active.read(fleet.context().cluster, NAMESPACE)
    for pool, known in read.ledgers.items():
        new = msgspec.structs.replace(known, **fields)
        read = active.write_ledger(fleet.context().cluster, NAMESPACE, read, pool, new)


def _machine(fleet: Fleet, name: str) -> str:
    return str(fleet.node(name)["spec"]["providerID"])


def _cordon_and_prove_well(fleet: Fleet, name: str) -> None:
    """Out of service, and to be released by the next resync."""
    fleet.handle(fleet.update(fleet.condition(name, "KernelDeadlock", "True", "DockerHung")))
    assert fleet.cordoned() == [name]
    node = fleet.condition(name, "KernelDeadlock", "False", "KernelHasNoDeadlock")
    node["status"]["nodeInfo"]["bootID"] = "another"
    fleet.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
    fleet.resync()
    fleet.pass_time(timedelta(minutes=16))


def _change_machines(fleet: Fleet, **fields: Any) -> None:
    read = active.read(fleet.context().cluster, NAMESPACE)
    for pool, known in read.pools.items():
        changed = {m: msgspec.structs.replace(e, **fields) for m, e in known.machines.items()}
        new = msgspec.structs.replace(known, machines=changed)
        read = active.write_ledger(fleet.context().cluster, NAMESPACE, read, pool, new)


class TestCounting:
    """What is out of service is read from the nodes only where the ledgers leave no room."""

    def test_with_room_for_all_that_is_remembered_no_nodes_are_listed(self, fleet: Fleet) -> None:
        for name in ("n0", "n1", "n2"):
            fleet.handle(fleet.sick(name))
        assert fleet.cordoned() == ["n0", "n1", "n2"]
        assert not [r for r in fleet.cluster.requests("list") if r.path == "/api/v1/nodes"]

    def test_what_was_cordoned_long_ago_takes_its_room(self, fleet: Fleet) -> None:
        _room_for(fleet, 1)
        fleet.handle(fleet.sick("n1"))
        fleet.pass_time(timedelta(minutes=3))  # its reservation is over
        fleet.handle(fleet.sick("n0"))
        assert fleet.cordoned() == ["n1"]

    def test_what_the_ledger_remembers_too_much_takes_no_room(self, fleet: Fleet) -> None:
        _room_for(fleet, 1)
        fleet.handle(fleet.sick("n1"))
        fleet.set_cordon("n1", False)  # and nobody told us
        fleet.pass_time(timedelta(minutes=3))
        fleet.handle(fleet.sick("n0"))
        assert fleet.cordoned() == ["n0"]

    def test_nor_does_it_where_failure_domains_are_counted(self, fleet: Fleet) -> None:
        fleet.policy(
            "version: 1\nbudget: {pool: 10%, cluster: 10%, domains: [{label: "
            "topology.kubernetes.io/zone, share: 50%}]}\nbreaker: {share: 100%, day_share: 100%}"
        )
        fleet.handle(fleet.sick("n1"))
        fleet.set_cordon("n1", False)  # and nobody told us
        fleet.pass_time(timedelta(minutes=3))
        fleet.handle(fleet.sick("n0"))
        assert fleet.cordoned() == ["n0"]

    def test_a_release_that_was_never_patched_frees_no_room(self, fleet: Fleet) -> None:
        _room_for(fleet, 1)
        _cordon_and_prove_well(fleet, "n1")
        fleet.cluster.faults.drop("patch", "nodes/n1")
        with pytest.raises(errors.Unreachable):
            fleet.resync()
        fleet.handle(fleet.sick("n0"))
        assert fleet.cordoned() == ["n1"]
        fleet.resync()  # it is released now, and its place is free
        fleet.pass_time(timedelta(minutes=1))
        fleet.resync()
        assert fleet.cordoned() == ["n0"]

    def test_a_persons_cordon_that_outlasts_our_incident_keeps_its_room(self, fleet: Fleet) -> None:
        _room_for(fleet, 1)
        fleet.set_cordon("n1", True)
        _cordon_and_prove_well(fleet, "n1")
        fleet.resync()
        assert fleet.record("n1").cordon is None
        for _ in range(4):
            fleet.pass_time(timedelta(minutes=1))
            fleet.resync()
        fleet.handle(fleet.sick("n0"))
        assert fleet.cordoned() == ["n1"]

    def test_a_release_that_was_patched_leaves_the_ledger_at_rest(self, fleet: Fleet) -> None:
        _cordon_and_prove_well(fleet, "n1")
        fleet.resync()
        assert fleet.cordoned() == []
        fleet.resync()
        assert not _ledgers(fleet)["gpu"].machines[_machine(fleet, "n1")].cordoned
        fleet.cluster.seen.clear()
        fleet.resync()
        assert fleet.writes() == []

    def test_a_machine_that_is_gone_right_after_its_release_makes_no_tick_dearer(
        self, fleet: Fleet
    ) -> None:
        fleet.handle(fleet.update(fleet.condition("n0", "DiskPressure", "True", "Full")))
        fleet.handle(fleet.update(fleet.condition("n0", "DiskPressure", "False", "Room")))
        assert fleet.node()["metadata"]["labels"][keys.STATE] == "released"
        _cordon_and_prove_well(fleet, "n1")
        machine = _machine(fleet, "n1")
        fleet.resync()
        fleet.cluster.delete("nodes", "", "n1")
        read: Counter[str] = Counter()

        def tick() -> None:
            transport = NodesRead(EmbeddedTransport(fleet.cluster, fleet.clock.waited), read)
            settings = Settings(namespace=NAMESPACE, parallel=1)
            cordon.handle(ping(), Context(lambda: Cluster(transport), fleet.clock, settings))

        tick()
        assert read["n0"] == 1, "whoever was given back just now is looked at once more"
        fleet.pass_time(cordon.FULL_READ)
        fleet.resync()
        assert _ledgers(fleet)["gpu"].machines[machine].leaving
        read.clear()
        fleet.pass_time(timedelta(minutes=1))
        tick()
        assert not read

    def test_a_machine_that_was_never_patched_asks_anew(self, fleet: Fleet) -> None:
        """Its cordon is in the ledger and its reservation ran out: others have its place."""
        _room_for(fleet, 3)
        event = fleet.sick("n0")
        fleet.cluster.faults.drop("patch", "nodes/n0")
        with pytest.raises(errors.Unreachable):
            fleet.handle(event)
        fleet.pass_time(timedelta(minutes=3))
        for name in ("n1", "n2", "n3"):
            fleet.handle(fleet.sick(name))
        fleet.handle(event)
        assert fleet.cordoned() == ["n1", "n2", "n3"]

    def test_and_reserves_its_place_anew(self, fleet: Fleet) -> None:
        event = fleet.sick("n0")
        fleet.cluster.faults.drop("patch", "nodes/n0")
        with pytest.raises(errors.Unreachable):
            fleet.handle(event)
        fleet.pass_time(timedelta(minutes=3))
        fleet.handle(event)
        machine = fleet.node()["spec"]["providerID"]
        held = [led.reservations[machine].until for led in _ledgers(fleet).values()]
        assert min(held) > fleet.clock.now()

    def test_a_ledger_that_left_machines_out_for_space_is_not_counted_by(
        self, fleet: Fleet
    ) -> None:
        _room_for(fleet, 1)
        fleet.handle(fleet.sick("n1"))
        _change_ledgers(fleet, machines={}, reservations={}, forgot=True)
        fleet.handle(fleet.sick("n0"))
        assert fleet.cordoned() == ["n1"]

    def test_nor_is_one_whose_machines_were_not_all_remembered_anew(self, fleet: Fleet) -> None:
        """A reading of all nodes that loses every race writes what it read, and decides nothing."""
        _room_for(fleet, 1)
        fleet.handle(fleet.sick("n1"))
        _change_ledgers(fleet, machines={}, reservations={}, forgot=True)
        fleet.pass_time(timedelta(minutes=6))
        ends = fleet.clock.monotonic() + fleet.seconds
        _contend(fleet, 10_000, lambda: fleet.clock.monotonic() < ends)
        fleet.resync()
        assert _ledgers(fleet)["gpu"].rebuilt == fleet.clock.now()
        fleet.handle(fleet.sick("n0"))
        assert fleet.cordoned() == ["n1"]

    @pytest.mark.parametrize("lost", ["deleted", "garbled"])
    def test_where_another_pools_ledger_is_lost_the_cluster_is_not_counted_by_the_others(
        self, fleet: Fleet, lost: str
    ) -> None:
        """Its nodes are out of service all the same."""
        fleet.policy(
            "version: 1\nbudget: {pool: 100%, cluster: 10%}\n"
            "breaker: {share: 100%, day_share: 100%}"
        )
        fleet.cluster.apply(build_node("m0", pool="small", now=NOW))
        fleet.pass_time(timedelta(minutes=6))
        fleet.resync()
        fleet.handle(fleet.sick("m0"))
        assert fleet.node("m0")["spec"]["unschedulable"]
        fleet.pass_time(timedelta(minutes=3))  # its reservation is over
        name = active.ledger_name("small")
        if lost == "deleted":
            fleet.cluster.delete("ConfigMap", NAMESPACE, name)
        else:
            fleet.config_map(name, {"pool": "small", "ledger": "{"}, "ledger")
        fleet.handle(fleet.sick("n0"))
        assert fleet.cordoned() == []

    def test_until_all_nodes_were_read_again(self, fleet: Fleet) -> None:
        _change_ledgers(fleet, forgot=True)
        fleet.pass_time(timedelta(minutes=6))
        fleet.resync()
        assert not any(found.forgot for pool, found in _ledgers(fleet).items() if pool)

    def test_a_node_whose_annotation_nobody_can_read_takes_its_room(self, fleet: Fleet) -> None:
        _room_for(fleet, 1)
        fleet.handle(fleet.sick("n1"))
        fleet.change("n1", annotations={keys.INCIDENTS: "not json"})
        _change_ledgers(fleet, machines={}, reservations={})
        fleet.pass_time(timedelta(minutes=6))
        fleet.resync()
        fleet.handle(fleet.sick("n0"))
        assert fleet.cordoned() == ["n1"]


class TestAlreadyDone:
    """An event that shows itself that nothing is left to do asks the API server nothing."""

    @staticmethod
    def _asks(fleet: Fleet, event: CloudEvent) -> bool:
        fleet.cluster.seen.clear()
        fleet.handle(event)
        return bool(fleet.cluster.seen)

    def test_our_own_patch_comes_back_as_an_event_and_costs_nothing(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        assert not self._asks(fleet, fleet.update(fleet.node()))

    def test_good_words_about_a_node_that_was_given_back_cost_nothing(self, fleet: Fleet) -> None:
        _cordon_and_prove_well(fleet, "n0")
        fleet.resync()
        assert fleet.node()["metadata"]["labels"][keys.STATE] == "released"
        assert not self._asks(fleet, fleet.update(fleet.node()))

    def test_good_words_about_one_that_waits_for_drain_cost_nothing_and_its_last_word_settles_it(
        self, fleet: Fleet
    ) -> None:
        _cordon_and_prove_well(fleet, "n0")
        notes = fleet.node()["metadata"]["annotations"]
        fleet.change("n0", annotations=notes | {keys.DRAIN: "{}"})
        fleet.resync()
        assert fleet.node()["metadata"]["labels"][keys.STATE] == "returning"
        assert not self._asks(fleet, fleet.update(fleet.node()))
        notes = fleet.node()["metadata"]["annotations"]
        fleet.change("n0", annotations={k: v for k, v in notes.items() if k != keys.DRAIN})
        assert self._asks(fleet, fleet.update(fleet.node()))
        assert fleet.node()["metadata"]["labels"][keys.STATE] == "released"

    def test_a_drain_that_began_before_it_was_given_back_is_not_lost_sight_of(
        self, fleet: Fleet
    ) -> None:
        _cordon_and_prove_well(fleet, "n0")

        def drain_begins(call: Any) -> None:
            notes = fleet.node()["metadata"]["annotations"]
            fleet.change("n0", annotations=notes | {keys.DRAIN: "{}"})

        fleet.cluster.faults.before("patch", "nodes/n0", drain_begins)
        fleet.resync()
        assert fleet.cordoned() == []
        assert fleet.node()["metadata"]["labels"][keys.STATE] == "returning"

    def test_not_when_it_is_accused_again(self, fleet: Fleet) -> None:
        _cordon_and_prove_well(fleet, "n0")
        fleet.resync()
        again = fleet.condition("n0", "KernelDeadlock", "True", "DockerHung")
        assert self._asks(fleet, fleet.update(again))
        assert fleet.cordoned() == ["n0"]

    def test_not_where_only_the_node_was_sick_before(self, fleet: Fleet) -> None:
        event = fleet.sick()
        fleet.handle(event)
        assert self._asks(fleet, event)  # it shows a node that nothing was done about

    def test_not_when_something_more_is_said(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        more = fleet.condition("n0", "KernelDeadlock", "True", "DockerHung")
        assert self._asks(fleet, fleet.update(more))

    def test_not_when_it_is_taken_back(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        well = fleet.condition("n0", XID_79[0], "True", "AcceleratedHardwareIsReady")
        assert self._asks(fleet, fleet.update(well))

    def test_not_when_somebody_uncordoned_it(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        fleet.set_cordon("n0", False)
        fleet.handle(fleet.update(fleet.node()))
        assert fleet.record().incidents[0].state is incidents.State.DISMISSED

    def test_not_when_the_node_is_gone(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        assert self._asks(fleet, fleet.update(fleet.node(), "delete"))

    def test_not_when_it_was_deleted_and_made_anew(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        assert self._asks(fleet, fleet.update(fleet.node(), "add"))

    def test_not_when_our_annotation_was_damaged(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        fleet.change("n0", annotations={keys.INCIDENTS: "not json"})
        assert self._asks(fleet, fleet.update(fleet.node()))

    def test_not_while_it_is_held_back(self, fleet: Fleet) -> None:
        _room_for(fleet, 1)
        fleet.handle(fleet.sick("n1"))
        fleet.handle(fleet.sick("n0"))
        assert self._asks(fleet, fleet.update(fleet.node("n0")))

    def test_an_hour_later_it_is_seen_again(self, fleet: Fleet) -> None:
        fleet.handle(fleet.sick())
        fleet.pass_time(timedelta(hours=1, minutes=1))
        assert self._asks(fleet, fleet.update(fleet.node()))


class Waited(Together):
    """Every call has waited so many seconds for its turn."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def run(self, ask: Any, work: Any, seconds: float) -> Any:
        return super().run(ask, lambda asks, turn, _: work(asks, turn, self._seconds), seconds)


class TestStorm:
    @pytest.fixture
    def fleet(self) -> Fleet:
        """Its calls wait for their turn in real time, of which a busy machine may need much."""
        made = Fleet(seconds=60)
        made.resync()
        made.cluster.seen.clear()
        return made

    def _wait_for_calls(self, fleet: Fleet, calls: int) -> None:
        until = time.monotonic() + 60
        while fleet.together.waiting < calls:
            assert time.monotonic() < until
            time.sleep(0.001)

    def test_events_that_come_at_once_are_worked_on_together(self, fleet: Fleet) -> None:
        """Eight events while another call has its turn: one read, one reservation, one answer."""
        _room_for(fleet, 10)
        events = [fleet.sick(f"n{n}") for n in range(8)]
        fleet.cluster.seen.clear()
        turn = fleet.together.turn()
        assert turn.take(1)
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(fleet.handle, event) for event in events]
            self._wait_for_calls(fleet, 8)
            turn.leave()
            outcomes = [call.result() for call in calls]
        assert len(fleet.cordoned()) == 8
        assert len(fleet.cluster.requests("list", "configmaps")) == 1
        assert len(fleet.cluster.requests("patch", "configmaps")) == 2  # cluster and pool
        (answer,) = (outcome.answer for outcome in outcomes if outcome.answer)
        assert len(answer.data["nodes"]) == 8
        for number, outcome in enumerate(outcomes):
            about = {decision.node for decision in outcome.decisions}
            assert about == {f"n{number}"}

    def _together(self, fleet: Fleet, events: list[CloudEvent]) -> list[Future[Outcome]]:
        """One after another while another call has its turn, so that the first does all of them."""
        turn = fleet.together.turn()
        assert turn.take(1)
        with ThreadPoolExecutor(len(events)) as pool:
            calls = []
            for event in events:
                calls.append(pool.submit(fleet.handle, event))
                self._wait_for_calls(fleet, len(calls))
            turn.leave()
        return calls

    @pytest.mark.parametrize("status", [403, 500])
    def test_a_node_that_refuses_its_patch_is_the_trouble_of_its_own_event_alone(
        self, fleet: Fleet, status: int
    ) -> None:
        _room_for(fleet, 10)
        events = [fleet.sick(f"n{n}") for n in range(4)]
        fleet.cluster.faults.fail("patch", "nodes/n1", status, times=9)
        calls = self._together(fleet, events)
        assert fleet.cordoned() == ["n0", "n2", "n3"]
        assert isinstance(calls[1].exception(), errors.ApiError)
        outcomes = [calls[place].result() for place in (0, 2, 3)]
        (answer,) = (outcome.answer for outcome in outcomes if outcome.answer)
        assert {one["node"] for one in answer.data["nodes"]} == {"n0", "n2", "n3"}
        told = {e["involvedObject"]["name"] for e in fleet.cluster.all("Event", "default")}
        assert told == {"n0", "n2", "n3"}

    def test_what_can_be_kept_for_nobody_is_the_trouble_of_its_own_event_alone(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("functions.steps.carry_out.MOST_PENDING", 2)
        fleet.pass_time(timedelta(seconds=1))  # nobody has looked for them yet
        for number in range(2):
            fleet.handle(spot(f"i-{number:017x}"))
        calls = self._together(fleet, [fleet.sick(), spot("i-0abcdef0123456789")])
        assert calls[0].result().answer
        assert isinstance(calls[1].exception(), errors.Contended)
        assert fleet.cordoned() == ["n0"]

    def test_a_call_that_waited_for_its_turn_has_so_much_less_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Each wait between two attempts may overshoot the time: as much as between the bounds.
        monkeypatch.setattr("functions.steps.carry_out.random.uniform", lambda low, high: low)
        fleet = Fleet(seconds=4, together=Waited(3.8))
        fleet.resync()
        event = fleet.sick()
        _contend(fleet, 10_000)
        began = fleet.clock.monotonic()
        with pytest.raises(errors.Contended, match="neither done nor kept"):
            fleet.handle(event)
        # Half a second at least, and the second in which it tries to write down what is left.
        assert 1.5 <= fleet.clock.monotonic() - began < 2

    def test_a_node_that_two_of_them_are_about_is_told_of_once(self, fleet: Fleet) -> None:
        event = fleet.sick()
        turn = fleet.together.turn()
        assert turn.take(1)
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(fleet.handle, event) for _ in range(2)]
            self._wait_for_calls(fleet, 2)
            turn.leave()
            outcomes = [call.result() for call in calls]
        said = [d.action for outcome in outcomes for d in outcome.decisions]
        assert sorted(said) == ["cordon", "open"]
        assert len([outcome for outcome in outcomes if outcome.declined]) == 1

    @pytest.mark.parametrize("severity", ["evict", "watch"])
    def test_what_one_call_patches_does_not_hold_up_the_next_ones_reservation(
        self, fleet: Fleet, severity: str
    ) -> None:
        """A patch that hangs: the other node is cordoned meanwhile."""
        fleet.policy(
            f"version: 1\nseverity: [{{check: KernelDeadlock, severity: {severity}}}]\n"
            "budget: {pool: 100%, cluster: 100%}"
        )
        first = fleet.update(fleet.condition("n0", "KernelDeadlock", "True", "DockerHung"))
        second = fleet.sick("n1")
        go_on, hangs = threading.Event(), threading.Event()

        def hang(_: object) -> None:
            hangs.set()
            assert go_on.wait(60)

        def patch(request: Request) -> None:
            if request.path.endswith("/nodes/n0"):
                hang(request)

        inner = EmbeddedTransport(fleet.cluster, fleet.clock.waited)
        transport = Between(inner, "PATCH", "/nodes/", patch)
        slow = Context(
            lambda: Cluster(transport),
            fleet.clock,
            fleet.context().settings,
            together=fleet.together,
        )
        with ThreadPoolExecutor(2) as pool:
            call = pool.submit(cordon.handle, first, slow)
            assert hangs.wait(60)
            fleet.handle(second)
            assert fleet.cordoned() == ["n1"]
            go_on.set()
            call.result()
        assert fleet.record("n0").incidents


def test_a_read_of_all_nodes_has_the_next_events_find_theirs() -> None:
    """New nodes have no stamp yet, and all nodes are read once a minute only."""
    fleet = Fleet()
    for number in range(3):
        fleet.handle(spot(instance_of(fleet, f"n{number}")))
    assert fleet.cordoned() == ["n0", "n1", "n2"]


def test_that_many_are_cordoned_at_once_is_said_to_those_who_would_begin_with_them() -> None:
    fleet = Fleet(size=60)
    fleet.resync()

    def told(*names: str) -> Any:
        answer = cordon.handle_many([fleet.sick(name) for name in names], fleet.context())[0].answer
        assert answer is not None
        return answer.data

    assert "cordoned_lately" not in told(*(f"n{number}" for number in range(9)))
    assert told("n9")["cordoned_lately"] == 10
    fleet.pass_time(timedelta(seconds=5))
    assert "cordoned_lately" not in told("n10")
    _change_machines(fleet, seen=fleet.clock.now(), leaving=True)
    assert "cordoned_lately" not in told("n11")  # they are given back


def test_when_the_cloud_takes_the_machine_is_said_with_the_cordon(fleet: Fleet) -> None:
    answer = fleet.handle(spot(instance_of(fleet))).answer
    assert answer is not None
    [node] = answer.data["nodes"]
    [incident] = fleet.record().incidents
    assert node["deadline"] == incident.deadline


class TestEventsComeAfterTheAnswers:
    """They are half of the writes of a storm, and nobody waits for them."""

    def test_calls_that_were_taken_along_do_not_wait_for_them(self, fleet: Fleet) -> None:
        go_on = threading.Event()

        def hang(_: Request) -> None:
            assert go_on.wait(60)

        inner = EmbeddedTransport(fleet.cluster, fleet.clock.waited)
        transport = Between(inner, "POST", "/events", hang)
        settings = fleet.context().settings
        sick = [fleet.sick(f"n{number}") for number in range(3)]
        turn = fleet.together.turn()
        assert turn.take(1)
        with ThreadPoolExecutor(3) as pool:
            calls = [
                pool.submit(
                    cordon.handle,
                    event,
                    Context(
                        lambda: Cluster(transport), fleet.clock, settings, together=fleet.together
                    ),
                )
                for event in sick
            ]
            ends = time.monotonic() + 10
            while fleet.together.waiting < 3 and time.monotonic() < ends:
                time.sleep(0.001)
            turn.leave()
            while sum(call.done() for call in calls) < 2 and time.monotonic() < ends:
                time.sleep(0.001)
            over = sum(call.done() for call in calls)
            assert fleet.cordoned() == ["n0", "n1", "n2"]
            go_on.set()
        assert over == 2
        assert transport.times == 3
        assert len([1 for call in calls if call.result().answer]) == 1
        requests = [r for call in calls if (r := call.result().requests)]
        assert [r["create events"] for r in requests] == [3]

    def test_what_was_done_is_told_although_the_event_has_to_come_again(self) -> None:
        fleet = Fleet(seconds=1.2)
        fleet.resync()
        first, second = fleet.sick("n0"), fleet.sick("n1")
        fleet.cluster.faults.before(
            "patch", "/nodes/n0", lambda call: (fleet.clock.sleep(3), _contend(fleet, 10_000))
        )
        with pytest.raises(errors.Contended):
            cordon.handle_many([first, second], fleet.context())
        assert fleet.cordoned() == ["n0"]
        told = [e["involvedObject"]["name"] for e in fleet.cluster.all("events")]
        assert told == ["n0"]

    def test_where_the_rest_is_left_to_the_resync_they_are_written_once(self) -> None:
        fleet = Fleet(seconds=1.2)
        fleet.resync()
        events = [fleet.sick("n0"), fleet.sick("n1")]
        fleet.cluster.faults.before("patch", "/nodes/n0", lambda call: fleet.clock.sleep(3))
        cordon.handle_many(events, fleet.context())
        assert fleet.cordoned() == ["n0"]
        assert len(fleet.cluster.requests("create", "events")) == 1


def labelled(fleet: Fleet) -> int:
    labels = [fleet.node(f"n{number}")["metadata"].get("labels", {}) for number in range(10)]
    return sum(keys.INSTANCE in one for one in labels)


def test_labels_for_later_take_no_longer_than_the_call() -> None:
    fleet = Fleet()
    fleet.cluster.faults.before("patch", "/nodes/n", lambda call: fleet.clock.sleep(1), times=20)
    event, began = spot(instance_of(fleet)), fleet.clock.monotonic()
    outcome = fleet.handle(event)
    assert outcome.answer is not None
    assert 1 <= labelled(fleet) <= 4
    assert fleet.clock.monotonic() - began < fleet.seconds + 1
    began = fleet.clock.monotonic()
    fleet.resync()
    assert fleet.clock.monotonic() - began < fleet.seconds + 1
    assert 5 <= labelled(fleet) < 10


@pytest.mark.parametrize("status", [403, 500, 0])
def test_a_label_for_later_that_is_refused_undoes_no_answer(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = Fleet()
    if status:
        fleet.cluster.faults.fail("patch", "/nodes/n[1-9]", status)
    else:
        fleet.cluster.faults.drop("patch", "/nodes/n[1-9]")
    outcome = fleet.handle(spot(instance_of(fleet)))
    assert outcome.answer is not None
    assert outcome.answer.data["nodes"][0]["node"] == "n0"
    assert f"the label {keys.INSTANCE}" in caplog.text


def test_a_resync_acts_before_it_labels() -> None:
    fleet = Fleet()
    fleet.sick("n9")
    fleet.resync()
    patched = [one for one in fleet.writes() if one.startswith("patch /api/v1/nodes/")]
    assert patched[0] == "patch /api/v1/nodes/n9"
    assert len(patched) == 11
    assert fleet.cordoned() == ["n9"]


def test_a_resync_that_is_busy_labels_all_the_same() -> None:
    fleet = Fleet()
    fleet.sick("n9")
    fleet.cluster.faults.before("patch", "/nodes/n9", lambda call: fleet.clock.sleep(9))
    assert labelled(fleet) == 0
    fleet.resync()
    assert labelled(fleet) == 10


def test_interruptions_that_come_together_are_one_read_and_one_reservation() -> None:
    fleet = Fleet(size=20)
    fleet.resync()
    context = fleet.context()
    events = [spot(instance_of(fleet, f"n{number}")) for number in range(10)]
    outcomes = cordon.handle_many(events, context)
    assert fleet.cordoned() == [f"n{number}" for number in range(10)]
    assert len(outcomes) == len(events)
    answer = outcomes[0].answer
    assert answer is not None
    assert len(answer.data["nodes"]) == 10
    patches = context.cluster.requests["patch nodes"]
    others = sum(context.cluster.requests.values()) - patches
    assert patches == 10
    assert others - context.cluster.requests["create events"] <= 8


def test_a_tick_among_events_is_a_resync_of_its_own() -> None:
    fleet = Fleet()
    outcomes = cordon.handle_many([ping(), fleet.sick()], fleet.context())
    assert len(outcomes) == 2
    assert fleet.cordoned() == ["n0"]


def test_whose_machine_no_node_stands_for_is_said_for_those_who_share_the_queue() -> None:
    fleet = Fleet()
    ours, theirs = instance_of(fleet, "n0"), "i-0fedcba9876543210"
    outcome = cordon.handle_many([spot(ours), spot(theirs)], fleet.context())[0]
    assert outcome.unknown == {theirs}
    assert fleet.cordoned() == ["n0"]
    assert fleet.handle(fleet.sick("n1")).unknown == frozenset()


def test_nodes_whose_incidents_are_over_are_not_decided_about_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet()
    fleet.resync()
    fleet.handle(fleet.update(fleet.condition("n0", "DiskPressure", "True", "Full")))
    fleet.handle(fleet.update(fleet.condition("n0", "DiskPressure", "False", "Room")))
    fleet.resync()
    assert fleet.node()["metadata"]["labels"][keys.STATE] == "released"
    decided: list[str] = []
    decide = cordoning.decide

    def noting(facts: Facts, rules: policy.Policy, now: datetime) -> Plan:
        decided.extend(node.view.name for node in facts.nodes)
        return decide(facts, rules, now)

    said: list[Notice] = []
    notices_of = kubernetes_node.notices_of

    def telling(node: types.Node, *, recoveries: bool = True) -> tuple[Notice, ...]:
        told = notices_of(node, recoveries=recoveries)
        said.extend(told)
        return told

    monkeypatch.setattr(cordoning, "decide", noting)
    monkeypatch.setattr(kubernetes_node, "notices_of", telling)
    for _ in range(7):
        fleet.pass_time(timedelta(minutes=1))
        fleet.resync()
    assert decided == []
    assert said == [], "of what is over nothing can recover"
    fleet.condition("n0", "DiskPressure", "True", "Full")  # and no event tells
    fleet.pass_time(cordon.FULL_READ)
    fleet.resync()
    assert set(decided) == {"n0"}
