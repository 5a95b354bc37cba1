"""One world in which a history happens again, under one policy."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from events.cloudevent import CloudEvent
from functions.edge.context import Outcome
from functions.rules import keys
from functions.rules import policy as policies
from functions.rules.decision import Decision
from functions.steps import active
from infra.local import telling
from infra.local.clock import SimulatedClock
from infra.local.cluster.objects import Object, moment_of
from infra.local.gate import Eviction
from infra.local.outside import NAMESPACE
from infra.local.past import filling
from infra.local.past.reader import OUR_ANNOTATIONS, OUR_LABELS, Heard, NodeChange
from infra.local.player import WARM_UP
from infra.local.stage import Stage, Through, Witness
from infra.local.world import Change, EmbeddedWorld, World

EVENT_TTL = timedelta(hours=1)
"""How long an API server keeps Events (``--event-ttl``)."""
SWEEP = timedelta(minutes=5)
SEED = 20260302
_MOMENT = timedelta(microseconds=1)
Around = Callable[[World], World]
"""How the functions, and the changes that are told, reach the world."""
_EVER = datetime.max.replace(tzinfo=UTC)


class Course:
    def __init__(
        self,
        policy: policies.Policy,
        start: datetime,
        items: Sequence[Object],
        witness: Witness,
        *,
        around: Around = lambda world: world,
        through: Through = lambda functions: functions,
    ) -> None:
        """``items``: of `filling.beginning`. ``around`` and ``through`` are for who listens."""
        # Another seed than that of worlds that may have been recorded: names that it makes are
        # none that are there.
        self.world = EmbeddedWorld(SimulatedClock(start - WARM_UP), seen=0, seed=SEED)
        self.clock = self.world.clock
        self.needed_nothing = self.failures = 0
        self._witness = witness
        self._stage = Stage(around(self.world), self, through=through)
        self._due = datetime.min.replace(tzinfo=UTC)
        """Nothing is due before then, unless `_is_stale` or the world's version says else."""
        self._is_stale = True
        self._version = -1
        self._passed = self.clock.now()
        """The ticks until then have been made, that moment's among them."""
        self._swept = start
        self._was_needed = False
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        data = active.policy_data(policy, "backtest")
        in_force = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": active.POLICY_NAME,
                "namespace": NAMESPACE,
                "labels": {keys.PART: "policy"},
            },
            "data": data,
        }
        filling.fill(self.world.cluster, [namespace, in_force, *items])
        self._stage.deliver(self._stage.world.changes())
        self.go_to(start)

    # what happens outside

    def hear(self, heard: Heard) -> None:
        """Let happen what was recorded, after all that is due before it."""
        self.go_to(heard.at)
        self._was_needed = False
        for change in heard.changes:
            self._change(change)
            self._stage.deliver(self._stage.world.changes())
        for name in heard.again:
            if body := self._body(name):
                change_again = Change("update", "Node", body)
                self._stage.publish(telling.of_change(change_again, self.clock.now()))
        for event in heard.events:
            self._stage.publish(event)
        self.needed_nothing += not self._was_needed

    def go_to(self, at: datetime) -> None:
        """Let time pass until ``at``, and happen what is due before. What is due at that very
        moment comes after the events of it, as in a scenario."""
        while self._next() < at:
            # Nothing comes from outside until then: of the readings of everything only the last.
            due = self._due_before(at)
            self._is_stale = True
            if due >= at:
                break
            self.clock.advance_to(due)
            self.world.advance(due)
            self._stage.deliver(self._stage.world.changes())
            for tick in self._stage.schedule.due(due):
                self._stage.tick(tick)
            self._passed = due
            self._stage.schedule.made.clear()
            self._sweep(due)
        self._passed = max(self._passed, at - _MOMENT)
        if at > self.clock.now():
            self.clock.advance_to(at)

    def _due_before(self, at: datetime) -> datetime:
        now, own = self.clock.now(), self.world.next_due()
        return self._stage.schedule.next(self._passed, min(max(own, now), at) if own else at)

    def _next(self) -> datetime:
        if self._is_stale or self.world.version != self._version:
            now = self.clock.now()
            own = self.world.next_due()
            others = max(own, now) if own else _EVER
            self._due = self._stage.schedule.next(self._passed, others, skip=False)
            self._is_stale, self._version = False, self.world.version
        return self._due

    def _change(self, change: NodeChange) -> None:
        cluster, name = self.world.cluster, change.name
        old = cluster.get("nodes", "", name)
        if old is not None and (change.node is None or change.is_new):
            cluster.delete("nodes", "", name)
            old = None
        if change.is_other_machine or change.node is None:
            # What ran there is gone with the machine.
            for pod in self._stage.api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"):
                meta = pod["metadata"]
                cluster.delete("pods", meta["namespace"], meta["name"], grace_seconds=0)
        if change.node is not None:
            cluster.apply(_merged(change, old))

    def _body(self, name: str) -> bytes | None:
        found = self.world.cluster.get("nodes", "", name)
        if found is None:
            return None
        return msgspec.json.encode({"apiVersion": "v1", "kind": "Node", **found})

    def _sweep(self, now: datetime) -> None:
        """Forget what an API server would have forgotten."""
        if now - self._swept < SWEEP:
            return
        self._swept = now
        self.world.forget()
        for event in self._stage.api.list("/api/v1/events"):
            meta = event["metadata"]
            if now - moment_of(meta["creationTimestamp"]) >= EVENT_TTL:
                self.world.cluster.delete("events", meta["namespace"], meta["name"])

    # what the stage tells

    def answered(self, event: CloudEvent, outcome: Outcome, requests: int) -> None:
        if outcome.declined and outcome.look_again is None:
            return
        self._is_stale = self._was_needed = True

    def decided(self, event: CloudEvent, decision: Decision) -> None:
        self._witness.decided(self.clock.now(), decision)

    def changed(self, change: Change) -> None:
        self._witness.changed(self.clock.now(), change)

    def evicted(self, eviction: Eviction) -> None:
        self._witness.evicted(eviction)

    def failed(self, says: str) -> None:
        self.failures += 1


def _merged(change: NodeChange, old: Object | None) -> Object:
    """The Node as recorded, with what this world's functions have written on theirs."""
    assert change.node is not None
    node: dict[str, Any] = dict(change.node)
    node["metadata"] = meta = dict(node["metadata"])
    meta.pop("resourceVersion", None)
    if old is None:
        return node
    kept = OUR_LABELS
    before = old["metadata"]
    notes = before.get("annotations") or {}
    if keys.INCIDENTS in notes:
        kept = OUR_LABELS | {keys.EXCLUDE_FROM_LOAD_BALANCERS}
    own = {k: v for k, v in (before.get("labels") or {}).items() if k in kept}
    meta["labels"] = {**(meta.get("labels") or {}), **own}
    own = {k: v for k, v in notes.items() if k in OUR_ANNOTATIONS}
    meta["annotations"] = {**(meta.get("annotations") or {}), **own}
    node["spec"] = spec = dict(node["spec"])
    if change.cordoned is None:
        spec.pop("unschedulable", None)
        if old["spec"].get("unschedulable"):
            spec["unschedulable"] = True
    return node
