"""Letting go what a machine held, once the cloud has confirmed its end: of that machine alone."""

from datetime import timedelta

import pytest

from functions.steps.replacing import release
from tests.support.ending_world import EndingWorld


@pytest.fixture
def world() -> EndingWorld:
    world = EndingWorld()
    world.minutes(2)
    return world


def let_go(world: EndingWorld) -> bool:
    made = world.crew()
    node = made.cluster.get_node("n0")
    return release.release(made, world.machine(), world.entry(), node)


def test_the_node_of_that_uid_is_deleted(world: EndingWorld) -> None:
    assert let_go(world)
    assert world.server.get("nodes", "", "n0") is None


def test_another_machine_under_its_name_is_left_alone(world: EndingWorld) -> None:
    found = world.node()
    found["spec"]["providerID"] = world.machine("n7")
    world.server.apply(found)
    assert let_go(world)
    assert world.server.get("nodes", "", "n0") is not None


def test_a_node_that_was_made_anew_is_left_alone(world: EndingWorld) -> None:
    before = world.entry()
    world.server.delete("nodes", "", "n0")
    world.add("n0")
    made = world.crew()
    node = made.cluster.get_node("n0")
    assert release.release(made, world.machine(), before, node)
    assert world.server.get("nodes", "", "n0") is not None


def test_it_is_tainted_out_of_service_where_the_policy_says_so(world: EndingWorld) -> None:
    world.set_policy("replace: {act_in: ['*'], after_end: out-of-service}\n")
    assert let_go(world)
    assert let_go(world)
    taints = [t for t in world.node()["spec"].get("taints", []) if "out-of-service" in t["key"]]
    assert [t["effect"] for t in taints] == ["NoExecute"]
    world.set_policy("replace: {act_in: ['*'], after_end: nothing}\n")
    assert let_go(world)


def test_two_instances_taint_it_once(world: EndingWorld) -> None:
    """Each has read it without the taint."""
    world.set_policy("replace: {act_in: ['*'], after_end: out-of-service}\n")
    found = world.node()
    found["spec"]["taints"] = [{"key": "example.com/x", "effect": "NoSchedule"}]
    world.server.apply(found)
    made = world.crew()
    node = made.cluster.get_node("n0")
    assert release.release(made, world.machine(), world.entry(), node)
    assert not release.release(made, world.machine(), world.entry(), node)
    keys = sorted(taint["key"].rpartition("/")[2] for taint in world.node()["spec"]["taints"])
    assert keys == ["out-of-service", "unschedulable", "x"]


def test_a_node_that_is_gone_already_is_no_trouble(world: EndingWorld) -> None:
    made = world.crew()
    node = made.cluster.get_node("n0")
    world.server.delete("nodes", "", "n0")
    assert release.release(made, world.machine(), world.entry(), node)
    assert timedelta(0) <= timedelta(seconds=made.left())
