"""The eviction engine against the embedded cluster, on simulated time."""

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import policy
from functions.rules.draining import Ended, Result
from functions.rules.policy import Drain
from functions.steps.drain_call import Call
from functions.steps.drain_target import Target
from functions.steps.evict import evict
from functions.steps.evict_wait import Wait
from functions.steps.preview import plan, preview
from infra.local.cluster import EmbeddedTransport, builders
from tests.support.simulated import DrainWorld
from tests.support.wrong_clock import Dated, Wrong

NODE = "n1"
MINUTES = timedelta(minutes=5)
DRAIN = policy.default().drain


class World(DrainWorld):
    def drain(
        self,
        *,
        seconds: float = 4.0,
        drain: Drain = DRAIN,
        stop: Callable[[types.Node], str] = lambda node: "",
        target: dict[str, Any] | None = None,
        **more: Any,
    ) -> Result:
        with Call(self.cluster, self.clock, drain, seconds, "groundcrew-system") as call:
            return evict(call, Target(node=NODE, uid=self.uid, **(target or {})), stop, **more)


@pytest.fixture
def world() -> World:
    return World()


def changed(drain: Drain, **fields: Any) -> Drain:
    return Drain(**{**{f: getattr(drain, f) for f in drain.__struct_fields__}, **fields})


def test_an_empty_node_is_found_empty_with_one_list_and_no_write(world: World) -> None:
    assert world.drain().ended is Ended.EMPTY
    assert world.cluster.requests == {"list pods": 1}
    assert world.cluster.wrote == 0


def test_every_pod_is_evicted_with_its_uid_and_without_a_grace_period(world: World) -> None:
    made = {name: world.pod(name, app="web")["metadata"]["uid"] for name in ("web-1", "web-2")}
    result = world.drain()
    assert result.ended is Ended.EMPTY
    assert sorted(result.evicted) == ["default/web-1", "default/web-2"]
    assert world.pods_on() == []
    assert world.cluster.requests["list pods"] == 1, "a list and its watch show that it is empty"
    bodies = [e.body.decode() for e in world.evictions()]
    assert len(bodies) == 2
    assert all(any(uid in body for body in bodies) for uid in made.values())
    assert not any("gracePeriodSeconds" in body for body in bodies)


def test_pods_that_take_longer_than_the_call_are_left_for_the_next_and_not_asked_twice(
    world: World,
) -> None:
    world.pod("slow", app="web", grace_seconds=60, stop_seconds=50)
    first = world.drain()
    assert (first.ended, first.leaving) == (Ended.UNFINISHED, ("default/slow",))
    assert world.clock.monotonic() <= 5
    second = world.drain()
    assert (second.evicted, second.leaving) == ((), ("default/slow",))
    world.clock.sleep(60)
    assert world.drain().ended is Ended.EMPTY
    assert len(world.evictions()) == 1


def test_daemon_mirror_and_balloon_pods_are_left_alone(world: World) -> None:
    world.server.apply(builders.workload("DaemonSet", "agent", namespace="kube-system"))
    world.pod("mirror", annotations={"kubernetes.io/config.mirror": "x"})
    world.pod("balloon", app="balloons", labels={"groundcrew.dev/balloon": "gpu"})
    world.pod("web-1", app="web")
    world.clock.sleep(5)
    assert world.drain().ended is Ended.EMPTY
    assert [name.split("-")[0] for name in world.pods_on()] == ["agent", "balloon", "mirror"]
    assert len(world.evictions()) == 1


def test_a_bare_pod_is_named_and_does_not_keep_the_others(world: World) -> None:
    world.pod("bare")
    world.pod("web-1", app="web")
    result = world.drain()
    assert result.ended is Ended.UNFINISHED
    assert [(b.pod, b.lasting) for b in result.blocked] == [("default/bare", True)]
    assert "no controller" in result.blocked[0].why
    assert world.pods_on() == ["bare"]


def test_a_budget_lets_pods_go_one_by_one_and_is_never_broken(world: World) -> None:
    world.replicas("web", 4)
    world.server.apply(builders.pdb("web", labels={"app": "web"}, max_unavailable=1))
    least: list[int] = []
    world.server.subscribe(
        lambda: least.append(
            sum(
                1
                for p in world.server.all("pods")
                for c in p.get("status", {}).get("conditions", ())
                if c["type"] == "Ready"
                and c["status"] == "True"
                and "deletionTimestamp" not in p["metadata"]
            )
        )
    )
    result = world.drain(seconds=60)
    assert result.ended is Ended.EMPTY
    assert len(result.evicted) == 4
    assert min(least) == 3
    refused = [e for e in world.evictions() if e.status == 429]
    assert len(refused) <= 4


