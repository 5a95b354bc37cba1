"""A history happens again: in each world as its policy decides, in all by what was recorded."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.gateways.kubernetes.transport import Request
from functions.rules import policy
from functions.rules.decision import Decision
from infra.local.cluster import EmbeddedTransport, builders
from infra.local.gate import Eviction
from infra.local.history import Event
from infra.local.past import filling
from infra.local.past.course import Course
from infra.local.past.reader import Reader
from infra.local.world import Change
from tests.support.histories import (
    DOUBLE_BIT_ERROR,
    NVLINK_ERROR,
    START,
    WELL,
    marked,
    node,
    told,
)

NODES = [f"gpu-{number:02}" for number in range(1, 21)]


class Seen:
    def __init__(self) -> None:
        self.decisions: list[tuple[str, str, str]] = []
        self.evictions: list[tuple[str, str]] = []

    def decided(self, at: datetime, decision: Decision) -> None:
        self.decisions.append((f"{at:%H:%M:%S}", decision.action.value, decision.node))

    def changed(self, at: datetime, change: Change) -> None: ...

    def evicted(self, eviction: Eviction) -> None:
        self.evictions.append((eviction.pod, eviction.node))

    def acted(self) -> list[tuple[str, str, str]]:
        return [one for one in self.decisions if one[1] in ("cordon", "uncordon", "dismiss")]


class Past:
    """A history in one world."""

    def __init__(self, *objects: Any, text: str = "version: 1") -> None:
        self.reader, self.seen = Reader(), Seen()
        found = objects or [node(name) for name in NODES]
        items = filling.starting_point(found, self.reader)
        self.course = Course(policy.parse(text), START, items, self.seen)

    def hear(self, *events: Event) -> None:
        for event in events:
            self.course.hear(self.reader.hear(event))

    def until(self, **later: float) -> None:
        self.course.go_to(START + timedelta(**later))

    def node(self, name: str) -> Any:
        return self.course.world.cluster.get("nodes", "", name)

    def pods_on(self, name: str) -> list[str]:
        found = self.course.world.cluster.all("pods")
        return [p["metadata"]["name"] for p in found if p["spec"].get("nodeName") == name]


def pods(count: int, kind: str = "StatefulSet") -> list[Any]:
    """Of a controller that was not recorded, one on each node, with a budget over them."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "train", "uid": "u-1"}}
    names = ("train-{}", "train-abc{}")[kind != "StatefulSet"]
    made = [
        builders.pod(
            names.format(place),
            node=NODES[place],
            gpus=8,
            labels={"app": "train"},
            owner=owner,
            now=START,
        )
        for place in range(count)
    ]
    return [*made, builders.pdb("train", labels={"app": "train"}, max_unavailable=1)]


def test_a_fault_leads_to_a_cordon_at_the_time_at_which_it_was_told() -> None:
    past = Past()
    past.hear(told(61.5, node("gpu-03", DOUBLE_BIT_ERROR)))
    assert past.seen.acted() == [("08:01:01", "cordon", "gpu-03")]
    assert past.node("gpu-03")["spec"]["unschedulable"] is True


def test_what_a_policy_does_is_not_undone_by_what_the_recording_says_of_the_node() -> None:
    past = Past()
    past.hear(
        told(60, node("gpu-03", DOUBLE_BIT_ERROR)),
        told(120, node("gpu-03", DOUBLE_BIT_ERROR, labels={"example.com/new": "1"})),
    )
    found = past.node("gpu-03")
    assert found["spec"]["unschedulable"] is True
    assert found["metadata"]["labels"]["groundcrew.dev/state"] == "evict"
    assert found["metadata"]["labels"]["example.com/new"] == "1"


def test_our_cordon_of_then_is_not_there_where_the_policy_would_not_have_made_it() -> None:
    past = Past(text='version: 1\nshadow: [{check: "*"}]')
    ours = {"v": 1, "cordon": {"at": START.isoformat()}}
    past.hear(told(60, marked(node("gpu-03", DOUBLE_BIT_ERROR), "evict", ours)))
    assert past.seen.acted() == []
    assert not past.node("gpu-03")["spec"].get("unschedulable")


def test_a_person_who_uncordons_what_others_cordoned_does_so_again() -> None:
    past = Past()
    theirs = node("gpu-03")
    theirs["spec"]["unschedulable"] = True
    past.hear(told(60, theirs))
    assert past.node("gpu-03")["spec"]["unschedulable"] is True
    past.hear(told(120, node("gpu-03")))
    assert not past.node("gpu-03")["spec"].get("unschedulable")


def test_a_person_who_uncordons_what_we_cordoned_dismisses_it_in_each_world() -> None:
    strict, lax = Past(), Past(text='version: 1\nshadow: [{check: "*"}]')
    ours = {"v": 1, "cordon": {"at": START.isoformat()}}
    by_us = marked(node("gpu-03", DOUBLE_BIT_ERROR), "evict", ours)
    by_them = marked(node("gpu-03", DOUBLE_BIT_ERROR), "evict", ours)
    by_them["spec"].pop("unschedulable")
    for past in (strict, lax):
        past.hear(told(60, node("gpu-03", DOUBLE_BIT_ERROR)), told(61, by_us), told(120, by_them))
        past.until(minutes=30)
        assert not past.node("gpu-03")["spec"].get("unschedulable")
    assert strict.seen.acted() == [
        ("08:01:00", "cordon", "gpu-03"),
        ("08:02:00", "dismiss", "gpu-03"),
    ]
    assert lax.seen.acted() == []


