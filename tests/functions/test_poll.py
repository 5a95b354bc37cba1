"""What no event told is found by asking AWS: a lost event makes no difference but a minute."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events import registry
from events.cloudevent import CloudEvent
from functions import cordon, poll
from functions.edge import answers, sender
from functions.edge.context import Context, Outcome, Settings
from functions.gateways.aws import errors as aws_errors
from functions.gateways.aws.client import Aws
from functions.gateways.kubernetes.client import Cluster
from functions.rules import incidents, keys, policy
from functions.steps import active
from infra.local.clock import SimulatedClock
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport
from infra.local.cluster.builders import node as build_node
from tests.support import aws as cloud
from tests.support.crew import NodesRead, ping

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
REGION, NAMESPACE = "us-east-1", "groundcrew-system"
OTHERS = "i-0fedcba9876543210"
EVENT = "instance-event-0d59937288b749b32"


def machine(number: int) -> str:
    return f"i-{number:017x}"


class Told(Aws):
    """AWS that answers what a test has put in, each answer of the shape that its model has."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses_said: dict[str, Any] = {}
        self.spot: list[Any] = []
        self.held: list[str] = []
        self.refuses: set[str] = set()
        self.asked: list[str] = []

    def bounded(self, left: Any) -> "Told":
        return self

    def _send(
        self, kinds: Any, service: str, region: str, operation: str, given: Mapping[str, Any]
    ) -> Any:
        assert region == REGION
        self.asked.append(operation)
        if operation in self.refuses:
            raise aws_errors.Throttled(f"{service}:{operation}", "RequestLimitExceeded", "")
        return cloud.checked(service, operation, getattr(self, f"_{operation}")(given))

    def _DescribeInstanceStatus(self, given: Mapping[str, Any]) -> Any:  # noqa: N802
        found = list(self.statuses_said.values())
        if ids := given.get("InstanceIds"):
            found = [one for one in found if one["InstanceId"] in ids]
        for chosen in given.get("Filters", ()):
            found = [one for one in found if _passes(one, chosen["Name"], chosen["Values"])]
        return {"InstanceStatuses": found}

    def _DescribeSpotInstanceRequests(self, given: Mapping[str, Any]) -> Any:  # noqa: N802
        (chosen,) = given["Filters"]
        found = [one for one in self.spot if one["Status"]["Code"] in chosen["Values"]]
        return {"SpotInstanceRequests": found}

    def _DescribeAutoScalingGroups(self, given: Mapping[str, Any]) -> Any:  # noqa: N802
        instances = [
            {"InstanceId": one, "AvailabilityZone": f"{REGION}a",
             "LifecycleState": "Terminating:Wait" if one in self.held else "InService",
             "HealthStatus": "Healthy", "ProtectedFromScaleIn": False}
            for one in (machine(0), *self.held)
        ]  # fmt: skip
        group = {
            "AutoScalingGroupName": "gpus", "MinSize": 0, "MaxSize": 9, "DesiredCapacity": 3,
            "DefaultCooldown": 300, "AvailabilityZones": [f"{REGION}a"],
            "HealthCheckType": "EC2", "CreatedTime": NOW, "Instances": instances,
        }  # fmt: skip
        return {"AutoScalingGroups": [group]}

    def status(self, instance: str, system: str = "ok", *events: Any) -> None:
        self.statuses_said[instance] = {
            "InstanceId": instance,
            "InstanceState": {"Code": 16, "Name": "running"},
            "SystemStatus": {"Status": system},
            "InstanceStatus": {"Status": "ok"},
            "Events": list(events),
        }


def _passes(status: Any, name: str, values: list[str]) -> bool:
    if name == "event.code":
        return any(event["Code"] in values for event in status["Events"])
    which = {"system-status.status": "SystemStatus", "instance-status.status": "InstanceStatus"}
    return name in which and status[which[name]]["Status"] in values


