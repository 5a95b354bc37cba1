"""An event, the manifests, both functions and a cluster: nothing of it made for the test."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events.cloudevent import CloudEvent
from functions import cordon, drain, replace
from functions.edge.call import Function
from functions.edge.context import Settings
from functions.gateways.kubernetes.client import Cluster
from functions.rules import keys
from infra.local.broker import Broker
from infra.local.clock import SimulatedClock, Ticks
from infra.local.cloud import SimulatedAws
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport
from infra.local.cluster.builders import node
from tests.support.crew import NodesRead, node_update

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NAMESPACE = "groundcrew-system"


FUNCTIONS = {"cordon": cordon.handle, "drain": drain.handle, "replace": replace.handle}


class Laptop:
    def __init__(self, *names: str) -> None:
        self.clock = SimulatedClock(NOW)
        self.cluster = EmbeddedCluster(self.clock)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.cluster.apply(namespace)
        for number in range(10):
            self.cluster.apply(node(f"n{number}"))
        self.nodes_read: Counter[str] = Counter()
        transport = NodesRead(EmbeddedTransport(self.cluster, self.clock.waited), self.nodes_read)
        cloud = SimulatedAws(self.clock)
        settings = Settings(namespace=NAMESPACE, parallel=1)
        self.broker = Broker(
            {
                name: Function(
                    name,
                    FUNCTIONS[name],
                    lambda: Cluster(transport),
                    self.clock,
                    settings,
                    lambda: cloud,
                )
                for name in names
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

    def change(self, name: str, labels: dict[str, str]) -> None:
        """Its labels, but for our own, of which the watch tells."""
        node = {"apiVersion": "v1", "kind": "Node"} | self.node(name)
        ours = {k: v for k, v in node["metadata"]["labels"].items() if "groundcrew" in k}
        node["metadata"]["labels"] = labels | ours
        self.cluster.apply(node)
        self.publish(node_update({"apiVersion": "v1", "kind": "Node"} | self.node(name)))

    def node(self, name: str) -> dict[str, Any]:
        return dict(self.cluster.get("Node", "", name) or {})


@pytest.fixture
def laptop() -> Laptop:
    made = Laptop("cordon", "drain")
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


def test_a_node_that_came_back_is_read_no_more_often_than_one_that_was_never_sick() -> None:
    """What is over stays on it for a week, and a tick of a fleet must not become dearer with it."""
    laptop = Laptop("cordon", "drain", "replace")
    laptop.let_pass(timedelta(minutes=1))
    laptop.change("n3", {"cloud.google.com/active-node-maintenance": "ONGOING"})
    laptop.let_pass(timedelta(minutes=2))
    drained = laptop.node("n3")["metadata"]
    assert drained["labels"][keys.STATE] == "evict"
    assert '"drained"' in drained["annotations"][keys.DRAIN]
    laptop.change("n3", {})
    back = laptop.node("n3")
    assert not back["spec"].get("unschedulable")
    assert back["metadata"]["labels"][keys.STATE] == "returning"
    laptop.let_pass(timedelta(minutes=2))
    settled = laptop.node("n3")["metadata"]
    assert settled["labels"][keys.STATE] == "released"
    assert keys.INCIDENTS in settled["annotations"]
    assert keys.DRAIN not in settled["annotations"]
    laptop.nodes_read.clear()
    laptop.let_pass(timedelta(minutes=20))
    assert laptop.nodes_read["n3"] == laptop.nodes_read["n1"] == 4, "all nodes, each five minutes"
    assert laptop.broker.dead_letters == []
