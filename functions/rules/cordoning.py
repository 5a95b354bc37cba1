"""From what is known of nodes to what is done about them: the decisions of `functions.cordon`.

Pure. `decide` takes nodes with what was said about them, the ledgers as read and the places out
of service; it returns, per node, the new record and what to change, and the ledgers to write
before any node is patched. Called again with fresh facts when a write lost a race.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from events.notice import Kind, Notice, Severity
from functions.rules import breaker, budget, claim, incidents, ledger, recovery
from functions.rules.decision import Action, Decision
from functions.rules.incidents import Cordon, Incident, Record, State
from functions.rules.keys import EXCLUDE_FROM_LOAD_BALANCERS
from functions.rules.ledger import Ledger, Machine, Reservation
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy

FUNCTION = "cordon"
SELF = "kubernetes.node"
"""Source of what a Node says of itself, which can be read at any time."""

HELD, DISMISSED, RELEASED = "held", "dismissed", "released"
"""Values of the state label beside the severities: wants more than it may; somebody uncordoned
it; only history is left."""

LONG_PAST = timedelta(days=1)
"""A maintenance that is first heard of so long after its time is a leftover (a label that nobody
took off), and no plan."""

ACTED = (Severity.CORDON.value, Severity.EVICT.value)
"""State labels of nodes that are out of service for an incident of ours."""


@dataclass(frozen=True)
class NodeFacts:
    view: NodeView
    notices: tuple[Notice, ...] = ()
    inherited: Machine | None = None
    """What the ledger remembers of the machine."""
    live: tuple[Notice, ...] | None = None
    """What the Node says of itself, as it was read for this decision. It overrides what events
    say of the same: they may be late. None where nobody looked."""


@dataclass(frozen=True)
class Facts:
    nodes: tuple[NodeFacts, ...]
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)
    """By pool. A pool without one (or with one that was never rebuilt) may not act."""
    cluster: Ledger | None = None
    out: tuple[budget.Place, ...] = ()
    """Nodes marked as out of service, read just now, all pools."""
    paused: Callable[[str], str] = lambda pool: ""
    """Why nothing may be done in that pool now; empty when it may."""


@dataclass(frozen=True)
class Verdict:
    """What becomes of one node. ``changed`` is False when there is nothing to write."""

    view: NodeView
    record: Record
    state: str
    changed: bool
    unschedulable: bool | None = None
    """True or False: set it so. None: leave it."""
    load_balancer_label: bool | None = None
    """True: put it on. False: take it off. None: leave it."""
    decisions: tuple[Decision, ...] = ()
    look_again: datetime | None = None


@dataclass(frozen=True)
class Plan:
    verdicts: tuple[Verdict, ...]
    ledgers: Mapping[str, Ledger]
    """Ledgers to write before the nodes: only those that changed."""
    cluster: Ledger | None
    """The cluster's ledger to write first, if it changed."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(d for v in self.verdicts for d in v.decisions)


class Wish(NamedTuple):
    """What one incident asks for now."""

    severity: Severity
    voluntary: bool
    """False: the machine goes, or its cloud deadline falls due, whatever we do."""
    due: datetime | None
    """When it will ask for more."""
    shadow: bool


def decide(facts: Facts, policy: Policy, now: datetime) -> Plan:
    ledgers = {pool: look_at_breakers(led, policy, now) for pool, led in facts.ledgers.items()}
    heard = [_hear(node, ledgers, policy, now) for node in facts.nodes]
    _tell_breakers(heard, ledgers, policy, now)
    settled = [_settle(ears, ledgers, policy, now) for ears in heard]
    over = [ears for ears in settled if any(d.action is Action.CLOSE for d in ears.decisions)]
    _tell_breakers(over, ledgers, policy, now)
    doubts = {pool: _doubts(found, policy, now) for pool, found in ledgers.items()}
    for ears in settled:
        ears.doubts = doubts.get(ears.view.pool, {})
    allowed, cluster = _reserve(settled, facts, ledgers, policy, now)
    verdicts = tuple(_judge(one, allowed, facts, ledgers, policy, now) for one in settled)
    _keep_machines(verdicts, ledgers, now)
    return Plan(
        verdicts=verdicts,
        ledgers={p: led for p, led in ledgers.items() if led is not facts.ledgers.get(p)},
        cluster=cluster if cluster is not facts.cluster else None,
    )


