"""Many nodes of a small cluster are read together."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from functions.gateways.kubernetes import errors, types
from functions.rules import policy
from functions.rules.draining import Ended, Result
from functions.steps import read_together
from functions.steps.drain_call import Call
from functions.steps.drain_target import Target
from functions.steps.evict import evict
from functions.steps.evict_wait import Wait
from functions.steps.read_together import FROM_NODES, NODES_EACH, NodesTogether, PodsTogether
from tests.support.real_time import World, threads, world_over_http

NAMES = [f"m{number}" for number in range(FROM_NODES)]


@pytest.fixture
def world() -> Iterator[World]:
    with world_over_http() as made:
        yield made


def fill(world: World, pods: int, stop_seconds: float = 0.2) -> dict[str, str]:
    uids = {}
    for name in NAMES:
        uids[name] = world.add_node(name, unschedulable=True)
        for number in range(pods):
            world.pod(f"{name}-{number}", app="web", on=name, stop_seconds=stop_seconds)
    return uids


def drain(world: World, uids: dict[str, str], seconds: float = 15) -> list[Result]:
    rules = policy.default().drain
    with Call(world.cluster, world.clock, rules, seconds, "groundcrew-system") as call:
        call.read_together(NAMES)

        def one(name: str) -> Result:
            target = Target(node=name, uid=uids[name])
            return evict(
                call,
                target,
                lambda node: "" if node.unschedulable else "uncordoned",
                listed=call.pods(name),
                wait=Wait(stay=True),
            )

        with ThreadPoolExecutor(len(NAMES)) as pool:
            return list(pool.map(one, NAMES))


def test_one_list_one_watch_and_one_look_serve_all_nodes(world: World) -> None:
    uids = fill(world, 3, stop_seconds=1.5)
    results = drain(world, uids)
    assert [(r.ended, len(r.evicted)) for r in results] == [(Ended.EMPTY, 3)] * len(NAMES)
    asked = world.cluster.requests
    assert asked["watch pods"] == 1
    assert asked["list pods"] == 1 + 1, "how many there are, and all"
    assert "get nodes" not in asked
    assert asked["list nodes"] <= 1 + 1 + 4, "its size, and twice a second at most"
    assert threads() == set()


def test_a_watch_that_is_lost_leaves_each_node_to_itself(world: World) -> None:
    uids = fill(world, 2, stop_seconds=1.0)
    world.server.faults.cut("/pods", after_lines=5)
    results = drain(world, uids)
    assert [(r.ended, len(r.evicted)) for r in results] == [(Ended.EMPTY, 2)] * len(NAMES)
    assert world.cluster.requests["watch pods"] > 2
    assert threads() == set()


def test_an_uncordon_of_one_of_them_stops_it_alone(world: World) -> None:
    """Seen when the next pod, one of our own, is to be asked."""
    uids = fill(world, 1, stop_seconds=1.5)
    for name in NAMES:
        world.pod(f"{name}-last", app="web", on=name, namespace="groundcrew-system")

    def uncordon() -> None:
        time.sleep(0.5)
        node = world.node("m3")
        node["spec"]["unschedulable"] = False
        world.server.apply(node)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(uncordon)
        results = dict(zip(NAMES, drain(world, uids), strict=True))
        other.result()
    assert {name for name, r in results.items() if r.ended is Ended.STOPPED} == {"m3"}
    assert {r.ended for name, r in results.items() if name != "m3"} == {Ended.EMPTY}
    assert world.pods_on("m3") == ["m3-last"]


def test_what_happened_before_a_nodes_own_list_is_not_told_again(world: World) -> None:
    fill(world, 1, stop_seconds=0)
    with Call(world.cluster, world.clock, policy.default().drain, 5.0, "") as call:
        pods = PodsTogether(call.cluster, NAMES, "", call.left)
        heard: list[object] = []
        first = pods.subscribe("m1", pods.page("m1").metadata.resource_version, heard.append)
        assert first
        world.pod("m0-new", on="m0")
        world.pod("m1-new", on="m1")
        world.pod("elsewhere", on="n2")
        _until(lambda: len(heard) == 1)
        between = world.cluster.list_pods(node="m0").metadata.resource_version
        later: list[object] = []
        assert pods.subscribe("m0", between, later.append)
        world.server.delete("pods", "default", "m0-0", grace_seconds=0)
        _until(lambda: bool(later))
        pods.close()
    assert [(e.type, e.object.metadata.name) for e in heard] == [("ADDED", "m1-new")]  # type: ignore[attr-defined]
    assert [(e.type, e.object.metadata.name) for e in later] == [("DELETED", "m0-0")]  # type: ignore[attr-defined]
    assert threads() == set()


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        (FROM_NODES * NODES_EACH, 10, True),
        (FROM_NODES * NODES_EACH + 1, 10, False),
        (FROM_NODES, 13, False),
    ],
)
def test_nodes_are_read_together_where_they_are_a_good_part_of_the_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch, nodes: int, pods: int, expected: bool
) -> None:
    monkeypatch.setattr(read_together, "PODS_EACH", 1.5)
    for number in range(nodes - 2):  # two are there
        world.add_node(f"more-{number}")
    for number in range(pods):
        world.pod(f"web-{number}")
    assert read_together.worth(world.cluster, FROM_NODES) is expected
    assert world.cluster.requests == {"list nodes": 1, "list pods": 1}


def test_how_many_nodes_there_are_does_not_matter_where_a_label_selects_them(world: World) -> None:
    for number in range(FROM_NODES * NODES_EACH):
        world.add_node(f"more-{number}")
    assert not read_together.worth(world.cluster, FROM_NODES)
    assert read_together.worth(world.cluster, FROM_NODES, selected=True)
    assert world.cluster.requests == {"list nodes": 1, "list pods": 2}


def test_for_few_nodes_or_without_the_right_it_is_not_asked_how_large_the_cluster_is(
    world: World,
) -> None:
    assert not read_together.worth(world.cluster, FROM_NODES - 1)
    assert world.cluster.requests == {}
    world.server.faults.fail("list", "/nodes", 403)
    assert not read_together.worth(world.cluster, FROM_NODES)


def test_a_node_that_is_no_longer_selected_is_asked_for_by_name(world: World) -> None:
    for name in ("m1", "m2"):
        world.add_node(name)
    node = world.node("m1")
    node["metadata"]["labels"]["pool"] = "a"
    world.server.apply(node)
    nodes = NodesTogether(world.cluster, world.clock, "pool=a")
    assert nodes.get("m1")[0].name == "m1"
    found, at = nodes.get("m2")
    assert (found.name, found.__class__) == ("m2", types.Node)
    assert world.clock.monotonic() - at < 1
    with pytest.raises(errors.NotFound):
        nodes.get("no-such-node")
    assert world.cluster.requests == {"list nodes": 1, "get nodes": 2}


def _until(holds: "object") -> None:
    deadline = time.monotonic() + 5
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)
