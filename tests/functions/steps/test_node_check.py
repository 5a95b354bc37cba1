"""Whether a node is still ours is known afresh whenever a pod of it is asked to leave."""

from collections.abc import Iterator

import pytest

from functions.rules import policy
from functions.rules.draining import Ended
from functions.steps.drain_call import Call
from functions.steps.drain_target import Target
from functions.steps.node_check import FRESH_SECONDS, IDLE_SECONDS, NodeCheck
from tests.support.simulated import DrainWorld


@pytest.fixture
def world() -> DrainWorld:
    return DrainWorld()


@pytest.fixture
def call(world: DrainWorld) -> Iterator[Call]:
    with Call(world.cluster, world.clock, policy.default().drain, 60.0, "own") as made:
        yield made


def check(world: DrainWorld, call: Call, seen_at: float | None = None) -> NodeCheck:
    target = Target(node="n1", uid=world.uid, seen_at=seen_at)
    return NodeCheck(call, target, lambda node: "" if node.unschedulable else "uncordoned")


def test_it_is_looked_at_again_once_what_is_known_is_a_second_old(
    world: DrainWorld, call: Call
) -> None:
    found = check(world, call)
    assert found.over() is None
    assert world.cluster.requests == {}
    world.clock.sleep(FRESH_SECONDS)
    assert found.over() is None
    assert found.over() is None
    assert world.cluster.requests == {"get nodes": 1}


def test_what_was_seen_before_counts_from_then(world: DrainWorld, call: Call) -> None:
    world.clock.sleep(10)
    check(world, call, seen_at=world.clock.monotonic() - FRESH_SECONDS / 2).over()
    assert world.cluster.requests == {}
    check(world, call, seen_at=world.clock.monotonic() - FRESH_SECONDS).over()
    check(world, call, seen_at=float("-inf")).over()
    assert world.cluster.requests == {"get nodes": 2}


def test_a_doubt_is_looked_into_at_once(world: DrainWorld, call: Call) -> None:
    found = check(world, call)
    world.server.apply({**world.node(), "spec": {}})
    assert found.over() is None
    found.doubt()
    assert found.over() == (Ended.STOPPED, "uncordoned")


def test_a_node_that_is_not_asked_anything_is_idle_after_a_while(
    world: DrainWorld, call: Call
) -> None:
    found = check(world, call)
    assert not found.idle()
    world.clock.sleep(IDLE_SECONDS)
    assert found.idle()


def test_a_kubelet_that_is_lost_meanwhile_is_known_from_then_on(
    world: DrainWorld, call: Call
) -> None:
    found = check(world, call, seen_at=float("-inf"))
    node = world.node()
    for condition in node["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "Unknown"
    world.server.apply(node)
    assert found.over() is None
    assert found.target.kubelet_lost


def test_a_node_that_is_gone_or_another_ends_it(world: DrainWorld, call: Call) -> None:
    found = check(world, call, seen_at=float("-inf"))
    world.server.delete("nodes", "", "n1")
    assert found.over() == (Ended.NODE_GONE, "the node was deleted")
    world.add_node("n1", unschedulable=True)
    assert found.over() == (Ended.NODE_GONE, "another node has its name")