def look_at_breakers(found: Ledger, policy: Policy, now: datetime) -> Ledger:
    """``found`` with the breakers closed that may close by now."""
    for name, check in found.checks.items():
        if check.is_open:
            found = found.with_check(name, breaker.look(check, found.size, policy.breaker, now))
    return found


class _Origin(enum.Enum):
    """Where a node's record was read."""

    NODE = "its annotation"
    LEDGER = "the ledger: the machine is known, the Node says nothing"
    REPAIRED = "the ledger: the annotation is damaged"


@dataclass
class _Ears:
    """One node on its way through `decide`."""

    facts: NodeFacts
    before: Record
    record: Record
    unreadable: str = ""
    origin: _Origin = _Origin.NODE
    accused: frozenset[str] = frozenset()
    """Keys of the incidents that were accused just now."""
    said: frozenset[str] = frozenset()
    """Keys of those that the node itself, as read just now, speaks of."""
    decisions: list[Decision] = field(default_factory=list)
    wishes: dict[str, Wish] = field(default_factory=dict)
    doubts: Mapping[str, "_Doubt"] = field(default_factory=dict)
    """The checks of the pool whose breaker is open."""
    held: dict[str, str] = field(default_factory=dict)
    """What keeps us from acting: category -> sentence."""
    due: list[datetime] = field(default_factory=list)
    loose_label: bool = False
    """Our load balancer label must come off with somebody else's uncordon."""

    @property
    def view(self) -> NodeView:
        return self.facts.view

    def say(
        self, action: Action, reason: str, about: Incident | None = None, **more: object
    ) -> None:
        base = Decision(
            function=FUNCTION,
            action=action,
            node=self.view.name,
            pool=self.view.pool,
            reason=reason,
            incident=about.key if about else "",
            severity=about.severity.value if about else "",
            evidence=about.evidence if about else "",
        )
        self.decisions.append(msgspec.structs.replace(base, **more))


def _hear(facts: NodeFacts, ledgers: Mapping[str, Ledger], policy: Policy, now: datetime) -> _Ears:
    view = facts.view
    try:
        record, origin = _record_of(facts)
    except incidents.Unreadable as problem:
        empty = Record(machine=view.machine)
        return _Ears(facts, empty, empty, unreadable=str(problem))
    before = Record(machine=view.machine) if origin is _Origin.LEDGER else record
    ears = _Ears(facts, before, record, origin=origin)
    if origin is _Origin.LEDGER and facts.inherited and facts.inherited.uid != view.uid:
        ears.say(Action.OPEN, "the machine registered again; its incidents are inherited")
    cordon = record.cordon
    if cordon is not None and not view.unschedulable:
        ears.loose_label = cordon.lb
        record = _dismiss(ears, record, policy, now)
    told = [incidents.bounded(n) for n in facts.notices if not _overtaken(ears, n)]
    live = [incidents.bounded(n) for n in facts.live or ()]
    record = incidents.hear(record, view, told, policy, now)
    record = incidents.hear(record, view, live, policy, now, live=True)
    ears.said = _keys(record, live)
    ears.accused = ears.said | _keys(record, told)
    ears.record = record
    return ears


def _overtaken(ears: _Ears, notice: Notice) -> bool:
    """Whether the node, as read just now, knows better than an event that it once made. A fault
    that a latched source no longer shows was there all the same, and its recovery is not proven."""
    live = ears.facts.live
    if live is None or notice.source != SELF:
        return False
    if notice.kind in (Kind.RECOVERY, Kind.INFORMATIONAL):
        return True
    if any(n.check == notice.check and n.kind is notice.kind for n in live):
        return True
    if not notice.latched:
        ears.say(
            Action.NOTHING,
            f"late: the node, as read just now, no longer says {notice.check}",
            incident=f"{notice.source}/{notice.check}",
            evidence=notice.evidence,
        )
    return not notice.latched


