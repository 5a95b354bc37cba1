"""A real Karpenter beside a real control plane, with machines that kwok plays.

Its cloud is kwok's provider: a Node that it makes is a machine that started, with provider ID
``kwok://NAME``; it ends when Karpenter has deleted the Node.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from tests.controlplane.access import eventually
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.karpenter.build import BUILD_COMMAND, cached
from tests.controlplane.nodes import is_ready
from tests.controlplane.ports import free_ports
from tests.controlplane.process import Process

POOL = "karpenter.sh/nodepool"
FINALIZER = "karpenter.sh/termination"
ZONE = "us-east-1a"
HEALTHY_SECONDS = 60
INSTANCE_TYPE = {
    "name": "gpu-8x",
    "offerings": [
        {
            "Price": 1.0,
            "Available": True,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONE]},
            ],
        }
    ],
    "architecture": "amd64",
    "operatingSystems": ["linux"],
    "resources": {"cpu": "8", "memory": "32Gi", "pods": "20"},
}
"""One kind of machine; a pod that asks for `FULL` fills it."""
FULL = {"cpu": "7"}


class NotBuiltError(Exception):
    def __init__(self) -> None:
        super().__init__(f"Karpenter is not built: run {BUILD_COMMAND}")


@contextmanager
def karpenter(control_plane: ControlPlane) -> Iterator[Process]:
    """Karpenter with its CRDs, node repair on; all that it made is gone afterwards."""
    built = cached()
    if built is None:
        raise NotBuiltError
    cluster, folder = control_plane, control_plane.work_folder
    cluster.kubectl("apply", "--server-side", "-f", str(built.crds))
    cluster.kubectl("wait", "--for=condition=Established", "-f", str(built.crds))
    types = folder / "instance-types.json"
    types.write_text(json.dumps([INSTANCE_TYPE]))
    metrics, health = free_ports(2)
    url = f"http://127.0.0.1:{health}/readyz"
    process = Process(
        [
            str(built.program),
            "--disable-leader-election",
            f"--metrics-port={metrics}",
            f"--health-probe-port={health}",
            "--feature-gates=NodeRepair=true",
            "--batch-idle-duration=200ms",
            f"--instance-types-file-path={types}",
        ],
        folder=folder,
        healthy=lambda: _answers(url),
        environment={"KUBECONFIG": str(cluster.kubeconfig("karpenter"))},
    )
    try:
        process.wait_healthy(HEALTHY_SECONDS)
        yield process
    finally:
        # Nobody else may take finalizers off what is about to be stripped of them.
        process.kill()
        _remove_all(cluster)
        cluster.kubectl("delete", "--ignore-not-found", "-f", str(built.crds))


@dataclass
class NodePool:
    """One NodePool of the test's own, and a Deployment of one pod a machine."""

    cluster: ControlPlane
    namespace: str
    name: str = field(default_factory=lambda: f"gpu-{uuid.uuid4().hex[:6]}")

    def make(self, *, consolidate_after: str = "Never", **template: Any) -> None:
        requirements = [
            {"key": key, "operator": "In", "values": [value]}
            for key, value in {
                "kubernetes.io/arch": "amd64",
                "karpenter.sh/capacity-type": "on-demand",
            }.items()
        ]
        spec = {
            "requirements": requirements,
            "nodeClassRef": {
                "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": self.name,
            },
            **template,
        }  # fmt: skip
        self.cluster.create(
            {
                "apiVersion": "karpenter.kwok.sh/v1alpha1",
                "kind": "KWOKNodeClass",
                "metadata": {"name": self.name},
            },
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodePool",
                "metadata": {"name": self.name},
                "spec": {
                    "template": {"spec": spec},
                    "disruption": {
                        "consolidationPolicy": "WhenEmpty",
                        "consolidateAfter": consolidate_after,
                        "budgets": [{"nodes": "100%"}],
                    },
                },
            },
        )

    def work(self, replicas: int, annotations: Mapping[str, str] | None = None) -> None:
        """A Deployment whose pods fill a machine each, and their machines."""
        template = {
            "metadata": {"labels": {"app": "work"}, "annotations": dict(annotations or {})},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": {POOL: self.name},
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example/work:1",
                        "resources": {"requests": FULL},
                    }
                ],
            },
        }
        self.cluster.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "work", "namespace": self.namespace},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": "work"}},
                    "template": template,
                },
            }
        )
        self.until(lambda: len(self.serving()) == replicas, f"{replicas} machines serve")

    def claims(self) -> list[Any]:
        return list(self.cluster.get("nodeclaims", "-l", f"{POOL}={self.name}")["items"])

    def claim_of(self, node: str) -> Any | None:
        """The NodeClaim of that Node, or None."""
        found = [c for c in self.claims() if c.get("status", {}).get("nodeName") == node]
        return found[0] if found else None

    def nodes(self) -> list[Any]:
        return list(self.cluster.get("nodes", "-l", f"{POOL}={self.name}")["items"])

    def serving(self) -> list[str]:
        """Names of the nodes that are initialised, ready, and carry a running pod of ours."""
        pods = self.cluster.get("pods", "-n", self.namespace)["items"]
        busy = {p["spec"].get("nodeName") for p in pods if p["status"].get("phase") == "Running"}
        return sorted(
            node["metadata"]["name"]
            for node in self.nodes()
            if is_ready(node)
            and node["metadata"]["labels"].get("karpenter.sh/initialized") == "true"
            and node["metadata"]["name"] in busy
        )

    def until(self, check: Callable[[], Any], what: str, timeout_seconds: float = 120) -> Any:
        return eventually(check, what, timeout_seconds)


def _answers(url: str) -> bool:
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _remove_all(cluster: ControlPlane) -> None:
    """Without its finalizers: machines that kwok plays need no ending."""
    for kind in ("nodepools", "nodeclaims", "kwoknodeclasses"):
        cluster.kubectl("delete", kind, "--all", "--wait=false")
    for kind in ("nodes", "nodeclaims", "nodepools", "kwoknodeclasses"):
        for found in cluster.get(kind)["items"]:
            if FINALIZER in (found["metadata"].get("finalizers") or ()):
                name = found["metadata"]["name"]
                nothing = '{"metadata":{"finalizers":null}}'
                cluster.kubectl("patch", kind, name, "--type=merge", "-p", nothing)
                cluster.kubectl("delete", kind, name, "--ignore-not-found")
