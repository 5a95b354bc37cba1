"""The drain function against the embedded cluster, on simulated time."""

import functools
import json
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Kind
from functions import drain
from functions.edge.context import Context, Outcome, Settings
from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.together import Together
from functions.rules import drain_state, keys, pause
from functions.rules import policy as policies
from functions.rules.decision import Action
from functions.rules.drain_state import DrainState, State
from functions.steps import active
from functions.steps.handed import Handed
from infra.local.cluster import EmbeddedTransport, builders
from tests.support.crew import Between, ping
from tests.support.simulated import DrainWorld
from tests.support.wrong_clock import Dated, Wrong

NAMESPACE = "groundcrew-system"
HOUR = timedelta(hours=1)
GANG = {"groundcrew.dev/gang": "run-7"}


class World(DrainWorld):
    ahead = timedelta(0)
    """How far our own clock is ahead of the API server's."""

    def call(
        self, event: CloudEvent | None = None, pod_node: str = "", handed: Handed | None = None
    ) -> Outcome:
        """One call, over a connection of its own as each process has."""
        transport = EmbeddedTransport(self.server, self.clock.sleep)
        self.cluster = Cluster(Dated(transport, self.ahead) if self.ahead else transport)
        settings = Settings(namespace=NAMESPACE, call_seconds=4.0, pod_node=pod_node)
        clock = Wrong(self.clock, self.ahead)
        context = Context(lambda: self.cluster, clock, settings, handed=handed)
        return drain.handle(event or ping("resync-drain"), context)

    def tick(self, times: int = 1) -> list[Outcome]:
        """The resync, every five seconds."""
        outcomes = []
        for _ in range(times):
            started = self.clock.monotonic()
            outcomes.append(self.call())
            self.clock.sleep(max(0.0, 5 - (self.clock.monotonic() - started)))
        return outcomes

    def state(self, name: str = "n1") -> DrainState:
        text = self.annotation(name)
        assert text is not None
        return drain_state.decode(text)

    def set_annotation(self, text: str, name: str = "n1") -> None:
        found = self.node(name)
        found["metadata"]["annotations"][keys.DRAIN] = text
        self.server.apply(found)

    def set_policy(self, text: str) -> None:
        data = active.policy_data(policies.parse("version: 1\n" + text), "a test")
        self.config_map(active.POLICY_NAME, "policy", data)

    def config_map(self, name: str, part: str, data: dict[str, str]) -> None:
        self.server.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": {keys.PART: part}},
                "data": data,
            }
        )

    def handed(self, *names: str) -> Handed:
        """What cordon hands over, as if it had just read and written these nodes."""
        transport = EmbeddedTransport(self.server, self.clock.sleep)
        cluster = Cluster(transport)
        nodes = {name: cluster.get_node(name) for name in names or ("n1",)}
        return Handed(active.read(cluster, NAMESPACE), nodes, self.clock.monotonic())

    def reads(self) -> dict[str, int]:
        """What the last call has read of nodes and of what is in force."""
        return {
            what: count
            for what, count in self.cluster.requests.items()
            if what in ("list nodes", "list configmaps")
        }

    def writes(self) -> list[str]:
        return [
            f"{r.verb} {r.path}"
            for r in self.server.requests()
            if r.verb not in ("get", "list", "watch") and "selfsubject" not in r.path
        ]


@pytest.fixture
def world() -> World:
    return World()


def cordoned(*nodes: str, severity: str = "evict", lately: int = 0, **more: Any) -> CloudEvent:
    """``more`` is said of each node."""
    data: dict[str, Any] = {"nodes": [{"node": n, "severity": severity, **more} for n in nodes]}
    if lately:
        data["cordoned_lately"] = lately
    return CloudEvent(
        id="1", source="/groundcrew", type=drain.CORDONED, data=json.dumps(data).encode()
    )


def test_a_node_that_is_to_be_emptied_is_drained_in_one_call(world: World) -> None:
    world.replicas("web", 3)
    world.mark()
    outcome = world.call(cordoned("n1"))
    assert [d.action for d in outcome.decisions] == [Action.START_DRAIN, Action.DRAINED]
    assert outcome.answer is not None
    assert outcome.answer.type == drain.DRAINED
    assert outcome.answer.data["nodes"] == [{"node": "n1", "evicted": 3}]
    state = world.state()
    assert (state.state, state.evicted, state.blocked_by) == (State.DRAINED, 3, ())
    assert world.pods_on() == []
    assert world.events() == [("NodeDrained", "n1")], "one story, one Event"


@pytest.mark.parametrize("kind", [Kind.INTERRUPTION, Kind.TERMINATION, Kind.FAULT])
def test_of_a_machine_that_goes_by_itself_it_is_said_so(world: World, kind: Kind) -> None:
    world.replicas("web", 1)
    world.mark(kind=kind)
    outcome = world.call(cordoned("n1"))
    assert outcome.answer is not None
    (told,) = outcome.answer.data["nodes"]
    assert told.get("leaves", False) is (kind is Kind.INTERRUPTION)


def test_where_we_run_ourselves_is_not_asked_for_the_sake_of_one_node(world: World) -> None:
    world.add_node("n3", unschedulable=True)
    world.mark("n3")
    world.call(cordoned("n3"))
    world.replicas("web", 1)
    world.mark()
    world.server.requests().clear()
    world.call(cordoned("n1"))
    assert world.state().state is State.DRAINED
    assert not [r for r in world.server.requests() if r.path.endswith(f"/{NAMESPACE}/pods")]