def test_a_budget_that_can_never_allow_it_is_named_without_being_asked(world: World) -> None:
    world.replicas("db", 1)
    world.server.apply(builders.pdb("db", labels={"app": "db"}, min_available=1))
    result = world.drain()
    assert "default/db can never allow it" in result.blocked[0].why
    assert world.evictions() == []


def test_two_budgets_over_one_pod_are_both_named(world: World) -> None:
    world.replicas("db", 3)
    for name in ("one", "two"):
        world.server.apply(builders.pdb(name, labels={"app": "db"}, max_unavailable=1))
    result = world.drain()
    assert "default/one, default/two" in result.blocked[0].why
    assert world.evictions() == []


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500, "message": "etcdserver: leader changed"},
        {"status": 429, "retry_after_seconds": 1, "message": "too many requests"},
        {"status": 403, "message": "admission webhook says: not yet"},
        {"status": 504, "message": "timeout"},
        {"status": 401, "message": "Unauthorized"},
    ],
)
def test_a_refusal_that_may_pass_is_tried_again(world: World, fault: dict[str, Any]) -> None:
    world.pod("web-1", app="web")
    world.server.faults.fail("create", "/eviction$", times=2, **fault)
    assert world.drain(seconds=20).ended is Ended.EMPTY
    times = [e.at for e in world.evictions()]
    assert len(times) == 3
    least = timedelta(seconds=fault.get("retry_after_seconds", 0.1))
    assert all(later - first >= least for first, later in itertools.pairwise(times))


def test_a_refusal_by_rbac_is_named_and_not_tried_again(world: World) -> None:
    world.pod("web-1", app="web")
    message = 'pods "web-1" is forbidden: User "x" cannot create resource "pods/eviction"'
    world.server.faults.fail("create", "/eviction$", 403, message=message, times=99)
    result = world.drain(seconds=20)
    assert "we may not evict it" in result.blocked[0].why
    assert len(world.evictions()) == 1


def test_an_eviction_whose_answer_was_lost_is_settled_by_the_watch(world: World) -> None:
    world.pod("web-1", app="web")
    world.server.faults.drop("create", "/eviction$", carried_out=True)
    assert world.drain().ended is Ended.EMPTY


def test_what_an_answer_alone_says_is_gone_is_looked_for_once_more(world: World) -> None:
    world.pod("web-1", app="web")
    world.server.faults.fail("create", "/eviction$", 404, reason="NotFound")
    result = world.drain(seconds=20)
    assert (result.ended, result.evicted) == (Ended.EMPTY, ("default/web-1",))
    assert world.pods_on() == []


def test_a_node_that_was_listed_before_it_was_cordoned_is_listed_again(world: World) -> None:
    world.pod("web-1", app="web")
    before = world.cluster.list_pods(node=NODE)
    result = world.drain(seconds=20, listed=before, before_cordon=True)
    assert result.ended is Ended.EMPTY
    assert world.cluster.requests["list pods"] == 2


@pytest.mark.parametrize("verb", ["list", "watch", "create"])
def test_a_server_that_is_away_for_a_moment_holds_nothing_up(world: World, verb: str) -> None:
    world.pod("web-1", app="web", stop_seconds=2)
    world.server.faults.drop(verb, "", times=2)
    assert world.drain(seconds=30).ended is Ended.EMPTY


def test_a_watch_that_is_too_old_or_cut_is_begun_anew(world: World) -> None:
    for number in range(5):
        world.pod(f"web-{number}", app="web", stop_seconds=number + 1)
    world.server.faults.fail("watch", "/pods", 410, reason="Expired")
    world.server.faults.cut("/pods", after_lines=2)
    assert world.drain(seconds=30).ended is Ended.EMPTY


def test_a_server_that_stays_away_is_said_so(world: World) -> None:
    world.server.faults.drop("list", "", times=1000)
    with pytest.raises(errors.Unreachable):
        world.drain()
    assert world.clock.monotonic() <= 5


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create"])
def test_credentials_that_are_renewed_in_the_middle_only_delay(world: World, verb: str) -> None:
    for number in range(3):
        world.pod(f"web-{number}", app="web", stop_seconds=number + 1)
    world.server.faults.fail(verb, "", 401, reason="Unauthorized", times=3)
    result = world.drain(seconds=30)
    assert (result.ended, len(result.evicted)) == (Ended.EMPTY, 3)


