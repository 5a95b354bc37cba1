"""What becomes of one node, change by change: its states, incidents and clocks, and what happens
to it."""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from events import conditions
from functions.rules import incidents, keys
from functions.rules.incidents import Incident
from functions.rules.policy import Policy
from infra.local.report import model, node_state
from infra.local.report.model import BINS

MOST_MARKS = 1_000
"""Of one node in a report. What comes after is counted and left out: a page must stay one that a
browser can show, and a play of months must not grow with a condition that flaps all day."""


@dataclass
class Happening:
    at: datetime
    kind: str
    text: str


@dataclass(frozen=True)
class _Clock:
    kind: str
    since: datetime
    due: datetime
    text: str


@dataclass
class History:
    """Of the node ``name``. Times before ``start`` count as the start."""

    name: str
    pool: str
    start: datetime
    policy: Policy
    states: list[model.State] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    heard: "array[int]" = field(default_factory=lambda: array("L", [0] * BINS))
    """Events about it that needed nothing, in so many parts of the time."""
    pods: int = 0
    team: str = ""
    """That it was last of."""
    marks: int = 0
    """How many there are: what happened, and what was decided about it."""
    _node: node_state.Node | None = None
    """As it was last; kept when it is gone, to be compared with what comes under its name."""
    _state: str = ""
    _incidents: dict[tuple[str, datetime], model.Incident] = field(default_factory=dict)
    _running: dict[_Clock, None] = field(default_factory=dict)
    _clocks: list[model.Clock] = field(default_factory=list)
    _notes: str = ""
    _record: incidents.Record = field(default_factory=incidents.Record)

    def see(self, now: datetime, verb: str, node: node_state.Node) -> None:
        """``verb`` is that of a `Change`: add, update or delete."""
        if verb == "delete":
            self.happens(now, "gone", "The machine and its Node are gone.")
            self._enter(now, "gone", "")
            self._forget(now, "its Node is gone")
            return
        record = self._read(node)
        state = node_state.state_of(node, record)
        before, self._node, self.team = self._node, node, node.team
        if before is not None:
            for kind, text in self._differences(before, node, state, now):
                self.happens(now, kind, text)
        self._enter(now, state, ", ".join(dict.fromkeys(i.check for i in record.open)))
        self._note_incidents(record, now)

    def warned(self, now: datetime, due: datetime, text: str) -> None:
        """A gang on it has been told until when it may stay."""
        self._running.setdefault(_Clock("warning", now, due, text))

    def has_room(self) -> bool:
        """Whether one more mark is kept. It counts as one."""
        self.marks += 1
        return self.marks <= MOST_MARKS

    def happens(self, now: datetime, kind: str, text: str) -> None:
        if now >= self.start and self.has_room():
            self.happenings.append(Happening(now, kind, text))

    def as_model(self, end: datetime) -> model.Node:
        for clock in list(self._running):
            self._stop(clock, end)
        length = max(1, milliseconds(end - self.start))
        heard = ((place * length // BINS, count) for place, count in enumerate(self.heard) if count)
        return model.Node(
            name=self.name,
            pool=self.pool,
            team=self.team,
            states=tuple(self.states),
            incidents=tuple(self._incidents.values()),
            clocks=tuple(sorted(self._clocks, key=lambda clock: (clock.a, clock.kind, clock.b))),
            heard=tuple(heard),
            pods=self.pods,
            left_out=max(0, self.marks - MOST_MARKS),
        )

    def _ms(self, at: datetime) -> int:
        return max(0, milliseconds(at - self.start))

    def _enter(self, now: datetime, state: str, why: str) -> None:
        fresh = model.State(a=self._ms(now), s=state, why=why)
        self._state = state
        if self.states and self.states[-1].a == fresh.a:
            self.states.pop()
        last = self.states[-1] if self.states else None
        if last is None or (last.s, last.why) != (state, why):
            self.states.append(fresh)

    def _read(self, node: node_state.Node) -> incidents.Record:
        notes = f"{node.note(keys.INCIDENTS)} {node.spec.provider_id} {node.metadata.uid}"
        if notes != self._notes:
            self._notes, self._record = notes, node_state.record_of(node)
        return self._record

    # what is different

    def _differences(
        self, old: node_state.Node, new: node_state.Node, state: str, now: datetime
    ) -> Iterator[tuple[str, str]]:
        was_gone = self._state == "gone"
        machines = (old.spec.provider_id, new.spec.provider_id)
        if all(machines) and machines[0] != machines[1]:
            self._undo_gone(now)
            yield "replaced", f"Another machine stands behind the name: {machines[1]}"
            self._forget(now, "another machine stands behind the name")
        elif was_gone or old.metadata.uid != new.metadata.uid:
            self._undo_gone(now)
            yield "registered", "The same machine has registered anew."
        elif old.boot_id and new.boot_id and old.boot_id != new.boot_id:
            yield "reboot", f"The machine has booted anew (boot ID {new.boot_id})."
        else:
            yield from _conditions(old.conditions, new.conditions)
            yield from self._cordons(old, new, state)
        if old.gpus != new.gpus and old.gpus and new.gpus:
            yield "gpus", f"{new.gpus} GPUs are offered, {old.gpus} before."

    def _undo_gone(self, now: datetime) -> None:
        """A Node that is deleted and made anew in one moment was never gone."""
        last = self.happenings[-1] if self.happenings else None
        if last is not None and (last.kind, last.at) == ("gone", now):
            self.happenings.pop()
            self.marks -= 1

    def _cordons(
        self, old: node_state.Node, new: node_state.Node, state: str
    ) -> Iterator[tuple[str, str]]:
        if new.cordoned and not old.cordoned and state == "others":
            yield "cordoned-by-others", "Somebody else has cordoned the node."
        theirs = self._state == "others" or new.label(keys.STATE) in ("cordon", "evict")
        if old.cordoned and not new.cordoned and theirs:
            yield "uncordoned-by-others", "Somebody else has uncordoned the node."

    # incidents and clocks

    def _note_incidents(self, record: incidents.Record, now: datetime) -> None:
        running: dict[_Clock, None] = {}
        for incident in record.incidents:
            self._incidents[incident.key, incident.first] = self._incident(incident)
            running.update(dict.fromkeys(_clocks_of(incident, self.policy)))
        for clock in [c for c in self._running if c.kind != "warning" and c not in running]:
            self._stop(clock, now)
        self._running |= running

    def _incident(self, one: Incident) -> model.Incident:
        return model.Incident(
            key=one.key,
            severity=one.severity.value,
            a=self._ms(one.first),
            b=None if one.open or one.ended is None else self._ms(one.ended),
            end="" if one.open else f"{one.state.value}: {one.why}",
            evidence=one.evidence,
        )

    def _forget(self, now: datetime, why: str) -> None:
        """What was known of the machine that has gone."""
        for key, one in self._incidents.items():
            if one.b is None:
                self._incidents[key] = model.Incident(
                    key=one.key,
                    severity=one.severity,
                    a=one.a,
                    b=self._ms(now),
                    end=f"over: {why}",
                    evidence=one.evidence,
                )
        for clock in list(self._running):
            self._stop(clock, now)

    def _stop(self, clock: _Clock, now: datetime) -> None:
        del self._running[clock]
        if clock.due <= self.start or clock.since > now:
            return
        ended = min(clock.due, now)
        self._clocks.append(
            model.Clock(
                kind=clock.kind,
                a=self._ms(clock.since),
                b=self._ms(ended),
                due=None if ended == clock.due else self._ms(clock.due),
                text=clock.text,
            )
        )


def _clocks_of(incident: Incident, policy: Policy) -> Iterator[_Clock]:
    check = incident.check
    if incident.state is incidents.State.DISMISSED and incident.ended is not None:
        due = incident.ended + policy.dismissed.override
        yield _Clock("override", incident.ended, due, f"{check} keeps quiet until {_told(due)}")
    if not incident.open:
        return
    if incident.deadline is not None:
        due, lead = incident.deadline, policy.maintenance
        yield _Clock("deadline", incident.first, due, f"{check}: due {_told(due)}")
        stop, empty = due - lead.cordon_before, due - lead.drain_before
        if stop > incident.first:
            text = f"{check}: no new work from {_told(stop)}, emptied from {_told(empty)}"
            yield _Clock("window", stop, due, text)
    wait = policy.wait_of(incident.source, check, incident.reason, incident.cause.value)
    if wait:
        due = incident.first + wait
        yield _Clock("wait", incident.first, due, f"{check} must last until {_told(due)}")
    if incident.rebooted is not None:
        due = incident.rebooted + policy.recovery.quiet
        yield _Clock("quiet", incident.rebooted, due, f"{check} must keep quiet until {_told(due)}")


def _conditions(
    old: Mapping[str, node_state.Condition], new: Mapping[str, node_state.Condition]
) -> Iterator[tuple[str, str]]:
    table = conditions.table()
    for name, now in new.items():
        before = old.get(name)
        if before is not None and (before.status, before.reason) == (now.status, now.reason):
            continue
        rule = table.of_reason(name, now.reason or "") or table.of_type(name)
        words = f"{name}={now.status} {now.reason or ''}".strip()
        words += f": {now.message}" if now.message else ""
        if rule is None or now.status in rule.bad:
            yield "said", words
        elif now.status in rule.good and before is not None and before.status in rule.bad:
            yield "well", words


def milliseconds(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)


def _told(at: datetime) -> str:
    return f"{at:%a %-d %b %H:%M}"