def test_the_drain_is_written_down_before_the_first_eviction(world: World) -> None:
    world.replicas("web", 1)
    world.mark()
    world.call()
    writes = world.writes()
    assert writes[0].startswith("patch /api/v1/nodes/n1")
    assert writes[1].endswith("/eviction")


def interrupted(world: World, *nodes: str) -> None:
    """What cordon left on nodes whose machines the cloud takes in two minutes."""
    at = world.clock.now() + timedelta(minutes=2)
    for name in nodes or ("n1",):
        world.mark(name, kind=Kind.INTERRUPTION, deadline=at)


def uncordon(world: World) -> None:
    """By somebody else."""
    found = world.node()
    found["spec"]["unschedulable"] = False
    world.server.apply(found)


def test_of_a_machine_that_goes_in_minutes_no_pod_waits_for_a_note(world: World) -> None:
    world.replicas("web", 3)
    interrupted(world)
    outcome = world.call(cordoned("n1"))
    assert [d.action for d in outcome.decisions] == [Action.START_DRAIN, Action.DRAINED]
    asked = Counter(f"{r.verb} {r.path.rsplit('/', 1)[-1]}" for r in world.server.requests())
    assert (asked["create eviction"], asked["patch n1"]) == (3, 1)
    assert not any("selfsubject" in path for path in asked), "each eviction says whether we may"
    assert not any("poddisruption" in path for path in asked), "and whether a budget lets it go"
    assert (world.state().state, world.state().evicted) == (State.DRAINED, 3)


def test_of_a_machine_that_goes_in_minutes_a_budget_is_read_when_it_refuses(world: World) -> None:
    world.replicas("web", 4)
    world.server.apply(builders.pdb("web", labels={"app": "web"}, max_unavailable=1))
    interrupted(world)
    world.call()
    asked = Counter(r.status for r in world.evictions())
    assert asked[429] <= 4, "once in vain at most"
    world.tick(4)
    assert world.state().state is State.DRAINED
    assert Counter(r.status for r in world.evictions()) == {201: 4, 429: asked[429]}


