"""What happens around the API server, on simulated time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functions.gateways.kubernetes.client import Cluster
from infra.local.cluster import EmbeddedCluster
from infra.local.cluster.builders import node, pdb, pod, workload
from tests.infra.local.cluster.conftest import SetClock


def evict(client: Cluster, item: dict[str, Any]) -> None:
    meta = item["metadata"]
    client.evict(meta["namespace"], meta["name"], uid=meta["uid"])


def on_node(cluster: EmbeddedCluster, name: str) -> list[str]:
    pods = cluster.all("pods")
    return [p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") == name]


def test_a_deployment_gets_its_pods_running_within_seconds(
    cluster: EmbeddedCluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    cluster.apply(workload("Deployment", "web", replicas=3))
    clock.forward(seconds=3)

    assert [p["status"]["phase"] for p in cluster.all("pods")] == ["Running"] * 3
    assert cluster.get("deployment", "default", "web")["status"]["readyReplicas"] == 3


def test_an_evicted_pod_stops_within_its_grace_and_comes_back_elsewhere(
    cluster: EmbeddedCluster, client: Cluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    cluster.apply(workload("Deployment", "web", annotations={STOP: "20"}))
    clock.forward(seconds=3)
    cluster.apply(node("n2"))
    client.patch_node("n1", [{"op": "add", "path": "/spec/unschedulable", "value": True}])
    (first,) = cluster.all("pods")
    evict(client, first)

    clock.forward(seconds=19)
    assert on_node(cluster, "n1") == [first["metadata"]["name"]]
    assert len(on_node(cluster, "n2")) == 1
    clock.forward(seconds=1)
    assert on_node(cluster, "n1") == []


STOP = "embedded.groundcrew.dev/stop-seconds"


def test_a_stateful_pod_comes_back_under_its_name_once_the_old_one_is_gone(
    cluster: EmbeddedCluster, client: Cluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    cluster.apply(workload("StatefulSet", "db", annotations={STOP: "10"}))
    clock.forward(seconds=3)
    (first,) = cluster.all("pods")
    evict(client, first)

    clock.forward(seconds=9)
    assert [p["metadata"]["uid"] for p in cluster.all("pods")] == [first["metadata"]["uid"]]
    clock.forward(seconds=1)
    (second,) = cluster.all("pods")
    assert second["metadata"]["name"] == first["metadata"]["name"] == "db-0"
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


def test_a_job_replaces_a_lost_pod_after_its_backoff(
    cluster: EmbeddedCluster, client: Cluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    cluster.apply(workload("Job", "train", replicas=2, gpus=4))
    clock.forward(seconds=3)
    assert len(cluster.all("pods")) == 2
    evict(client, cluster.all("pods")[0])

    clock.forward(seconds=5)
    assert len(cluster.all("pods")) == 1
    clock.forward(seconds=20)
    assert [p["status"]["phase"] for p in cluster.all("pods")] == ["Running"] * 2


def test_a_daemon_pod_runs_on_every_node_cordoned_ones_too(
    cluster: EmbeddedCluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    cluster.apply(workload("DaemonSet", "agent"))
    cordoned = node("n2")
    cordoned["spec"]["unschedulable"] = True
    cluster.apply(cordoned)
    clock.forward(seconds=3)

    assert len(on_node(cluster, "n1")) == len(on_node(cluster, "n2")) == 1


def test_gpus_are_given_out_once_and_the_rest_waits(
    cluster: EmbeddedCluster, clock: SetClock
) -> None:
    cluster.apply(node("n1", gpus=8))
    cluster.apply(workload("Deployment", "train", replicas=3, gpus=4))
    clock.forward(seconds=5)

    assert sorted(p["status"]["phase"] for p in cluster.all("pods")) == [
        "Pending",
        "Running",
        "Running",
    ]
    cluster.apply(node("n2", gpus=8))
    clock.forward(seconds=5)
    assert [p["status"]["phase"] for p in cluster.all("pods")] == ["Running"] * 3


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        ({"unschedulable": True}, {}),
        ({"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}, {}),
        ({}, {"disk": "hdd"}),
    ],
)
def test_a_pod_waits_while_the_only_node_does_not_take_it(
    cluster: EmbeddedCluster, clock: SetClock, spec: dict[str, Any], labels: dict[str, str]
) -> None:
    item = node("n1", labels=labels)
    item["spec"] |= spec
    cluster.apply(item)
    cluster.apply(workload("Deployment", "web", node_selector={"disk": "ssd"}))
    clock.forward(seconds=10)
    (waiting,) = cluster.all("pods")
    assert waiting["status"]["phase"] == "Pending"
    assert waiting["status"]["conditions"][0]["reason"] == "Unschedulable"

    cluster.apply(node("n1", labels={"disk": "ssd"}))
    clock.forward(seconds=10)
    assert len(on_node(cluster, "n1")) == 1


def test_a_toleration_lets_a_pod_onto_a_tainted_node(
    cluster: EmbeddedCluster, clock: SetClock
) -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    cluster.apply(node("n1", taints=[taint]))
    cluster.apply(workload("Deployment", "web", tolerations=[taint]))
    clock.forward(seconds=10)
    assert len(on_node(cluster, "n1")) == 1


def test_a_stateful_pod_waits_for_its_name(cluster: EmbeddedCluster, clock: SetClock) -> None:
    cluster.apply(node("n1"))
    stranger = cluster.apply(pod("db-0", node="n1"))
    cluster.apply(workload("StatefulSet", "db"))
    clock.forward(seconds=10)
    assert [p["metadata"]["uid"] for p in cluster.all("pods")] == [stranger["metadata"]["uid"]]


def test_a_cordon_puts_the_unschedulable_taint_on_and_an_uncordon_takes_it_off(
    cluster: EmbeddedCluster, client: Cluster
) -> None:
    cluster.apply(node("n1", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}]))
    client.patch_node("n1", [{"op": "add", "path": "/spec/unschedulable", "value": True}])
    taints = client.get_node("n1").spec.taints
    assert [t.key for t in taints] == ["team", "node.kubernetes.io/unschedulable"]

    client.patch_node("n1", [{"op": "remove", "path": "/spec/unschedulable"}])
    assert [t.key for t in client.get_node("n1").spec.taints] == ["team"]


def test_a_dead_kubelet_leaves_its_pods_terminating_for_ever(
    cluster: EmbeddedCluster, client: Cluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    item = cluster.apply(pod("p", node="n1"))
    cluster.stop_kubelet("n1")
    evict(client, item)
    clock.forward(minutes=30)

    assert cluster.get("pod", "default", "p")["metadata"]["deletionTimestamp"]
    ready = client.get_node("n1").condition("Ready")
    assert (ready.status, ready.reason) == ("Unknown", "NodeStatusUnknown")

    cluster.start_kubelet("n1")
    clock.forward(seconds=1)
    assert cluster.get("pod", "default", "p") is None


def test_pods_of_a_lost_node_are_deleted_after_five_minutes(
    cluster: EmbeddedCluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    cluster.apply(workload("Deployment", "web"))
    clock.forward(seconds=3)
    cluster.apply(node("n2"))
    cluster.stop_kubelet("n1")

    clock.forward(seconds=340)
    assert on_node(cluster, "n2") == []
    clock.forward(seconds=20)
    assert len(on_node(cluster, "n2")) == 1


def test_pods_of_a_deleted_node_are_collected_and_replaced(
    cluster: EmbeddedCluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    cluster.apply(workload("Deployment", "web"))
    clock.forward(seconds=3)
    cluster.delete("node", "", "n1")
    cluster.apply(node("n2"))
    clock.forward(seconds=60)

    assert on_node(cluster, "n1") == []
    assert len(on_node(cluster, "n2")) == 1


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"min_available": 3}, (4, 3, 1)),
        ({"min_available": "60%"}, (4, 3, 1)),
        ({"max_unavailable": 1}, (4, 3, 1)),
        ({"max_unavailable": "30%"}, (4, 2, 2)),
        ({"max_unavailable": 0}, (4, 4, 0)),
        ({"min_available": 6}, (4, 6, 0)),
    ],
)
def test_a_budget_counts(
    cluster: EmbeddedCluster,
    clock: SetClock,
    bounds: dict[str, Any],
    expected: tuple[int, int, int],
) -> None:
    cluster.apply(node("n1"))
    cluster.apply(workload("Deployment", "web", replicas=4))
    cluster.apply(pdb("web", labels={"app": "web"}, **bounds))
    clock.forward(seconds=3)

    status = cluster.get("pdb", "default", "web")["status"]
    assert status["currentHealthy"] == 4
    found = status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]
    assert found == expected


def test_things_happen_at_their_own_time_however_far_the_clock_jumps(
    cluster: EmbeddedCluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    cluster.apply(workload("Deployment", "web"))
    clock.forward(hours=24)

    (item,) = cluster.all("pods")
    assert item["status"]["startTime"] == "2026-03-02T08:00:02Z"


def test_the_version_stands_still_while_nothing_happens(
    cluster: EmbeddedCluster, clock: SetClock, client: Cluster
) -> None:
    cluster.apply(node("n1"))
    before = cluster.resource_version
    clock.forward(hours=24)
    cluster.advance(clock.now())
    list(client.list_nodes())
    client.patch_node("n1", [{"op": "add", "path": "/metadata/labels/zone", "value": "a"}])
    after = cluster.resource_version
    client.patch_node("n1", [{"op": "add", "path": "/metadata/labels/zone", "value": "a"}])

    assert (after, cluster.resource_version) == (before + 1, before + 1)


def test_the_next_thing_due_is_known(cluster: EmbeddedCluster, clock: SetClock) -> None:
    cluster.apply(node("n1"))
    assert cluster.next_due() is None
    item = pod("p", node="n1", stop_seconds=7)
    cluster.apply(item)
    cluster.delete("pod", "default", "p")

    assert cluster.next_due() == clock.now() + timedelta(seconds=7)
