"""Makes nodes for a test and takes them away afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.controlplane.access import Cluster, eventually


class Nodes:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._created: list[str] = []

    def add(
        self,
        *names: str,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        provider_id: str | None = None,
    ) -> None:
        """Create nodes and wait until pods could be scheduled to them (bar the given taints)."""
        self._created += names
        spec: dict[str, Any] = {"taints": taints}
        if provider_id:
            spec["providerID"] = provider_id
        self._cluster.create(
            *(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {
                        "name": name, "labels": labels or {}, "annotations": annotations or {},
                    },
                    "spec": spec,
                }
                for name in names
            )
        )  # fmt: skip
        eventually(
            lambda: all(is_ready(node) for node in self._get(names)), f"{names} become ready"
        )

    def remove_all(self) -> None:
        if self._created:
            self._cluster.kubectl("delete", "node", "--ignore-not-found", *self._created)
        self._created.clear()

    def _get(self, names: Sequence[str]) -> list[Any]:
        # kubectl answers with a List for several names and with the node itself for one
        answer = self._cluster.get("node", *names)
        return list(answer["items"]) if answer["kind"] == "List" else [answer]


def is_ready(node: Mapping[str, Any]) -> bool:
    """Ready, and no longer tainted as not ready: that is taken off a moment later."""
    conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", ())}
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints
