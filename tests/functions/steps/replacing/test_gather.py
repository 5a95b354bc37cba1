"""What a Node shows of its machine: whose it is, who ends it already, and whether it serves."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.rules.replacing.book import Phase
from functions.steps.replacing import gather
from tests.support.ending_world import POLICY, EndingWorld

DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


@pytest.fixture
def world() -> EndingWorld:
    return EndingWorld()


def taint(world: EndingWorld, name: str, *taints: dict[str, str]) -> None:
    found = world.node(name)
    found["spec"]["taints"] = [*found["spec"].get("taints", []), *taints]
    world.server.apply(found)


def leaving(world: EndingWorld, name: str = "n0") -> str:
    facts, _ = gather.facts(world.crew())
    return next(one.leaving for one in facts.machines if one.machine == world.machine(name))


def test_a_node_that_karpenter_is_about_to_end_is_left_to_it(world: EndingWorld) -> None:
    assert leaving(world) == ""
    taint(world, "n0", DISRUPTED)
    assert "Karpenter is about to end it" in leaving(world)
    world.minutes(60)
    assert world.cloud.asked == []


def test_a_node_that_is_being_deleted_is_left_to_who_deletes_it(world: EndingWorld) -> None:
    found = world.node()
    found["metadata"]["finalizers"] = ["example.com/hold"]
    world.server.apply(found)
    world.server.delete("nodes", "", "n0")
    assert "somebody ends it" in leaving(world)
    found = world.node()
    found["metadata"]["labels"]["karpenter.sh/nodepool"] = "gpu"
    world.server.apply(found)
    assert "Karpenter ends it" in leaving(world)


@pytest.mark.parametrize("unfit", [DISRUPTED, UNREGISTERED])
def test_a_node_that_karpenter_has_not_taken_in_or_lets_go_replaces_none(
    world: EndingWorld, unfit: dict[str, str]
) -> None:
    world.minutes(21)
    assert world.entry().phase is Phase.ENDED
    world.add("n7")
    taint(world, "n7", unfit)
    world.minutes(2)
    assert world.entry().phase is Phase.ENDED


def has_startup_taint(node: dict[str, Any]) -> None:
    node["spec"]["taints"] = [{"key": "example.com/preflight", "effect": "NoSchedule"}]


def is_cordoned(node: dict[str, Any]) -> None:
    node["spec"]["unschedulable"] = True


def is_not_ready(node: dict[str, Any]) -> None:
    (ready,) = (c for c in node["status"]["conditions"] if c["type"] == "Ready")
    ready["status"] = "Unknown"


@pytest.mark.parametrize("unfit", [has_startup_taint, is_cordoned, is_not_ready])
def test_a_node_replaces_none_before_it_takes_work(unfit: Callable[[dict[str, Any]], None]) -> None:
    rules = POLICY.replace("act_in", "startup_taint: example.com/preflight, act_in")
    world = EndingWorld(rules)
    world.minutes(21)
    world.add("n7")
    serves, waits = world.node("n7"), world.node("n7")
    unfit(waits)
    world.server.apply(waits)
    world.minutes(2)
    assert world.entry().phase is Phase.ENDED
    world.server.apply(serves)
    world.minutes(2)
    assert world.entry().outcome == f"replaced by n7 ({world.machine('n7')})"