def _keys(record: Record, notices: Iterable[Notice]) -> frozenset[str]:
    """Keys of the incidents that ``notices`` accuse."""
    about = (
        incidents.about(record, n)
        for n in notices
        if n.kind not in (Kind.RECOVERY, Kind.INFORMATIONAL)
    )
    return frozenset(incident.key for incident in about if incident is not None)


def _record_of(facts: NodeFacts) -> tuple[Record, _Origin]:
    view = facts.view
    trouble: incidents.Unreadable | None = None
    try:
        record = incidents.read(view)
    except incidents.Unreadable as problem:
        trouble, record = problem, Record(machine=view.machine)
    if facts.inherited and (trouble or view.incidents is None):
        kept = incidents.decode(facts.inherited.record)
        if trouble:  # merely damaged: our cordon is still ours, and still on the node
            return kept, _Origin.REPAIRED
        # A Node made anew is schedulable because it is new, and one that our patch never reached
        # was not cordoned by us: the incidents are inherited, the mark is not.
        return msgspec.structs.replace(kept, cordon=None, held=()), _Origin.LEDGER
    if trouble:
        raise trouble
    return record, _Origin.NODE


def _dismiss(ears: _Ears, record: Record, policy: Policy, now: datetime) -> Record:
    for incident in record.open:
        wish = wish_of(incident, ears.view, policy, now, record.cordon)
        if wish.severity < Severity.CORDON:
            continue
        dismissed = msgspec.structs.replace(
            incident,
            state=State.DISMISSED,
            ended=now,
            why="uncordoned by somebody else",
            boot=ears.view.boot_id or incident.boot,
            rebooted=None,  # only a boot after this one lets the check speak again
        )
        record = record.with_incident(dismissed, incident)
        ears.say(
            Action.DISMISS,
            f"somebody else uncordoned the node; {incident.check} keeps quiet until proven "
            f"recovery, a new boot ID, a higher severity or {policy.dismissed.override}",
            incident,
        )
    return msgspec.structs.replace(record, cordon=None)


def _tell_breakers(
    heard: Iterable[_Ears], ledgers: dict[str, Ledger], policy: Policy, now: datetime
) -> None:
    """Count who is accused by which check, before anything is done about it. A machine no longer
    stands accused when none of its incidents says so: taken back, over, or dismissed."""
    by_pool: dict[str, list[_Ears]] = {}
    for ears in heard:
        if ears.view.pool in ledgers and not ears.unreadable:
            by_pool.setdefault(ears.view.pool, []).append(ears)
    for pool, of_pool in by_pool.items():
        found = ledgers[pool]
        accused: dict[str, list[str]] = {name: [] for name in found.checks}
        cleared: dict[str, list[str]] = {name: [] for name in found.checks}
        for ears in of_pool:
            machine = ears.view.machine
            standing = {i.check for i in ears.record.open if i.claimed is None and _counts(i)}
            for name in standing:
                accused.setdefault(name, []).append(machine)
            for name, check in found.checks.items():
                if name not in standing and machine in check.accused:
                    cleared[name].append(machine)
        for name, machines in accused.items():
            check = found.check(name)
            told = breaker.hear(
                check, machines, cleared.get(name, ()), found.size, policy.breaker, now
            )
            if told is not check:
                told = breaker.look(told, found.size, policy.breaker, now)
                found = found.with_check(name, told)
        ledgers[pool] = found


class _Doubt(NamedTuple):
    """A check whose breaker is open."""

    sentence: str
    look_again: datetime


def _doubts(found: Ledger, policy: Policy, now: datetime) -> dict[str, _Doubt]:
    """Once for all nodes: the numbers are counted over thousands of them."""
    doubts: dict[str, _Doubt] = {}
    for name, check in found.checks.items():
        if check.is_open:
            numbers = breaker.numbers(check, found.size, now, policy.breaker)
            closes = breaker.closes_at(check, policy.breaker) or now
            doubts[name] = _Doubt(
                f"circuit breaker: {name} accuses {numbers}",
                max(closes, now + policy.breaker.quiet),
            )
    return doubts


