"""Playing a scenario: time goes from one moment at which something is due to the next.

What is due: a step of the scenario, something that the cluster does by itself (a pod has ended),
a tick of a PingSource. All ticks would be 130,000 in a week, so those are skipped in which a
function could find nothing that it has not found before. What a resync does depends on the
cluster and on the time alone. So its tick is skipped if

- nothing in the cluster has changed since its last run, and that run changed nothing itself
  (else it may have left something for the next one); and
- no time has come at which this function, in any run, said that it would look again.

A function that looks at everything now and then, in case an event was lost, finds nothing new in
a cluster that has not changed. Of such runs only the last one before something happens is made,
so that what it writes down about its own looking is as fresh as if all had been.
"""

import importlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from events import recording
from events.cloudevent import CloudEvent
from events.errors import EventError
from functions.edge.call import Function
from functions.edge.context import Context, Handler, Outcome, Settings
from functions.gateways.kubernetes.client import Cluster
from functions.rules import keys
from functions.rules.decision import Action
from infra.local import manifests, telling
from infra.local.broker import Broker, Delivery
from infra.local.clock import PING, Tick, Ticks
from infra.local.expectations import Judge
from infra.local.gate import Gate
from infra.local.outside import NAMESPACE, Outside
from infra.local.scenario import Expect, Scenario, Step, Timed
from infra.local.scenario_file import moment, pick
from infra.local.timeline import Did, Entry, Happened, Trouble
from infra.local.world import Api, Change, World

WARM_UP = timedelta(minutes=11)
"""How long the cluster and the functions have been running when a scenario begins: two readings
of all nodes."""
_PLACING = timedelta(seconds=2)
"""For the pods of a workload to find their nodes."""
CALLS_AT_ONE_MOMENT = 10_000
"""Events that lead to events without end are a mistake that must not hang a replay."""

Through = Callable[[Mapping[str, Function]], Mapping[str, Function]]
"""How the broker reaches the functions: as they are, or by way of something else (HTTP)."""


@dataclass
class Played:
    """What came of a play."""

    scenario: Scenario
    entries: list[Entry]
    counts: "Counts"
    final: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By node, how it ended: state, schedulable, machine, incidents."""
    ticks: list[tuple[datetime, str]] = field(default_factory=list)
    """The ticks that were not skipped: when, and of which PingSource."""


@dataclass
class Counts:
    seconds: float = 0.0
    """Of our time, not of the scenario's."""
    events: int = 0
    """Heard by a function, clocks not counted."""
    declined: int = 0
    """Those that needed nothing."""
    acted: int = 0
    """Those on which something was decided."""
    requests: int = 0
    """To the API server, by the calls that acted on an event."""
    resyncs: int = 0
    ticks: int = 0
    """How many resyncs there would have been without the skipping."""
    actions: dict[str, int] = field(default_factory=dict)
    evictions: int = 0
    deletions: int = 0
    """Pods deleted past their budgets."""
    violations: list[str] = field(default_factory=list)
    """Disruption budgets that an eviction of ours broke."""
    most_out: dict[str, int] = field(default_factory=dict)
    """By pool, and ``all``: the most nodes that were out of service for us at once."""
    slowest: tuple[timedelta, str] = (timedelta(0), "")
    """From a fault to our first decision about it, and the node."""
    failures: int = 0
    """Calls that ended in an error although the API server could be reached."""


def handlers() -> dict[str, Handler]:
    """The functions that the project's Triggers name."""
    names = dict.fromkeys(trigger.subscriber for trigger in manifests.triggers())
    return {name: importlib.import_module(f"functions.{name}").handle for name in names}


def play(
    scenario: Scenario,
    world: World,
    *,
    policy: str | None = None,
    on_entry: Callable[[Entry], None] = lambda entry: None,
    on_time: Callable[[datetime], None] = lambda now: None,
    through: Through = lambda functions: functions,
    settle: Callable[[], None] = lambda: None,
    ticks: Sequence[tuple[datetime, str]] | None = None,
) -> Played:
    """Play ``scenario`` in ``world``, whose clock is to stand before its start.

    ``policy`` replaces the scenario's own. ``on_entry`` hears what happens as it happens,
    ``on_time`` where the time goes before it goes there. ``settle`` waits, in a world that has
    a time of its own, until that has caught up. ``ticks``, of an earlier play, are made instead
    of those that this one would choose.
    """
    play = _Play(scenario, world, on_entry, on_time, through, settle, ticks)
    return play.run(scenario.policy if policy is None else policy)


