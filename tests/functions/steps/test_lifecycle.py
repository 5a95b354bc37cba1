"""Lifecycle hooks from the notice to the end, on the embedded cluster and an emulation of AWS."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from events import registry
from events.sources.autoscaling import Lifecycle
from functions import cordon, drain
from functions.edge.context import Context, Settings
from functions.gateways.aws import errors as aws_errors
from functions.gateways.aws.client import Aws
from functions.gateways.kubernetes.client import Cluster
from functions.rules import drain_times, keys, policy
from functions.rules.decision import Decision
from functions.steps import lifecycle, mark
from infra.local.clock import SimulatedClock
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport
from infra.local.cluster.builders import node as build_node
from tests.support import aws as cloud
from tests.support.aws import REGION, Held
from tests.support.crew import Between, ping

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NAMESPACE = "groundcrew-system"
_NAMES = count()


@pytest.fixture(scope="module")
def moto() -> Iterator[Held]:
    with pytest.MonkeyPatch.context() as patch, cloud.mocked(patch) as held:
        yield held


@pytest.fixture
def held(moto: Held) -> Held:
    moto.told.clear()
    moto.actions.clear()
    return moto


class World:
    """A group of two instances, each with a node; a pod on the first keeps it from being empty."""

    def __init__(self, held: Held, aws: Aws) -> None:
        self.held, self.aws = held, aws
        self.clock = SimulatedClock(NOW)
        self.cluster = EmbeddedCluster(self.clock)
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        self.group = f"gpus-{next(_NAMES)}"
        self.instances = cloud.group(self.group)
        for number, instance in enumerate(self.instances):
            self.register(f"n{number}", instance)
        for number in range(2, 12):
            self.cluster.apply(build_node(f"n{number}", now=NOW))
        cloud.hook("drain", self.group)
        self.action = Lifecycle("11111111-2222-3333-4444-555555555555", "drain", self.group)
        self.resync()

    def register(self, name: str, instance: str) -> None:
        made = build_node(name, provider_id=f"aws:///us-east-1a/{instance}", now=NOW)
        self.cluster.apply(made)

    def terminates(self, destination: str = "EC2") -> None:
        """The group takes out its first instance, and tells."""
        instance = self.instances[0]
        self.held.actions[instance] = self.action
        cloud.put_into("Terminating:Wait", instance)
        self.tell(destination)

    def tell(self, destination: str = "EC2") -> None:
        detail = {
            "LifecycleActionToken": self.action.token,
            "AutoScalingGroupName": self.action.group,
            "LifecycleHookName": self.action.hook,
            "EC2InstanceId": self.instances[0],
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
            "Origin": "AutoScalingGroup",
            "Destination": destination,
        }
        body = cloud.bridged(
            "EC2 Instance-terminate Lifecycle Action",
            detail,
            source="aws.autoscaling",
            time=self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        (event,) = registry.from_raw("eventbridge", {}, body.encode())
        cordon.handle(event, self.context())

    def context(self) -> Context:
        transport = EmbeddedTransport(self.cluster, self.clock.waited)
        settings = Settings(namespace=NAMESPACE, parallel=1)
        return Context(lambda: Cluster(transport), self.clock, settings)

    def resync(self) -> None:
        cordon.handle(ping(), self.context())

    def drain(self) -> None:
        drain.handle(ping("resync-drain"), self.context())

    def carry_on(self, *regions: str, text: str = "version: 1", paused: str = "",
                 cluster: Cluster | None = None) -> list[Decision]:  # fmt: skip
        cluster = cluster or self.context().cluster
        return lifecycle.carry_on(
            cluster,
            lambda: self.aws,
            self.clock,
            policy.parse(text),
            list(cluster.list_nodes(keys.STATE)),
            regions=regions,
            paused=lambda pool: paused,
        ).decisions

    def pass_time(self, **length: float) -> None:
        self.clock.advance_to(self.clock.now() + timedelta(**length))
        self.cluster.advance(self.clock.now())

    def node(self, name: str = "n0") -> Any:
        return self.cluster.get("Node", "", name)

    @property
    def told(self) -> list[str]:
        return [what for _, what in self.held.told]


@pytest.fixture(scope="module")
def aws(moto: Held) -> Aws:
    return Aws(seconds=0.0)


@pytest.fixture
def world(held: Held, aws: Aws) -> World:
    return World(held, aws)


def test_a_drain_of_three_hours_is_held_by_heartbeats_and_let_go_once(world: World) -> None:
    world.terminates()
    assert world.node()["spec"]["unschedulable"]
    for _ in range(180):
        world.carry_on()
        world.pass_time(minutes=1)
    assert world.told == ["heartbeat"] * 5
    world.drain()
    (said,) = world.carry_on()
    assert "is told CONTINUE: the pods are gone" in said.reason
    for _ in range(5):
        world.pass_time(minutes=1)
        assert world.carry_on() == []
    assert world.told == ["heartbeat"] * 5 + ["CONTINUE"]


def test_messages_that_come_again_and_a_second_instance_send_no_heartbeat_more(
    world: World,
) -> None:
    world.terminates()
    for _ in range(60):
        world.tell()
        world.carry_on()
        world.carry_on()
        world.pass_time(minutes=1)
    assert world.told == ["heartbeat"]


def test_a_crash_after_the_hook_was_told_tells_it_nothing_twice(world: World) -> None:
    world.terminates()
    world.drain()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    transport = EmbeddedTransport(world.cluster, world.clock.waited)
    dying = Cluster(Between(transport, "PATCH", "/nodes/n0", die))
    with pytest.raises(KeyboardInterrupt):
        world.carry_on(cluster=dying)
    assert world.told == ["CONTINUE"]
    assert world.carry_on() == []
    assert world.told == ["CONTINUE"]
    assert "gone" in world.node()["metadata"]["annotations"][keys.LIFECYCLE]


def test_on_its_way_to_the_warm_pool_it_is_let_go_when_it_is_empty(world: World) -> None:
    world.terminates(destination="WarmPool")
    world.carry_on()
    assert world.told == []
    world.drain()
    world.carry_on()
    assert world.told == ["CONTINUE"]


@pytest.mark.parametrize("result", ["CONTINUE", "ABANDON"])
def test_when_its_time_is_over_it_is_told_what_the_policy_says(world: World, result: str) -> None:
    world.terminates()
    text = f"version: 1\nlifecycle: {{at_end: {result}, longest: 20m}}"
    world.carry_on(text=text)
    world.pass_time(minutes=20)
    (said,) = world.carry_on(text=text)
    assert "its time is over and pods are left" in said.reason
    assert world.told == [result]


def test_drain_knows_when_a_hold_is_over(world: World) -> None:
    """The message says no time; what is left then ends with the instance."""
    rules = policy.parse("version: 1")

    def lost_at() -> Any:
        found = world.context().cluster.get_node("n0")
        return drain_times.lost_at(mark.view(found, rules))

    world.terminates()
    assert lost_at() is None
    world.carry_on()
    # AWS ends it after 48 h, and we a minute before.
    assert lost_at() == NOW + timedelta(hours=47, minutes=59)
    world.carry_on(text="version: 1\nlifecycle: {longest: 20m}")
    assert lost_at() == NOW + timedelta(minutes=20)
    world.drain()
    world.carry_on()
    assert lost_at() is None


def test_a_pause_lets_nothing_go_and_holds_on(world: World) -> None:
    world.terminates()
    world.drain()
    world.pass_time(minutes=30)
    assert world.carry_on(paused="paused") == []
    assert world.told == ["heartbeat"]
    world.carry_on()
    assert world.told == ["heartbeat", "CONTINUE"]


def test_a_node_that_people_keep_us_off_is_left_alone(world: World) -> None:
    world.terminates()
    world.drain()
    node = world.node()
    node["metadata"]["labels"][keys.OPT_OUT] = "false"
    world.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
    assert world.carry_on() == []
    assert world.told == []


def test_a_node_that_somebody_uncordoned_is_not_let_go(world: World) -> None:
    world.terminates()
    world.drain()
    node = world.node()
    del node["spec"]["unschedulable"]
    world.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
    assert world.carry_on() == []
    assert world.told == []


def test_a_hook_that_was_deleted_is_over(world: World) -> None:
    world.terminates()
    cloud.client("autoscaling").delete_lifecycle_hook(
        LifecycleHookName="drain", AutoScalingGroupName=world.group
    )
    world.carry_on()
    world.pass_time(hours=2)
    assert world.carry_on() == []
    assert world.told == []


def test_what_aws_refuses_is_said_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.terminates()
    world.drain()

    def refuse(*_: object) -> None:
        raise aws_errors.Throttled("autoscaling:CompleteLifecycleAction", "Throttling", "no")

    with monkeypatch.context() as patch:
        patch.setattr(world.aws, "complete", refuse)
        (said,) = world.carry_on()
    assert "could not be told" in said.reason
    assert world.told == []
    world.carry_on()
    assert world.told == ["CONTINUE"]


def test_a_hold_without_a_node_is_let_go_at_once(world: World) -> None:
    cloud.put_into("Terminating:Wait", world.instances[0])
    world.held.actions[world.instances[0]] = world.action
    world.cluster.delete("Node", "", "n0")
    (said,) = world.carry_on(REGION)
    assert "no node stands for the instance" in said.reason
    assert world.told == ["CONTINUE"]


def test_in_a_pause_a_hold_without_a_node_is_left_to_run_out(world: World) -> None:
    cloud.put_into("Terminating:Wait", world.instances[0])
    world.held.actions[world.instances[0]] = world.action
    world.cluster.delete("Node", "", "n0")
    assert world.carry_on(REGION, paused="paused") == []
    assert world.told == []


def test_a_hook_that_holds_shorter_than_two_looks_is_said_once(world: World) -> None:
    cloud.hook("drain", world.group, seconds=90)
    world.terminates()
    (said,) = world.carry_on()
    assert said.reason.startswith(f"hook drain of group {world.group} holds for 90 s")
    assert world.told == []
    world.pass_time(seconds=40)
    for _ in range(3):  # another instance, and a look out of turn
        assert world.carry_on() == []
    assert world.told == ["heartbeat"]


def test_but_not_where_a_node_stands_for_it_or_the_group_may_be_anothers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = f"others-{next(_NAMES)}"
    other = cloud.group(theirs)
    cloud.hook("drain", theirs)
    world.held.actions[other[0]] = world.action._replace(group=theirs)
    cloud.put_into("Terminating:Wait", other[0])
    cloud.put_into("Terminating:Wait", world.instances[0])
    world.held.actions[world.instances[0]] = world.action
    node = world.node()
    del node["metadata"]["labels"][keys.INSTANCE]
    world.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
    assert world.carry_on(REGION) == []
    assert world.told == []
    # Another cluster's may wait for hours, and its wait costs no reading of all nodes.
    cloud.put_into("InService", world.instances[0])
    cluster = world.context().cluster
    with monkeypatch.context() as patch:
        asked: list[str] = []
        listed = Cluster.list_nodes

        def listing(self: Cluster, selector: str = "") -> Any:
            asked.append(selector)
            return listed(self, selector)

        patch.setattr(Cluster, "list_nodes", listing)
        world.carry_on(REGION, cluster=cluster)
    assert len(asked) == 3
    assert all(asked)
    cloud.put_into("InService", other[0])


@pytest.mark.parametrize("name", ["startup-taint.cluster-autoscaler.kubernetes.io/x", "me.io/x"])
def test_a_launch_waits_for_its_node_to_be_schedulable(world: World, name: str) -> None:
    text = "version: 1\nreplace: {startup_taint: me.io/x}"
    cloud.hook("ready", world.group, "LAUNCHING")
    instance = world.instances[0]
    world.held.actions[instance] = Lifecycle("token", "ready", world.group)
    cloud.put_into("Pending:Wait", instance)
    node = world.node()
    node["spec"]["taints"] = [{"key": name, "effect": "NoSchedule"}]
    world.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
    for _ in range(40):
        world.carry_on(REGION, text=text)
        world.pass_time(minutes=1)
    assert world.told == ["heartbeat"]
    node = world.node()
    node["spec"]["taints"] = []
    world.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
    world.carry_on(REGION)
    assert world.told == ["heartbeat", "CONTINUE"]


def test_no_region_no_question(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.aws, "_send", lambda *_: pytest.fail("AWS was asked"))
    assert world.carry_on() == []
