"""Two nodes with pods on a real control plane, and the command line that drains them."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from functions.gateways.kubernetes.client import Cluster as Api
from functions.gateways.kubernetes.transport import MERGE_PATCH, STRATEGIC_PATCH, Request
from functions.rules import claim, keys
from infra.cli import main
from tests.controlplane.access import eventually
from tests.controlplane.audit import AuditEntry
from tests.controlplane.bed import Bed
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.nodes import Nodes
from tests.support.crew import transport_to

DRAINER = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list", "watch"]},
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["list"]},
)
"""What draining needs, but for the rights to patch nodes and to evict."""
PATCH_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}
EVICT = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    seconds: float

    @property
    def nodes(self) -> dict[str, Any]:
        """The report of ``-o json``, by node."""
        return {node["node"]: node for node in msgspec.json.decode(self.out)["nodes"]}


@dataclass
class Stand(Bed):
    """``a`` and ``b`` are nodes, ``run("drain", a)`` the command."""

    capsys: pytest.CaptureFixture[str] | None = None
    a: str = ""
    b: str = ""
    control: ControlPlane | None = None
    mark_: int = 0
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, *argv: str, identity: str = "admin") -> Ran:
        """The command, in this process: its start is measured elsewhere."""
        assert self.capsys
        self.capsys.readouterr()
        kubeconfig = str(self.cluster.kubeconfig(identity))
        before = time.monotonic()
        try:
            code = main([*argv, "--kubeconfig", kubeconfig])
        except SystemExit as end:
            code = int(end.code or 0)
        seconds = time.monotonic() - before
        out, err = self.capsys.readouterr()
        return Ran(code, out, err, seconds)

    def start(self, *argv: str, kubeconfig: Path | None = None) -> subprocess.Popen[str]:
        """The command as a process of its own, to be interrupted or overtaken."""
        who = str(kubeconfig or self.cluster.kubeconfig("admin"))
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.cli", *argv, "--kubeconfig", who],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=Path(__file__).parents[3], env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[str], timeout_seconds: float = 60) -> Ran:
        before = time.monotonic()
        out, err = process.communicate(timeout=timeout_seconds)
        return Ran(process.returncode, out, err, time.monotonic() - before)

    # what is there

    def send(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        raw = b"" if body is None else msgspec.json.encode(body)
        request = Request(method=method, path=path, body=raw, content_type=kind)
        answer = self.transport.send(request)
        assert answer.status < 300, answer.body
        return msgspec.json.decode(answer.body)

    def pod_path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    def patch(self, path: str, change: Any) -> Any:
        return self.send("PATCH", path, change, MERGE_PATCH)

    def pods(self, node: str = "") -> list[Any]:
        found = self.send("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return [p for p in found if not node or p["spec"].get("nodeName") == node]

    def names(self, node: str) -> list[str]:
        return sorted(p["metadata"]["name"] for p in self.pods(node))

    def node(self, name: str) -> Any:
        return self.send("GET", f"/api/v1/nodes/{name}")

    def cordoned(self, name: str) -> bool:
        return bool(self.node(name)["spec"].get("unschedulable"))

    def claim(self, name: str) -> claim.Claim | None:
        notes = self.node(name)["metadata"].get("annotations", {})
        return claim.decode(notes.get(keys.CORDONED_BY))

    def cordon(self, name: str, on: bool = True) -> None:
        """As kubectl does it."""
        change = {"spec": {"unschedulable": on or None}}
        self.send("PATCH", f"/api/v1/nodes/{name}", change, STRATEGIC_PATCH)

    def taints(self, name: str) -> list[str]:
        return [t["key"] for t in self.node(name)["spec"].get("taints", ())]

    def fill(self, *manifests: Any, ready: int | None = None) -> None:
        """Pods, and waits until they run (or until ``ready`` of them do)."""
        self.create(manifests)
        self.are_ready(len(manifests) if ready is None else ready)

    def running(self, name: str, ready: bool) -> None:
        """Its kubelet says that it runs, and whether it is ready."""
        eventually(
            lambda: self.send("GET", self.pod_path(name))["status"].get("podIP"), f"{name} begins"
        )
        condition = {"type": "Ready", "status": str(ready)}
        status = {"phase": "Running", "conditions": [condition]}
        path = f"{self.pod_path(name)}/status"
        self.send("PATCH", path, {"status": status}, STRATEGIC_PATCH)

    def finish(self, name: str) -> None:
        status = {"status": {"phase": "Succeeded"}}
        self.send("PATCH", f"{self.pod_path(name)}/status", status, MERGE_PATCH)

    def budget(self, name: str, holds: Callable[[Any], bool]) -> None:
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{name}"

        def looks() -> bool:
            status = self.send("GET", path).get("status", {})
            return bool(status.get("observedGeneration")) and holds(status)

        eventually(looks, f"the status of budget {name}")

    # what was asked

    def remember(self) -> None:
        """From here on the audit log is looked at."""
        assert self.control
        self.mark_ = self.control.audit_mark()

    def asked(self, verb: str, resource: str, subresource: str = "") -> list[AuditEntry]:
        """By us, since `remember`."""
        assert self.control
        return [
            entry
            for entry in self.control.audit_since(self.mark_)
            if entry.raw.get("userAgent", "").startswith("groundcrew")
            and (entry.verb, entry.resource, entry.subresource) == (verb, resource, subresource)
            and (not entry.namespace or entry.namespace == self.namespace)
        ]

    def evictions(self) -> list[str]:
        """The pods whose eviction was asked for, in order, each time."""
        return [entry.name for entry in self.asked("create", "pods", "eviction")]

    def writes(self) -> list[str]:
        assert self.control
        return [
            f"{entry.verb} {entry.resource}/{entry.subresource}"
            for entry in self.control.audit_since(self.mark_)
            if entry.raw.get("userAgent", "").startswith("groundcrew")
            and entry.verb in ("create", "patch", "update", "delete")
            and entry.resource != "selfsubjectaccessreviews"
        ]


def when(entry: AuditEntry, field: str) -> datetime:
    """``requestReceivedTimestamp`` or ``stageTimestamp``, by the API server's clock."""
    return datetime.fromisoformat(entry.raw[field])


