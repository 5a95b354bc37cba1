"""A world with the functions in it, the broker between them, and the clock that wakes them.

Whoever plays something on it (a scenario, recorded history) says what happens outside and when;
the stage delivers what follows from that, and tells a listener of it.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from events.cloudevent import CloudEvent
from functions.edge.call import Function
from functions.edge.context import Context, Handler, Outcome, Settings
from functions.gateways.aws.client import Aws
from functions.gateways.kubernetes.client import Cluster
from functions.rules.decision import Decision
from infra.local import manifests, telling
from infra.local.broker import Broker, Delivery
from infra.local.clock import Tick
from infra.local.cloud import SimulatedAws
from infra.local.gate import Eviction, Gate
from infra.local.outside import NAMESPACE
from infra.local.schedule import Given, Schedule
from infra.local.world import Api, Change, World

CALLS_AT_ONE_MOMENT = 10_000
"""Events that lead to events without end are a mistake that must not hang a replay."""

Through = Callable[[Mapping[str, Function]], Mapping[str, Function]]
"""How the broker reaches the functions: as they are, or by way of something else (HTTP)."""


class Listener(Protocol):
    def answered(self, event: CloudEvent, outcome: Outcome, requests: int) -> None:
        """A function has handled ``event``, with so many requests to the API server."""
        ...

    def decided(self, event: CloudEvent, decision: Decision) -> None:
        """A function says of a node what it did not say last."""
        ...

    def changed(self, change: Change) -> None:
        """What the API server's watch says, before anybody hears of it."""
        ...

    def evicted(self, eviction: Eviction) -> None:
        """A pod was asked to go, and goes."""
        ...

    def failed(self, says: str) -> None:
        """A call ended in an error although the API server could be reached."""
        ...


class Witness(Protocol):
    """Who wants to know of a play what became of the fleet."""

    def decided(self, at: datetime, decision: Decision) -> None: ...
    def changed(self, at: datetime, change: Change) -> None: ...
    def evicted(self, eviction: Eviction) -> None: ...


class Nobody:
    """The witness of a play that nobody watches."""

    def decided(self, at: datetime, decision: Decision) -> None: ...
    def changed(self, at: datetime, change: Change) -> None: ...
    def evicted(self, eviction: Eviction) -> None: ...


class Stage:
    def __init__(
        self,
        world: World,
        listener: Listener,
        *,
        through: Through = lambda functions: functions,
        settle: Callable[[], None] = lambda: None,
        ticks: Sequence[tuple[datetime, str]] | None = None,
        aws: Aws | None = None,
    ) -> None:
        """``settle`` waits, in a world that has a time of its own, until that has caught up.
        ``ticks``, of an earlier play, are made instead of those that this one would choose."""
        self.world = world
        self.clock = world.clock
        self.settle = settle
        self.api = Api(world.transport)
        self.deaf = False
        """None of our processes runs."""
        self.gate = Gate(world.transport, self.clock, self._budgets, listener.evicted)
        self._listener = listener
        self._said: dict[tuple[str, str], tuple[str, str, str]] = {}
        """By function and node, its last decision."""
        settings = Settings(namespace=NAMESPACE, parallel=1)

        def cloud() -> Aws:
            """Nothing that is played may reach the account of whoever plays it."""
            return made

        made = aws or SimulatedAws(self.clock, is_there=self.runs)
        functions = {
            name: Function(
                name, self._heard(name, handle), self._connect, self.clock, settings, cloud
            )
            for name, handle in handlers().items()
        }
        self.broker = Broker(through(functions), clock=self.clock)
        self.schedule: Schedule = (
            Schedule(self.broker, world) if ticks is None else Given(self.broker, world, ticks)
        )

    def deliver(self, changes: Iterable[Change]) -> None:
        """Tell of ``changes``, of what comes of that, and so on until nothing comes any more.
        While nobody reaches the API server nobody is told, then or later."""
        changes = list(changes)
        for change in changes:
            # Before what comes of the first is done: or news of it would be told before the second.
            self._listener.changed(change)
        for change in changes:
            if not self.gate.is_closed:
                self.publish(telling.of_change(change, self.clock.now()))

    def publish(self, event: CloudEvent) -> None:
        """Deliver ``event`` and all that comes of it. While none of our processes runs, nobody is
        told, then or later."""
        if self.deaf:
            for change in self.world.changes():
                self._listener.changed(change)
            return
        self._publish(event)
        for _ in range(CALLS_AT_ONE_MOMENT):
            self.settle()
            changes = self.world.changes()
            if not changes:
                return
            for change in changes:
                self._listener.changed(change)
                self._publish(telling.of_change(change, self.clock.now()))
        raise RuntimeError(f"{event.type} {event.id}: events without end")

    def tick(self, tick: Tick) -> None:
        before = self.world.version
        self.publish(tick.event)
        self.settle()
        self.schedule.ran(tick, before, failed=self.gate.is_closed)

    def _publish(self, event: CloudEvent) -> list[Delivery]:
        deliveries = self.broker.publish(event)
        for delivery in deliveries:
            if delivery.dead and not self.gate.is_closed:
                self._listener.failed(
                    f"{delivery.subscriber} did not take {delivery.event.type}: {delivery.dead}"
                )
        return deliveries

    def _heard(self, name: str, handle: Handler) -> Handler:
        """``handle``, and everything that we want to know of what it does."""

        def heard(event: CloudEvent, context: Context) -> Outcome:
            outcome = handle(event, context)
            self.schedule.said(name, outcome, self.clock.now(), self.world.version)
            self._listener.answered(event, outcome, sum(context.requests.values()))
            for decision in outcome.decisions:
                if not self._is_repeat(decision):
                    self._listener.decided(event, decision)
            return outcome

        return heard

    def _is_repeat(self, decision: Decision) -> bool:
        """Whether a function says of a node what it said last: it waits, or is still done."""
        about = (decision.function, decision.node)
        said = (decision.action, decision.reason, decision.incident)
        if self._said.get(about) == said:
            return True
        self._said[about] = said
        return False

    def _connect(self) -> Cluster:
        return Cluster(self.gate)

    def runs(self, instance: str) -> bool:
        """Whether a Node stands for that instance: in what is played a machine that ends takes its
        Node with it."""
        found = self.api.read("/api/v1/nodes", _Machines)
        return any(node.spec.provider_id.endswith(instance) for node in found.items)

    def _budgets(self) -> dict[str, int]:
        """By disruption budget, how many healthy pods it lacks."""
        found = self.api.list("/apis/policy/v1/poddisruptionbudgets")
        return {
            f"{b['metadata']['namespace']}/{b['metadata']['name']}": max(
                0, b["status"].get("desiredHealthy", 0) - b["status"].get("currentHealthy", 0)
            )
            for b in found
        }


class _Machine(msgspec.Struct):
    provider_id: str = msgspec.field(default="", name="providerID")


class _Node(msgspec.Struct):
    spec: _Machine


class _Machines(msgspec.Struct):
    """Of a list of Nodes, which machines they are."""

    items: list[_Node]


def handlers() -> dict[str, Handler]:
    """The functions that the project's Triggers name."""
    names = dict.fromkeys(trigger.subscriber for trigger in manifests.triggers())
    return {name: importlib.import_module(f"functions.{name}").handle for name in names}
