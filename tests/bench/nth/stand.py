"""A fleet on a real API server, and who sees from outside when its nodes are cordoned and empty."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster as Api
from functions.gateways.kubernetes.transport import Request
from functions.rules import keys
from tests.controlplane.access import eventually
from tests.controlplane.bed import pod_spec
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.nodes import Nodes
from tests.support.crew import transport_to

PODS = 10
"""On each node."""
ZONE = "us-east-1a"
_WATCH_SECONDS = 3600


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Spec(msgspec.Struct):
    unschedulable: bool = False
    node_name: str = msgspec.field(name="nodeName", default="")


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Change(msgspec.Struct):
    type: str
    object: _Object


class _List(msgspec.Struct):
    metadata: dict[str, Any]
    items: list[_Object] = []


@dataclass
class Seen:
    """When it was so for the first time, by the monotonic clock, by node."""

    cordoned: dict[str, float] = field(default_factory=dict)
    drained: dict[str, float] = field(default_factory=dict)


class Fleet:
    """Nodes of one pool, each the machine of an EC2 instance, with pods that end at once."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._nodes = Nodes(cluster)
        self._admin = transport_to(cluster.kubeconfig("admin"))
        self.machines: dict[str, str] = {}
        """Instance ID -> node."""

    def fill(self, machines: Sequence[tuple[str, str]]) -> None:
        """A node with pods for each of ``machines`` (instance ID, name)."""
        self.machines = dict(machines)
        for machine, name in machines:
            # The label is what our resync has put on every node that is there for a minute; the
            # host name is what NTH finds a node by.
            self._post("/api/v1/nodes", [_node(name, machine)])
        eventually(lambda: self._ready() >= len(machines), "all nodes are ready", 300)
        self.cluster.kubectl("create", "namespace", self.namespace)
        made = Api(self._admin).create_config_map(self.namespace, "owner", {})
        owner = {
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
            "uid": made.metadata.uid, "controller": True,
        }  # fmt: skip
        pods = [_pod(f"work-{n}-{machine}", name, owner)
                for machine, name in machines for n in range(PODS)]  # fmt: skip
        self._post(f"/api/v1/namespaces/{self.namespace}/pods", pods)
        eventually(lambda: self._running() == len(pods), "all pods run", 300)

    def clear(self) -> None:
        self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")
        self.cluster.kubectl(
            "delete", "pod", "--all", "--force", "--grace-period=0", f"-n={self.namespace}",
            timeout_seconds=300,
        )  # fmt: skip
        names = list(self.machines.values())
        if names:
            self.cluster.kubectl("delete", "node", "--ignore-not-found", *names)

    @contextlib.contextmanager
    def watched(self) -> Iterator[Seen]:
        """What is seen from now on."""
        seen, left = Seen(), {name: set[str]() for name in self.machines.values()}
        nodes = self._list("/api/v1/nodes")
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        pods = self._list(path)
        for pod in pods.items:
            left[pod.spec.node_name].add(pod.metadata.uid)

        def of_node(change: _Change) -> None:
            if change.object.spec.unschedulable:
                seen.cordoned.setdefault(change.object.metadata.name, time.monotonic())

        def of_pod(change: _Change) -> None:
            node = change.object.spec.node_name
            if change.type == "DELETED" and node in left:
                left[node].discard(change.object.metadata.uid)
                if not left[node]:
                    seen.drained.setdefault(node, time.monotonic())

        with (
            contextlib.closing(_Watch(self.cluster, "/api/v1/nodes", nodes, of_node)),
            contextlib.closing(_Watch(self.cluster, path, pods, of_pod)),
        ):
            yield seen

    def _ready(self) -> int:
        names = set(self.machines.values())
        return sum(
            node.ready == "True" and not node.spec.taints
            for node in Api(self._admin).list_nodes()
            if node.name in names
        )

    def _running(self) -> int:
        listed = Api(self._admin).list_pods(namespace=self.namespace)
        return sum(pod.status.phase == "Running" for pod in listed.items or ())

    def _list(self, path: str) -> _List:
        answer = self._admin.send(Request(method="GET", path=path, timeout_seconds=30))
        return msgspec.json.decode(answer.body, type=_List)

    def _post(self, path: str, bodies: Sequence[Any]) -> None:
        def one(body: Any) -> None:
            answer = self._admin.send(
                Request(method="POST", path=path, body=msgspec.json.encode(body),
                        timeout_seconds=30)
            )  # fmt: skip
            if answer.status != 201:
                raise SystemExit(f"POST {path}: {answer.status} {answer.body!r}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, bodies))


class _Watch:
    """Reads a watch in a thread, until it is closed. The server ends a watch that is read too
    slowly; it goes on from where that one ended."""

    def __init__(
        self,
        cluster: ControlPlane,
        path: str,
        since: _List,
        hear: Callable[[_Change], None],
    ) -> None:
        self._path, self._hear = path, hear
        self._version = str(since.metadata["resourceVersion"])
        self._transport = transport_to(cluster.kubeconfig("admin"))
        self._over = threading.Event()
        self._problem: Exception | None = None
        self._lines = self._open()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Raises what kept it from hearing all."""
        self._over.set()
        self._lines.close()
        self._thread.join(10.0)
        if self._problem:
            raise self._problem

    def _open(self) -> Any:
        query = {
            "watch": "true", "resourceVersion": self._version, "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }  # fmt: skip
        answer, lines = self._transport.stream(
            Request(method="GET", path=self._path, query=query, timeout_seconds=_WATCH_SECONDS)
        )
        assert answer.status == 200, answer
        return lines

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(_Change)
        try:
            while not self._over.is_set():
                with contextlib.suppress(errors.Unreachable):
                    for line in self._lines:
                        change = decoder.decode(line)
                        if change.type == "ERROR":
                            raise RuntimeError(f"{self._path}: the watch is lost: {line!r}")
                        self._version = change.object.metadata.resource_version
                        if change.type != "BOOKMARK":
                            self._hear(change)
                if not self._over.is_set():
                    self._lines = self._open()
        except Exception as problem:  # noqa: BLE001  raised by `close`
            self._problem = problem


def _node(name: str, machine: str) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": name, "groundcrew.dev/pool": "spot", keys.INSTANCE: machine,
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"aws:///{ZONE}/{machine}"},
    }


def _pod(name: str, node: str, owner: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": pod_spec(0) | {"nodeName": node},
    }