@pytest.mark.parametrize("what", ["a volume", "a gang", "nobody makes it anew", "many"])
def test_what_its_pods_would_not_say_is_written_down_first_even_so(world: World, what: str) -> None:
    nodes = ["n1"]
    if what == "a volume":
        claimed_disk(world, "csi")
    elif what == "a gang":
        world.pod("rank-0", app="train", labels=GANG)
    elif what == "nobody makes it anew":
        world.server.held.add("workloads")
        gone = {"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"name": "gone", "uid": "uid-of-none"}}  # fmt: skip
        world.server.apply(builders.pod("gone-1", node="n1", owner=gone))
    else:
        nodes += ["m1", "m2", "m3"]
        for name in nodes[1:]:
            world.add_node(name, unschedulable=True)
    for name in nodes:
        world.pod(f"web-{name}", app="web", on=name)
    interrupted(world, *nodes)
    world.call()
    assert world.writes()[0].startswith("patch /api/v1/nodes/")


def test_one_that_comes_to_nothing_yet_is_written_down_all_the_same(world: World) -> None:
    """Else it would begin anew at each look, and nothing would ever be said to block it."""
    world.pod("web-1", app="web")
    interrupted(world)
    world.server.faults.fail("create", "/eviction$", 500, times=99)
    world.call()
    assert world.state().state is State.DRAINING


def test_if_we_die_before_it_is_written_down_the_next_look_ends_it(world: World) -> None:
    world.pod("web-1", app="web")
    world.pod("slow", app="web", stop_seconds=30)
    interrupted(world)

    def die(_: object) -> None:
        world.server.faults.drop("*", "", times=10_000)

    world.server.faults.before("watch", "/pods", die)
    with pytest.raises(errors.Unreachable):
        world.call()
    world.server.faults.clear()
    assert world.annotation() is None
    world.tick(8)
    assert world.state().state is State.DRAINED
    assert len(world.evictions()) == 2, "nobody is asked twice"


def test_a_node_given_back_in_the_middle_is_not_called_drained_by_the_first_note(
    world: World,
) -> None:
    world.pod("web-1", app="web")
    interrupted(world)

    world.server.faults.before("patch", "/nodes/n1", lambda _: uncordon(world))
    outcome = world.call()
    assert (outcome.answer, world.annotation(), world.events()) == (None, None, [])


def test_a_machine_that_goes_in_minutes_is_not_emptied_by_what_was_read_long_ago(
    world: World,
) -> None:
    """More than a second passes until its pods are known; somebody uncordons it meanwhile."""
    world.pod("web-1", app="web")
    interrupted(world)

    def meanwhile(_: object) -> None:
        world.clock.sleep(1.1)
        uncordon(world)

    world.server.faults.before("list", "/pods$", meanwhile)
    world.call()
    assert world.evictions() == []
    assert world.state().state is State.STOPPED


def test_where_we_may_not_evict_a_machine_that_goes_in_minutes_says_so(world: World) -> None:
    world.replicas("web", 1)
    interrupted(world)
    message = 'pods "web-0" is forbidden: User "x" cannot create resource "pods/eviction"'
    world.server.faults.fail("create", "/eviction$", 403, message=message, times=99)
    world.call()
    assert world.state().state is State.BLOCKED
    assert "we may not evict it" in world.state().blocked_by[0]


def test_what_was_read_a_moment_ago_in_this_process_is_not_read_again(world: World) -> None:
    world.replicas("web", 2)
    interrupted(world)
    outcome = world.call(cordoned("n1"), handed=world.handed())
    assert outcome.answer is not None
    assert (world.reads(), world.state().evicted) == ({}, 2)


@pytest.mark.parametrize("why", ["it is old", "another node is named", "its machine stays"])
def test_in_any_other_case_the_cluster_is_read(world: World, why: str) -> None:
    world.add_node("n3", unschedulable=True)
    world.replicas("web", 2)
    interrupted(world, "n1", "n3")
    if why == "its machine stays":
        world.mark("n3")
    handed = world.handed("n1") if why == "another node is named" else world.handed("n1", "n3")
    if why == "it is old":
        world.clock.sleep(1.0)
    world.call(cordoned("n1", "n3"), handed=handed)
    assert world.reads() == {"list nodes": 1, "list configmaps": 1}
    assert world.pods_on() == []


def test_what_is_handed_over_is_decided_about_like_what_is_read(world: World) -> None:
    world.replicas("web", 1)
    interrupted(world)
    stop = pause.Pause(until=world.clock.now() + timedelta(minutes=1), reason="release night")
    world.config_map(active.PAUSE_NAME, "pause", {"cluster": msgspec.json.encode(stop).decode()})
    world.call(cordoned("n1"), handed=world.handed())
    assert world.writes() == []
    world.mark(severity="cordon", kind=Kind.INTERRUPTION)
    world.call(cordoned("n1"), handed=world.handed())
    assert world.writes() == []


def test_a_node_that_was_handed_over_and_given_back_since_is_not_called_drained(
    world: World,
) -> None:
    world.replicas("web", 1)
    interrupted(world)
    handed = world.handed()
    world.mark(cordoned=False, kind=Kind.INTERRUPTION)
    outcome = world.call(cordoned("n1"), handed=handed)
    assert outcome.answer is None
    assert world.state().state is State.STOPPED


def test_what_was_handed_over_is_as_old_as_when_it_was_read(world: World) -> None:
    world.replicas("web", 1)
    interrupted(world)
    handed = world.handed()
    world.mark(cordoned=False, kind=Kind.INTERRUPTION)
    world.clock.sleep(0.6)
    world.server.faults.before("list", "/pods$", lambda _: world.clock.sleep(0.5))
    world.call(cordoned("n1"), handed=handed)
    assert world.evictions() == []


def test_a_drained_node_costs_one_request_and_no_write(world: World) -> None:
    world.replicas("web", 3)
    world.mark()
    world.call()
    written = len(world.writes())
    world.clock.sleep(5)
    outcome = world.call()
    assert outcome.requests == {"list nodes": 1}
    assert outcome.look_again is not None
    world.clock.sleep(300)
    world.call(cordoned("n1"))
    assert len(world.writes()) == written


def test_an_event_about_other_severities_connects_to_nothing(world: World) -> None:
    def connect() -> Cluster:
        raise AssertionError("connected")

    context = Context(connect, world.clock, Settings())
    assert drain.handle(cordoned("n1", severity="cordon"), context).declined
    with pytest.raises(MalformedEvent, match="data"):
        drain.handle(
            CloudEvent(id="1", source="x", type=drain.CORDONED, data=b'{"nodes": 3}'), context
        )


def test_what_an_event_says_of_a_node_that_is_not_marked_is_not_believed(world: World) -> None:
    world.replicas("web", 1)
    world.call(cordoned("n1", "n2", "n3"))
    assert world.writes() == []


@pytest.mark.parametrize(
    "mark",
    [
        {"cordoned": False},
        {"severity": "cordon"},
        {"severity": "dismissed"},
        {"labels": {keys.OPT_OUT: "false"}},
    ],
)
def test_a_node_that_is_not_ours_to_drain_is_left_alone(world: World, mark: dict[str, Any]) -> None:
    world.replicas("web", 1)
    world.mark(**mark)
    world.call(cordoned("n1"))
    assert world.writes() == []


def test_an_evict_label_without_the_mark_of_cordon_is_not_enough(world: World) -> None:
    world.replicas("web", 1)
    world.mark()
    found = world.node()
    del found["metadata"]["annotations"][keys.INCIDENTS]
    world.server.apply(found)
    world.call()
    assert world.writes() == []


def test_a_slow_drain_goes_on_with_the_resync_and_evicts_nothing_twice(world: World) -> None:
    world.pod("slow", app="web", grace_seconds=120, stop_seconds=60)
    world.mark()
    outcomes = world.tick(14)
    assert outcomes[0].look_again is not None
    assert world.state().state is State.DRAINED
    assert len(world.evictions()) == 1
    assert len([o for o in outcomes if o.answer]) == 1
    patches = world.server.requests("patch", "/nodes/n1")
    assert len(patches) == 3, "begun, evicted, drained"
    assert sorted(world.events()) == [("DrainStarted", "n1"), ("NodeDrained", "n1")]


def test_blockers_are_named_told_once_and_written_once(world: World) -> None:
    world.pod("bare")
    world.replicas("web", 2)
    world.mark()
    outcomes = world.tick(6)
    answers = [o.answer for o in outcomes if o.answer]
    assert [a.type for a in answers] == [drain.BLOCKED]
    [node] = answers[0].data["nodes"]
    assert node["node"] == "n1"
    assert "default/bare: has no controller" in node["blocked_by"][0]
    state = world.state()
    assert state.state is State.BLOCKED
    assert world.pods_on() == ["bare"]
    assert world.events().count(("DrainBlocked", "n1")) == 1
    written = len(world.writes())
    world.tick(30)
    assert len(world.writes()) == written


def test_a_long_blocked_drain_is_looked_at_less_often_and_still_notices(world: World) -> None:
    world.pod("bare")
    world.mark()
    world.tick(150)
    before = len(world.server.requests("list", "/pods"))
    world.tick(12)
    assert len(world.server.requests("list", "/pods")) - before <= 3
    world.server.delete("pods", "default", "bare", grace_seconds=0)
    world.tick(7)
    assert world.state().state is State.DRAINED


def test_a_drain_that_is_blocked_for_hours_costs_little_and_goes_on_in_minutes(
    world: World,
) -> None:
    world.replicas("web", 1)
    world.server.apply(builders.pdb("web", labels={"app": "web"}, min_available=1))
    world.mark()
    world.tick(2)
    world.clock.sleep(2 * 3600)
    before = len(world.server.requests()), len(world.server.requests("list", "/pods"))
    world.tick(360)  # half an hour
    looks = len(world.server.requests("list", "/pods")) - before[1]
    assert 6 <= looks <= 12
    sent = len(world.server.requests()) - before[0]
    assert sent <= 360 + 4 * looks, "a list of nodes each tick, and the looks"
    world.server.apply(builders.pdb("web", labels={"app": "web"}, min_available=0))
    world.tick(60 + 6)
    assert world.state().state is State.DRAINED


def test_a_budget_that_paces_the_drain_does_not_make_it_blocked(world: World) -> None:
    world.replicas("web", 3)
    world.server.apply(builders.pdb("web", labels={"app": "web"}, max_unavailable=1))
    world.mark()
    outcomes = world.tick(8)
    assert world.state().state is State.DRAINED
    assert [o.answer.type for o in outcomes if o.answer] == [drain.DRAINED]


def test_somebodys_uncordon_stops_a_running_drain(world: World) -> None:
    world.pod("bare")
    world.mark()
    world.tick()
    uncordon(world)
    outcome = world.call()
    assert [d.action for d in outcome.decisions] == [Action.STOP_DRAIN]
    assert world.state().state is State.STOPPED
    assert ("DrainStopped", "n1") in world.events()
    written = len(world.writes())
    world.tick(3)
    assert len(world.writes()) == written


def test_a_node_uncordoned_between_our_read_and_our_write_is_not_drained(world: World) -> None:
    world.replicas("web", 1)
    world.mark()

    world.server.faults.before("patch", "/nodes/n1", lambda _: uncordon(world))
    world.call()
    assert world.evictions() == []
    assert world.annotation() is None


def test_a_drain_of_another_machine_or_boot_is_void(world: World) -> None:
    world.replicas("web", 2)
    world.mark()
    old = DrainState(
        state=State.DRAINED,
        started=world.clock.now() - timedelta(days=1),
        changed=world.clock.now() - timedelta(days=1),
        provider_id="aws:///us-east-1a/i-another",
        boot=world.node()["status"]["nodeInfo"]["bootID"],
    )
    world.set_annotation(drain_state.encode(old))
    world.call()
    assert world.pods_on() == []
    same_machine = msgspec.structs.replace(
        old, provider_id=world.node()["spec"]["providerID"], boot="another boot"
    )
    world.replicas("late", 1)
    world.set_annotation(drain_state.encode(same_machine))
    world.call()
    assert world.pods_on() == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "flying"}', "x" * 5000])