class _Play:
    def __init__(
        self,
        scenario: Scenario,
        world: World,
        on_entry: Callable[[Entry], None],
        on_time: Callable[[datetime], None],
        through: Through,
        settle: Callable[[], None],
        ticks: Sequence[tuple[datetime, str]] | None,
    ) -> None:
        self.scenario = scenario
        self.world = world
        self.clock = world.clock
        self.on_entry = on_entry
        self.on_time = on_time
        self.settle = settle
        self.api = Api(world.transport)
        self.outside = Outside(self.api, self.clock, scenario)
        self.gate = Gate(world.transport, self.clock, self._budgets)
        settings = Settings(namespace=NAMESPACE, parallel=1)
        functions = {
            name: Function(name, self._heard(name, handle), self._connect, self.clock, settings)
            for name, handle in handlers().items()
        }
        self.broker = Broker(through(functions), clock=self.clock)
        self.schedule: _Schedule = (
            _Schedule(self.broker, world) if ticks is None else _Given(self.broker, world, ticks)
        )
        self.played = Played(scenario, [], Counts())
        self.judge = Judge(scenario, self.api, self.played)
        self.late: list[_Late] = []
        self.opens_at: datetime | None = None
        self.faults: dict[str, datetime] = {}
        self.said: dict[tuple[str, str], tuple[str, str, str]] = {}
        """By function and node, its last decision."""
        self.out: dict[str, str] = {}
        """Node -> pool, of those that are out of service for us."""

    # the whole

    def run(self, policy: str) -> Played:
        started = time.perf_counter()
        for _ in self.outside.build(policy):
            self.clock.advance_to(self.clock.now() + _PLACING)
            self.world.advance(self.clock.now())
            self.settle()
        self.deliver(self.world.changes())
        steps = list(self.scenario.steps)
        began = self.clock.now()
        while (at := self._next(steps)) is not None:
            self.on_time(at)
            self.clock.advance_to(at)
            self.world.advance(at)
            self._open_gate(at)
            self.deliver(self.world.changes())
            while steps and steps[0].at <= at:
                self._step(steps.pop(0))
            self._deliver_late(at)
            for tick in self.schedule.due(at):
                self._tick(tick)
        self.on_time(self.scenario.end)
        self.clock.advance_to(max(self.scenario.end, self.clock.now()))
        self.check(self.scenario.expect)
        self._finish(began, started)
        return self.played

    def _next(self, steps: Sequence[Timed]) -> datetime | None:
        """The next moment at which anything is due; None when the scenario is over."""
        now = self.clock.now()
        others = [steps[0].at] if steps else []
        others += [late.due for late in self.late]
        if self.opens_at:
            others.append(self.opens_at)
        if due := self.world.next_due():
            others.append(max(due, now))
        end = self.scenario.end
        others.append(end)
        at = self.schedule.next(now, min(others))
        return None if at >= end and not steps and min(others) >= end else min(at, end)

    def _finish(self, began: datetime, started: float) -> None:
        counts = self.played.counts
        counts.seconds = time.perf_counter() - started
        counts.ticks = self.schedule.count_all(began, self.clock.now())
        self.played.final = self.judge.final()
        self.played.ticks = self.schedule.made

    # what happens outside

    def _step(self, timed: Timed) -> None:
        step = timed.step
        if step.says:
            self._note(Happened(at=self.clock.now(), says=step.says, line=timed.line))
        if step.event:
            self._send(step)
        else:
            self._act(step)
            self.settle()
            changes = self.world.changes()
            if not step.lost:
                told = [telling.of_change(c, self.clock.now()) for c in changes] * step.times
                self._publish_or_keep(step, told)
        if step.expect:
            self.check(tuple((expect, timed.line) for expect in step.expect))

    def _act(self, step: Step) -> None:
        outside = self.outside
        body: Any = next((b for a in _ON_NODES if (b := getattr(step, a))), None)
        names = pick(body.node, self.scenario.nodes) if body else []
        for name in names:
            self.faults[name] = self.clock.now()
        if step.condition:
            outside.condition(step.condition)
        elif step.gpus:
            outside.gpus(names, step.gpus.count)
        elif step.reboot:
            outside.reboot(step.reboot)
        elif step.replaced:
            outside.replace(names)
        elif step.registered_again:
            outside.register_again(names)
        elif step.gone:
            outside.vanish(names)
        elif step.api_server:
            self.gate.is_closed = True
            self.opens_at = self.clock.now() + step.api_server.down
        elif step.human:
            self._human(step)

    def _human(self, step: Step) -> None:
        human, outside = step.human, self.outside
        assert human is not None
        if human.between:
            # Whoever is faster than we are: it happens when we have read the node and are about
            # to write it. Their change is told like any other, with ours.
            again = msgspec.structs.replace(
                step, human=msgspec.structs.replace(human, between=False)
            )
            self.gate.races.append(lambda: self._human(again))
        elif human.cordon or human.uncordon:
            names = pick(human.cordon or human.uncordon, self.scenario.nodes)
            outside.cordon(names, bool(human.cordon))
        elif human.delete_pods_of:
            outside.delete_pods_of(human.delete_pods_of)
        elif human.budget:
            outside.budget(human.budget)
        elif human.pause:
            until = moment(human.pause.until, self.scenario.start)
            outside.pause(until, human.pause.reason, human.pause.pool)
        elif human.resume:
            outside.resume()
        for field_name, values in (("annotations", human.annotate), ("labels", human.label)):
            for name, changes in values.items():
                outside.note(name, field_name, changes)

    def _send(self, step: Step) -> None:
        assert step.event is not None
        for node in pick(step.event.node, self.scenario.nodes) if step.event.node else [""]:
            self.faults[node] = now = self.clock.now()
            try:
                request = telling.request(step.event, node, self.outside, self.scenario.start, now)
                events = recording.events_of(request)
            except EventError as problem:
                self._note(Trouble(at=now, says=f"refused, nothing done: {problem}"))
                continue
            if not step.lost:
                self._publish_or_keep(step, events * step.times)

    def _publish_or_keep(self, step: Step, events: list[CloudEvent]) -> None:
        if step.late:
            now = self.clock.now()
            self.late.append(_Late(now, now + step.late, events))
        else:
            for event in events:
                self.publish(event)

    def _deliver_late(self, at: datetime) -> None:
        due = [late for late in self.late if late.due <= at]
        self.late = [late for late in self.late if late.due > at]
        for late in due:
            says = f"What was sent at {late.sent:%a %H:%M} arrives only now."
            self._note(Happened(at=at, says=says))
            for event in late.events:
                self.publish(event)

    def _open_gate(self, at: datetime) -> None:
        if self.opens_at and self.opens_at <= at:
            self.opens_at, self.gate.is_closed = None, False
            self._note(Happened(at=at, says="The API server answers again."))

    # what the functions hear

    def deliver(self, changes: Iterable[Change]) -> None:
        """Tell of ``changes``, of what comes of that, and so on until nothing comes any more.
        While nobody reaches the API server nobody is told, then or later."""
        for change in changes:
            self._count_out(change)
            if not self.gate.is_closed:
                self.publish(telling.of_change(change, self.clock.now()))

    def publish(self, event: CloudEvent) -> None:
        self._publish(event)
        for _ in range(CALLS_AT_ONE_MOMENT):
            self.settle()
            changes = self.world.changes()
            if not changes:
                return
            for change in changes:
                self._count_out(change)
                self._publish(telling.of_change(change, self.clock.now()))
        raise RuntimeError(f"{event.type} {event.id}: events without end")

    def _publish(self, event: CloudEvent) -> list[Delivery]:
        deliveries = self.broker.publish(event)
        for delivery in deliveries:
            if delivery.dead and not self.gate.is_closed:
                self.played.counts.failures += 1
                says = f"{delivery.subscriber} did not take {delivery.event.type}: {delivery.dead}"
                self._note(Trouble(at=self.clock.now(), says=says))
        return deliveries

    def _tick(self, tick: Tick) -> None:
        self.played.counts.resyncs += 1
        before = self.world.version
        self.publish(tick.event)
        self.settle()
        self.schedule.ran(tick, before, failed=self.gate.is_closed)

    def _heard(self, name: str, handle: Handler) -> Handler:
        """``handle``, and everything that we want to know of what it does."""

        def heard(event: CloudEvent, context: Context) -> Outcome:
            outcome = handle(event, context)
            self.schedule.said(name, outcome, self.clock.now(), self.world.version)
            self._count(event, outcome, sum(context.requests.values()))
            for decision in outcome.decisions:
                self._note(Did(at=self.clock.now(), woken_by=event.type, decision=decision))
            return outcome

        return heard

    def _connect(self) -> Cluster:
        return Cluster(self.gate)

    # keeping count

    def _note(self, entry: Entry) -> None:
        if entry.at < self.scenario.start or self._is_repeat(entry):
            return
        self.played.entries.append(entry)
        self.on_entry(entry)
        if isinstance(entry, Did):
            decision = entry.decision
            actions = self.played.counts.actions
            actions[decision.action] = actions.get(decision.action, 0) + 1
            if decision.action in (Action.OPEN, Action.CORDON, Action.RAISE):
                since = self.faults.pop(decision.node, None)
                if since is not None:
                    took = (entry.at - since, decision.node)
                    self.played.counts.slowest = max(self.played.counts.slowest, took)

    def _is_repeat(self, entry: Entry) -> bool:
        """Whether a function says of a node what it said last: it waits, or is still done."""
        if not isinstance(entry, Did):
            return False
        decision = entry.decision
        about = (decision.function, decision.node)
        said = (decision.action, decision.reason, decision.incident)
        if self.said.get(about) == said:
            return True
        self.said[about] = said
        return False

    def _count(self, event: CloudEvent, outcome: Outcome, requests: int) -> None:
        if self.clock.now() < self.scenario.start or event.type == PING:
            return
        counts = self.played.counts
        if event.type.startswith("dev.groundcrew.nodes"):
            return
        counts.events += 1
        if any(d.action is not Action.NOTHING for d in outcome.decisions):
            counts.acted += 1
            counts.requests += requests
        elif outcome.declined:
            counts.declined += 1

    def _count_out(self, change: Change) -> None:
        if change.kind != "Node":
            return
        node = msgspec.json.decode(change.body)
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        ours = labels.get(keys.STATE) in ("cordon", "evict") and change.verb != "delete"
        if not ours:
            self.out.pop(name, None)
            return
        self.out[name] = name.rpartition("-")[0]
        most = self.played.counts.most_out
        for pool in ("all", self.out[name]):
            now_out = sum(pool in ("all", other) for other in self.out.values())
            most[pool] = max(most.get(pool, 0), now_out)

    def _budgets(self) -> dict[str, int]:
        """By disruption budget, how many healthy pods it lacks."""
        found = self.api.list("/apis/policy/v1/poddisruptionbudgets")
        return {
            f"{b['metadata']['namespace']}/{b['metadata']['name']}": max(
                0, b["status"].get("desiredHealthy", 0) - b["status"].get("currentHealthy", 0)
            )
            for b in found
        }

    def check(self, expectations: Iterable[tuple[Expect, int]]) -> None:
        counts = self.played.counts
        counts.evictions = sum(not eviction.deleted for eviction in self.gate.evictions)
        counts.deletions = len(self.gate.evictions) - counts.evictions
        counts.violations = self.gate.violations
        for expect, line in expectations:
            for checked in self.judge.check(expect, line, self.clock.now()):
                self._note(checked)


