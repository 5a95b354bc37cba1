"""Playing a scenario: time goes from one moment at which something is due to the next.

What is due: a step of the scenario, something that the cluster does by itself (a pod has ended),
a tick of a PingSource (`infra.local.schedule` says which are made).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from events import recording, registry
from events.cloudevent import CloudEvent
from events.errors import EventError
from events.sources.autoscaling import TERMINATION, TO_WARM_POOL, lifecycle_of
from functions.edge.context import Outcome
from functions.rules.decision import Action, Decision
from infra.local import telling
from infra.local.clock import PING, Tick
from infra.local.cloud import SimulatedAws
from infra.local.expectations import Judge
from infra.local.gate import Eviction
from infra.local.out_of_service import OutOfService
from infra.local.outside import Habits, Outside, embedded_habits
from infra.local.scenario import Expect, Scenario, Step, Timed
from infra.local.scenario_file import moment, pick
from infra.local.stage import Nobody, Stage, Through, Witness
from infra.local.timeline import Did, Entry, Happened, Trouble
from infra.local.world import Change, World

WARM_UP = timedelta(minutes=11)
"""How long the cluster and the functions have been running when a scenario begins: two readings
of all nodes."""
_PLACING = timedelta(seconds=2)
"""For the pods of a workload to find their nodes."""


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
    ended: int = 0
    """Machines that ended for us."""
    deletions: int = 0
    """Pods deleted past their budgets."""
    violations: list[str] = field(default_factory=list)
    """Disruption budgets that an eviction of ours broke."""
    most_out: dict[str, int] = field(default_factory=dict)
    """By pool, and ``all``: the most nodes that the functions had taken out at once."""
    most_out_by: dict[str, int] = field(default_factory=dict)
    """By who took them out (`out_of_service.By`): the most nodes at once."""
    slowest: tuple[timedelta, str] = (timedelta(0), "")
    """From a fault to our first decision about it, and the node."""
    failures: int = 0
    """Calls that ended in an error although the API server could be reached."""


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
    habits: Habits = embedded_habits,
    witness: Witness | None = None,
) -> Played:
    """Play ``scenario`` in ``world``, whose clock is to stand before its start.

    ``policy`` replaces the scenario's own. ``on_entry`` hears what happens as it happens,
    ``on_time`` where the time goes before it goes there. ``settle`` waits, in a world that has
    a time of its own, until that has caught up. ``ticks``, of an earlier play, are made instead
    of those that this one would choose. ``habits`` are those of the world's kubelets.
    ``witness`` sees what becomes of the fleet, from the functions' first look at it.
    """
    seen_by = witness or Nobody()
    play = _Play(scenario, world, on_entry, on_time, through, settle, ticks, habits, seen_by)
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
        habits: Habits,
        witness: Witness,
    ) -> None:
        self.scenario = scenario
        self.world = world
        self.clock = world.clock
        self.on_entry = on_entry
        self.on_time = on_time
        self.witness = witness
        self.cloud = SimulatedAws(
            self.clock,
            scenario.cluster.cloud,
            is_there=lambda instance: self.stage.runs(instance),
            on_reboot=self._rebooted,
            on_replacement=self._came,
        )
        self.stage = Stage(world, self, through=through, settle=settle, ticks=ticks, aws=self.cloud)
        self.up_at: datetime | None = None
        """When our processes run again; None: they do."""
        self.outside = Outside(self.stage.api, self.clock, scenario, habits)
        self.played = Played(scenario, [], Counts())
        self.judge = Judge(scenario, self.stage.api, self.played)
        self.late: list[_Late] = []
        self.opens_at: datetime | None = None
        self.faults: dict[str, datetime] = {}
        self.out = OutOfService(lambda node: node.name.rpartition("-")[0])

    # the whole

    def run(self, policy: str) -> Played:
        started = time.perf_counter()
        for _ in self.outside.build(policy):
            self.clock.advance_to(self.clock.now() + _PLACING)
            self.world.advance(self.clock.now())
            self.stage.settle()
        self.stage.deliver(self.world.changes())
        steps = list(self.scenario.steps)
        began = self.clock.now()
        while (at := self._next(steps)) is not None:
            self.on_time(at)
            self.clock.advance_to(at)
            self.world.advance(at)
            self.cloud.advance(at)
            self._open_gate(at)
            self._start_again(at)
            self.stage.deliver(self.world.changes())
            while steps and steps[0].at <= at:
                self._step(steps.pop(0))
            self._deliver_late(at)
            for tick in [] if self.up_at else self.stage.schedule.due(at):
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
        others += (at for at in (self.opens_at, self.up_at, self.cloud.next_due()) if at)
        if due := self.world.next_due():
            others.append(max(due, now))
        end = self.scenario.end
        others.append(end)
        at = min(others) if self.up_at else self.stage.schedule.next(now, min(others))
        return None if at >= end and not steps and min(others) >= end else min(at, end)

    def _finish(self, began: datetime, started: float) -> None:
        counts = self.played.counts
        counts.seconds = time.perf_counter() - started
        counts.ticks = self.stage.schedule.count_all(began, self.clock.now())
        self.played.final = self.judge.final()
        self.played.ticks = self.stage.schedule.made

    # what happens outside

    def _step(self, timed: Timed) -> None:
        step = timed.step
        if step.says:
            self._note(Happened(at=self.clock.now(), says=step.says, line=timed.line))
        if step.event:
            self._send(step)
        else:
            self._act(step)
            self.stage.settle()
            changes = self.world.changes()
            for change in changes:
                self.changed(change)
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
            self.stage.gate.is_closed = True
            self.opens_at = self.clock.now() + step.api_server.down
        elif step.functions:
            self.stage.deaf = True
            self.up_at = self.clock.now() + step.functions.down
        elif step.cloud:
            self.cloud.refuses = dict(step.cloud.refuses)
            self.cloud.strangers = {
                outside.instance(name) for name in pick(step.cloud.strangers, self.scenario.nodes)
            }
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
            self.stage.gate.races.append(lambda: self._human(again))
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
            self._hold(events)
            if not step.lost:
                self._publish_or_keep(step, events * step.times)

    def _hold(self, events: Sequence[CloudEvent]) -> None:
        """What a group tells of its hooks is so, whether somebody hears of it or not."""
        for event in events:
            if not event.type.startswith("aws.autoscaling."):
                continue
            for notice in registry.read(event).notices:
                action = lifecycle_of(notice.ref)
                if notice.check in (TERMINATION, TO_WARM_POOL) and action:
                    self.cloud.hold(notice.identity.instance_id, action)

    def _publish_or_keep(self, step: Step, events: list[CloudEvent]) -> None:
        if step.late:
            now = self.clock.now()
            self.late.append(_Late(now, now + step.late, events))
        else:
            for event in events:
                self.stage.publish(event)

    def _deliver_late(self, at: datetime) -> None:
        due = [late for late in self.late if late.due <= at]
        self.late = [late for late in self.late if late.due > at]
        for late in due:
            says = f"What was sent at {late.sent:%a %H:%M} arrives only now."
            self._note(Happened(at=at, says=says))
            for event in late.events:
                self.stage.publish(event)

    def _open_gate(self, at: datetime) -> None:
        if self.opens_at and self.opens_at <= at:
            self.opens_at, self.stage.gate.is_closed = None, False
            self._note(Happened(at=at, says="The API server answers again."))

    def _start_again(self, at: datetime) -> None:
        if self.up_at and self.up_at <= at:
            self.up_at, self.stage.deaf = None, False
            self._note(Happened(at=at, says="Our processes run again."))

    def _rebooted(self, instance: str) -> None:
        name = self.outside.name_of(instance)
        healed = bool(pick(self.scenario.cluster.cloud.heals, [name]))
        self._note(Happened(at=self.clock.now(), says=f"The machine of {name} boots anew."))
        self.outside.reboot_as_it_is(name, healed=healed)

    def _came(self, instance: str) -> None:
        name = self.outside.name_of(instance)
        self._note(Happened(at=self.clock.now(), says=f"Another machine registers as {name}."))
        self.outside.replace([name])

    def _tick(self, tick: Tick) -> None:
        self.played.counts.resyncs += 1
        self.stage.tick(tick)

    # what the stage tells

    def answered(self, event: CloudEvent, outcome: Outcome, requests: int) -> None:
        self._count(event, outcome, requests)

    def decided(self, event: CloudEvent, decision: Decision) -> None:
        self.witness.decided(self.clock.now(), decision)
        self._note(Did(at=self.clock.now(), woken_by=event.type, decision=decision))

    def changed(self, change: Change) -> None:
        self.witness.changed(self.clock.now(), change)
        self.out.changed(change)

    def evicted(self, eviction: Eviction) -> None:
        self.witness.evicted(eviction)

    def failed(self, says: str) -> None:
        self.played.counts.failures += 1
        self._note(Trouble(at=self.clock.now(), says=says))

    # keeping count

    def _note(self, entry: Entry) -> None:
        if entry.at < self.scenario.start:
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

    def check(self, expectations: Iterable[tuple[Expect, int]]) -> None:
        counts = self.played.counts
        counts.most_out, counts.most_out_by = self.out.most, self.out.most_by
        counts.evictions = sum(not eviction.deleted for eviction in self.stage.gate.evictions)
        counts.ended = len(self.cloud.ended)
        counts.deletions = len(self.stage.gate.evictions) - counts.evictions
        counts.violations = self.stage.gate.violations
        for expect, line in expectations:
            for checked in self.judge.check(expect, line, self.clock.now()):
                self._note(checked)


class _Late(NamedTuple):
    sent: datetime
    due: datetime
    events: list[CloudEvent]


_ON_NODES = ("condition", "gpus", "reboot", "replaced", "registered_again", "gone")