def test_a_garbled_annotation_is_begun_anew_and_said_so(world: World, text: str) -> None:
    world.replicas("web", 1)
    world.mark()
    world.set_annotation(text)
    outcome = world.call()
    assert "unreadable" in outcome.decisions[0].reason
    assert world.state().state is State.DRAINED


def give_back(world: World, name: str = "n1", state: str = "returning") -> None:
    found = world.node(name)
    found["spec"].pop("unschedulable", None)
    found["metadata"]["labels"][keys.STATE] = state
    world.server.apply(found)


def test_what_was_written_about_a_drain_goes_when_the_node_is_given_back(world: World) -> None:
    world.pod("web-1", app="web")
    world.mark()
    world.call()
    give_back(world)
    world.server.seen.clear()
    assert world.tick(3)[0].declined.endswith("their last drain is forgotten: n1")
    assert world.annotation() is None
    assert world.writes() == ["patch /api/v1/nodes/n1"]


@pytest.mark.parametrize("status", [403, 500])
def test_one_that_cannot_be_forgotten_holds_up_no_drain_of_another(
    world: World, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    world.mark()
    world.call()
    give_back(world)
    world.add_node("n3", unschedulable=True)
    world.pod("web-1", app="web", on="n3")
    world.mark("n3")
    world.server.seen.clear()
    world.server.faults.fail("patch", "/nodes/n1", status)
    world.call()
    assert world.state("n3").state is State.DRAINED
    assert world.writes()[-1] == "patch /api/v1/nodes/n1", "what cannot wait goes first"
    assert "n1 is not forgotten yet" in caplog.text
    world.tick()
    assert world.annotation() is None


def test_it_goes_too_where_no_drain_can_be_worked_on(world: World) -> None:
    world.mark()
    world.call()
    give_back(world)
    world.add_node("n3", unschedulable=True)
    world.mark("n3")
    world.server.faults.fail("list", "/pods", 403)
    with pytest.raises(errors.Forbidden):
        world.call()
    assert world.annotation() is None


def test_forgetting_takes_no_longer_than_the_call(world: World) -> None:
    names = [f"old-{number}" for number in range(20)]
    for name in names:
        world.add_node(name)
        world.mark(name)
    world.tick()
    for name in names:
        give_back(world, name)
    world.server.faults.before("patch", "/nodes/old-", lambda _: world.clock.sleep(1), times=99)
    before = world.clock.monotonic()
    world.call()
    assert world.clock.monotonic() - before <= 5
    world.tick(5)
    assert [name for name in names if world.annotation(name)] == []


def test_drains_that_use_up_every_call_do_not_put_it_off(world: World) -> None:
    world.mark()
    world.call()
    give_back(world)
    world.add_node("n3", unschedulable=True)
    world.mark("n3")
    world.server.faults.before("create", "/events", lambda _: world.clock.sleep(9))
    world.call()
    assert world.annotation() is None


def test_events_are_written_side_by_side(world: World) -> None:
    """One after the other they take seconds where many nodes are drained."""
    for name in (names := [f"empty-{number}" for number in range(4)]):
        world.add_node(name)
        world.mark(name)
    two = threading.Barrier(2)
    transport = Between(
        EmbeddedTransport(world.server, world.clock.sleep),
        "POST",
        "/events",
        lambda _: two.wait(5),
    )
    settings = Settings(namespace=NAMESPACE, parallel=4)
    drain.handle(ping("resync-drain"), Context(lambda: Cluster(transport), world.clock, settings))
    assert world.events().count(("NodeDrained", "empty-0")) == 1
    assert transport.times == len(names)


def test_a_drain_of_the_next_incident_begins_at_once(world: World) -> None:
    """Not when a node that is known to be empty is looked at again."""
    world.mark()
    world.call()
    give_back(world)
    world.tick()
    world.pod("web-1", app="web")
    world.mark()
    assert world.call().decisions[0].action is Action.START_DRAIN
    assert world.pods_on() == []


def test_a_node_that_is_cordoned_again_just_then_is_not_touched(world: World) -> None:
    world.mark()
    world.call()
    before = world.annotation()
    give_back(world)
    world.server.faults.before("patch", "/nodes/n1", lambda _: world.mark())
    world.call()
    assert world.annotation() == before
    world.pod("web-1", app="web")
    world.clock.sleep(300)
    world.tick()
    assert world.pods_on() == []


def test_a_drain_that_begins_anew_just_then_is_not_forgotten(world: World) -> None:
    world.mark()
    world.call()
    give_back(world)

    def other(_: object) -> None:
        world.set_annotation(drain_state.encode(
            DrainState(state=State.DRAINING, started=world.clock.now(), changed=world.clock.now())
        ))  # fmt: skip

    world.server.faults.before("patch", "/nodes/n1", other)
    world.call()
    assert world.state().state is State.DRAINING


@pytest.mark.parametrize(
    ("drained", "state", "cordoned", "labels", "stays"),
    [
        pytest.param(True, "cordon", True, {}, True, id="cordoned for something less grave"),
        pytest.param(True, "dismissed", False, {}, False, id="somebody uncordoned an empty node"),
        pytest.param(False, "dismissed", False, {}, True, id="somebody stopped the drain"),
        pytest.param(False, "returning", False, {}, False, id="stopped, and given back since"),
        pytest.param(True, "returning", False, {keys.OPT_OUT: "false"}, True, id="opted out"),
    ],
)
def test_what_was_written_about_a_drain_stays_as_long_as_it_is_of_use(
    world: World, drained: bool, state: str, cordoned: bool, labels: dict[str, str], stays: bool
) -> None:
    if not drained:
        world.pod("bare")
    world.mark()
    world.call()
    if not drained:
        give_back(world, state="evict")
        world.call()
        assert world.state().state is State.STOPPED
    world.mark(severity=state, cordoned=cordoned, labels=labels)
    world.tick(2)
    assert (world.annotation() is not None) is stays


def test_fields_of_a_newer_version_are_kept(world: World) -> None:
    world.pod("slow", app="web", stop_seconds=20)
    world.mark()
    world.tick()
    raw = json.loads(world.annotation() or "")
    world.set_annotation(json.dumps({**raw, "v": 2, "later": ["a"]}))
    world.tick(5)
    after = json.loads(world.annotation() or "")
    assert (after["state"], after["later"], after["v"]) == ("drained", ["a"], 2)


def test_another_instance_that_was_faster_does_no_harm(world: World) -> None:
    world.replicas("web", 2)
    world.mark()
    other = DrainState(
        state=State.DRAINING,
        started=world.clock.now(),
        changed=world.clock.now(),
        provider_id=world.node()["spec"]["providerID"],
    )
    world.server.faults.before(
        "patch", "/nodes/n1", lambda _: world.set_annotation(drain_state.encode(other))
    )
    outcome = world.call()
    assert outcome.answer is None
    assert world.evictions() == []
    world.clock.sleep(5)
    world.call()
    assert world.state().state is State.DRAINED


def test_a_pause_holds_the_drain_and_writes_nothing(world: World) -> None:
    world.replicas("web", 1)
    world.mark()
    stop = pause.Pause(until=world.clock.now() + timedelta(minutes=1), reason="release night")
    world.config_map(
        active.PAUSE_NAME, "pause", {pause.CLUSTER: msgspec.json.encode(stop).decode()}
    )
    outcome = world.call(cordoned("n1"))
    assert "release night" in outcome.decisions[0].reason
    assert world.writes() == []
    world.clock.sleep(60)
    world.call()
    assert world.pods_on() == []


def test_without_the_right_to_evict_no_drain_begins(world: World) -> None:
    world.replicas("web", 1)
    world.mark()
    world.server.deny(lambda asked: "no" if asked.get("subresource") == "eviction" else "")
    outcome = world.call()
    assert "may not create pods/eviction" in outcome.decisions[0].reason
    assert world.writes() == []


def test_a_token_that_expires_in_the_middle_costs_a_call_and_no_more(world: World) -> None:
    for number in range(3):
        world.pod(f"web-{number}", app="web", stop_seconds=30)
    world.mark()

    def expire(_: object) -> None:
        world.server.faults.fail("*", "", 401, reason="Unauthorized", times=10_000)

    world.server.faults.before("watch", "/pods", expire)
    with pytest.raises(errors.Unauthorized):  # which the edge answers with 503
        world.call()
    with pytest.raises(errors.Unauthorized):
        world.call()
    world.server.faults.clear()
    world.tick(8)
    assert world.state().state is State.DRAINED
    assert len(world.evictions()) == 3


def test_an_api_server_that_is_away_is_an_error_to_be_tried_again(world: World) -> None:
    world.mark()
    world.server.faults.drop("list", "/nodes", times=100)
    with pytest.raises(errors.Unreachable):
        world.call()


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "patch"])
@pytest.mark.parametrize("status", [500, 429, 409, 401])
def test_a_refusal_of_any_verb_only_delays_the_drain(world: World, verb: str, status: int) -> None:
    world.pod("web-1", app="web", stop_seconds=3)
    world.replicas("db", 2)
    world.server.apply(builders.pdb("db", labels={"app": "db"}, max_unavailable=1))
    world.mark()
    world.server.faults.fail(verb, "(pods|nodes|poddisruption|daemonsets)", status, times=3)
    for _ in range(8):
        try:
            world.tick()
        except errors.KubernetesError:
            world.clock.sleep(5)
    assert world.state().state is State.DRAINED
    assert world.pods_on() == []


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "patch", "delete"])
@pytest.mark.parametrize("carried_out", [False, True])
def test_a_lost_request_of_any_verb_only_delays_the_drain(
    world: World, verb: str, carried_out: bool
) -> None:
    """Whether it was the request that was lost, or its answer."""
    world.set_policy("drain: {deadline: 15s, past_deadline: delete}")
    world.pod("web-1", app="web", stop_seconds=3)
    world.pod("bare")
    world.replicas("db", 2)
    world.server.apply(builders.pdb("db", labels={"app": "db"}, max_unavailable=1))
    world.mark()
    world.server.faults.drop(verb, "", carried_out=carried_out, times=3)
    for _ in range(10):
        try:
            world.tick()
        except errors.KubernetesError:
            world.clock.sleep(5)
    assert world.state().state is State.DRAINED
    assert world.pods_on() == []
    asked = [e.path for e in world.evictions() if 200 <= e.status < 300]
    assert len(asked) == len(set(asked)), "nobody was asked twice who had heard it"