def _counts(incident: Incident) -> bool:
    """Whether many of them at once cast doubt on the check: what a provider announces is its own
    word about its own machines, and what is only watched asks for nothing."""
    return incident.kind is Kind.FAULT and incident.severity > Severity.WATCH


def _settle(ears: _Ears, ledgers: Mapping[str, Ledger], policy: Policy, now: datetime) -> _Ears:
    if ears.unreadable:
        return ears
    found = ledgers.get(ears.view.pool)

    record, due = recovery.settle(
        ears.record,
        ears.view,
        policy,
        now,
        lambda incident: in_doubt(incident, found, policy),
        ears.said,
    )
    if due:
        ears.due.append(due)
    known = {(i.key, i.first) for i in ears.before.incidents}
    for incident in record.incidents:
        if incident.open:
            wish = wish_of(incident, ears.view, policy, now, record.cordon)
            ears.wishes[incident.key] = wish
            if wish.due:
                ears.due.append(wish.due)
            if (incident.key, incident.first) not in known:
                ears.say(Action.OPEN, _opened(incident, wish, now), incident, shadow=wish.shadow)
        elif (
            incident.state is State.CLOSED
            and ears.record.find(incident.source, incident.check, incident.ref) is not incident
        ):
            ears.say(Action.CLOSE, f"{incident.check}: {incident.why}", incident)
        if incident.state is State.DISMISSED:
            ears.due.append((incident.ended or incident.last) + policy.dismissed.override)
    ears.record = record
    return ears


def in_doubt(incident: Incident, found: Ledger | None, policy: Policy) -> bool:
    """Whether the incident was opened while the breaker of its check was open, or about to."""
    check = found.check(incident.check) if found and _counts(incident) else None
    return bool(
        check
        and check.opened
        and check.opened - policy.breaker.within <= incident.first
        and (check.is_open or (check.closed and incident.first <= check.closed))
    )


def _opened(incident: Incident, wish: Wish, now: datetime) -> str:
    words = f"{incident.source} says {incident.check}"
    if incident.reason and incident.reason != incident.check:
        words += f" ({incident.reason})"
    if incident.deadline:
        words += f", due {incident.deadline:%Y-%m-%d %H:%M}Z"
    if wish.severity is Severity.WATCH and incident.severity is not Severity.WATCH and wish.due:
        words += f"; acted on from {wish.due:%Y-%m-%d %H:%M}Z if it lasts"
    return words


def wish_of(
    incident: Incident, view: NodeView, policy: Policy, now: datetime, cordon: Cordon | None = None
) -> Wish:
    """What the incident asks for at ``now``, and when it asks for more.

    ``cordon`` is the node's, if it has one: whoever wrote it may be some seconds ahead of us, and
    what was due by that clock is not undone by ours.
    """
    now = max(now, incident.first, cordon.at if cordon else now)
    words = (incident.source, incident.check, incident.reason, incident.cause.value)
    shadow = policy.shadows(*words, view.pool)
    severity, voluntary, due = incident.severity, True, None
    if incident.kind in (Kind.INTERRUPTION, Kind.TERMINATION):
        voluntary = False
    elif incident.kind is Kind.MAINTENANCE and incident.deadline:
        cordon_at = incident.deadline - policy.maintenance.cordon_before
        drain_at = incident.deadline - policy.maintenance.drain_before
        if incident.first - incident.deadline > LONG_PAST:
            severity = Severity.WATCH
        elif now < cordon_at:
            severity, due = Severity.WATCH, cordon_at
        elif now < drain_at:
            due = drain_at if severity is Severity.EVICT else None
            severity = min(severity, Severity.CORDON, key=lambda s: s.rank)
        else:
            voluntary = False
    else:
        acts_at = incident.first + policy.wait_of(*words)
        taken_back = None if incident.latched else incident.claimed
        if taken_back and max(taken_back, incident.first) < acts_at:
            severity = Severity.WATCH  # it did not last
        elif now < acts_at:
            severity, due = Severity.WATCH, acts_at
    if incident.severity is Severity.WATCH:
        severity, due = Severity.WATCH, None
    return Wish(severity, voluntary, due, shadow)