def test_a_server_that_no_longer_knows_us_is_said_so_with_what_was_done(world: World) -> None:
    world.pod("web-1", app="web", stop_seconds=60)
    world.pod("web-2", app="web", stop_seconds=60)

    def expire(_: object) -> None:
        world.server.faults.fail("*", "", 401, reason="Unauthorized", times=10_000)

    world.server.faults.before("watch", "/pods", expire)
    result = world.drain(seconds=600, wait=Wait(stay=True))
    assert (result.ended, len(result.evicted)) == (Ended.UNFINISHED, 2)
    assert "does not know us any more: log in anew" in result.why
    assert world.clock.monotonic() < 20, "it is not waited for to the end"


@pytest.mark.parametrize("seconds", [0.3, 1.0, 1.1, 2.0, 2.5])
def test_time_that_runs_out_is_no_error(world: World, seconds: float) -> None:
    world.pod("web-1", app="web", stop_seconds=0.9)
    world.pod("slow", app="web", stop_seconds=1.9)
    world.server.faults.drop("get", "/nodes", times=99)
    result = world.drain(seconds=seconds)
    assert len(result.evicted) == 2


def test_a_server_that_goes_away_in_the_middle_takes_nothing_back(world: World) -> None:
    world.pod("web-1", app="web")
    world.server.faults.drop("list", "/poddisruptionbudgets", times=99)
    result = world.drain()
    assert (result.ended, result.evicted) == (Ended.UNFINISHED, ())


def test_a_pod_bound_after_the_list_is_evicted_too(world: World) -> None:
    world.pod("web-1", app="web", stop_seconds=3)
    world.server.faults.before("create", "/eviction$", lambda _: world.pod("late", app="other"))
    result = world.drain(seconds=20)
    assert result.ended is Ended.EMPTY
    assert "default/late" in result.evicted


def test_a_node_that_is_uncordoned_in_the_middle_is_left_alone(world: World) -> None:
    world.replicas("web", 3)
    world.server.apply(builders.pdb("web", labels={"app": "web"}, max_unavailable=1))
    asked: list[str] = []

    def stop(node: types.Node) -> str:
        asked.append(node.name)
        return "uncordoned by somebody"

    result = world.drain(seconds=60, stop=stop)
    assert (result.ended, result.why) == (Ended.STOPPED, "uncordoned by somebody")
    assert len(world.evictions()) == 1


def test_a_node_that_is_deleted_or_replaced_in_the_middle_ends_the_drain(world: World) -> None:
    world.replicas("web", 3)
    world.server.apply(builders.pdb("web", labels={"app": "web"}, max_unavailable=1))
    world.server.faults.before(
        "create", "/eviction$", lambda _: world.server.delete("nodes", "", NODE)
    )
    assert world.drain(seconds=60).ended is Ended.NODE_GONE


def test_another_node_under_the_name_is_not_drained(world: World) -> None:
    world.pod("web-1", app="web")
    world.server.faults.fail("create", "/eviction$", 500, times=3)

    def replace(_: object) -> None:
        world.server.delete("nodes", "", NODE)
        world.add_node(NODE, unschedulable=True)

    world.server.faults.before("create", "/eviction$", replace)
    result = world.drain(seconds=60)
    assert (result.ended, result.why) == (Ended.NODE_GONE, "another node has its name")
    assert result.evicted == ()


def test_a_node_that_empties_after_an_uncordon_is_not_called_drained(world: World) -> None:
    world.pod("web-1", app="web", stop_seconds=3)
    assert world.drain(stop=lambda node: "uncordoned").ended is Ended.STOPPED


def test_a_finalizer_that_holds_a_pod_is_named(world: World) -> None:
    world.pod("stuck", app="web", finalizers=["example.com/hold"], grace_seconds=2)
    world.drain(seconds=4)
    world.clock.sleep(30)
    result = world.drain()
    assert "finalizer example.com/hold" in result.blocked[0].why
    assert result.blocked[0].lasting


def test_a_lost_kubelet_is_named_and_not_waited_for(world: World) -> None:
    world.pod("web-1", app="web", grace_seconds=600)
    world.server.stop_kubelet(NODE)
    started = world.clock.monotonic()
    result = world.drain(seconds=30, target={"kubelet_lost": True})
    assert "kubelet does not answer" in result.blocked[0].why
    assert world.clock.monotonic() - started < 5


