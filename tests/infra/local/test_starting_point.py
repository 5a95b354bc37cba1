"""What a cluster is taken along with: teams keep their nodes in the play."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.gateways.kubernetes.client import Cluster
from functions.rules import policy
from infra.local import masking_rules, recorded_play, starting_point
from infra.local.clock import SimulatedClock
from infra.local.history import History
from infra.local.masking import Masker
from infra.local.outside import NAMESPACE
from infra.local.past.course import Course
from infra.local.past.reader import Reader
from infra.local.stage import Nobody
from infra.local.world import EmbeddedWorld
from tests.support import histories
from tests.support.histories import DOUBLE_BIT_ERROR, START, told

TEAM = "openai.com/team"
TEAMS = {"gpu-1": "red", "gpu-2": "blue", "gpu-3": "blue", "gpu-4": "red"}


def taint(team: str) -> dict[str, str]:
    return {"key": TEAM, "value": team, "effect": "NoSchedule"}


def node(name: str, team: str, *conditions: Any) -> Any:
    labels = {TEAM: team, "example.com/rack": "7"}
    made = histories.node(name, *conditions, labels=labels)
    made["spec"]["taints"] = [taint(team)]
    return made


def fill(world: EmbeddedWorld) -> None:
    tolerates = {"key": TEAM, "operator": "Equal", "value": "red", "effect": "NoSchedule"}
    container = {
        "name": "c",
        "resources": {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}},
    }
    labels = {"app": "train"}
    work = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "train", "namespace": "red-team"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "tolerations": [tolerates]},
            },
        },
    }
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "red-team", "labels": {TEAM: "red", "example.com/owner": "jane"}},
    }
    world.cluster.apply(namespace)
    for name, team in TEAMS.items():
        world.cluster.apply(node(name, team))
    world.cluster.apply(work)
    for _ in range(10):
        world.clock.advance_to(world.clock.now() + timedelta(seconds=1))
        world.advance(world.clock.now())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording of the cluster, in which nothing has happened yet."""
    world = EmbeddedWorld(SimulatedClock(START))
    fill(world)
    (pod,) = world.cluster.all("pods")
    assert pod["spec"]["nodeName"] == "gpu-1"
    mask = Masker(masking_rules.load(), b"k" * 32)
    week = tmp_path / "week"
    taken = starting_point.take(Cluster(world.transport), week, mask, START, namespace=NAMESPACE)
    assert (taken.counts["nodes"], taken.counts["namespaces"]) == (4, 5)
    histories.write(week, [], [told(60, node("gpu-2", "blue"))])
    return week


def course_of(folder: Path) -> tuple[Course, Reader]:
    scenario, _, reader = recorded_play.load(folder)
    return Course(policy.default(), scenario.start, scenario.objects, Nobody()), reader


def test_labels_of_teams_and_taints_are_recorded_and_stand_again(folder: Path) -> None:
    found = {(o["kind"], o["metadata"]["name"]): o for o in History.open(folder).objects()}
    assert found["Node", "gpu-1"]["metadata"]["labels"][TEAM] == "red"
    assert found["Node", "gpu-1"]["metadata"]["labels"]["example.com/rack"] != "7"
    assert found["Namespace", "red-team"]["metadata"]["labels"][TEAM] == "red"
    assert "jane" not in (folder / "cluster.json").read_text()
    world = course_of(folder)[0].world.cluster
    for name, team in TEAMS.items():
        stands = world.get("nodes", "", name) or {}
        assert stands["spec"]["taints"] == [taint(team)]
        assert stands["metadata"]["labels"][TEAM] == team
    namespace = world.get("namespaces", "", "red-team") or {}
    assert namespace["metadata"]["labels"][TEAM] == "red"


def test_an_evicted_pod_goes_to_a_node_of_its_team(folder: Path) -> None:
    course, reader = course_of(folder)
    course.hear(reader.hear(told(90, node("gpu-1", "red", DOUBLE_BIT_ERROR))))
    course.go_to(START + timedelta(minutes=10))
    (pod,) = course.world.cluster.all("pods")
    assert pod["spec"]["nodeName"] == "gpu-4"


def test_a_node_that_changes_its_team_does_so_again_and_keeps_our_cordon(folder: Path) -> None:
    course, reader = course_of(folder)
    course.hear(reader.hear(told(90, node("gpu-2", "blue", DOUBLE_BIT_ERROR))))
    course.hear(reader.hear(told(120, node("gpu-2", "red", DOUBLE_BIT_ERROR))))
    course.go_to(START + timedelta(minutes=5))
    found = course.world.cluster.get("nodes", "", "gpu-2") or {}
    assert found["metadata"]["labels"][TEAM] == "red"
    assert found["spec"]["unschedulable"] is True
    keys = [(one["key"], one.get("value", "")) for one in found["spec"]["taints"]]
    assert sorted(keys) == [("node.kubernetes.io/unschedulable", ""), (TEAM, "red")]


def test_the_taint_of_a_cordon_that_was_ours_is_not_there_where_nobody_cordons(
    folder: Path,
) -> None:
    scenario, _, reader = recorded_play.load(folder)
    lax = policy.parse('version: 1\nshadow: [{check: "*"}]')
    course = Course(lax, scenario.start, scenario.objects, Nobody())
    ours = {"v": 1, "cordon": {"at": START.isoformat()}}
    out = histories.marked(node("gpu-1", "red", DOUBLE_BIT_ERROR), "evict", ours)
    out["spec"]["taints"].append(
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    )
    course.hear(reader.hear(told(90, out)))
    course.go_to(START + timedelta(minutes=5))
    found = course.world.cluster.get("nodes", "", "gpu-1") or {}
    assert found["spec"]["taints"] == [taint("red")]
    assert not found["spec"].get("unschedulable")
