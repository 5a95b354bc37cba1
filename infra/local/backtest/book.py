"""What becomes of a fleet under one policy, kept as it happens: sums, and one entry for each time
that a node was out of service."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from events.notice import Severity
from functions.rules import incidents, keys
from functions.rules.decision import Action, Decision
from infra.local.gate import Eviction
from infra.local.world import Change

ALL = "all"
_OUT = ("cordon", "evict")
_ACTS = (Action.CORDON, Action.RAISE)
_THEIRS = "cordoned by somebody else"
"""What `rules.cordoning` says where the cordon was there already."""


@dataclass
class Outage:
    """One node, out of service for us."""

    node: str
    machine: str
    """Its provider ID."""
    pool: str
    incident: str
    """Why it was taken out: source/check/ref."""
    reason: str
    kind: str
    """fault, maintenance, interruption, ...: what the incident is."""
    opened: datetime
    """When that incident was first recorded."""
    since: datetime
    severity: str
    """``cordon`` or ``evict``, the worst that it came to."""
    theirs: bool = False
    """Somebody else had cordoned it: what is wrong with it is ours to say, and (by severity evict)
    to empty it for, but no policy took it out."""
    until: datetime | None = None
    """None: it still was when the history ended."""
    ended: str = ""
    drained: datetime | None = None
    blocked: str = ""
    """What its drain was blocked by last, if it was."""
    evicted: int = 0
    deleted: int = 0
    """Pods deleted past their budgets, at a deadline of the policy."""
    is_seen: bool = False
    """Whether the Node has been seen so. What was decided is known before what was written, and
    older news of the node may come in between."""

    def hours(self, end: datetime) -> float:
        return ((self.until or end) - self.since) / timedelta(hours=1)


@dataclass(frozen=True)
class Hold:
    """That something would have been done, and what it was held back by."""

    at: datetime
    node: str
    incident: str
    category: str
    """budget, breaker, pause, shadow, releases, ..."""
    sentence: str
    severity: str


class _Noted(msgspec.Struct):
    """An incident that was recorded."""

    opened: datetime
    severity: str
    ended: datetime | None = None


@dataclass
class Book:
    """``pool_of`` names a pool by the labels of a node. What happens before ``start`` (the
    functions' first look at the fleet) counts from then."""

    start: datetime
    pool_of: Callable[[Mapping[str, str]], str]
    acts: bool = True
    """False: of a fleet in which nobody acts."""
    outages: list[Outage] = field(default_factory=list)
    holds: dict[tuple[str, str, str], Hold] = field(default_factory=dict)
    """By node, incident and category: the first of each."""
    actions: Counter[str] = field(default_factory=Counter)
    most_out: Counter[str] = field(default_factory=Counter)
    """By pool, and `ALL`: the most nodes that we had taken out at once."""
    sizes: Counter[str] = field(default_factory=Counter)
    """By pool, and `ALL`: how many nodes there are."""
    pods_evicted: int = 0
    pods_deleted: int = 0
    drained: int = 0
    released: int = 0
    end: datetime | None = None
    _now_out: dict[str, Outage] = field(default_factory=dict)
    _nodes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By name: pool and machine."""
    _noted: dict[tuple[str, str], _Noted] = field(default_factory=dict)
    """By node and incident: the last of each."""
    _begun: dict[str, datetime] = field(default_factory=dict)
    """By node, when its drain last began."""

    # what it is told

    def decided(self, at: datetime, decision: Decision) -> None:
        action, node, incident = decision.action, decision.node, decision.incident
        self.actions[action.value] += 1
        at = max(at, self.start)
        if action is Action.OPEN and incident:
            self._noted[node, incident] = _Noted(at, decision.severity)
        elif action in _ACTS:
            self._taken_out(node, at, decision, theirs=action is Action.RAISE)
        elif action is Action.HOLD and decision.blocked_by:
            if decision.blocked_by[0].startswith(_THEIRS):
                self._taken_out(node, at, decision, theirs=True)
            else:
                self._held(at, decision)
        elif action in (Action.CLOSE, Action.DISMISS) and (
            noted := self._noted.get((node, incident))
        ):
            noted.ended = at
        elif action is Action.START_DRAIN:
            self._begun[node] = at
        elif action is Action.WAIT and decision.blocked_by and (out := self._now_out.get(node)):
            out.blocked = ", ".join(decision.blocked_by)
        elif action is Action.DRAINED and (out := self._now_out.get(node)):
            # A drain that begins and ends in one moment had nothing to do.
            out.drained, out.blocked = at, ""
            self.drained += self._begun.get(node) != at
        elif action is Action.UNCORDON:
            self.released += 1
            if out := self._now_out.get(node):
                out.ended = decision.reason

    def changed(self, at: datetime, change: Change) -> None:
        if change.kind != "Node":
            return
        found = _DECODER.decode(change.body)
        name, labels = found.metadata.name, found.metadata.labels or {}
        machine = found.spec.provider_id or found.metadata.uid
        known = self._nodes.get(name)
        if known and (change.verb == "delete" or known[1] != machine):
            self._gone(name, at, "the machine is gone" if known[1] != machine else "gone")
        if change.verb == "delete":
            return
        if name not in self._nodes:
            pool = self.pool_of(labels)
            self._nodes[name] = (pool, machine)
            self.sizes[pool] += 1
            self.sizes[ALL] += 1
        state = labels.get(keys.STATE, "")
        out = self._now_out.get(name)
        if state in _OUT:
            out = out or self._out(name, at, state, theirs=False)
            if not out.is_seen:
                self._explain(out, (found.metadata.annotations or {}).get(keys.INCIDENTS))
        elif out and out.is_seen:
            self._back(name, at, "dismissed by somebody" if state == "dismissed" else "released")

    def evicted(self, eviction: Eviction) -> None:
        self.pods_evicted += not eviction.deleted
        self.pods_deleted += eviction.deleted
        if out := self._now_out.get(eviction.node):
            out.evicted += not eviction.deleted
            out.deleted += eviction.deleted

    def close(self, end: datetime) -> None:
        self.end = end

    # what it says

    @property
    def taken_out(self) -> list[Outage]:
        """Those that are not `Outage.theirs`."""
        return [one for one in self.outages if not one.theirs]

    @property
    def nodes_out(self) -> set[str]:
        return {one.node for one in self.taken_out}

    def hours(self) -> dict[str, float]:
        """Node-hours out of service, by pool and `ALL`."""
        assert self.end is not None, "the book is still open"
        found: dict[str, float] = dict.fromkeys((*sorted(self.sizes.keys() - {ALL}), ALL), 0.0)
        for one in self.taken_out:
            for pool in (one.pool, ALL):
                found[pool] = found.get(pool, 0.0) + one.hours(self.end)
        return found

    def held(self) -> dict[str, int]:
        """By category, how many nodes something was held back on."""
        nodes: dict[str, set[str]] = {}
        for one in self.holds.values():
            nodes.setdefault(one.category, set()).add(one.node)
        return {category: len(found) for category, found in sorted(nodes.items())}

    def instead_of(self, other: Outage, tolerance: timedelta) -> str:
        """What was done here about the incident for which ``other`` took the node out, in a
        sentence that begins with what kind of thing that was."""
        if not self.acts:
            return "nobody acts"
        if hold := self._hold(other):
            return f"held back: {hold.sentence}"
        noted = self._noted.get((other.node, other.incident))
        if noted is None or (noted.ended and noted.ended < other.opened - tolerance):
            return "no such incident"
        if noted.severity == Severity.WATCH:
            return "watched only"
        return "recorded; it was over, or the history ended, before it was due"

    # how it is done

    def _hold(self, other: Outage) -> Hold | None:
        """What held us back last from what ``other`` did."""
        return max(
            (
                one
                for one in self.holds.values()
                if one.node == other.node and one.incident in (other.incident, "")
            ),
            key=lambda one: (one.at, one.category),
            default=None,
        )

    def _held(self, at: datetime, decision: Decision) -> None:
        category = decision.blocked_by[0]
        key = (decision.node, decision.incident, category)
        if key not in self.holds:
            said = Hold(
                at, decision.node, decision.incident, category, decision.reason, decision.severity
            )
            self.holds[key] = said

    def _taken_out(self, name: str, at: datetime, decision: Decision, *, theirs: bool) -> None:
        """``theirs``: if it was not out already."""
        out = self._now_out.get(name)
        if out is None and name in self._nodes:
            out = self._out(name, at, decision.severity, theirs=theirs)
            out.incident, out.reason = decision.incident, decision.reason
            if noted := self._noted.get((name, decision.incident)):
                out.opened = noted.opened
        elif out is not None and Severity(decision.severity) > Severity(out.severity):
            out.severity = decision.severity

    def _out(self, name: str, at: datetime, state: str, *, theirs: bool) -> Outage:
        pool, machine = self._nodes[name]
        at = max(at, self.start)
        made = Outage(
            node=name,
            machine=machine,
            pool=pool,
            incident="",
            reason="",
            kind="",
            opened=at,
            since=at,
            severity=state,
            theirs=theirs,
        )
        self.outages.append(made)
        self._now_out[name] = made
        for where in (pool, ALL):
            now = sum(where in (ALL, one.pool) and not one.theirs for one in self._now_out.values())
            self.most_out[where] = max(self.most_out[where], now)
        return made

    def _explain(self, out: Outage, record: str | None) -> None:
        """What the incidents on the Node, once it is seen as out, say about ``out``."""
        out.is_seen = True
        known = [one for one in incidents.decode(record).incidents if one.open] if record else []
        cause = next((one for one in known if one.key == out.incident), None)
        if cause is None and known and not out.incident:
            # Nobody decided: a machine that registered anew, and is out as it was.
            cause = max(known, key=lambda one: one.severity.rank)
            out.incident, out.reason = cause.key, cause.evidence
        if cause is not None:
            out.kind = cause.kind.value
            out.opened = min(out.since, max(cause.first, self.start))

    def _back(self, name: str, at: datetime, why: str) -> None:
        out = self._now_out.pop(name)
        out.until = max(at, self.start)
        out.ended = out.ended or why

    def _gone(self, name: str, at: datetime, why: str) -> None:
        pool, _ = self._nodes.pop(name)
        self.sizes[pool] -= 1
        self.sizes[ALL] -= 1
        if name in self._now_out:
            self._back(name, at, why)
        for key in [key for key in self._noted if key[0] == name]:
            self._noted[key].ended = self._noted[key].ended or at


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    provider_id: str = msgspec.field(default="", name="providerID")


class _Node(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_DECODER = msgspec.json.Decoder(_Node)