def _reserve(
    settled: Iterable[_Ears],
    facts: Facts,
    ledgers: dict[str, Ledger],
    policy: Policy,
    now: datetime,
) -> tuple[dict[str, str], Ledger | None]:
    """Places for the nodes that are to be cordoned now: machine -> empty, or what is used up."""
    asking: list[tuple[_Ears, bool]] = []
    for ears in settled:
        found = ledgers.get(ears.view.pool)
        worst, voluntary = _ask(ears, found, facts, policy, now)
        if ears.view.opted_out:
            continue  # nothing will be done about it: it needs no place
        if worst >= Severity.CORDON and not ears.view.unschedulable:
            asking.append((ears, voluntary))
    if not asking:
        return {}, facts.cluster
    places = {ears.view.machine: _place(ears.view, policy) for ears, _ in asking}
    out = list(facts.out)
    for found in ledgers.values():
        out += _places(ledger.live(found, now))
        # Whoever asks is in service as read just now, whatever the last full read found.
        out += (budget.Place(m, found.pool) for m in found.others if m not in places)
    half = _places(ledger.live(facts.cluster, now)) if facts.cluster else []
    forced = [places[e.view.machine] for e, voluntary in asking if not voluntary]
    free = [(e, v) for e, v in asking if v]
    sizes = budget.Sizes(
        cluster=sum(led.size for led in ledgers.values()),
        pools={pool: led.size for pool, led in ledgers.items()},
        domains={d: n for led in ledgers.values() for d, n in led.domains.items()},
    )
    answers = {place.machine: "" for place in forced}
    ready = [e for e, _ in free if _rebuilt(ledgers.get(e.view.pool)) and facts.cluster is not None]
    for ears, _ in free:
        if facts.cluster is None or not _rebuilt(ledgers.get(ears.view.pool)):
            answers[ears.view.machine] = (
                f"the ledger of pool {ears.view.pool} is missing or not rebuilt yet: "
                "the next resync does it"
            )
    ready.sort(key=lambda e: (-_worst(e).rank, min(i.first for i in e.record.open)))
    answers |= budget.allot(
        [places[e.view.machine] for e in ready], [*out, *forced], sizes, policy.budget, half
    )
    cluster = _without_unused(facts.cluster, answers, out)
    marked = {p.machine for p in facts.out}
    made: dict[str, dict[str, Reservation]] = {}
    for ears, _ in asking:
        machine = ears.view.machine
        if answers[machine] or machine in marked:
            continue
        made.setdefault(ears.view.pool, {})[machine] = Reservation(
            node=ears.view.name,
            until=now + policy.budget.reservation,
            pool=ears.view.pool,
            domains=places[machine].domains,
        )
    for pool, reserved in made.items():
        if pool in ledgers:
            ledgers[pool] = _with_reservations(ledgers[pool], reserved, now)
        if cluster is not None:
            cluster = _with_reservations(cluster, reserved, now)
    return answers, cluster


def _with_reservations(found: Ledger, made: Mapping[str, Reservation], now: datetime) -> Ledger:
    return msgspec.structs.replace(found, reservations={**ledger.live(found, now), **made})


def _places(reservations: Mapping[str, Reservation]) -> list[budget.Place]:
    return [budget.Place(machine, r.pool, r.domains) for machine, r in reservations.items()]


def _without_unused(
    cluster: Ledger | None, answers: Mapping[str, str], out: Iterable[budget.Place]
) -> Ledger | None:
    """The cluster's ledger without the places that we took in an earlier try and may not use:
    refused now, and out of service for no other reason."""
    if cluster is None:
        return None
    used = {place.machine for place in out}
    unused = {m for m in cluster.reservations if answers.get(m) and m not in used}
    if not unused:
        return cluster
    kept = {m: r for m, r in cluster.reservations.items() if m not in unused}
    return msgspec.structs.replace(cluster, reservations=kept)


