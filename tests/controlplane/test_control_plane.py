"""The control plane itself: what tests that stand on it take for granted."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.access import Cluster, KubectlError, eventually
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.conftest import require_build
from tests.controlplane.nodes import Nodes
from tests.controlplane.ports import free_ports
from tests.controlplane.process import BootError

GET_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
PATCH_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}
EVICT_PODS = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}


def deployment(
    replicas: int, grace_seconds: int = 0, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations or {}},
                "spec": {
                    "terminationGracePeriodSeconds": grace_seconds,
                    "containers": [{"name": "web", "image": "registry.example/web"}],
                },
            },
        },
    }


def create(cluster: Cluster, namespace: str, manifest: dict[str, Any]) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(manifest))


def pods(cluster: Cluster, namespace: str) -> list[Any]:
    return list(cluster.get("pods", "-n", namespace)["items"])


def running_pods(cluster: Cluster, namespace: str, count: int) -> list[Any]:
    def all_running() -> list[Any]:
        found = pods(cluster, namespace)
        running = [pod for pod in found if pod["status"]["phase"] == "Running"]
        return found if len(running) == len(found) == count else []

    return eventually(all_running, f"{count} pods run in {namespace}")


def evict(cluster: Cluster, namespace: str, pod: str, identity: str = "admin") -> None:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    cluster.kubectl(
        "create", "--raw", path, "-f", "-", input=json.dumps(eviction), identity=identity
    )


def seconds_to_end_after_eviction(cluster: Cluster, pod: Any) -> float:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    started = time.monotonic()
    evict(cluster, namespace, name)
    eventually(
        lambda: name not in [p["metadata"]["name"] for p in pods(cluster, namespace)],
        f"{name} ends",
    )
    return time.monotonic() - started


def test_nodes_become_ready_and_pods_run_on_them(
    cluster: Cluster, clean_nodes: Nodes, namespace: str
) -> None:
    clean_nodes.add("node-a", "node-b", labels={"zone": "one"})
    manifest = deployment(replicas=3)
    # Other tests of the session may have left a node of theirs.
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "one"}
    create(cluster, namespace, manifest)
    used = {pod["spec"]["nodeName"] for pod in running_pods(cluster, namespace, 3)}
    assert used <= {"node-a", "node-b"}


def test_nodes_keep_a_lease_as_kubelets_do(cluster: Cluster, clean_nodes: Nodes) -> None:
    clean_nodes.add("node-a")
    lease = cluster.get("lease", "node-a", "-n", "kube-node-lease")
    assert lease["spec"]["leaseDurationSeconds"] == 40


def test_an_evicted_pod_takes_its_grace_period_to_end(
    cluster: Cluster, clean_nodes: Nodes, namespace: str
) -> None:
    clean_nodes.add("node-a")
    create(cluster, namespace, deployment(replicas=1, grace_seconds=3))
    [pod] = running_pods(cluster, namespace, 1)
    name = pod["metadata"]["name"]
    evict(cluster, namespace, name)
    # Its time in whole seconds, as the API has it: up to one less than the grace from now.
    ends = datetime.fromisoformat(
        cluster.get("pod", name, "-n", namespace)["metadata"]["deletionTimestamp"]
    )
    eventually(
        lambda: name not in [p["metadata"]["name"] for p in pods(cluster, namespace)],
        f"{name} ends",
    )
    late = datetime.now(UTC) - ends
    assert timedelta(0) <= late < timedelta(seconds=7)


@pytest.mark.parametrize(
    ("grace_seconds", "delay", "seconds"), [(60, "1s", (0.5, 10)), (1, "4s", (3.5, 15))]
)
def test_an_annotation_lets_a_pod_end_sooner_or_hang_longer_than_its_grace_period(
    cluster: Cluster,
    clean_nodes: Nodes,
    namespace: str,
    grace_seconds: int,
    delay: str,
    seconds: tuple[float, float],
) -> None:
    clean_nodes.add("node-a")
    ends = {"pod-delete.stage.kwok.x-k8s.io/delay": delay}
    create(cluster, namespace, deployment(1, grace_seconds, annotations=ends))
    [pod] = running_pods(cluster, namespace, 1)
    at_least, at_most = seconds
    assert at_least < seconds_to_end_after_eviction(cluster, pod) < at_most


def test_a_disruption_budget_refuses_an_eviction_with_429(
    control_plane: ControlPlane, clean_nodes: Nodes, namespace: str
) -> None:
    clean_nodes.add("node-a")
    create(control_plane, namespace, deployment(replicas=1))
    [pod] = running_pods(control_plane, namespace, 1)
    control_plane.kubectl(
        "create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=1",
        "-n", namespace,
    )  # fmt: skip
    eventually(
        lambda: control_plane.get("pdb", "web", "-n", namespace)["status"].get("currentHealthy"),
        "the budget knows its pod",
    )

    mark = control_plane.audit_mark()
    with pytest.raises(KubectlError, match="violate the pod's disruption budget"):
        evict(control_plane, namespace, pod["metadata"]["name"])

    [refused] = [e for e in control_plane.audit_since(mark) if e.subresource == "eviction"]
    assert refused.code == 429
    assert refused.body["kind"] == "Eviction"


def test_a_limited_user_may_do_what_it_was_given_and_nothing_else(
    cluster: Cluster, clean_nodes: Nodes
) -> None:
    clean_nodes.add("node-a")
    with pytest.raises(KubectlError, match="Forbidden"):
        cluster.kubectl("get", "node", "node-a", identity="groundcrew")

    with cluster.allowed("groundcrew", GET_NODES):
        cluster.kubectl("get", "node", "node-a", identity="groundcrew")
        with pytest.raises(KubectlError, match="Forbidden"):
            cluster.kubectl("delete", "node", "node-a", identity="groundcrew")


def test_rights_end_when_the_block_ends(cluster: Cluster, clean_nodes: Nodes) -> None:
    clean_nodes.add("node-a")
    with cluster.allowed("groundcrew", GET_NODES):
        pass
    with pytest.raises(KubectlError, match="Forbidden"):
        cluster.kubectl("get", "node", "node-a", identity="groundcrew")


def test_rights_in_one_namespace_are_for_that_namespace(
    cluster: Cluster, clean_nodes: Nodes, namespace: str
) -> None:
    clean_nodes.add("node-a")
    create(cluster, namespace, deployment(replicas=1))
    [pod] = running_pods(cluster, namespace, 1)
    with cluster.allowed("groundcrew", EVICT_PODS, namespace=namespace):
        with pytest.raises(KubectlError, match="Forbidden"):
            evict(cluster, "default", "some-pod", identity="groundcrew")
        evict(cluster, namespace, pod["metadata"]["name"], identity="groundcrew")


def test_the_audit_log_names_a_limited_user_and_shows_its_patch(
    control_plane: ControlPlane, clean_nodes: Nodes
) -> None:
    clean_nodes.add("node-a")
    with control_plane.allowed("groundcrew", PATCH_NODES):
        mark = control_plane.audit_mark()
        control_plane.kubectl("cordon", "node-a", identity="groundcrew")

    patches = [
        entry
        for entry in control_plane.audit_since(mark)
        if (entry.verb, entry.name, entry.subresource) == ("patch", "node-a", "")
    ]
    [patch] = [entry for entry in patches if entry.user == "groundcrew"]
    assert patch.code == 200
    assert patch.body == {"spec": {"unschedulable": True}}


def test_each_part_of_the_control_plane_acts_under_its_own_name(
    control_plane: ControlPlane, clean_nodes: Nodes, namespace: str
) -> None:
    clean_nodes.add("node-a")
    mark = control_plane.audit_mark()
    create(control_plane, namespace, deployment(replicas=1))
    running_pods(control_plane, namespace, 1)

    did = {
        (entry.verb, entry.resource, entry.subresource): entry.user
        for entry in control_plane.audit_since(mark)
        if entry.namespace == namespace and entry.verb in {"create", "patch"}
    }
    assert did["create", "deployments", ""] == "admin"
    assert (
        did["create", "replicasets", ""]
        == "system:serviceaccount:kube-system:deployment-controller"
    )
    assert did["create", "pods", ""] == "system:serviceaccount:kube-system:replicaset-controller"
    assert did["create", "pods", "binding"] == "system:kube-scheduler"
    assert did["patch", "pods", "status"] == "kwok"


def test_a_service_account_can_act_with_the_roles_it_was_given(
    cluster: Cluster, clean_nodes: Nodes, namespace: str
) -> None:
    clean_nodes.add("node-a")
    cluster.kubectl("create", "serviceaccount", "crew", "-n", namespace)
    kubeconfig = cluster.service_account_kubeconfig(namespace, "crew")
    whoami = cluster.kubectl(
        "auth", "whoami", f"--kubeconfig={kubeconfig}", "-o=jsonpath={.status.userInfo.username}"
    )
    assert whoami == f"system:serviceaccount:{namespace}:crew"


def test_the_python_client_works_with_the_kubeconfig(
    admin_kubeconfig: Path, clean_nodes: Nodes
) -> None:
    client = pytest.importorskip("kubernetes.client")
    config = pytest.importorskip("kubernetes.config")
    clean_nodes.add("node-a", provider_id="aws:///zone/i-1")
    with config.new_client_from_config(str(admin_kubeconfig)) as api:
        assert api.configuration.verify_ssl
        node = client.CoreV1Api(api).read_node("node-a")
    assert node.spec.provider_id == "aws:///zone/i-1"


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "asked to stop"])
def test_a_restarted_api_server_has_its_address_and_data_and_the_others_find_it(
    own: ControlPlane, kill: bool
) -> None:
    nodes = Nodes(own)
    nodes.add("before")
    url, before = own.url, own.pids

    started = time.monotonic()
    own.restart_apiserver(kill=kill, down_seconds=1)
    assert 1 < time.monotonic() - started < 30  # a minute if open watches were waited for

    assert own.url == url
    assert own.pids["kube-apiserver"] != before["kube-apiserver"]
    assert own.get("node", "before")["metadata"]["name"] == "before"
    nodes.add("after")  # ready only if kwok and the controllers have found the way back


def test_while_kwok_is_stopped_kubelets_are_dead(own: ControlPlane) -> None:
    Nodes(own).add("node-a")
    create(own, "default", deployment(replicas=1, grace_seconds=1))
    [pod] = running_pods(own, "default", 1)
    name = pod["metadata"]["name"]

    own.stop_kwok()
    own.kubectl("delete", "pod", name, "--wait=false")
    eventually(lambda: len(pods(own, "default")) == 2, "its successor is made")
    time.sleep(2)
    phases = {p["metadata"]["name"]: p["status"]["phase"] for p in pods(own, "default")}
    assert phases.pop(name) == "Running"  # still there, though its grace period is over
    assert list(phases.values()) == ["Pending"]

    own.start_kwok()
    running_pods(own, "default", 1)


def test_two_control_planes_at_once_do_not_see_each_other(
    control_plane: ControlPlane, own: ControlPlane, clean_nodes: Nodes
) -> None:
    clean_nodes.add("node-a")
    assert own.get("nodes")["items"] == []
    assert not set(own.pids.values()) & set(control_plane.pids.values())


def test_extra_users_and_arguments_are_taken(tmp_path: Path) -> None:
    require_build()
    taken = ControlPlane(
        tmp_path,
        extra_users=["alice"],
        extra_args={"kube-apiserver": ["--feature-gates=GenericWorkload=true",
                                       "--runtime-config=scheduling.k8s.io/v1beta1=true"]},
    )  # fmt: skip
    with taken as cluster:
        assert "podgroups" in cluster.kubectl("api-resources", "-o=name")
        with pytest.raises(KubectlError, match='User "alice" cannot get'):
            cluster.kubectl("get", "node", "any", identity="alice")
    assert not (tmp_path / "etcd").exists()
    assert (tmp_path / "kube-apiserver.log").exists()


def test_a_port_that_somebody_takes_during_the_boot_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_build()
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        taken = somebody.getsockname()[1]
        # The order is that of the boot: the third is the API server's.
        answers = iter([[*free_ports(2), taken, *free_ports(3)], free_ports(6)])
        monkeypatch.setattr("tests.controlplane.cluster.free_ports", lambda _: next(answers))
        with ControlPlane(tmp_path) as cluster:
            assert str(taken) not in cluster.url
            cluster.kubectl("get", "nodes")
    assert next(answers, None) is None


def test_a_failed_boot_names_the_program_and_its_last_words(tmp_path: Path) -> None:
    require_build()
    broken = ControlPlane(tmp_path, extra_args={"kube-scheduler": ["--no-such-flag"]})
    with pytest.raises(BootError) as failed:
        broken.start()
    assert str(failed.value).startswith("kube-scheduler ended with exit code 1.")
    assert "unknown flag: --no-such-flag" in str(failed.value)
    assert f"Next step: read the whole log, {tmp_path / 'kube-scheduler.log'}" in str(failed.value)
    assert broken.pids == {}


def test_nothing_is_left_running_when_the_test_process_is_killed(tmp_path: Path) -> None:
    require_build()
    # The restart from a thread that ends: the API server must outlive the thread, not the process.
    script = f"""
import json, threading, time
from pathlib import Path
from tests.controlplane.cluster import ControlPlane
booted = ControlPlane(Path({str(tmp_path)!r}))
booted.start()
restart = threading.Thread(target=booted.restart_apiserver)
restart.start()
restart.join()
booted.kubectl("get", "nodes")
print(json.dumps(booted.pids), flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pids = json.loads(parent.stdout.readline() or "{}")
        before = [program for program, pid in pids.items() if is_running(pid)]
        parent.send_signal(signal.SIGKILL)
    assert len(before) == 5
    eventually(lambda: not any(is_running(pid) for pid in pids.values()), f"{pids} ended", 5)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # ended, and only waits for somebody to ask for its exit code


@pytest.fixture
def own(control_plane: ControlPlane, tmp_path: Path) -> Iterator[ControlPlane]:
    """A second control plane, for tests that stop parts of it."""
    assert control_plane.pids  # also says: not with somebody else's cluster
    with ControlPlane(tmp_path) as booted:
        yield booted