class _Late(NamedTuple):
    sent: datetime
    due: datetime
    events: list[CloudEvent]


_ON_NODES = ("condition", "gpus", "reboot", "replaced", "registered_again", "gone")


@dataclass
class _Look:
    """A function's next reading of everything."""

    at: datetime
    every: timedelta
    version: int


class _Schedule:
    """Which ticks are made. See the module."""

    def __init__(self, broker: Broker, world: World) -> None:
        self._world = world
        self._ticks = Ticks()
        self._hears: dict[str, set[str]] = {}
        """By PingSource, the functions that its ticks wake."""
        for source in self._ticks.sources:
            tick = self._ticks.next_after(world.clock.now(), source.name)
            assert tick is not None
            takers = {t.subscriber for t in broker.triggers if t.takes(tick.event)}
            self._hears[source.name] = takers
        self._clean: dict[str, int] = {}
        """By PingSource, the cluster's version after a run that changed nothing."""
        self._pending: dict[str, set[datetime]] = {}
        """By function, when it looks again."""
        self._looks: dict[str, _Look] = {}
        self._known: dict[str, tuple[datetime, Tick]] = {}
        """By PingSource: no tick lies between that time and that tick."""
        self._due: list[Tick] = []
        self.made: list[tuple[datetime, str]] = []

    def next(self, now: datetime, before: datetime) -> datetime:
        """When the next tick is to be made; ``before`` (something else happens then) if none is
        until then."""
        found: list[Tick] = []
        for name, functions in self._hears.items():
            if self._clean.get(name) != self._world.version:
                found.append(self._after(name, now))
                continue
            for function in functions:
                if pending := self._pending.get(function):
                    found.append(self._from(name, max(min(pending), now), now))
                if look := self._looks.get(function):
                    at = look.at
                    if look.version == self._world.version and at < before:
                        # Nothing to be found: of all the readings until then only the last.
                        at += (before - at) // look.every * look.every
                    found.append(self._from(name, max(at, now), now))
        at = min([before, *(tick.at for tick in found)])
        self._due = [tick for tick in found if tick.at == at]
        return at

    def due(self, at: datetime) -> list[Tick]:
        """The ticks to make at ``at``, in the order of the manifests."""
        found = {tick.source.name: tick for tick in self._due if tick.at == at}
        self._due = []
        for name in self._hears:
            # What has happened at this very moment may have woken one up.
            if self._clean.get(name) != self._world.version and (tick := self._at(name, at)):
                found[name] = tick
        return [found[name] for name in self._hears if name in found]

    def ran(self, tick: Tick, before: int, *, failed: bool) -> None:
        self.made.append((tick.at, tick.source.name))
        if self._world.version == before and not failed:
            self._clean[tick.source.name] = before

    def said(self, function: str, outcome: Outcome, now: datetime, version: int) -> None:
        kept = {at for at in self._pending.get(function, ()) if at > now}
        self._pending[function] = kept | ({outcome.look_again} if outcome.look_again else set())
        if outcome.reads_all_again:
            every = outcome.reads_all_again - now
            self._looks[function] = _Look(outcome.reads_all_again, every, version)

    def count_all(self, began: datetime, until: datetime) -> int:
        """How many ticks there are in that time."""
        total = 0
        for name in self._hears:
            first = self._from(name, began, datetime.min.replace(tzinfo=UTC)).at
            second = self._from(name, first + timedelta(seconds=1), first).at
            total += (until - first) // (second - first) + 1
        return total

    def _after(self, name: str, now: datetime) -> Tick:
        """The first tick later than ``now``."""
        return self._from(name, now + timedelta(microseconds=1), now)

    def _from(self, name: str, at: datetime, now: datetime) -> Tick:
        """The first tick not earlier than ``at``, and later than ``now``."""
        at = max(at, now + timedelta(microseconds=1))
        known = self._known.get(name)
        if known is None or not known[0] <= at <= known[1].at:
            tick = self._ticks.next_after(at - timedelta(microseconds=1), name)
            assert tick is not None
            known = self._known[name] = (at, tick)
        return known[1]

    def _at(self, name: str, at: datetime) -> Tick | None:
        tick = self._from(name, at, at - timedelta(seconds=1))
        return tick if tick.at == at else None


class _Given(_Schedule):
    """The ticks that another play has made."""

    def __init__(self, broker: Broker, world: World, given: Sequence[tuple[datetime, str]]) -> None:
        super().__init__(broker, world)
        self._given = list(given)

    def next(self, now: datetime, before: datetime) -> datetime:
        return min(before, self._given[0][0]) if self._given else before

    def due(self, at: datetime) -> list[Tick]:
        found = []
        while self._given and self._given[0][0] <= at:
            _, name = self._given.pop(0)
            if tick := self._at(name, at):
                found.append(tick)
        return found