def _ask(
    ears: _Ears, found: Ledger | None, facts: Facts, policy: Policy, now: datetime
) -> tuple[Severity, bool]:
    """The worst that the node's incidents may have now, and whether it is our own choice.

    Fills `_Ears.held` with what keeps us from more.
    """
    worst, voluntary = Severity.WATCH, True
    ears.held = {}
    for incident in ears.record.open:
        wish = ears.wishes.get(incident.key)
        if wish is None or wish.severity is Severity.WATCH:
            continue
        hold = _hold(ears, incident, wish, found, facts, policy, now)
        if hold:
            ears.held[hold[0]] = hold[1]
            if ears.record.cordon:
                # Not being allowed to act is no reason to undo. A pause leaves all as it is; with
                # a check in doubt, or only watched from now on, the eviction stops.
                stands = Severity.CORDON
                if hold[0] == "pause" and ears.view.state == Severity.EVICT.value:
                    stands = Severity.EVICT
                worst = max(worst, stands, key=lambda s: s.rank)
            continue
        voluntary = voluntary and wish.voluntary
        worst = max(worst, wish.severity, key=lambda s: s.rank)
    return worst, voluntary


def _hold(
    ears: _Ears,
    incident: Incident,
    wish: Wish,
    found: Ledger | None,
    facts: Facts,
    policy: Policy,
    now: datetime,
) -> tuple[str, str] | None:
    """What keeps us from acting on that incident, as category and sentence."""
    if paused := facts.paused(ears.view.pool):
        return "pause", paused
    if wish.shadow:
        return "shadow", f"shadow mode for {incident.check}: would {wish.severity.value}"
    if not wish.voluntary or found is None or not _counts(incident):
        return None
    if doubt := ears.doubts.get(incident.check):
        ears.due.append(doubt.look_again)
        return "breaker", doubt.sentence
    check = found.check(incident.check)
    stale = check.closed is not None and incident.first <= check.closed
    if stale and incident.key not in ears.accused and not ears.record.cordon:
        return "stale", f"{incident.check} was said while its breaker was open: not seen since"
    return None


def _judge(
    ears: _Ears,
    allowed: Mapping[str, str],
    facts: Facts,
    ledgers: Mapping[str, Ledger],
    policy: Policy,
    now: datetime,
) -> Verdict:
    view, record = ears.view, ears.record
    if ears.unreadable:
        return _unreadable(ears)
    if view.opted_out:
        return _opted_out(ears)
    worst, _ = _ask(ears, ledgers.get(view.pool), facts, policy, now)
    refused = allowed.get(view.machine, "")
    unschedulable: bool | None = None
    label: bool | None = False if ears.loose_label else None
    if worst >= Severity.CORDON and refused:
        ears.held["budget"] = refused
        ears.due.append(now + policy.budget.reservation)
    elif worst >= Severity.CORDON and record.cordon is None:
        record, unschedulable, label = _cordon(ears, record, worst, now)
    elif worst is Severity.EVICT and view.state == Severity.CORDON.value:
        ears.say(Action.RAISE, _because(ears, Severity.EVICT), _main(ears), severity="evict")
    elif worst < Severity.CORDON and record.cordon:
        record, unschedulable, label = _release(ears, record, policy, now)
    record = incidents.tidy(record, policy, now)
    acted = worst if record.cordon else Severity.WATCH
    state = _state(record, acted, ears.held)
    _say_held(ears, record, now)
    record = _finished(ears, record, now)
    content = _has_content(record)
    changed = (
        unschedulable is not None
        or label is not None
        or state != view.state
        or content != (view.incidents is not None)
        or (content and (record != ears.before or ears.origin is not _Origin.NODE))
    )
    return Verdict(
        view=view,
        record=record,
        state=state,
        changed=changed,
        unschedulable=unschedulable,
        load_balancer_label=label,
        decisions=tuple(ears.decisions),
        look_again=min((d for d in ears.due if d > now), default=None),
    )


