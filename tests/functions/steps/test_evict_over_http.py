"""The eviction engine as it runs in a cluster: a real clock, threads, sockets."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request, Response
from functions.rules import policy
from functions.rules.draining import Ended
from functions.steps.drain_call import Call
from functions.steps.drain_target import Target
from functions.steps.evict import evict
from functions.steps.evict_wait import Wait
from infra.local.cluster import builders
from tests.support.real_time import Slow, World, threads, world_over_http


@pytest.fixture
def world() -> Iterator[World]:
    with world_over_http() as made:
        yield made


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


@pytest.mark.parametrize("able", [True, False], ids=["one request", "an older server"])
def test_the_watch_that_began_with_all_pods_goes_on_to_the_last(world: World, able: bool) -> None:
    world.server._world.watch_list = able
    for number in range(3):
        world.pod(f"web-{number}", app="web", stop_seconds=0.3)
    drain = policy.default().drain
    with Call(world.cluster, world.clock, drain, 8.0, "groundcrew-system") as call:
        listed, watch = call.pods_watched("n1")
        world.pod("late", app="web")
        target = Target(node="n1", uid=world.uid)
        result = evict(call, target, lambda node: "", listed=listed, watch=watch)
    assert (result.ended, len(result.evicted)) == (Ended.EMPTY, 4)
    asked = {what: n for what, n in world.cluster.requests.items() if what.endswith(" pods")}
    del asked["evict pods"]
    assert asked == ({"watch pods": 1} if able else {"watch pods": 2, "list pods": 1})
    assert threads() == set()


def test_a_watch_that_nobody_needs_is_closed(world: World) -> None:
    drain = policy.default().drain
    with Call(world.cluster, world.clock, drain, 8.0, "groundcrew-system") as call:
        listed, watch = call.pods_watched("n1")
        assert watch is not None
        target = Target(node="n1", uid=world.uid)
        result = evict(call, target, lambda node: "", listed=listed, watch=watch)
    assert result.ended is Ended.EMPTY
    assert list(watch) == [], "else it would wait for its end"


def test_nothing_is_asked_whose_answer_would_not_be_heard(world: World) -> None:
    """Fifty evictions a second, and time for some fifty."""
    for number in range(100):
        world.pod(f"web-{number}", app="web", stop_seconds=0.1)
    slow = Slow(world.transport)
    world.cluster = Cluster(slow)
    result = world.drain(seconds=1.2)
    assert result.ended is Ended.UNFINISHED
    assert 4 <= len(result.evicted) < 70
    assert len(world.evictions()) == len(result.evicted), "and no answer was lost"
    assert slow.cut == 0


class Late:
    """A transport whose first requests reach the server late, as those that connect first do."""

    def __init__(self, inner: Any, first: int) -> None:
        self._inner = inner
        self._late = iter([0.3] * first)

    def send(self, request: Request) -> Response:
        if request.path.endswith("/eviction"):
            time.sleep(next(self._late, 0.0))
        response: Response = self._inner.send(request)
        return response

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)


def test_the_server_never_sees_the_rate_passed(world: World) -> None:
    for number in range(8):
        world.pod(f"web-{number}", app="web", stop_seconds=0.05)
    world.cluster = Cluster(Late(world.transport, first=5))
    slow = msgspec.structs.replace(policy.default().drain, evictions_per_second=5)
    result = world.drain(policy=slow)
    assert (result.ended, len(result.evicted)) == (Ended.EMPTY, 8)
    times = sorted(e.at for e in world.evictions())
    assert times[5] - times[0] >= timedelta(seconds=1)


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


def test_a_call_that_may_linger_a_little_waits_no_longer_than_that(world: World) -> None:
    world.pod("slow", app="web", grace_seconds=60, stop_seconds=60)
    started = time.monotonic()
    result = world.drain(seconds=4, wait=Wait(linger=0.5))
    assert (result.ended, result.leaving) == (Ended.UNFINISHED, ("default/slow",))
    assert 0.5 <= time.monotonic() - started < 2


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