def test_whenever_the_process_dies_the_next_goes_on_and_does_nothing_twice() -> None:
    lived = 0
    while True:
        world = World()
        world.set_policy("drain: {gang_notice: 10s}")
        world.add_node("n3")
        world.pod("web-1", app="web")
        world.pod("slow", app="web", stop_seconds=8, grace_seconds=30)
        for number, node in enumerate(("n1", "n3")):
            world.pod(f"rank-{number}", app="train", on=node, labels=GANG)
        world.mark()
        if not _dies_after(world, lived):
            break
        world.clock.sleep(5)
        world.tick(8)
        assert world.state().state is State.DRAINED, f"after {lived} requests"
        assert world.pods_on() == []
        written = Counter(
            f"{r.verb} {r.path}"
            for r in world.server.requests()
            if 200 <= r.status < 300 and "/pods/" in r.path and r.verb in ("create", "patch")
        )
        assert len(written) == 3 + 2, "three evictions, two warnings"
        assert set(written.values()) == {1}, f"after {lived} requests"
        assert set(Counter(world.events()).values()) <= {1}
        lived += 1
    assert lived > 10, "it died after each request of the first three calls"


def _dies_after(world: World, requests: int) -> bool:
    """Whether it did within three calls: then nothing is asked or heard any more."""
    asked = 0

    def count(_: object) -> None:
        nonlocal asked
        asked += 1
        if asked == requests:
            world.server.faults.drop("*", "", times=10_000)

    if requests:
        world.server.faults.before("*", "", count, times=10_000)
    else:
        world.server.faults.drop("*", "", times=10_000)
    try:
        world.tick(3)
    except errors.Unreachable:
        asked = max(asked, requests)
    world.server.faults.clear()
    return asked >= requests