def test_a_person_who_cordons_where_we_did_too_keeps_it_when_we_release() -> None:
    past = Past()
    past.hear(told(60, node("gpu-03", NVLINK_ERROR)))
    theirs = node("gpu-05")
    theirs["spec"]["unschedulable"] = True
    past.hear(told(90, theirs))
    sick = node("gpu-05", NVLINK_ERROR)
    sick["spec"]["unschedulable"] = True
    well = node("gpu-05")
    well["spec"]["unschedulable"] = True
    well["status"]["nodeInfo"]["bootID"] = "boot-anew"
    past.hear(told(120, sick), told(180, well))
    past.until(hours=1)
    assert past.node("gpu-05")["spec"]["unschedulable"] is True
    assert past.node("gpu-05")["metadata"]["labels"]["groundcrew.dev/state"] == "released"


def test_an_evicted_pod_comes_back_although_its_controller_was_not_recorded() -> None:
    past = Past(*[node(name) for name in NODES], *pods(19))
    past.hear(told(60, node("gpu-03", DOUBLE_BIT_ERROR)))
    past.until(minutes=3)
    assert past.seen.evictions == [("default/train-2", "gpu-03")]
    assert past.pods_on("gpu-03") == []
    assert past.pods_on("gpu-20") == ["train-2"]


def test_the_starting_point_moves_no_pod() -> None:
    past = Past(*[node(name) for name in NODES], *pods(19, "ReplicaSet"))
    past.until(minutes=10)
    assert [past.pods_on(name) for name in NODES[:2]] == [["train-abc0"], ["train-abc1"]]
    assert past.seen.decisions == []


def test_finished_pods_daemon_sets_and_our_own_objects_are_left_out() -> None:
    done = builders.pod("done", node="gpu-01", phase="Succeeded")
    daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "uid": "u"}}
    pause = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "groundcrew-pause",
            "namespace": "groundcrew-system",
            "labels": {"groundcrew.dev/part": "pause"},
        },
        "data": {"cluster": "{}"},
    }
    owned = builders.pod("d-1", node="gpu-01", owner=daemon)
    unknown = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    found = filling.starting_point([done, daemon, pause, owned, unknown], Reader())
    assert found == []


def test_waiting_times_and_readings_of_all_nodes_come_due_between_events() -> None:
    past = Past()
    lost = {"type": "NetworkUnavailable", "status": "True", "reason": "NoRoute", "message": ""}
    past.hear(told(60, node("gpu-03", WELL, lost)))
    past.hear(told(3600, node("gpu-05")))
    assert past.seen.acted() == [("08:06:00", "cordon", "gpu-03")]


def test_a_clock_is_not_missed_when_an_event_comes_at_its_very_moment() -> None:
    past = Past()
    lost = {"type": "NetworkUnavailable", "status": "True", "reason": "NoRoute", "message": ""}
    past.hear(told(60, node("gpu-03", WELL, lost)))
    # Programs that know whole seconds only: something comes at each tick of every clock.
    past.hear(*[told(float(at), node("gpu-05")) for at in range(61, 600)])
    assert past.seen.acted() == [("08:06:00", "cordon", "gpu-03")]


def test_what_happens_at_the_moment_of_a_clock_is_there_when_it_ticks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    past = Past()
    ticks: list[str] = []
    tick = past.course._stage.tick

    def told_of(one: Any) -> None:
        cordoned = bool(past.node("gpu-05")["spec"].get("unschedulable"))
        ticks.append(f"{one.at:%H:%M:%S} {one.source.name} {cordoned}")
        tick(one)

    monkeypatch.setattr(past.course._stage, "tick", told_of)
    theirs = node("gpu-05")
    theirs["spec"]["unschedulable"] = True
    past.hear(told(60, theirs))
    past.until(seconds=61)
    assert ticks[-2:] == ["08:01:00 resync-cordon True", "08:01:00 resync-drain True"]


def test_new_hardware_under_an_old_name_is_new_and_its_pods_are_gone() -> None:
    past = Past(*[node(name) for name in NODES], *pods(19))
    past.hear(told(60, node("gpu-03", NVLINK_ERROR)))
    assert past.pods_on("gpu-03") == ["train-2"]
    past.hear(told(120, node("gpu-03", machine=1), "add"))
    assert past.node("gpu-03")["metadata"]["labels"].get("groundcrew.dev/state") is None
    assert not past.node("gpu-03")["spec"].get("unschedulable")
    assert "train-2" not in past.pods_on("gpu-03")


def test_a_machine_that_is_gone_takes_its_pods_with_it() -> None:
    past = Past(*[node(name) for name in NODES], *pods(19))
    past.hear(told(60, node("gpu-03"), "delete"))
    assert past.node("gpu-03") is None
    assert past.pods_on("gpu-03") == []


def test_what_an_api_server_forgets_is_forgotten() -> None:
    past = Past()
    past.hear(told(60, node("gpu-03", NVLINK_ERROR)))
    cluster = past.course.world.cluster
    assert len(cluster.all("events")) > 0
    past.until(hours=5)  # replace tells what it would do in the first two
    assert cluster.all("events") == []
    assert list(cluster.seen) == []
    query = {"watch": "true", "resourceVersion": "1"}
    request = Request(method="GET", path="/api/v1/nodes", query=query)
    _, lines = EmbeddedTransport(cluster).stream(request)
    assert b'"code":410' in next(lines)
    # Nothing of it was mistaken for news.
    assert [one for one in past.seen.acted() if one[1] != "cordon"] == []


def test_an_event_that_needs_nothing_costs_the_api_server_nothing() -> None:
    past = Past()
    past.until(seconds=1)
    gate = past.course._stage.gate
    before = gate.requests
    past.hear(told(1.5, node("gpu-07")), told(2, node("gpu-08")))
    assert gate.requests == before
    assert past.course.needed_nothing == 2
