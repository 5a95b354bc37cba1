"""The gateway against a real API server: what its answers are to us."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.connect import connect
from functions.rules import keys
from functions.steps import eviction_answers, pods
from functions.steps.eviction_answers import Meaning
from tests.controlplane.access import Cluster as Access
from tests.controlplane.access import eventually
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.nodes import Nodes

DRAIN_PATH = "/metadata/annotations/groundcrew.dev~1drain"


@pytest.fixture
def api(admin_kubeconfig: Path) -> Iterator[Cluster]:
    made = connect(str(admin_kubeconfig))
    yield made
    made._transport.close()  # type: ignore[attr-defined]


@pytest.fixture
def node(clean_nodes: Nodes) -> str:
    clean_nodes.add("gateway-1", annotations={"a": "b"}, provider_id="aws:///x/i-1")
    return "gateway-1"


def pod(name: str, namespace: str, node: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "registry.example/work:1"}],
            **spec,
        },
    }


def pdb(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def running(cluster: Access, namespace: str, *names: str) -> None:
    eventually(
        lambda: all(
            any(
                c["type"] == "Ready" and c["status"] == "True"
                for c in cluster.get("pod", name, "-n", namespace)["status"].get("conditions", ())
            )
            for name in names
        ),
        f"{names} become ready",
    )


def seen(cluster: Access, namespace: str, name: str, expected: int) -> None:
    eventually(
        lambda: (
            cluster.get("pdb", name, "-n", namespace).get("status", {}).get("expectedPods")
            == expected
        ),
        f"the status of the budget {name}",
    )


def test_a_node_reads_as_it_was_made(api: Cluster, node: str) -> None:
    found = api.get_node(node)
    assert (found.name, found.provider_id) == (node, "aws:///x/i-1")
    ready = found.condition("Ready")
    assert ready is not None
    assert ready.status == "True"
    assert node in {n.name for n in api.list_nodes()}


def test_a_failed_test_of_a_patch_is_a_lost_race(api: Cluster, node: str) -> None:
    for operations in (
        [{"op": "test", "path": "/metadata/uid", "value": "another"}],
        [{"op": "test", "path": DRAIN_PATH, "value": "old"}],
        [{"op": "test", "path": "/spec/unschedulable", "value": True}],
    ):
        with pytest.raises(errors.TestFailed):
            api.patch_node(node, operations)


def test_a_test_against_null_is_a_compare_and_set_from_nothing(api: Cluster, node: str) -> None:
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": DRAIN_PATH, "value": None},
        {"op": "add", "path": DRAIN_PATH, "value": "x"},
    ]
    assert api.patch_node(node, operations).metadata.annotation(keys.DRAIN) == "x"
    with pytest.raises(errors.TestFailed):
        api.patch_node(node, operations)


def test_a_dry_run_changes_nothing(api: Cluster, node: str, cluster: Access) -> None:
    api.patch_node(
        node, [{"op": "add", "path": "/spec/unschedulable", "value": True}], dry_run=True
    )
    assert not api.get_node(node).unschedulable
    assert api.wrote == 0


def test_an_exhausted_budget_is_told_from_impatience(
    api: Cluster, node: str, namespace: str, cluster: Access
) -> None:
    cluster.create(pod("web", namespace, node), pdb("web", namespace, minAvailable=1))
    running(cluster, namespace, "web")
    seen(cluster, namespace, "web", 1)
    uid = api.get_pod(namespace, "web").metadata.uid
    with pytest.raises(errors.TooManyRequests) as refused:
        api.evict(namespace, "web", uid=uid)
    assert eviction_answers.read(refused.value).meaning is Meaning.BUDGET
    [budget] = [pods.budget(b) for b in api.list_pdbs(namespace).items or ()]
    assert (budget.allowed, budget.healthy, budget.desired, budget.expected) == (0, 1, 1, 1)
    assert budget.never


def test_two_budgets_over_a_pod_are_refused_for_good(
    api: Cluster, node: str, namespace: str, cluster: Access
) -> None:
    cluster.create(
        pod("web", namespace, node),
        pdb("one", namespace, maxUnavailable=1),
        pdb("two", namespace, maxUnavailable=1),
    )
    running(cluster, namespace, "web")
    uid = api.get_pod(namespace, "web").metadata.uid
    with pytest.raises(errors.ServerError) as refused:
        api.evict(namespace, "web", uid=uid)
    assert eviction_answers.read(refused.value).meaning is Meaning.NEVER


def test_an_empty_selector_covers_every_pod_as_we_read_it(
    api: Cluster, node: str, namespace: str, cluster: Access
) -> None:
    budget = pdb("all", namespace, minAvailable=1)
    budget["spec"]["selector"] = {}
    cluster.create(pod("web", namespace, node), budget)
    running(cluster, namespace, "web")
    seen(cluster, namespace, "all", 1)
    found = api.get_pod(namespace, "web")
    [ours] = [pods.budget(b) for b in api.list_pdbs(namespace).items or ()]
    assert ours.covers(pods.pod(found))
    with pytest.raises(errors.TooManyRequests):
        api.evict(namespace, "web", uid=found.metadata.uid)


def test_the_pod_that_has_the_name_now_is_not_evicted(
    api: Cluster, node: str, namespace: str, cluster: Access
) -> None:
    cluster.create(pod("web", namespace, node))
    running(cluster, namespace, "web")
    with pytest.raises(errors.Conflict) as refused:
        api.evict(namespace, "web", uid="00000000-0000-0000-0000-000000000000")
    assert eviction_answers.read(refused.value).meaning is Meaning.GONE
    assert not api.get_pod(namespace, "web").terminating


def test_a_pod_that_is_not_there_is_gone(api: Cluster, namespace: str) -> None:
    with pytest.raises(errors.NotFound) as refused:
        api.evict(namespace, "none", uid="x")
    assert eviction_answers.read(refused.value).meaning is Meaning.GONE


def test_a_watch_tells_what_happened_and_ends_at_its_time(
    api: Cluster, node: str, namespace: str, cluster: Access
) -> None:
    cluster.create(pod("web", namespace, node))
    running(cluster, namespace, "web")
    listed = api.list_pods(node=node)
    assert listed.items is not None
    [found] = listed.items
    api.evict(namespace, "web", uid=found.metadata.uid)
    started = time.monotonic()
    version = listed.metadata.resource_version
    with api.watch_pods(node=node, resource_version=version, timeout_seconds=1) as watch:
        told = [(e.type, e.object.metadata.name) for e in watch if e.type != "BOOKMARK"]
    assert ("DELETED", "web") in told
    assert time.monotonic() - started < 4


def test_what_there_is_and_what_follows_are_one_request(
    api: Cluster, node: str, namespace: str, cluster: Access
) -> None:
    cluster.create(pod("web", namespace, node))
    running(cluster, namespace, "web")
    answer = api.pods_watched(node=node, timeout_seconds=1)
    assert answer is not None, "the server can do it"
    page, watch = answer
    assert page.items is not None
    [found] = page.items
    assert page.metadata.resource_version.isdigit()
    api.evict(namespace, "web", uid=found.metadata.uid)
    assert ("DELETED", "web") in [(e.type, e.object.metadata.name) for e in watch]


def test_a_watch_from_before_the_servers_memory_is_gone(
    api: Cluster, node: str, control_plane: ControlPlane
) -> None:
    control_plane.restart_apiserver()

    def watch() -> None:
        with api.watch_pods(node=node, resource_version="1", timeout_seconds=1) as watch:
            list(watch)

    with pytest.raises(errors.Gone):
        watch()


def test_a_token_that_is_no_more_is_read_anew_once(
    admin_kubeconfig: Path, tmp_path: Path, node: str
) -> None:
    text = admin_kubeconfig.read_text()
    copy = tmp_path / "kubeconfig"
    copy.write_text(_other_token(text))
    made = connect(str(copy))
    with pytest.raises(errors.Unauthorized):
        made.get_node(node)
    copy.write_text(text)
    assert made.get_node(node).name == node
    made._transport.close()  # type: ignore[attr-defined]


def _other_token(text: str) -> str:
    import yaml

    document = yaml.safe_load(text)
    for user in document["users"]:
        if "token" not in user["user"]:
            pytest.skip("this cluster's kubeconfig has no token")
        user["user"]["token"] = "no-longer"
    return yaml.safe_dump(document)


def test_rights_are_known_before_they_are_used(api: Cluster) -> None:
    assert api.can_i("create", "pods", subresource="eviction")


def test_what_is_not_allowed_is_forbidden_and_for_good(
    node: str, namespace: str, cluster: Access
) -> None:
    account = {"name": "nobody", "namespace": namespace}
    cluster.create(
        pod("web", namespace, node),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
    )
    running(cluster, namespace, "web")
    stranger = connect(str(cluster.service_account_kubeconfig(namespace, "nobody")))
    assert not stranger.can_i("create", "pods", subresource="eviction")
    with pytest.raises(errors.Forbidden) as refused:
        stranger.evict(namespace, "web", uid="x")
    assert eviction_answers.read(refused.value).meaning is Meaning.NEVER
    stranger._transport.close()  # type: ignore[attr-defined]