def test_a_node_that_is_back_under_its_name_in_the_middle_is_left_alone(world: World) -> None:
    world.pod("slow", app="web", stop_seconds=60)
    world.mark()
    world.tick()
    world.server.delete("nodes", "", "n1")
    world.server.apply(builders.node("n1", provider_id="aws:///us-east-1a/i-another"))
    world.pod("new", app="web")
    written = len(world.writes())
    world.tick(3)
    assert "new" in world.pods_on()
    assert world.annotation() is None
    assert len(world.writes()) == written


def test_a_gang_is_warned_on_every_node_before_its_first_member_goes(world: World) -> None:
    world.pod("rank-0", app="train", labels=GANG)
    world.pod("rank-1", app="train", labels=GANG, on="n2")
    world.pod("web-1", app="web")
    world.mark()
    world.tick()
    until = (world.clock.now() - timedelta(seconds=5) + timedelta(minutes=5)).isoformat()
    for name in ("rank-0", "rank-1"):
        notes = world.server.get("pods", "default", name)["metadata"]["annotations"]
        assert notes[keys.EVICT_AFTER].replace("Z", "+00:00") == until
        assert "n1" in notes[keys.EVICT_REASON]
    assert world.pods_on() == ["rank-0"]
    assert len(world.server.requests("patch", "/pods/")) == 2
    world.tick(50)
    assert world.pods_on() == ["rank-0"]
    assert len(world.server.requests("patch", "/pods/")) == 2
    world.tick(12)
    assert world.pods_on() == []
    assert world.pods_on("n2") == ["rank-1"]