def retirement(days: float = 14, description: str = "degraded hardware") -> Any:
    return {
        "InstanceEventId": EVENT,
        "Code": "instance-retirement",
        "Description": description,
        "NotBefore": NOW + timedelta(days=days),
    }


class World:
    def __init__(self) -> None:
        self.aws = Told()
        self.key = ""
        self.clock = SimulatedClock(NOW)
        self.cluster = EmbeddedCluster(self.clock)
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        for number in range(20):
            provider_id = f"aws:///{REGION}a/{machine(number)}"
            self.cluster.apply(build_node(f"n{number}", provider_id=provider_id, now=NOW))
        self.nodes_read: Counter[str] = Counter()
        cordon.handle(ping(), self.context())
        self.nodes_read.clear()

    def context(self, regions: tuple[str, ...] = (REGION,)) -> Context:
        transport = NodesRead(EmbeddedTransport(self.cluster, self.clock.waited), self.nodes_read)
        settings = Settings(namespace=NAMESPACE, parallel=1, regions=regions, sender_key=self.key)
        return Context(lambda: Cluster(transport), self.clock, settings, aws=lambda: self.aws)

    def poll(self) -> Outcome:
        return poll.handle(ping("poll-aws"), self.context())

    def minute(self) -> CloudEvent | None:
        """A poll, and cordon with what it answers."""
        self.clock.advance_to(self.clock.now() + timedelta(minutes=1))
        outcome = self.poll()
        if outcome.answer is None:
            return None
        tick = ping("poll-aws")
        event = answers.compose("poll", [(tick, outcome.answer)], self.clock.now())
        assert event is not None
        cordon.handle(sender.sign(event, self.key), self.context())
        return event

    def open(self, name: str) -> list[str]:
        text = self.cluster.get("Node", "", name)["metadata"].get("annotations", {})
        if keys.INCIDENTS not in text:
            return []
        return [i.key for i in incidents.decode(text[keys.INCIDENTS]).incidents if i.open]

    def cordoned(self, name: str) -> bool:
        return bool(self.cluster.get("Node", "", name)["spec"].get("unschedulable"))


@pytest.fixture
def world() -> World:
    return World()


def test_the_usual_minute_costs_one_list_and_as_many_questions_for_any_fleet(world: World) -> None:
    outcome = world.poll()
    assert outcome.answer is None
    assert dict(outcome.requests) == {"list nodes": 1}
    assert len(world.aws.asked) == 6


def test_what_is_over_is_not_read_each_minute(world: World) -> None:
    node: Any = world.cluster.get("Node", "", "n3")
    node["metadata"]["labels"][keys.STATE] = "released"
    world.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)
    world.poll()
    assert not world.nodes_read


def test_a_spot_interruption_whose_event_was_lost_is_found(world: World) -> None:
    world.aws.spot = [
        {"InstanceId": machine(3), "SpotInstanceRequestId": "sir-1",
         "Status": {"Code": "marked-for-termination", "UpdateTime": NOW, "Message": ""}},
        {"InstanceId": machine(4), "SpotInstanceRequestId": "sir-2",
         "Status": {"Code": "fulfilled", "UpdateTime": NOW, "Message": ""}},
    ]  # fmt: skip
    world.minute()
    assert world.open("n3") == ["aws.ec2/spot-interruption"]
    assert world.cordoned("n3")
    assert world.open("n4") == []


def test_what_a_stranger_says_empties_nothing_until_aws_confirms_it(world: World) -> None:
    world.key = "a key"
    body = cloud.spot(machine(3))
    (event,) = registry.from_raw("eventbridge", {}, body.encode())
    cordon.handle(event, world.context())
    assert world.open("n3") == ["aws.ec2/spot-interruption"]
    assert not world.cordoned("n3")
    world.aws.spot = [
        {"InstanceId": machine(3), "SpotInstanceRequestId": "sir-1",
         "Status": {"Code": "marked-for-termination", "UpdateTime": NOW, "Message": ""}},
    ]  # fmt: skip
    assert world.minute() is not None
    assert world.cordoned("n3")
    assert world.minute() is None