@contextmanager
def stands_still(control_plane: ControlPlane, program: str) -> Iterator[None]:
    """Nothing is done by the program meanwhile: no garbage collected, no namespace emptied."""
    process = control_plane.pids[program]
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@contextmanager
def stand_on(
    cluster: ControlPlane, nodes: Sequence[str], pool: str, capsys: pytest.CaptureFixture[str]
) -> Iterator[Stand]:
    """A fresh namespace on nodes that are used again, and back in service afterwards."""
    transport = transport_to(cluster.kubeconfig("admin"))
    namespace = f"drain-{uuid.uuid4().hex[:8]}"
    made = Stand(
        cluster, Nodes(cluster), namespace, transport, Api(transport), pool,
        capsys=capsys, a=nodes[0], b=nodes[1], control=cluster,
    )  # fmt: skip
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    # The writes of tests must not be taken for ours: they go by another name.
    transport.agent = "a test"
    made.send("POST", "/api/v1/namespaces", body)
    try:
        yield made
    finally:
        for process in made.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        _clear(made)
        made.nodes.remove_all()
        for name in nodes:
            _give_back(made, name)
        transport.close()


def _clear(made: Stand) -> None:
    for pod in made.pods():
        if pod["metadata"].get("finalizers"):
            path = made.pod_path(pod["metadata"]["name"])
            made.patch(path, {"metadata": {"finalizers": None}})
    made.cluster.kubectl("delete", "namespace", made.namespace, "--wait=false")
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    made.send("DELETE", f"/api/v1/namespaces/{made.namespace}/pods", options)


def _give_back(made: Stand, name: str) -> None:
    notes = {keys.CORDONED_BY: None, keys.DRAIN: None, keys.INCIDENTS: None}
    labels = {keys.STATE: None, keys.INSTANCE: None}
    change = {"metadata": {"annotations": notes, "labels": labels},
              "spec": {"unschedulable": None}}  # fmt: skip
    made.patch(f"/api/v1/nodes/{name}", change)
    eventually(lambda: not made.taints(name), f"{name} is in service")