def test_the_same_name_on_another_node_is_not_touched(world: World) -> None:
    old = world.pod("web-0", app="web", stop_seconds=1)
    world.server.faults.fail("create", "/eviction$", 429, retry_after_seconds=1)

    def moved(_: object) -> None:
        world.server.delete("pods", "default", "web-0", grace_seconds=0)
        world.pod("web-0", app="web", on="n2")

    world.server.faults.before("create", "/eviction$", moved)
    assert world.drain(seconds=20).ended is Ended.EMPTY
    assert world.pods_on("n2") == ["web-0"]
    assert all(old["metadata"]["uid"] in e.body.decode() for e in world.evictions())


def test_a_pod_that_keeps_coming_back_is_given_up(world: World) -> None:
    everywhere = [{"operator": "Exists"}]
    world.server.apply(
        builders.workload("ReplicaSet", "clingy", replicas=1, tolerations=everywhere)
    )
    world.server.delete("nodes", "", "n2")
    world.clock.sleep(5)
    result = world.drain(seconds=120)
    assert result.ended is Ended.UNFINISHED
    assert "puts its pods back" in result.blocked[0].why
    assert len(world.evictions()) == 2


def test_blocked_pods_are_deleted_with_their_grace_at_the_last_resort(world: World) -> None:
    world.pod("bare", grace_seconds=45)
    world.replicas("db", 1)
    world.server.apply(builders.pdb("db", labels={"app": "db"}, min_available=1))
    result = world.drain(seconds=60, target={"last_resort_at": world.clock.now()})
    assert sorted(result.deleted) == ["default/bare", "default/db-0"]
    assert result.ended is Ended.EMPTY
    bodies = [r.body.decode() for r in world.server.requests("delete", "/pods/")]
    assert any('"gracePeriodSeconds":45' in body for body in bodies)


def test_what_refuses_evictions_does_not_refuse_the_last_resort(world: World) -> None:
    world.pod("web-1", app="web")
    message = "admission webhook says: not yet"
    world.server.faults.fail("create", "/eviction$", 403, message=message, times=9)
    result = world.drain(seconds=20, target={"last_resort_at": world.clock.now()})
    assert (result.ended, result.deleted) == (Ended.EMPTY, ("default/web-1",))


def test_a_grace_ends_with_the_machine_and_is_never_below_a_second(world: World) -> None:
    world.pod("web-1", app="web", grace_seconds=300)
    world.pod("web-2", app="web", grace_seconds=5)
    world.drain(target={"lost_at": world.clock.now() + timedelta(seconds=40)})
    bodies = sorted(e.body.decode() for e in world.evictions())
    assert sum('"gracePeriodSeconds":40' in body for body in bodies) == 1
    assert sum("gracePeriodSeconds" in body for body in bodies) == 1
    world.pod("web-3", app="web")
    world.drain(target={"lost_at": world.clock.now() - timedelta(seconds=40)})
    assert '"gracePeriodSeconds":1' in world.evictions()[-1].body.decode()


def test_what_the_system_needs_goes_after_the_workloads_and_we_go_last(world: World) -> None:
    world.pod("web-1", app="web", stop_seconds=3)
    dns = world.pod("dns", app="dns")
    dns["spec"]["priority"] = 2_000_000_000
    world.server.apply({"apiVersion": "v1", "kind": "Pod", **dns})
    world.pod("own", app="own", namespace="groundcrew-system")
    assert world.drain(seconds=60).ended is Ended.EMPTY
    order = [e.path.split("/")[-2] for e in world.evictions()]
    assert order[-2:] == ["dns", "own"]
    gap = world.evictions()[-2].at - world.evictions()[0].at
    assert gap >= timedelta(seconds=2)


def test_a_gang_that_is_warned_is_held_until_its_time(world: World) -> None:
    world.pod("rank-0", app="train", labels={"groundcrew.dev/gang": "run-7"})
    world.pod("web-1", app="web")
    until = world.clock.now() + timedelta(minutes=5)
    result = world.drain(target={"notice": {"gang default/run-7": until}})
    assert result.held == {"gang default/run-7": until}
    assert world.pods_on() == ["rank-0"]
    assert world.clock.monotonic() < 5
    world.clock.sleep(300)
    assert world.drain(target={"notice": {"gang default/run-7": until}}).ended is Ended.EMPTY


def test_a_gang_that_was_not_warned_is_held(world: World) -> None:
    world.pod("rank-0", app="train", labels={"groundcrew.dev/gang": "run-7"})
    assert world.drain().held == {"gang default/run-7": None}


def test_evictions_never_pass_the_rate(world: World) -> None:
    for number in range(25):
        world.pod(f"web-{number}", app="web", stop_seconds=0)
    world.drain(seconds=20, drain=changed(DRAIN, evictions_per_second=10))
    times = sorted(e.at for e in world.evictions())
    assert len(times) == 25
    for first, eleventh in zip(times, times[10:], strict=False):
        assert eleventh - first >= timedelta(seconds=0.99)


def test_a_call_that_may_not_linger_asks_and_goes(world: World) -> None:
    for number in range(3):
        world.pod(f"web-{number}", app="web")
    result = world.drain(wait=Wait(linger=0))
    assert (result.ended, len(result.evicted), len(result.leaving)) == (Ended.UNFINISHED, 3, 3)
    assert world.clock.monotonic() == 0


def test_a_call_that_may_linger_a_little_waits_for_pods_that_are_quick(world: World) -> None:
    world.pod("quick", app="web", stop_seconds=2)
    world.pod("next", app="web", stop_seconds=4)
    world.pod("slow", app="web", stop_seconds=60, grace_seconds=90)
    result = world.drain(seconds=20, wait=Wait(linger=3))
    assert (result.went, len(result.leaving)) == (2, 1)
    assert 7 <= world.clock.monotonic() < 8.1


def test_a_call_on_a_clock_that_nobody_moves_ends(world: World) -> None:
    world.cluster = Cluster(EmbeddedTransport(world.server))
    world.pod("slow", app="web", stop_seconds=100)
    result = world.drain()
    assert (result.ended, result.leaving) == (Ended.UNFINISHED, ("default/slow",))


def test_five_hundred_pods_cost_one_request_each_and_a_few(world: World) -> None:
    for number in range(500):
        world.pod(f"web-{number}", app="web", stop_seconds=1)
    assert world.drain(seconds=60).ended is Ended.EMPTY
    assert sum(world.cluster.requests.values()) <= 500 * 1.1


def test_a_preview_asks_the_server_and_writes_nothing(world: World) -> None:
    world.pod("bare")
    world.pod("web-1", app="web")
    world.replicas("db", 2)
    world.server.apply(builders.pdb("db", labels={"app": "db"}, max_unavailable=1))
    world.server.apply(builders.pdb("web", labels={"app": "web"}, max_unavailable="50%"))
    world.server.faults.fail("create", "web-1/eviction$", 403, message="not on a Friday")
    with Call(world.cluster, world.clock, DRAIN, 10, "groundcrew-system") as call:
        planned = preview(call, plan(call, Target(node=NODE, uid=world.uid)))
    found = {p.step.pod.name: (p.step.verdict.value, p.refused) for p in planned}
    assert found["bare"] == ("blocked", "")
    assert found["web-1"] == ("evict", "not on a Friday")
    assert found["db-0"] == found["db-1"] == ("evict", "")
    assert world.cluster.wrote == 0
    assert all('"dryRun":["All"]' in e.body.decode() for e in world.evictions())
    assert len(world.pods_on()) == 4


def test_an_empty_node_is_not_called_empty_while_what_left_may_come_back(world: World) -> None:
    made = world.pod("web-1", app="web", stop_seconds=1)
    made["spec"]["tolerations"] = [{"operator": "Exists"}]
    world.server.apply({"apiVersion": "v1", "kind": "Pod", **made})
    numbers = itertools.count(2)

    def put_back(_: object) -> None:
        if not world.pods_on():
            world.pod(f"web-{next(numbers)}", app="web", stop_seconds=1)

    world.server.faults.before("watch", "/pods", put_back, times=100)
    result = world.drain(seconds=30)
    assert result.ended is Ended.UNFINISHED
    assert "puts its pods back" in result.blocked[0].why
    assert len(result.evicted) == 2


def test_a_clock_of_ours_that_is_wrong_makes_no_pod_late(world: World) -> None:
    world.pod("slow", app="web", grace_seconds=60, stop_seconds=50)
    transport = EmbeddedTransport(world.server, world.clock.sleep)
    for ahead, leaving, blocked in (
        (timedelta(0), 0, 1),  # nobody tells us that our clock is wrong
        (MINUTES, 1, 0),
    ):
        cluster = Cluster(Dated(transport, ahead))
        with Call(cluster, Wrong(world.clock, MINUTES), DRAIN, 2, "groundcrew-system") as call:
            result = evict(call, Target(node=NODE, uid=world.uid), lambda node: "")
        assert (len(result.leaving), len(result.blocked)) == (leaving, blocked)