def _cordon(
    ears: _Ears, record: Record, worst: Severity, now: datetime
) -> tuple[Record, bool | None, bool | None]:
    view = ears.view
    if view.unschedulable:
        ears.say(
            Action.RAISE if worst is Severity.EVICT else Action.HOLD,
            f"{_because(ears, worst)}; the node was cordoned by somebody else, which stays theirs",
            _main(ears),
            severity=worst.value,
            blocked_by=() if worst is Severity.EVICT else ("cordoned by somebody else",),
        )
        return msgspec.structs.replace(record, cordon=Cordon(at=now, theirs=True)), None, None
    ours = not view.labels.get(EXCLUDE_FROM_LOAD_BALANCERS)
    ears.say(Action.CORDON, _because(ears, worst), _main(ears), severity=worst.value)
    cordon = Cordon(at=now, lb=ours)
    return msgspec.structs.replace(record, cordon=cordon), True, (True if ours else None)


def _release(
    ears: _Ears, record: Record, policy: Policy, now: datetime
) -> tuple[Record, bool | None, bool | None]:
    view, cordon = ears.view, record.cordon
    assert cordon is not None
    if cordon.theirs:
        ears.say(Action.CLOSE, "no incident is left; the cordon is somebody else's and stays")
        return msgspec.structs.replace(record, cordon=None), None, None
    if theirs := claim.on(cordon, view.claim):
        ears.say(
            Action.CLOSE,
            f"no incident is left; the node stays cordoned, {theirs.by} took it out of service "
            f"at {theirs.at:%Y-%m-%d %H:%M}Z (groundcrew uncordon {view.name})",
        )
        without = msgspec.structs.replace(record, cordon=None)
        return without, None, (False if cordon.lb else None)
    recent = [at for at in record.releases if now - at < policy.recovery.releases_within]
    if len(recent) >= policy.recovery.releases:
        ears.held["releases"] = (
            f"released {len(recent)} times within {policy.recovery.releases_within} and sick "
            "again each time: a human releases it (kubectl uncordon)"
        )
        return record, None, None
    why = next((i.why for i in reversed(record.incidents) if i.ended == now), "no incident is left")
    ears.say(Action.UNCORDON, why)
    released = msgspec.structs.replace(record, cordon=None, releases=(*recent, now))
    return released, (False if view.unschedulable else None), (False if cordon.lb else None)


def _unreadable(ears: _Ears) -> Verdict:
    ears.say(
        Action.HOLD,
        f"the incidents annotation cannot be read ({ears.unreadable}); nothing is done until it "
        f"is put right: kubectl annotate node {ears.view.name} groundcrew.dev/incidents-",
        blocked_by=("unreadable annotation",),
    )
    return Verdict(
        ears.view, ears.record, ears.view.state, changed=False, decisions=tuple(ears.decisions)
    )


def _opted_out(ears: _Ears) -> Verdict:
    ears.decisions = []
    if ears.record != ears.before:
        ears.say(
            Action.HOLD,
            "the node is opted out by its label groundcrew.dev/managed=false",
            blocked_by=("opt-out",),
        )
    return Verdict(
        ears.view, ears.before, ears.view.state, changed=False, decisions=tuple(ears.decisions)
    )


def _say_held(ears: _Ears, record: Record, now: datetime) -> None:
    """Told when it begins, not each time that it is looked at again."""
    for category, sentence in ears.held.items():
        if category not in ears.before.held:
            ears.say(
                Action.HOLD,
                sentence,
                _main(ears),
                blocked_by=(category,),
                shadow=category == "shadow",
                look_again=min((d for d in ears.due if d > now), default=None),
            )


def _finished(ears: _Ears, record: Record, now: datetime) -> Record:
    record = msgspec.structs.replace(
        record,
        held=tuple(sorted(ears.held)),
        machine=ears.view.machine,
        gpus=max(record.gpus, ears.view.gpus or 0),
    )
    if _has_content(record) and record != ears.before:
        return msgspec.structs.replace(record, boot=ears.view.boot_id)
    return record