def test_a_gang_that_says_it_is_ready_is_not_waited_for(world: World) -> None:
    for name in ("rank-0", "rank-1"):
        world.pod(name, app="train", labels=GANG)
    world.mark()
    world.tick()
    for name in ("rank-0", "rank-1"):
        world.cluster.patch_pod(
            "default", name, {"metadata": {"annotations": {keys.READY_TO_EVICT: "true"}}}
        )
    world.tick(2)
    assert world.state().state is State.DRAINED


def test_a_stopped_drain_takes_its_warnings_back(world: World) -> None:
    world.pod("rank-0", app="train", labels=GANG)
    world.mark()
    world.tick()
    world.mark(cordoned=False)
    world.tick()
    notes = world.server.get("pods", "default", "rank-0")["metadata"].get("annotations", {})
    assert keys.EVICT_AFTER not in notes


def test_a_warning_of_an_earlier_drain_does_not_count(world: World) -> None:
    old = (world.clock.now() - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.pod("rank-0", app="train", labels=GANG, annotations={keys.EVICT_AFTER: old})
    world.mark()
    world.tick(3)
    assert world.pods_on() == ["rank-0"]


def test_the_job_of_one_pod_is_no_gang(world: World) -> None:
    world.server.held.add("workloads")
    job = world.server.apply(builders.workload("Job", "once"))
    owner = {**job, "apiVersion": "batch/v1", "kind": "Job"}
    world.server.apply(builders.pod("once-1", node="n1", owner=owner))
    world.mark()
    world.tick()
    assert world.pods_on() == []


def test_blocked_pods_are_deleted_before_the_cloud_takes_the_machine(world: World) -> None:
    world.pod("bare", grace_seconds=45)
    world.pod("rank-0", app="train", labels=GANG)
    deadline = world.clock.now() + timedelta(seconds=120)
    world.mark(kind=Kind.INTERRUPTION, deadline=deadline)
    world.tick(12)
    assert world.server.requests("delete", "/pods/") == []
    world.tick(2)
    assert world.pods_on() == []
    assert len(world.server.requests("delete", "/pods/")) == 1


def test_a_machine_that_the_cloud_takes_hours_later_is_not_overslept(world: World) -> None:
    world.set_policy("drain: {before_loss: 20m}")
    world.pod("bare", grace_seconds=45)
    world.mark(kind=Kind.MAINTENANCE, deadline=world.clock.now() + timedelta(hours=3))
    world.tick(2)
    world.clock.sleep(2 * 3600 + 39 * 60)
    world.tick(8)
    assert world.server.requests("delete", "/pods/") == []
    world.tick(12)
    assert len(world.server.requests("delete", "/pods/")) == 1


@pytest.mark.parametrize("ahead", [timedelta(minutes=5), timedelta(minutes=-5)])
def test_a_clock_of_ours_that_is_wrong_moves_no_deadline(world: World, ahead: timedelta) -> None:
    world.ahead = ahead
    world.set_policy("drain: {deadline: 2h, past_deadline: delete}")
    world.pod("bare")
    world.mark()
    world.tick(2)
    deadline = world.state().deadline
    assert deadline is not None
    assert abs(deadline - world.clock.now() - 2 * HOUR) < timedelta(seconds=12)
    world.clock.sleep(2 * 3600 - 60)
    world.tick(8)
    assert world.pods_on() == ["bare"]
    world.tick(5)
    assert world.pods_on() == []


@pytest.mark.parametrize(("past", "left"), [("keep", ["bare"]), ("delete", [])])
def test_the_policys_deadline_decides_about_blocked_pods(
    world: World, past: str, left: list[str]
) -> None:
    world.set_policy(f"drain: {{deadline: 1m, past_deadline: {past}}}")
    world.pod("bare")
    world.mark()
    world.tick(20)
    assert world.pods_on() == left


def test_the_policys_deadline_is_kept_by_a_drain_that_is_blocked_for_hours(world: World) -> None:
    world.set_policy("drain: {deadline: 3h, past_deadline: delete}")
    world.pod("bare")
    world.mark()
    world.tick(2)
    world.clock.sleep(3 * 3600 - 60)
    world.tick(8)
    assert world.pods_on() == ["bare"]
    world.tick(5)
    assert world.pods_on() == []


def test_a_node_that_carries_us_waits_for_the_others(world: World) -> None:
    world.add_node("n3", unschedulable=True)
    world.pod("own", app="own", namespace=NAMESPACE)
    world.pod("slow", app="web", on="n3", stop_seconds=20)
    world.mark("n1")
    world.mark("n3")
    first = world.tick()[0]
    held = [d for d in first.decisions if d.node == "n1"]
    assert [d.action for d in held] == [Action.HOLD]
    assert world.annotation("n1") is None
    world.tick(8)
    assert world.state("n3").state is State.DRAINED
    assert world.state("n1").state is State.DRAINED


def test_several_nodes_share_one_call(world: World) -> None:
    for number in range(10, 20):
        world.add_node(f"n{number}", unschedulable=True)
        world.pod(f"web-{number}", app="web", on=f"n{number}")
        world.mark(f"n{number}")
    world.tick(10)
    drained = {f"n{n}" for n in range(10, 20) if world.state(f"n{n}").state is State.DRAINED}
    assert len(drained) == 10
    assert len(world.evictions()) == 10


def test_where_many_are_cordoned_at_once_the_first_to_be_emptied_waits_for_the_last(
    world: World,
) -> None:
    names = [f"m{number}" for number in range(12)]
    for name in names:
        world.add_node(name, unschedulable=True)
        world.mark(name)
    world.pod("web-1", app="web", on="m0")
    world.clock.sleep(3)
    outcome = world.call(cordoned(*names))
    assert "12 nodes were cordoned just now" in outcome.declined
    assert (world.writes(), sum(outcome.requests.values())) == ([], 1)
    world.tick(3)
    assert {world.state(name).state for name in names} == {State.DRAINED}


@pytest.mark.parametrize(
    ("lately", "deadline", "begins"),
    [(12, None, False), (9, None, True), (12, 120, True), (12, 3600, False)],
)
def test_an_event_that_says_so_itself_costs_no_request(
    world: World, lately: int, deadline: int | None, begins: bool
) -> None:
    world.mark()
    at = None if deadline is None else (world.clock.now() + timedelta(seconds=deadline)).isoformat()
    before = len(world.server.seen)
    outcome = world.call(cordoned("n1", lately=lately, deadline=at))
    assert bool(outcome.decisions) is begins
    assert (len(world.server.seen) > before) is begins
    if not begins:
        assert outcome.look_again == world.clock.now() + timedelta(seconds=5)
        assert "12 nodes were cordoned just now" in outcome.declined
    world.tick(2)
    assert world.state().state is State.DRAINED


def test_a_deadline_without_a_time_zone_is_refused(world: World) -> None:
    world.call(cordoned("n1", deadline="2026-03-02T12:00:00Z"))
    with pytest.raises(MalformedEvent):
        world.call(cordoned("n1", deadline="2026-03-02T12:00:00"))


def test_calls_of_one_process_keep_the_rate_together(world: World) -> None:
    world.set_policy("drain: {evictions_per_second: 10}")
    together = Together()
    settings = Settings(namespace=NAMESPACE)
    world.clock.sleep(1)
    for name in ("a", "b"):
        world.add_node(name, unschedulable=True)
        world.mark(name)
        for number in range(10):
            world.pod(f"{name}-{number}", app="web", on=name, stop_seconds=0)
    for name in ("a", "b"):
        transport = EmbeddedTransport(world.server, world.clock.sleep)
        connect = functools.partial(Cluster, transport)
        drain.handle(cordoned(name), Context(connect, world.clock, settings, together=together))
    times = sorted(e.at for e in world.evictions())
    assert len(times) == 20
    assert all(
        eleventh - first >= timedelta(seconds=0.99)
        for first, eleventh in zip(times, times[10:], strict=False)
    )


def test_an_event_is_about_the_nodes_that_it_names(world: World) -> None:
    world.add_node("n3", unschedulable=True)
    for name in ("n1", "n3"):
        world.pod(f"web-{name}", app="web", on=name)
        world.mark(name)
    world.call(cordoned("n1"))
    assert world.state("n1").state is State.DRAINED
    assert world.annotation("n3") is None


def test_a_node_that_is_deleted_in_the_middle_is_no_error(world: World) -> None:
    world.pod("slow", app="web", stop_seconds=60)
    world.mark()
    world.tick()
    world.server.delete("nodes", "", "n1")
    assert world.tick()[0].declined


def test_pods_that_nobody_will_make_anew_are_told_when_the_drain_begins(world: World) -> None:
    world.replicas("web", 1)
    world.server.held.update({"garbage", "workloads"})
    world.replicas("gone", 2)
    world.server.delete("replicasets", "default", "gone")
    world.mark()
    outcome = world.call()
    told = outcome.decisions[0].reason
    assert "default/gone-0 and default/gone-1 belong to ReplicaSet gone, which is gone" in told
    assert "web" not in told
    assert world.pods_on() == []
    assert sorted(world.events()) == [("DrainStarted", "n1"), ("NodeDrained", "n1")]


def claimed_disk(world: World, kind: str) -> None:
    """A pod with a volume, by its claim."""
    meta = {"name": "disk", "namespace": "default"}
    for made in (
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta,
            "spec": {"volumeName": "pv-1"},
        },
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
         "spec": {kind: {"path": "/disk"}}},
    ):  # fmt: skip
        world.server.apply(made)
    pod = world.pod("db", app="db")
    claim = {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}
    pod["spec"]["volumes"] = [claim, {"name": "host", "hostPath": {"path": "/models"}}]
    world.server.apply({"apiVersion": "v1", "kind": "Pod", **pod})


def attach(world: World, name: str, volume: str) -> None:
    world.server.apply(
        {
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": name},
            "spec": {
                "attacher": "disk.example.com", "nodeName": "n1",
                "source": {"persistentVolumeName": volume},
            },
        }
    )  # fmt: skip


def test_the_volumes_of_pods_that_left_are_waited_for_and_no_others(world: World) -> None:
    claimed_disk(world, "csi")
    attach(world, "ours", "pv-1")
    attach(world, "another", "pv-2")
    world.mark()
    world.tick(8)
    state = world.state()
    assert (state.state, state.volumes) == (State.BLOCKED, ("pv-1",))
    assert "volume pv-1: is still attached to the node" in state.blocked_by[0]
    assert world.pods_on() == []
    world.server.delete("volumeattachments", "", "ours")
    world.tick(2)
    assert (world.state().state, world.state().volumes) == (State.DRAINED, ())


def test_what_pods_leave_behind_on_the_node_is_told_when_the_drain_begins(world: World) -> None:
    claimed_disk(world, "local")
    world.mark()
    outcome = world.call()
    assert "default/db keeps data on the node (hostPath /models)" in outcome.decisions[0].reason
    assert "(local volume pv-1)" in outcome.decisions[0].reason
