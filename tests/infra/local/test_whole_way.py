"""An event, the manifests, both functions and a cluster: nothing of it made for the test."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events.cloudevent import CloudEvent
from functions import cordon, drain
from functions.edge.call import Function
from functions.edge.context import Settings
from functions.gateways.kubernetes.client import Cluster
from infra.local.broker import Broker
from infra.local.clock import SimulatedClock, Ticks
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport
from infra.local.cluster.builders import node
from tests.support.crew import node_update

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NAMESPACE = "groundcrew-system"


class Laptop:
    def __init__(self) -> None:
        self.clock = SimulatedClock(NOW)
        self.cluster = EmbeddedCluster(self.clock)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.cluster.apply(namespace)
        for number in range(10):
            self.cluster.apply(node(f"n{number}"))
        transport = EmbeddedTransport(self.cluster, self.clock.waited)
        settings = Settings(namespace=NAMESPACE, parallel=1)
        self.broker = Broker(
            {
                name: Function(name, handle, lambda: Cluster(transport), self.clock, settings)
                for name, handle in (("cordon", cordon.handle), ("drain", drain.handle))
            },
            clock=self.clock,
        )
        self._ticks = Ticks()
        self.heard: list[tuple[str, str]] = []

    def publish(self, event: CloudEvent) -> None:
        for delivery in self.broker.publish(event):
            self.heard.append((delivery.trigger, delivery.event.type))

    def let_pass(self, length: timedelta) -> None:
        for tick in self._ticks.due(self.clock.now(), self.clock.now() + length):
            self.clock.advance_to(tick.at)
            self.cluster.advance(tick.at)
            self.publish(tick.event)

    def node(self, name: str) -> dict[str, Any]:
        return dict(self.cluster.get("Node", "", name) or {})


@pytest.fixture
def laptop() -> Laptop:
    made = Laptop()
    made.let_pass(timedelta(minutes=1))
    made.heard.clear()
    return made


def test_a_sick_node_is_cordoned_at_once_and_drain_is_told(laptop: Laptop) -> None:
    sick = laptop.node("n3")
    sick["status"]["conditions"].append(
        {
            "type": "AcceleratedHardwareReady",
            "status": "False",
            "reason": "NvidiaXID79Error",
            "message": "",
            "lastTransitionTime": "2026-03-02T09:01:00Z",
            "lastHeartbeatTime": "2026-03-02T09:01:00Z",
        }
    )
    sick = {"apiVersion": "v1", "kind": "Node"} | sick
    laptop.cluster.apply(sick)
    laptop.publish(node_update(sick))
    assert laptop.heard == [
        ("cordon", "dev.knative.apiserver.resource.update"),
        ("drain", "dev.groundcrew.nodes.cordoned"),
    ]
    assert laptop.node("n3")["spec"]["unschedulable"] is True
    laptop.let_pass(timedelta(minutes=1))
    assert "groundcrew.dev/drain" in laptop.node("n3")["metadata"]["annotations"]
    assert laptop.broker.dead_letters == []


def test_the_clocks_wake_each_function_and_a_healthy_fleet_needs_nothing(laptop: Laptop) -> None:
    laptop.let_pass(timedelta(minutes=1))
    told = [trigger for trigger, _ in laptop.heard]
    assert (told.count("cordon-resync"), told.count("drain-resync")) == (1, 12)
    assert laptop.broker.dead_letters == []


def test_an_api_server_that_is_away_costs_retries_and_then_a_dead_letter(laptop: Laptop) -> None:
    laptop.cluster.faults.drop("*", "", times=100)
    laptop.let_pass(timedelta(seconds=5))
    (dead,) = laptop.broker.dead_letters
    assert (dead.trigger, dead.attempts, dead.reply.status) == ("drain-resync", 3, 503)
