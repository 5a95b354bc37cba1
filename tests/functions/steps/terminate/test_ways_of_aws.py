"""The ways to end a machine of AWS, against moto."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.session import get_session

from functions.gateways.aws import errors
from functions.gateways.aws import types as types_of_aws
from functions.gateways.aws.client import Aws
from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.rules.replacing import Seen
from functions.steps import terminate
from functions.steps.terminate import Machine, refusals
from functions.steps.terminate.autoscaling import AutoScaling
from functions.steps.terminate.ec2 import Ec2
from tests.support import aws as cloud


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with cloud.mocked(monkeypatch):
        yield Aws()


def machine(instance: str, zone: str = "") -> Machine:
    found = cloud.client("ec2").describe_instances(InstanceIds=[instance])["Reservations"]
    zone = zone or found[0]["Instances"][0]["Placement"]["AvailabilityZone"]
    return Machine(provider_id=f"aws:///{zone}/{instance}", name="n1", node=None)


def choose(one: Machine, aws: Aws, wanted: str = "auto") -> terminate.Way:
    def no_cluster() -> Cluster:
        raise AssertionError

    return terminate.choose(one, wanted, lambda: aws, no_cluster)  # type: ignore[arg-type]


def test_an_instance_of_a_group_ends_and_its_group_keeps_its_capacity(aws: Aws) -> None:
    one, other = cloud.group(size=2)
    way = choose(machine(one), aws)
    assert isinstance(way, AutoScaling)
    assert way.look(machine(one)).seen is Seen.RUNNING
    assert way.terminate(machine(one)).done
    members = cloud.members()
    assert one not in members
    assert other in members
    assert len(members) == 2


def test_an_instance_whose_group_would_start_no_other_is_protected(aws: Aws) -> None:
    one, _ = cloud.group(size=2)
    processes = {"AutoScalingGroupName": "gpus", "ScalingProcesses": ["Launch"]}
    cloud.client("autoscaling").suspend_processes(**processes)
    assert "Launch suspended" in choose(machine(one), aws).look(machine(one)).protected
    cloud.client("autoscaling").resume_processes(**processes)
    assert choose(machine(one), aws).look(machine(one)).protected == ""


def test_an_instance_in_a_capacity_reservation_says_so_whatever_its_node_does(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = cloud.group(size=2)
    assert choose(machine(one), aws).look(machine(one)).reserved == ""
    found = aws.instance(types_of_aws.Machine.of(machine(one).provider_id))
    assert found is not None
    reserved = replace(found, capacity_reservation="cr-0123")
    monkeypatch.setattr(aws, "instance", lambda _: reserved)
    for wanted in ("auto", "ec2", "autoscaling"):
        looked = choose(machine(one), aws, wanted).look(machine(one))
        assert looked.reserved == "it runs in capacity reservation cr-0123"


def test_an_instance_of_no_group_ends(aws: Aws) -> None:
    (one,) = cloud.instances()
    way = choose(machine(one), aws)
    assert type(way) is Ec2
    looked = way.look(machine(one))
    assert (looked.seen, looked.account) == (Seen.RUNNING, cloud.ACCOUNT)
    assert way.terminate(machine(one)).done
    assert choose(machine(one), aws).look(machine(one)).seen in (Seen.ENDING, Seen.GONE)


def test_asking_twice_ends_once(aws: Aws) -> None:
    (one,) = cloud.instances()
    way = choose(machine(one), aws)
    way.terminate(machine(one))
    again = way.terminate(machine(one))
    assert again.done
    assert "already" in again.says


def test_an_instance_that_nobody_knows_is_neither_running_nor_gone(aws: Aws) -> None:
    stranger = Machine(provider_id="aws:///us-east-1a/i-00000000000000001", name="n", node=None)
    looked = choose(stranger, aws).look(stranger)
    assert looked.seen is Seen.UNKNOWN
    assert cloud.ACCOUNT in looked.says


def test_an_instance_of_another_region_is_unknown_in_this_one(aws: Aws) -> None:
    (one,) = cloud.instances()
    elsewhere = Machine(provider_id=f"aws:///eu-west-1a/{one}", name="n", node=None)
    assert choose(elsewhere, aws).look(elsewhere).seen is Seen.UNKNOWN


def test_a_zone_that_is_not_the_nodes_is_another_machine(aws: Aws) -> None:
    (one,) = cloud.instances()
    zone = machine(one).provider_id.split("/")[3]
    other = next(z for z in ("us-east-1a", "us-east-1b") if z != zone)
    assert choose(machine(one, other), aws).look(machine(one, other)).seen is Seen.UNKNOWN


def test_a_group_that_the_policy_wants_and_that_does_not_hold_it_protects_it(aws: Aws) -> None:
    (one,) = cloud.instances()
    way = choose(machine(one), aws, "autoscaling")
    assert way.look(machine(one)).protected
    assert not way.terminate(machine(one)).done
    assert cloud.state(one) == "running"


def test_regions_that_we_are_not_set_up_for_are_said(aws: Aws) -> None:
    (one,) = cloud.instances()
    narrow = Aws(regions=["eu-west-1"])
    looked = choose(machine(one), narrow).look(machine(one))
    assert looked.seen is Seen.UNKNOWN
    assert "us-east-1" in looked.says


@pytest.mark.parametrize(
    ("problem", "done", "soon"),
    [
        (errors.Throttled("c", "x", "m"), False, True),
        (errors.Busy("c", "x", "m"), False, True),
        (errors.ServerError("c", "x", "m"), False, True),
        (errors.Unreachable("c"), False, True),
        (errors.Unauthorised("c", "x", "m"), False, False),
        (errors.CredentialsExpired("c", "x", "m"), False, False),
        (errors.Protected("c", "x", "m"), False, False),
        (errors.NotFound("c", "x", "m"), False, False),
        (errors.NotConfigured("c"), False, False),
        (errors.AlreadyTerminating("c", "x", "m"), True, False),
    ],
)
def test_what_passes_is_asked_again_soon_and_what_a_person_must_mend_later(
    problem: errors.AwsError, done: bool, soon: bool
) -> None:
    asked = refusals.asked(problem)
    assert asked.done is done
    if not done:
        assert asked.again == (terminate.SOON if soon else terminate.LATER)
        assert asked.says == str(problem)


def managed(instance: str) -> Machine:
    """On a node of a managed node group, as EKS labels it and tags its instance."""
    tags = [{"Key": "eks:cluster-name", "Value": "prod"}]
    cloud.client("ec2").create_tags(Resources=[instance], Tags=tags)
    labels = {"eks.amazonaws.com/nodegroup": "gpu"}
    found = types.Node(metadata=types.Meta(name="n1", labels=labels))
    return replace(machine(instance), node=found)


def test_where_eks_repairs_nodes_it_is_only_told_until_the_policy_names_the_way(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = cloud.group(size=2)
    asked: list[tuple[str, ...]] = []

    def repairs(*given: str) -> bool:
        asked.append(given)
        return True

    monkeypatch.setattr(aws, "repairs_nodes", repairs)
    looked = choose(managed(one), aws).look(managed(one))
    assert looked.seen is Seen.RUNNING
    assert "node repair is on for EKS node group gpu" in looked.others
    assert asked == [("us-east-1", "prod", "gpu")]
    assert choose(managed(one), aws, "autoscaling").look(managed(one)).others == ""
    # Of a group that EKS does not manage nobody is asked.
    assert choose(machine(one), aws).look(machine(one)).others == ""
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("problem", "seen"),
    [(errors.Unauthorised, Seen.RUNNING), (errors.Throttled, Seen.UNKNOWN)],
)
def test_who_may_not_ask_eks_goes_on_and_who_is_not_answered_waits(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, problem: type[errors.Refused], seen: Seen
) -> None:
    one, _ = cloud.group(size=2)

    def refuse(*_: str) -> bool:
        raise problem("eks:DescribeNodegroup", "x", "y")

    monkeypatch.setattr(aws, "repairs_nodes", refuse)
    looked = choose(managed(one), aws).look(managed(one))
    assert (looked.seen, looked.others) == (seen, "")


@pytest.mark.parametrize("on", [True, False, None])
def test_node_repair_is_read_as_eks_says_it(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, on: bool | None
) -> None:
    model = get_session().get_service_model("eks").operation_model("DescribeNodegroup")
    group = model.output_shape.members["nodegroup"]
    assert "enabled" in group.members["nodeRepairConfig"].members
    body: dict[str, Any] = {} if on is None else {"nodeRepairConfig": {"enabled": on}}
    sent: list[Any] = []

    def send(way: Any, service: str, region: str, operation: str, given: Any) -> Any:
        sent.append((service, operation, given))
        return {"nodegroup": body}

    monkeypatch.setattr(aws, "_send", send)
    assert aws.repairs_nodes("us-east-1", "prod", "gpu") is bool(on)
    (asked,) = sent
    assert asked == ("eks", "DescribeNodegroup", {"clusterName": "prod", "nodegroupName": "gpu"})
    assert set(asked[2]) == set(model.input_shape.required_members)
