"""A function that hangs holds up no news about nodes: both functions behind their HTTP edge, the
project's own triggers, and the broker that posts to them."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from events.cloudevent import CloudEvent
from functions import cordon, drain
from functions.edge.call import Function
from functions.edge.context import Context, Outcome, Settings
from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes.client import Cluster
from infra.local.broker import Delivery, HttpBroker
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport
from infra.local.cluster.builders import node
from tests.support.crew import node_update, ping
from tests.support.worlds import listening

CORDONED = "dev.groundcrew.nodes.cordoned"
ALERT = "dev.groundcrew.alertmanager"
SETTINGS = Settings(parallel=1)


@dataclass
class Crew:
    """``hangs`` says which events a function never comes back from while the test lasts."""

    cluster: EmbeddedCluster
    hangs: Callable[[CloudEvent], bool] = lambda event: False
    held: list[CloudEvent] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    settled: list[Delivery] = field(default_factory=list)
    broker: HttpBroker = None  # type: ignore[assignment]

    def function(self, name: str, handle: Callable[[Any, Context], Outcome]) -> Function:
        def hang_or_handle(event: CloudEvent, context: Context) -> Outcome:
            if self.hangs(event):
                self.held.append(event)
                self.over.wait()
                return Outcome(declined="came back at last")
            return handle(event, context)

        transport = EmbeddedTransport(self.cluster, time.sleep)
        return Function(name, hang_or_handle, lambda: Cluster(transport), SystemClock(), SETTINGS)

    def hang_on(self, kind: str, times: int) -> None:
        for number in range(times):
            event = CloudEvent(id=f"hangs-{number}", source="/test", type=kind, data=b"{}")
            self.broker.publish(event)
        _until(lambda: len(self.held) == times, f"{times} calls hang")

    def seconds_until_heard(self, event: CloudEvent) -> float:
        started = time.monotonic()
        self.broker.publish(event)
        _until(lambda: any(d.event is event for d in self.settled), "the event is heard")
        return time.monotonic() - started


@pytest.fixture
def crew() -> Iterator[Crew]:
    cluster = EmbeddedCluster(SystemClock())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SETTINGS.namespace}}
    for made in (namespace, *(node(f"n{number}") for number in range(10))):
        cluster.apply(made)
    crew = Crew(cluster)
    functions = {"cordon": cordon.handle, "drain": drain.handle}
    with contextlib.ExitStack() as stack:
        urls = {
            name: stack.enter_context(listening(crew.function(name, handle)))
            for name, handle in functions.items()
        }
        crew.broker = HttpBroker(urls, on_delivery=crew.settled.append)
        crew.seconds_until_heard(ping("resync-cordon"))  # makes the ledger
        yield crew
        crew.broker.close()
        crew.over.set()


def test_a_function_that_hangs_on_all_that_it_takes_delays_no_node_event(crew: Crew) -> None:
    """All places of drain are taken, and more is waiting for one."""
    crew.hangs = lambda event: event.type == CORDONED
    crew.hang_on(CORDONED, SETTINGS.max_in_flight)
    for number in range(20):
        more = CloudEvent(id=f"waits-{number}", source="/test", type=CORDONED, data=b"{}")
        crew.broker.publish(more)
    assert crew.seconds_until_heard(_sick("n3", crew.cluster)) < 2
    assert _is_cordoned(crew.cluster, "n3")


def test_calls_that_hang_delay_no_node_event_at_the_same_function(crew: Crew) -> None:
    """One place of cordon is left."""
    crew.hangs = lambda event: event.type == ALERT
    crew.hang_on(ALERT, SETTINGS.max_in_flight - 1)
    assert crew.seconds_until_heard(_sick("n3", crew.cluster)) < 2
    assert _is_cordoned(crew.cluster, "n3")


def _sick(name: str, cluster: EmbeddedCluster) -> CloudEvent:
    known: dict[str, Any] = {"apiVersion": "v1", "kind": "Node"}
    found = known | (cluster.get("Node", "", name) or {})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found["status"]["conditions"].append(
        {
            "type": "AcceleratedHardwareReady",
            "status": "False",
            "reason": "NvidiaXID79Error",
            "message": "",
            "lastTransitionTime": now,
            "lastHeartbeatTime": now,
        }
    )
    cluster.apply(found)
    return node_update(found)


def _is_cordoned(cluster: EmbeddedCluster, name: str) -> bool:
    found = cluster.get("Node", "", name) or {}
    return found["spec"].get("unschedulable") is True


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline, f"not within 5 s: {what}"
        time.sleep(0.01)
