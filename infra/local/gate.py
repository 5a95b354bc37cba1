"""Between the functions and the API server: it counts, it can be closed, and it lets others race.

What passes here is what the functions ask for. Agents, people and the cluster's own controllers
have their own way in.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from functions.gateways.clock import Clock
from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.transport import Request, Response, Transport


class Eviction(msgspec.Struct, frozen=True):
    at: datetime
    pod: str
    """``namespace/name``."""
    node: str
    """Where it ran."""
    deleted: bool
    """Past its disruption budget: at a deadline of the policy."""


class Gate:
    def __init__(
        self,
        inner: Transport,
        clock: Clock,
        lacking: Callable[[], dict[str, int]],
        on_eviction: Callable[[Eviction], None] = lambda eviction: None,
    ) -> None:
        """``lacking``: by disruption budget, how many healthy pods it is short of now.
        ``on_eviction`` hears of each that was granted."""
        self._on_eviction = on_eviction
        self._inner = inner
        self._clock = clock
        self._lacking = lacking
        self.is_closed = False
        self.requests = 0
        self.evictions: list[Eviction] = []
        """Those that were granted."""
        self.violations: list[str] = []
        """Disruption budgets that an eviction has left with fewer healthy pods than they want."""
        self.races: list[Callable[[], None]] = []
        """Each is called once, just before the next patch of a Node."""

    def send(self, request: Request) -> Response:
        self._pass(request)
        if self.races and request.method == "PATCH" and request.path.startswith("/api/v1/nodes/"):
            self.races.pop(0)()
        pod = _evicted_pod(request)
        if not pod:
            return self._inner.send(request)
        before, node = self._lacking(), self._node_of(pod)
        response = self._inner.send(request)
        if 200 <= response.status < 300:
            deleted = request.method == "DELETE"
            self.evictions.append(Eviction(self._clock.now(), pod, node, deleted))
            self._on_eviction(self.evictions[-1])
            after = self._lacking()
            # A deletion past a budget is the policy's will; an eviction may never break one.
            self.violations += (
                f"{budget}, by the eviction of {pod} at {self._clock.now():%a %H:%M:%S}"
                for budget in after
                if not deleted and after[budget] > before.get(budget, 0)
            )
        return response

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        self._pass(request)
        return self._inner.stream(request)

    def _node_of(self, pod: str) -> str:
        namespace, _, name = pod.partition("/")
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        answer = self._inner.send(Request(method="GET", path=path))
        if answer.status != 200:
            return ""
        return msgspec.json.decode(answer.body, type=_Pod).spec.node

    def _pass(self, request: Request) -> None:
        if self.is_closed:
            raise errors.Unreachable(f"{request.method} {request.path}: connection refused")
        self.requests += 1


class _PodSpec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


def _evicted_pod(request: Request) -> str:
    """The pod that is asked to go, as ``namespace/name``."""
    parts = request.path.split("/")
    if "dryRun" in request.query or (parts[-1] != "eviction" and request.method != "DELETE"):
        return ""
    if "pods" not in parts:
        return ""
    where = parts.index("pods")
    return "/".join((parts[where - 1], *parts[where + 1 : where + 2]))
