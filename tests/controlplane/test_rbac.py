"""The roles in ``infra/rbac``: what each function does, it does with them, and none is idle."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions import cordon, drain
from functions.gateways.clock import SystemClock
from functions.rules import keys
from functions.rules.replacing.book import Entry
from functions.steps import active
from functions.steps.replacing import collect
from functions.steps.replacing.crew import Crew
from tests.controlplane.access import Cluster, eventually
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.nodes import Nodes
from tests.support.crew import context, node_update, ping, transport_to

ROLES = Path(__file__).parents[2] / "infra" / "rbac"
NAMESPACE = "groundcrew-system"
DEADLOCK = {"type": "KernelDeadlock", "status": "True", "reason": "DockerHung", "message": ""}
XID_79 = {
    "type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error",
    "message": "fell off the bus",
}  # fmt: skip


@pytest.fixture(scope="module")
def roles(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with our namespace and roles, as ``kubectl apply -k infra/rbac`` leaves it: once,
    since namespaces take many seconds to end."""
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cluster.kubectl("apply", "-k", str(ROLES))
    yield cluster
    cluster.kubectl("delete", "-k", str(ROLES), "--ignore-not-found", "--wait=false")
    both = (NAMESPACE, keys.EVIDENCE_NAMESPACE)
    cluster.kubectl("delete", "namespace", *both, "--ignore-not-found", "--wait=true")


@pytest.fixture
def installed(roles: Cluster) -> Iterator[Cluster]:
    """The same for a test that acts: what was written in our namespaces is gone after it."""
    yield roles
    for namespace in (NAMESPACE, keys.EVIDENCE_NAMESPACE):
        roles.kubectl("delete", "configmaps,jobs", "--all", f"-n={namespace}")
        roles.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", f"-n={namespace}")


def act_as(cluster: Cluster, function: str) -> Any:
    kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, f"groundcrew-{function}")
    return context(transport_to(kubeconfig), namespace=NAMESPACE)


def with_condition(cluster: Cluster, name: str, condition: dict[str, str]) -> Any:
    node = cluster.get("node", name)
    node["status"]["conditions"].append(condition)
    return node_update(node)


def test_cordon_and_drain_do_their_work_with_their_own_roles_and_are_never_refused(
    installed: Cluster, control_plane: ControlPlane, clean_nodes: Nodes, namespace: str
) -> None:
    mark = control_plane.audit_mark()
    clean_nodes.add("sick", provider_id="aws:///us-east-1a/i-sick")
    pod = {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "work", "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "work"}},
            "template": {
                "metadata": {"labels": {"app": "work"}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "c", "image": "work"}],
                },
            },
        },
    }  # fmt: skip
    installed.create(pod)
    eventually(lambda: _running(installed, namespace) == 2, "both pods run")

    cordon.handle(ping(), act_as(installed, "cordon"))
    outcome = cordon.handle(with_condition(installed, "sick", XID_79), act_as(installed, "cordon"))
    assert [d.action for d in outcome.decisions] == ["open", "cordon"]
    for _ in range(5):
        drain.handle(ping("resync-drain"), act_as(installed, "drain"))
        if not _on_node(installed, namespace, "sick"):
            break
    drain.handle(ping("resync-drain"), act_as(installed, "drain"))
    annotation = json.loads(installed.get("node", "sick")["metadata"]["annotations"][keys.DRAIN])
    assert annotation["state"] == "drained"
    told = installed.kubectl("get", "events", "-n", "default", "-o", "name")
    assert "sick." in told
    ours = [
        entry
        for entry in control_plane.audit_since(mark)
        if entry.user.startswith(f"system:serviceaccount:{NAMESPACE}:")
    ]
    assert {entry.user.rpartition(":")[2] for entry in ours} == {
        "groundcrew-cordon",
        "groundcrew-drain",
    }
    assert [entry for entry in ours if entry.code == 403] == []


def test_replace_collects_evidence_on_a_cordoned_node_with_its_own_role(
    installed: Cluster, control_plane: ControlPlane, clean_nodes: Nodes
) -> None:
    mark = control_plane.audit_mark()
    machine = "aws:///us-east-1a/i-sick"
    clean_nodes.add("sick", provider_id=machine)
    installed.kubectl("cordon", "sick")
    # This API server does not let pods be privileged; all else is as it is installed.
    template = (ROLES.parent / "evidence" / "job.yaml").read_text()
    text = template.replace("privileged: true", "privileged: false")
    meta = {
        "name": active.EVIDENCE_NAME,
        "namespace": NAMESPACE,
        "labels": {keys.PART: "evidence"},
    }
    data = {"job.yaml": text}
    installed.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    now = datetime.now(UTC)
    entry = Entry(
        node="sick", changed=now, began=now, collecting=now, fault="kubernetes.event/xid-79"
    )
    seen = act_as(installed, "replace")

    def look() -> str:
        crew = Crew(seen.cluster, SystemClock(), NAMESPACE, 30.0, lambda: None)  # type: ignore[arg-type,return-value]
        return collect.collect(crew, machine, entry)

    assert look() == ""
    eventually(lambda: look().startswith("collected by Job evidence-"), "the Job is done")
    where = ("-n", keys.EVIDENCE_NAMESPACE)
    (job,) = installed.get("jobs", *where)["items"]
    assert job["metadata"]["name"] == collect.job_name(machine, entry)
    (pod,) = installed.get("pods", *where)["items"]
    assert pod["spec"]["nodeName"] == "sick"
    ours = f"system:serviceaccount:{NAMESPACE}:groundcrew-replace"
    asked = [entry for entry in control_plane.audit_since(mark) if entry.user == ours]
    assert asked
    assert [entry for entry in asked if entry.code == 403] == []


@pytest.mark.parametrize(
    ("function", "verb", "resource"),
    [
        ("cordon", "create", "pods/eviction"),
        ("cordon", "delete", "pods"),
        ("cordon", "delete", "nodes"),
        ("cordon", "get", "secrets"),
        ("drain", "delete", "nodes"),
        ("drain", "get", "secrets"),
        ("drain", "delete", "configmaps"),
        ("drain", "create", "pods"),
        ("replace", "create", "jobs"),
        ("replace", "create", "pods"),
        ("replace", "delete", "pods"),
    ],
)
def test_what_they_never_do_they_may_not(
    roles: Cluster, function: str, verb: str, resource: str
) -> None:
    account = f"system:serviceaccount:{NAMESPACE}:groundcrew-{function}"
    assert roles.may(account, "list", "nodes"), "it is asked after the one that has the role"
    group = "batch" if resource == "jobs" else ""
    assert not roles.may(account, verb, resource, group=group)


def test_every_role_is_one_of_a_function_that_exists() -> None:
    functions = {p.stem for p in (Path(cordon.__file__).parent).glob("*.py")}
    for file in ROLES.glob("*.yaml"):
        for item in yaml.safe_load_all(file.read_text()):
            if item["kind"] == "ServiceAccount":
                name = item["metadata"]["name"].removeprefix("groundcrew-")
                assert name in functions | {"events"}


def _running(cluster: Cluster, namespace: str) -> int:
    pods = cluster.get("pods", "-n", namespace)["items"]
    return sum(1 for pod in pods if pod["status"].get("phase") == "Running")


def _on_node(cluster: Cluster, namespace: str, node: str) -> list[str]:
    pods = cluster.get("pods", "-n", namespace)["items"]
    return [p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") == node]
