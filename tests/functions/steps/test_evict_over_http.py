"""The eviction engine as it runs in a cluster: a real clock, threads, sockets."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.official import OfficialTransport
from functions.rules import policy
from functions.rules.draining import Ended, Result
from functions.steps.drain_call import Call
from functions.steps.drain_target import Target
from functions.steps.evict import evict
from functions.steps.evict_wait import Wait
from infra.local.cluster import EmbeddedCluster, builders
from infra.local.cluster.http import serve
from infra.local.cluster.world import Delays
from tests.support.simulated import DrainWorld

SOON = timedelta(milliseconds=50)


class World(DrainWorld):
    def __init__(self, url: str, server: EmbeddedCluster) -> None:
        self.clock = SystemClock()  # type: ignore[assignment]
        self.server = server

        def load(configuration: object) -> None:
            configuration.host = url  # type: ignore[attr-defined]

        self.transport = OfficialTransport(load)
        self.cluster = Cluster(self.transport)
        self.uid = self.add_node("n1", unschedulable=True)
        self.add_node("n2")

    def drain(self, seconds: float = 8.0, **more: Any) -> Result:
        drain = policy.default().drain
        with Call(self.cluster, self.clock, drain, seconds, "groundcrew-system") as call:
            return evict(call, Target(node="n1", uid=self.uid), lambda node: "", **more)

    def hold_budget(self, name: str, allowed: int) -> None:
        """Its status, from here on, whatever its pods do."""
        self.server.held.add("disruption")
        made = self.server.get("poddisruptionbudgets", "default", name)
        assert made is not None
        made["status"] |= {"disruptionsAllowed": allowed}
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        self.server.apply({**kind, **made})


@pytest.fixture
def world() -> Iterator[World]:
    delays = Delays(schedule=SOON, start=SOON, stop=SOON)
    cluster = EmbeddedCluster(SystemClock(), delays=delays)
    with serve(cluster) as server:
        made = World(server.url, cluster)
        yield made
        made.transport.close()


def threads() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith(("watch-", "ThreadPool"))}


def test_pods_leave_side_by_side_and_no_thread_or_request_is_left(world: World) -> None:
    for number in range(40):
        world.pod(f"web-{number}", app="web", stop_seconds=0.5)
    started = time.monotonic()
    result = world.drain()
    assert (result.ended, len(result.evicted)) == (Ended.EMPTY, 40)
    assert time.monotonic() - started < 5
    asked = len(world.server.seen)
    assert asked <= 40 * 1.3
    assert threads() == set()
    time.sleep(0.2)
    assert len(world.server.seen) == asked


def test_a_budget_paces_the_drain_without_a_hail_of_requests(world: World) -> None:
    world.replicas("web", 4)
    time.sleep(0.3)
    world.server.apply(builders.pdb("web", labels={"app": "web"}, max_unavailable=1))
    time.sleep(0.2)
    result = world.drain(seconds=15)
    assert (result.ended, len(result.evicted)) == (Ended.EMPTY, 4)
    assert len(world.evictions()) <= 8


def test_a_call_ends_at_its_time_whatever_it_waits_for(world: World) -> None:
    world.pod("slow", app="web", grace_seconds=60, stop_seconds=60)
    started = time.monotonic()
    result = world.drain(seconds=1.0)
    assert (result.ended, result.leaving) == (Ended.UNFINISHED, ("default/slow",))
    assert 0.9 <= time.monotonic() - started < 2.5
    assert threads() == set()


def test_watches_that_break_and_requests_that_are_lost_only_delay(world: World) -> None:
    for number in range(6):
        world.pod(f"web-{number}", app="web", stop_seconds=0.2 + number / 5)
    world.server.faults.cut("/pods", after_lines=2, times=2)
    world.server.faults.fail("watch", "/pods", 410, reason="Expired")
    world.server.faults.drop("create", "/eviction$", carried_out=True)
    world.server.faults.fail("create", "/eviction$", 500, times=2)
    result = world.drain(seconds=15)
    assert result.ended is Ended.EMPTY
    assert threads() == set()


def test_an_answer_that_nobody_expected_is_not_swallowed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.pod("web-1", app="web")

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Cluster, "evict", broken)
    with pytest.raises(ZeroDivisionError):
        world.drain(seconds=2)
    assert threads() == set()


def test_a_budget_that_frees_is_used_before_the_next_look(world: World) -> None:
    world.replicas("web", 2)
    time.sleep(0.3)
    world.server.apply(builders.pdb("web", labels={"app": "web"}, max_unavailable=1))
    time.sleep(0.2)
    world.hold_budget("web", 0)
    free = threading.Timer(1.5, lambda: world.hold_budget("web", 2))
    started = time.monotonic()
    free.start()
    result = world.drain(seconds=10, wait=Wait(stay=True))
    free.join()
    assert result.ended is Ended.EMPTY
    assert time.monotonic() - started < 1.5 + 0.8
    assert threads() == set()


def test_a_cancelled_call_asks_nothing_more_and_hears_what_is_due(world: World) -> None:
    for number in range(4):
        world.pod(f"slow-{number}", app="web", grace_seconds=60, stop_seconds=60)
    drain = policy.default().drain
    with Call(world.cluster, world.clock, drain, 60.0, "groundcrew-system") as call:
        threading.Timer(0.5, call.cancel).start()
        started = time.monotonic()
        result = evict(
            call, Target(node="n1", uid=world.uid), lambda node: "", wait=Wait(stay=True)
        )
        assert time.monotonic() - started < 2.0
    assert (result.ended, len(result.evicted)) == (Ended.UNFINISHED, 4)
    asked = len(world.server.seen)
    time.sleep(0.3)
    assert len(world.server.seen) == asked
    assert threads() == set()
