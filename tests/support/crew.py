"""Calling a function as the edge does, against whatever API server a transport reaches."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from events.cloudevent import CloudEvent
from functions.edge.context import Context, Settings
from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.connect import transport as connect
from functions.gateways.kubernetes.rest import RestTransport
from functions.gateways.kubernetes.transport import Request, Response, Transport


class FixedClock(SystemClock):
    """The time of day that a test says; waiting is real."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


def context(
    transport: Transport,
    clock: Clock | None = None,
    namespace: str = "groundcrew-system",
    parallel: int = 8,
    call_seconds: float = 30.0,
) -> Context:
    settings = Settings(namespace=namespace, parallel=parallel, call_seconds=call_seconds)
    return Context(lambda: Cluster(transport), clock, settings)


def node_update(node: dict[str, Any], verb: str = "update") -> CloudEvent:
    """What Knative's ApiServerSource says about a Node."""
    name = node["metadata"]["name"]
    return CloudEvent(
        id=f"{node['metadata'].get('uid', name)}-{node['metadata'].get('resourceVersion', '')}",
        source="https://kubernetes.default.svc",
        type=f"dev.knative.apiserver.resource.{verb}",
        subject=f"/apis/v1/namespaces//nodes/{name}",
        extensions={"apiversion": "v1", "kind": "Node", "name": name, "namespace": ""},
        data=json.dumps(node).encode(),
    )


def ping(name: str = "cordon-resync") -> CloudEvent:
    return CloudEvent(
        id="tick",
        source=f"/apis/v1/namespaces/groundcrew-system/pingsources/{name}",
        type="dev.knative.sources.ping",
        data=b"{}",
    )


class Between:
    """A transport that runs ``hook`` before each request that matches, as somebody else would act
    between our read and our write. The hook may raise, as a process would die there."""

    def __init__(
        self, inner: Transport, method: str, path: str, hook: Callable[[Request], object]
    ) -> None:
        self._inner, self._method, self._path, self._hook = inner, method, path, hook
        self.times = 0

    def send(self, request: Request) -> Response:
        if request.method == self._method and self._path in request.path:
            self.times += 1
            self._hook(request)
        return self._inner.send(request)

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)


class NodesRead:
    """A transport that counts in ``names`` which nodes LISTs bring."""

    def __init__(self, inner: Transport, names: Counter[str]) -> None:
        self._inner, self._names = inner, names

    def send(self, request: Request) -> Response:
        response = self._inner.send(request)
        if request.method == "GET" and request.path == "/api/v1/nodes":
            items = json.loads(response.body)["items"]
            self._names.update(item["metadata"]["name"] for item in items)
        return response

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)


def transport_to(kubeconfig: Path) -> RestTransport:
    """A transport of its own to a real API server, as another process would have."""
    return connect(str(kubeconfig))
