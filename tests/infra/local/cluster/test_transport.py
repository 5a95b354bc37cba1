"""The embedded cluster through the functions' own client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request, Transport
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport
from infra.local.cluster.builders import node, pdb, pod
from tests.infra.local.cluster.conftest import SetClock


def test_it_is_a_transport(cluster: EmbeddedCluster) -> None:
    transport: Transport = EmbeddedTransport(cluster)
    assert transport.send(Request(method="GET", path="/api/v1/nodes")).status == 200


def test_a_watch_tells_what_happened_and_then_waits_its_time(
    cluster: EmbeddedCluster, client: Cluster, clock: SetClock
) -> None:
    waited: list[float] = []
    client = Cluster(EmbeddedTransport(cluster, on_wait=waited.append))
    cluster.apply(node("n1"))
    item = cluster.apply(pod("p", node="n1", stop_seconds=0))
    version = client.list_pods(node="n1").metadata.resource_version
    with client.watch_pods(node="n1", resource_version=version, timeout_seconds=7) as watch:
        client.evict("default", "p", uid=item["metadata"]["uid"])
        assert waited == []
        seen = [event.type for event in watch]
    assert seen == ["MODIFIED", "MODIFIED", "DELETED", "BOOKMARK"]
    assert waited == [7.0]


def test_what_happens_while_a_watch_waits_is_told_before_it_ends(
    cluster: EmbeddedCluster, clock: SetClock
) -> None:
    client = Cluster(EmbeddedTransport(cluster, on_wait=lambda s: clock.forward(seconds=s)))
    cluster.apply(node("n1"))
    item = cluster.apply(pod("p", node="n1", stop_seconds=5))
    version = client.list_pods(node="n1").metadata.resource_version
    client.evict("default", "p", uid=item["metadata"]["uid"])
    with client.watch_pods(node="n1", resource_version=version, timeout_seconds=7) as watch:
        assert [event.type for event in watch] == ["MODIFIED", "MODIFIED", "DELETED", "BOOKMARK"]


def test_a_watch_that_is_closed_early_does_not_wait(cluster: EmbeddedCluster) -> None:
    waited: list[float] = []
    client = Cluster(EmbeddedTransport(cluster, on_wait=waited.append))
    cluster.apply(pod("p", node="n1"))
    with client.watch_pods(node="n1", resource_version="0", timeout_seconds=7) as watch:
        assert next(iter(watch)).object.metadata.name == "p"
    assert waited == []


def test_no_bookmark_comes_where_nothing_of_the_kind_changed(
    cluster: EmbeddedCluster, client: Cluster
) -> None:
    cluster.apply(pod("p", node="n1"))
    version = client.list_pods().metadata.resource_version
    cluster.apply(node("n1"))
    with client.watch_pods(node="n1", resource_version=version, timeout_seconds=7) as watch:
        assert list(watch) == []


def test_a_watch_from_before_the_history_is_gone(cluster: EmbeddedCluster, client: Cluster) -> None:
    cluster.apply(pod("p", node="n1"))
    version = client.list_pods().metadata.resource_version
    cluster.apply(pod("q", node="n1"))
    cluster.compact()
    with (
        pytest.raises(errors.Gone),
        client.watch_pods(node="n1", resource_version=version, timeout_seconds=1) as watch,
    ):
        list(watch)


def test_the_history_is_bounded(clock: SetClock) -> None:
    cluster = EmbeddedCluster(clock, history=10)
    client = Cluster(EmbeddedTransport(cluster))
    version = client.list_pods().metadata.resource_version
    for i in range(30):
        cluster.apply(pod(f"p{i}", node="n1"))
    with (
        pytest.raises(errors.Gone),
        client.watch_pods(node="n1", resource_version=version, timeout_seconds=1) as watch,
    ):
        list(watch)


def test_pages_show_one_moment_until_their_token_expires(
    cluster: EmbeddedCluster, clock: SetClock
) -> None:
    transport = EmbeddedTransport(cluster)
    for name in ("a", "b", "c"):
        cluster.apply(node(name))

    def page(token: str = "") -> dict[str, Any]:
        query = {"limit": "2"} | ({"continue": token} if token else {})
        answer = transport.send(Request(method="GET", path="/api/v1/nodes", query=query))
        return json.loads(answer.body)

    token = page()["metadata"]["continue"]
    cluster.delete("node", "", "c")
    assert [n["metadata"]["name"] for n in page(token)["items"]] == ["c"]
    clock.forward(minutes=6)
    assert page(token)["reason"] == "Expired"


def test_a_fault_answers_instead_as_often_as_it_was_told(
    cluster: EmbeddedCluster, client: Cluster
) -> None:
    cluster.apply(node("n1"))
    cluster.faults.fail("get", "/nodes/n1$", 500, reason="InternalError", times=2)
    for _ in range(2):
        with pytest.raises(errors.ServerError):
            client.get_node("n1")
    assert client.get_node("n1").name == "n1"


def test_a_fault_can_speak_for_flow_control(cluster: EmbeddedCluster, client: Cluster) -> None:
    item = cluster.apply(pod("p", node="n1"))
    cluster.faults.fail("create", "/eviction$", 429, retry_after_seconds=1)
    with pytest.raises(errors.TooManyRequests) as caught:
        client.evict("default", "p", uid=item["metadata"]["uid"])
    assert caught.value.retry_after_seconds == 1
    assert not caught.value.has_cause("DisruptionBudget")


def test_a_lost_answer_leaves_the_deed_done(cluster: EmbeddedCluster, client: Cluster) -> None:
    cluster.apply(node("n1"))
    cordon = [{"op": "add", "path": "/spec/unschedulable", "value": True}]
    cluster.faults.drop("patch", "/nodes/n1$")
    with pytest.raises(errors.Unreachable):
        client.patch_node("n1", cordon)
    assert not client.get_node("n1").unschedulable
    cluster.faults.drop("patch", "/nodes/n1$", carried_out=True)
    with pytest.raises(errors.Unreachable):
        client.patch_node("n1", cordon)
    assert client.get_node("n1").unschedulable


def test_somebody_else_can_act_between_our_read_and_our_patch(
    cluster: EmbeddedCluster, client: Cluster
) -> None:
    cluster.apply(node("n1"))
    add = {"op": "add", "path": "/spec/unschedulable", "value": True}
    cluster.faults.before("patch", "/nodes/n1$", lambda call: client.patch_node("n1", [add]))
    with pytest.raises(errors.TestFailed):
        client.patch_node("n1", [{"op": "test", "path": "/spec/unschedulable", "value": None}, add])


def test_a_cut_watch_is_a_broken_connection(cluster: EmbeddedCluster, client: Cluster) -> None:
    cluster.apply(pod("p", node="n1"))
    cluster.apply(pod("q", node="n1"))
    cluster.faults.cut("/pods$", after_lines=1)
    with client.watch_pods(node="n1", resource_version="0", timeout_seconds=1) as watch:
        events = iter(watch)
        assert next(events).object.metadata.name == "p"
        with pytest.raises(errors.Unreachable):
            next(events)


def test_who_asked_for_what_is_kept_in_order(cluster: EmbeddedCluster, client: Cluster) -> None:
    cluster.apply(node("n1"))
    item = cluster.apply(pod("p", node="n1"))
    client.patch_node("n1", [{"op": "add", "path": "/spec/unschedulable", "value": True}])
    client.evict("default", "p", uid=item["metadata"]["uid"], dry_run=True)
    assert [(s.verb, s.path, s.dry_run) for s in cluster.requests()] == [
        ("patch", "/api/v1/nodes/n1", False),
        ("create", "/api/v1/namespaces/default/pods/p/eviction", False),
    ]
    assert [s.status for s in cluster.requests("create", "eviction")] == [201]


def test_rights_can_be_denied(cluster: EmbeddedCluster, client: Cluster) -> None:
    assert client.can_i("create", "pods", subresource="eviction")
    cluster.deny(lambda a: "no" if a.get("subresource") == "eviction" else "")
    assert not client.can_i("create", "pods", subresource="eviction")
    assert client.can_i("patch", "nodes")


def test_a_held_controller_leaves_a_new_budget_uncounted(
    cluster: EmbeddedCluster, client: Cluster
) -> None:
    cluster.held.add("disruption")
    item = cluster.apply(pod("p", node="n1", labels={"app": "web"}))
    cluster.apply(pdb("web", labels={"app": "web"}, min_available=0))
    with pytest.raises(errors.TooManyRequests) as caught:
        client.evict("default", "p", uid=item["metadata"]["uid"])
    assert caught.value.retry_after_seconds == 10
    cluster.held.clear()
    client.evict("default", "p", uid=item["metadata"]["uid"])


def test_an_eviction_that_was_paid_for_in_vain_costs_the_budget_two_minutes(
    cluster: EmbeddedCluster, client: Cluster, clock: SetClock
) -> None:
    cluster.apply(node("n1"))
    for name in ("p", "q"):
        cluster.apply(pod(name, node="n1", labels={"app": "web"}))
    cluster.apply(pdb("web", labels={"app": "web"}, min_available=1))
    with pytest.raises(errors.Conflict):
        client.evict("default", "p", uid="another")

    def allowed() -> int:
        return (client.list_pdbs("default").items or [])[0].status.disruptions_allowed

    assert allowed() == 0
    clock.forward(seconds=119)
    assert allowed() == 0
    clock.forward(seconds=2)
    assert allowed() == 1