def test_no_policy_lets_a_stranger_empty_a_node(world: World) -> None:
    """One that finds a recommendation as bad as an interruption means the cloud's word."""
    world.key = "a key"
    rules = "version: 1\nseverity: [{source: 'aws.*', severity: evict}]"
    meta = {
        "name": active.POLICY_NAME,
        "namespace": NAMESPACE,
        "labels": {keys.PART: "policy"},
    }
    data = active.policy_data(policy.parse(rules), "a test")
    world.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    rebalance = "EC2 Instance Rebalance Recommendation"
    bodies = [
        cloud.spot(machine(3)),
        cloud.bridged(rebalance, {"instance-id": machine(4)}),
    ]
    events = [registry.from_raw("eventbridge", {}, body.encode())[0] for body in bodies]
    for event in events:
        cordon.handle(event, world.context())
    assert (world.cordoned("n3"), world.cordoned("n4")) == (False, False)
    for event in events:
        cordon.handle(sender.sign(event, world.key), world.context())
    assert (world.cordoned("n3"), world.cordoned("n4")) == (True, True)


def test_a_retirement_is_recorded_once_and_given_back_when_aws_lists_it_no_more(
    world: World,
) -> None:
    world.aws.status(machine(5), "ok", retirement())
    assert world.minute() is not None
    assert world.open("n5") == [f"aws.ec2/instance-retirement/{EVENT}"]
    assert not world.cordoned("n5")
    assert world.minute() is None
    world.aws.status(machine(5))
    assert world.minute() is not None
    assert world.open("n5") == []
    assert world.minute() is None


def test_one_that_is_said_to_be_canceled_is_over_too(world: World) -> None:
    world.aws.status(machine(5), "ok", retirement())
    world.minute()
    world.aws.status(machine(5), "ok", retirement(description="[Canceled] degraded hardware"))
    world.minute()
    assert world.open("n5") == []
    assert world.minute() is None


def test_a_failed_status_check_is_found_and_its_end_too(world: World) -> None:
    world.aws.status(machine(6), "impaired")
    world.minute()
    assert world.open("n6") == ["aws.ec2/status-check"]
    assert world.minute() is None
    world.aws.status(machine(6))
    event = world.minute()
    assert event is not None
    assert b"InstanceStatuses" in event.data
    assert world.minute() is None


def test_an_instance_that_a_hook_holds_is_found(world: World) -> None:
    world.aws.held = [machine(7)]
    world.minute()
    assert world.open("n7") == ["aws.autoscaling/lifecycle-termination"]
    assert world.cordoned("n7")
    assert world.minute() is None


def test_machines_of_others_in_the_account_are_none_of_ours(world: World) -> None:
    world.aws.held = [OTHERS]
    world.aws.status(OTHERS, "impaired", retirement())
    assert world.minute() is None


def test_while_aws_refuses_one_question_the_others_are_answered_and_nothing_is_over(
    world: World,
) -> None:
    world.aws.status(machine(5), "ok", retirement())
    world.minute()
    world.aws.refuses = {"DescribeInstanceStatus"}
    world.aws.held = [machine(7)]
    world.minute()
    assert world.open("n5") == [f"aws.ec2/instance-retirement/{EVENT}"]
    assert world.cordoned("n7")


def test_where_no_region_is_set_nobody_is_asked(world: World) -> None:
    outcome = poll.handle(ping("poll-aws"), world.context(regions=()))
    assert "no region" in outcome.declined
    assert world.aws.asked == []


def test_it_has_nothing_to_do_with_events(world: World) -> None:
    other = CloudEvent(id="1", source="/x", type="dev.groundcrew.nodes.cordoned", data=b"{}")
    assert "nothing to do" in poll.handle(other, world.context()).declined
