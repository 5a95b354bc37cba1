"""An embedded cluster over HTTP, on a real clock: what is drained there is drained by threads, over
sockets, as in a cluster."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes import connection, errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.rest import RestTransport
from functions.gateways.kubernetes.transport import Request, Response
from functions.rules import policy as policies
from functions.rules.draining import Result
from functions.rules.policy import Drain
from functions.steps.drain_call import Call
from functions.steps.drain_target import Target
from functions.steps.evict import evict
from infra.local.cluster import EmbeddedCluster
from infra.local.cluster.http import serve
from infra.local.cluster.world import Delays
from tests.support.simulated import DrainWorld

DRAIN = policies.default().drain
SOON = timedelta(milliseconds=50)


class Slow:
    """A transport to a server that takes its time over an eviction, and does four at once."""

    def __init__(self, inner: Any, seconds: float = 0.08) -> None:
        self._inner = inner
        self._seconds = seconds
        self._places = threading.Semaphore(4)
        self.cut = 0

    def send(self, request: Request) -> Response:
        if not request.path.endswith("/eviction"):
            return self._inner.send(request)
        began = time.monotonic()
        with self._places:
            time.sleep(self._seconds)
            if time.monotonic() - began > request.timeout_seconds:
                self.cut += 1
                raise errors.Unreachable("the answer came too late")
            return self._inner.send(request)

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)


class World(DrainWorld):
    def __init__(self, url: str, server: EmbeddedCluster) -> None:
        self.clock = SystemClock()  # type: ignore[assignment]
        self.server = server

        self.transport = RestTransport(lambda: connection.to(url))
        self.cluster = Cluster(self.transport)
        self.uid = self.add_node("n1", unschedulable=True)
        self.add_node("n2")

    def drain(self, seconds: float = 8.0, policy: Drain = DRAIN, **more: Any) -> Result:
        with Call(self.cluster, self.clock, policy, seconds, "groundcrew-system") as call:
            return evict(call, Target(node="n1", uid=self.uid), lambda node: "", **more)

    def hold_budget(self, name: str, allowed: int) -> None:
        """Its status, from here on, whatever its pods do."""
        self.server.held.add("disruption")
        made = self.server.get("poddisruptionbudgets", "default", name)
        assert made is not None
        made["status"] |= {"disruptionsAllowed": allowed}
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        self.server.apply({**kind, **made})


@contextmanager
def world_over_http() -> Iterator[World]:
    delays = Delays(schedule=SOON, start=SOON, stop=SOON)
    cluster = EmbeddedCluster(SystemClock(), delays=delays)
    with serve(cluster) as server:
        made = World(server.url, cluster)
        yield made
        made.transport.close()


def threads() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith(("watch-", "ThreadPool"))}