def _has_content(record: Record) -> bool:
    return bool(record.incidents or record.cordon or record.releases or record.extra)


def _state(record: Record, acted: Severity, held: Mapping[str, str]) -> str:
    if not _has_content(record):
        return ""
    if acted >= Severity.CORDON:
        return acted.value
    if held:
        return HELD
    if record.open:
        return Severity.WATCH.value
    if any(i.state is State.DISMISSED for i in record.incidents):
        return DISMISSED
    return RELEASED


def _keep_machines(verdicts: Iterable[Verdict], ledgers: dict[str, Ledger], now: datetime) -> None:
    """The ledgers' copies of what must outlive the nodes, each in its node's pool alone."""
    kept = {pool: dict(found.machines) for pool, found in ledgers.items()}
    for verdict in verdicts:
        view, record = verdict.view, verdict.record
        # What a mad monitor says of thousands, and is not acted on, would push out the rest.
        outlives = bool(record.cordon or record.releases) or (
            "breaker" not in record.held
            and any(
                i.severity > Severity.WATCH for i in record.incidents if i.state is not State.CLOSED
            )
        )
        for pool, machines in kept.items():
            known = machines.get(view.machine)
            if pool == view.pool and outlives:
                text = incidents.encode(record)
                if known is None or known.record != text:
                    machines[view.machine] = Machine(view.name, now, text, view.uid)
            elif known is not None and (not outlives or view.pool in kept):
                # Over; or the node is of another pool now, and remembered there.
                del machines[view.machine]
    for pool, machines in kept.items():
        if machines != ledgers[pool].machines:
            ledgers[pool] = msgspec.structs.replace(ledgers[pool], machines=machines)


def _worst(ears: _Ears) -> Severity:
    return max((w.severity for w in ears.wishes.values()), key=lambda s: s.rank)


def _main(ears: _Ears) -> Incident | None:
    """The incident that the decision is about: the worst, then the oldest."""
    return max(
        ears.record.open,
        key=lambda i: (
            ears.wishes[i.key].severity.rank if i.key in ears.wishes else 0,
            -i.first.timestamp(),
        ),
        default=None,
    )


def _because(ears: _Ears, worst: Severity) -> str:
    main = _main(ears)
    if main is None:
        return worst.value
    words = f"{main.check}" + (f" ({main.reason})" if main.reason not in ("", main.check) else "")
    also = len([w for w in ears.wishes.values() if w.severity >= Severity.CORDON]) - 1
    if also > 0:
        words += f" and {also} more"
    if main.deadline:
        words += f", due {main.deadline:%Y-%m-%d %H:%M}Z"
    asks = "to be emptied" if worst is Severity.EVICT else "to take no new work"
    return f"{main.source} says {words}: {asks}"


def _place(view: NodeView, policy: Policy) -> budget.Place:
    return budget.Place(view.machine, view.pool, domains_of(view, policy))


def is_out(view: NodeView) -> bool:
    """Whether the node is out of service for an incident of ours. One that somebody has just
    uncordoned is not, whatever its label still says: it holds no place for itself."""
    return view.state in ACTED and view.unschedulable


def domains_of(view: NodeView, policy: Policy) -> tuple[str, ...]:
    """``label=value`` of each failure domain of the policy's that the node is in."""
    labels = (domain.label for domain in policy.budget.domains)
    return tuple(f"{key}={view.labels[key]}" for key in labels if view.labels.get(key))


def remembered(ledgers: Mapping[str, Ledger], machine: str) -> Machine | None:
    """What is known of the machine, whichever pool it was in: a label that was put on by hand is
    gone when the Node is made anew."""
    known = [found.machines[machine] for found in ledgers.values() if machine in found.machines]
    return max(known, key=lambda one: one.seen, default=None)


def _rebuilt(found: Ledger | None) -> bool:
    return found is not None and found.rebuilt is not None
