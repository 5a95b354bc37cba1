"""Nodes with pods on a real control plane, for tests and benches of drains."""

import json
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from events.notice import Kind, Severity
from functions import drain
from functions.edge.context import Outcome
from functions.gateways.kubernetes.client import Cluster as Api
from functions.gateways.kubernetes.transport import Request
from functions.rules import drain_state, incidents, keys
from functions.rules.drain_state import DrainState, State
from functions.rules.incidents import Cordon, Incident, Record
from tests.controlplane.access import Cluster, eventually
from tests.controlplane.nodes import Nodes
from tests.support.crew import context, ping, transport_to

STOPS = "pod-delete.stage.kwok.x-k8s.io/delay"
"""Annotation of a pod: how long it takes to stop, whatever its grace ("0s", "1h")."""
NONE: Mapping[str, str] = {}
STARTS = "pod-ready.stage.kwok.x-k8s.io"
"""Annotations ``.../delay`` and ``.../jitter-delay``: how long until it is ready."""


@dataclass
class Bed:
    cluster: Cluster
    nodes: Nodes
    namespace: str
    transport: Any
    api: Api
    pool: str

    @classmethod
    def on(cls, cluster: Cluster, nodes: Nodes, namespace: str) -> "Bed":
        transport = transport_to(cluster.kubeconfig("admin"))
        pool = f"pool-{uuid.uuid4().hex[:6]}"
        return cls(cluster, nodes, namespace, transport, Api(transport), pool)

    def add(self, *names: str) -> None:
        for name in names:
            machine = f"aws:///us-east-1a/i-{uuid.uuid4().hex[:17]}"
            self.nodes.add(name, labels={"pool": self.pool}, provider_id=machine)

    def add_together(self, *names: str) -> None:
        """Of one instance type, and without provider IDs: quicker when they are many."""
        self.nodes.add(*names, labels={"pool": self.pool})

    def mark(self, name: str) -> None:
        """Cordon the node as cordon does for an incident that asks for eviction."""
        node, now = self.api.get_node(name), datetime.now(UTC)
        incident = Incident(
            source="kubernetes.node",
            check="xid-79",
            kind=Kind.FAULT,
            severity=Severity.EVICT,
            first=now,
            last=now,
        )
        record = Record(machine=node.provider_id, cordon=Cordon(at=now), incidents=(incident,))
        annotations = {keys.INCIDENTS: incidents.encode(record)}
        patch = {
            "metadata": {"annotations": annotations, "labels": {keys.STATE: "evict"}},
            "spec": {"unschedulable": True},
        }
        self.cluster.kubectl("patch", "node", name, "-p", json.dumps(patch))

    def owner(self, name: str) -> dict[str, Any]:
        """A controller that makes no new pods, and that the garbage collector knows."""
        self.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": self.namespace},
            }
        )
        found = self.cluster.get("configmap", name, "-n", self.namespace)
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": name,
            "uid": found["metadata"]["uid"],
            "controller": True,
        }

    def pod(
        self,
        name: str,
        node: str,
        *,
        owner: dict[str, Any] | None = None,
        grace: int = 0,
        finalizers: tuple[str, ...] = (),
        labels: Mapping[str, str] = NONE,
        annotations: Mapping[str, str] = NONE,
        **spec: Any,
    ) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": labels or {"app": "web"},
                "annotations": annotations,
                "finalizers": list(finalizers),
                "ownerReferences": [owner] if owner else [],
            },
            "spec": pod_spec(grace) | {"nodeName": node} | spec,
        }

    def create(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Pods, side by side: hundreds of them in a second or two."""

        def one(manifest: Mapping[str, Any]) -> None:
            path = f"/api/v1/namespaces/{self.namespace}/pods"
            body = msgspec.json.encode(manifest)
            answer = self.transport.send(Request(method="POST", path=path, body=body))
            assert answer.status == 201, answer.body

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(one, manifests))

    def workload(
        self,
        kind: str,
        name: str,
        replicas: int,
        grace: int = 0,
        annotations: Mapping[str, str] = NONE,
        **spec: Any,
    ) -> dict[str, Any]:
        template = {
            "metadata": {"labels": {"app": name}, "annotations": annotations},
            "spec": pod_spec(grace) | {"nodeSelector": {"pool": self.pool}} | spec,
        }
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": template,
            },
        }

    def pdb(self, name: str, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
        }

    def pods(self, node: str = "") -> list[Any]:
        found = self.cluster.get("pods", "-n", self.namespace)["items"]
        return [p for p in found if not node or p["spec"].get("nodeName") == node]

    def are_ready(self, count: int, node: str = "") -> None:
        eventually(
            lambda: sum(is_ready(p) for p in self.pods(node)) >= count, f"{count} pods are ready"
        )

    def call(self, transport: Any = None, seconds: float = 4.0) -> Outcome:
        return drain.handle(
            ping("resync-drain"),
            context(transport or self.transport, namespace=self.namespace, call_seconds=seconds),
        )

    def until(self, name: str, state: State, timeout_seconds: float = 60) -> DrainState:
        def reached() -> DrainState | None:
            self.call()
            found = self.state(name)
            return found if found and found.state is state else None

        found = eventually(reached, f"{name} is {state}", timeout_seconds)
        assert found is not None
        return found

    def state(self, name: str) -> DrainState | None:
        text = self.api.get_node(name).metadata.annotation(keys.DRAIN)
        return drain_state.decode(text) if text else None


def pod_spec(grace: int) -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": grace,
        "containers": [{"name": "main", "image": "registry.example/work:1"}],
    }


def is_ready(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
