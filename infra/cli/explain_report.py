"""What ``groundcrew explain`` says, as data: also the form of ``-o json``."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from events.notice import Notice
from events.sources import kubernetes_node
from functions.gateways.kubernetes import errors, types
from functions.rules import breaker, cordoning, incidents, keys, ledger
from functions.rules.cordoning import Verdict
from functions.rules.decision import Action
from functions.rules.incidents import Incident, Record, State
from functions.rules.ledger import Ledger
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy
from functions.steps import mark, tell
from infra.cli import (
    incident_words,
    live,
    machine,
    replacement_report,
    screen,
    status_report,
)
from infra.cli.connect import Session
from infra.cli.machine import Found, Remembered
from infra.cli.replacement_report import Replacement
from infra.cli.status_report import Drain, Taken

EVENTS_SHOWN = 12


class Story(msgspec.Struct, frozen=True):
    """One incident."""

    source: str
    check: str
    ref: str
    reason: str
    kind: str
    cause: str
    state: str
    severity: str
    severity_from: str
    first: datetime
    last: datetime
    deadline: datetime | None
    evidence: str
    asks_for: str
    ends: str
    ended: datetime | None
    why_ended: str
    quiet_until: datetime | None
    """Dismissed: until when the check is not listened to, unless something new is found."""
    jobs: dict[str, list[str]]
    """Application faults: the jobs that were hit, by GPU."""


class Block(msgspec.Struct, frozen=True):
    what: str
    """``budget``, ``breaker``, ``pause``, ``shadow``, ``opt-out``, ``releases``, ..."""
    why: str


class Told(msgspec.Struct, frozen=True):
    """An Event of ours about the node."""

    at: datetime | None
    reason: str
    message: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    name: str
    found: str
    """``node``, or ``ledger`` when the Node is gone."""
    pool: str
    state: str
    provider_id: str
    boot_id: str = ""
    uid: str = ""
    gpus: int | None = None
    gpus_allocatable: int | None = None
    seen: datetime | None = None
    """From the ledger: when it was written there."""
    cordon: str
    cordoned: datetime | None = None
    taken: Taken | None = None
    """By whom, when a person holds it with our commands."""
    unreadable: str = ""
    """Why our annotation cannot be read."""
    incidents: list[Story]
    blocks: list[Block] = []
    """What keeps groundcrew from doing more."""
    would_do: list[str] = []
    """What would be decided if it were looked at now."""
    next_look: datetime | None = None
    releases: list[datetime]
    releases_allowed: str = ""
    drain: Drain | None = None
    replacement: Replacement | None = None
    """Its clock, its ladder, and every guard before its end."""
    reservation_until: datetime | None = None
    budget: str = ""
    breakers: dict[str, str] = {}
    """By check of an open incident: how many nodes it accuses."""
    waiting: list[str] = []
    """Notices about it that wait for a node to register."""
    other_machines: list[str] = []
    """Other machines that had this name."""
    events: list[Told] = []
    events_missing: str = ""


def make(session: Session, name: str) -> Report:
    found = machine.look_up(session, name)
    now = session.clock.now()
    if found.node is None:
        return _of_the_ledger(session, found, name, now)
    return _of_the_node(session, found, found.node, now)


def _of_the_node(session: Session, found: Found, node: types.Node, now: datetime) -> Report:
    in_force = found.active
    view = mark.view(node, in_force.policy)
    record, unreadable = _record(view)
    marked = tuple(session.cluster.list_nodes(keys.STATE))
    fleet = live.Fleet(in_force, marked, now)
    (verdict,) = live.decide(fleet, [node]).verdicts
    said = {(n.source, n.check, n.ref): n for n in kubernetes_node.notices_of(node)}
    led = in_force.pools.get(view.pool)
    drain = status_report.drain_of(node)
    taken = Taken.of(node, record)
    events, events_missing = _events(session, node.name, node.metadata.uid)
    places = [*in_force.pools.values(), in_force.ledgers.get("", Ledger())]
    recent = [r for r in record.releases if now - r < in_force.policy.recovery.releases_within]
    rule = in_force.policy.recovery
    return Report(
        at=now,
        name=node.name,
        found="node",
        pool=view.pool,
        state=view.state or _unmarked(view, taken),
        provider_id=node.provider_id,
        boot_id=node.boot_id,
        uid=node.metadata.uid,
        gpus=view.gpus,
        gpus_allocatable=view.gpus_allocatable,
        cordon=_cordon(record, view, taken, unreadable=unreadable),
        taken=taken,
        cordoned=record.cordon.at if record.cordon else None,
        unreadable=unreadable,
        incidents=_stories(record, view, in_force.policy, now, led, said),
        blocks=list(_blocks(verdict, view, in_force.paused(view.pool, now))),
        would_do=[
            f"{d.action.value}: {d.reason}"
            for d in verdict.decisions
            if d.action is not Action.HOLD
        ],
        next_look=status_report.next_look(verdict, drain, now),
        releases=list(record.releases),
        releases_allowed=f"{len(recent)} of {rule.releases} within {rule.releases_within}",
        drain=Drain.of(drain) if drain else None,
        replacement=replacement_report.of_node(session, node),
        reservation_until=max(
            (r.until for p in places for m, r in ledger.live(p, now).items() if m == view.machine),
            default=None,
        ),
        budget=_budget(fleet, view.pool),
        breakers=_breakers(record, led, in_force.policy, now),
        waiting=_waiting(found),
        other_machines=[
            f"{m.provider_id}, seen {screen.moment(m.entry.seen)}"
            for m in found.remembered
            if m.provider_id != view.machine
        ],
        events=events,
        events_missing=events_missing,
    )


def _of_the_ledger(session: Session, found: Found, name: str, now: datetime) -> Report:
    policy = found.active.policy
    if not found.remembered:
        return Report(
            at=now, name=name, found="ledger", pool="", state="unknown", provider_id="",
            cordon="no Node of it has registered", incidents=[], releases=[],
            waiting=_waiting(found),
        )  # fmt: skip
    newest, *older = found.remembered
    told = replacement_report.find(found.active, newest.provider_id)
    view = _ghost(newest)
    record, unreadable = _record(view)
    events, events_missing = _events(session, newest.entry.node, newest.entry.uid)
    led = found.active.pools.get(newest.pool, Ledger(pool=newest.pool))
    return Report(
        at=now,
        name=newest.entry.node,
        found="ledger",
        pool=newest.pool,
        state="gone",
        provider_id=newest.provider_id,
        boot_id=record.boot,
        uid=newest.entry.uid,
        seen=newest.entry.seen,
        replacement=replacement_report.of_entry(newest.provider_id, told[1], policy)
        if told
        else None,
        cordon="was cordoned by groundcrew" if record.cordoned_by_us else "",
        cordoned=record.cordon.at if record.cordon else None,
        unreadable=unreadable,
        incidents=_stories(record, view, policy, now, led, {}),
        releases=list(record.releases),
        breakers=_breakers(record, led, policy, now),
        waiting=_waiting(found),
        other_machines=[
            f"{m.provider_id}, node {m.entry.node}, seen {screen.moment(m.entry.seen)}"
            for m in older
        ],
        events=events,
        events_missing=events_missing,
    )


def _ghost(remembered: Remembered) -> NodeView:
    """The node as the rules would see it, of which only the ledger's copy is left."""
    return NodeView(
        name=remembered.entry.node,
        uid=remembered.entry.uid,
        provider_id=remembered.provider_id,
        pool=remembered.pool,
        incidents=remembered.entry.record or None,
    )


def _record(view: NodeView) -> tuple[Record, str]:
    try:
        return incidents.read(view), ""
    except incidents.Unreadable as problem:
        return Record(), str(problem)


def _unmarked(view: NodeView, taken: Taken | None) -> str:
    if not view.unschedulable:
        return "in service"
    return status_report.BY_HAND if taken else status_report.BY_OTHERS


def _cordon(record: Record, view: NodeView, taken: Taken | None, *, unreadable: str) -> str:
    if not view.unschedulable:
        uncordoned = "uncordoned by somebody else since: noted at the next look"
        return uncordoned if record.cordon else "not cordoned"
    if unreadable:
        return "cordoned; whose it is stands in the annotation, which cannot be read"
    if taken and (record.cordon is None or record.cordon.theirs):
        return f"by hand: groundcrew leaves it as it is (groundcrew uncordon {view.name})"
    if record.cordon is None:
        return "cordoned by somebody else: groundcrew leaves it as it is"
    if record.cordon.theirs:
        return "cordoned by somebody else before groundcrew wanted to: stays when this is over"
    if taken:
        return (
            "by groundcrew, and held by hand: stays when this is over "
            f"(groundcrew uncordon {view.name})"
        )
    return "cordoned by groundcrew"


def _stories(
    record: Record,
    view: NodeView,
    policy: Policy,
    now: datetime,
    led: Ledger | None,
    said: Mapping[tuple[str, str, str], Notice],
) -> list[Story]:
    order = {State.OPEN: 0, State.DISMISSED: 1, State.CLOSED: 2}
    every = sorted(record.incidents, key=lambda i: (order[i.state], -i.severity.rank, i.first))
    return [_story(i, view, policy, now, led, said.get((i.source, i.check, i.ref))) for i in every]


def _story(
    incident: Incident,
    view: NodeView,
    policy: Policy,
    now: datetime,
    led: Ledger | None,
    said: Notice | None,
) -> Story:
    dismissed = incident.state is State.DISMISSED
    doubted = cordoning.in_doubt(incident, led, policy)
    return Story(
        source=incident.source,
        check=incident.check,
        ref=incident.ref,
        reason=incident.reason,
        kind=incident.kind.value,
        cause=incident.cause.value,
        state=incident.state.value,
        severity=incident.severity.value,
        severity_from=incident_words.severity_from(incident, said, policy),
        first=incident.first,
        last=incident.last,
        deadline=incident.deadline,
        evidence=incident.evidence,
        asks_for=incident_words.asks_for(incident, view, policy, now),
        ends=incident_words.ends(incident, policy, doubted=doubted, node=view.name),
        ended=incident.ended,
        why_ended=incident.why,
        quiet_until=(incident.ended or incident.last) + policy.dismissed.override
        if dismissed
        else None,
        jobs={gpu: list(jobs) for gpu, jobs in incident.jobs.items()},
    )


def _blocks(verdict: Verdict, view: NodeView, paused: str) -> Iterable[Block]:
    held = status_report.held_by(verdict)
    if view.opted_out:
        held["opt-out"] = f"the label {keys.OPT_OUT}=false keeps groundcrew off the node"
    if paused:
        held["pause"] = paused
    yield from (Block(what, why) for what, why in held.items())


def _budget(fleet: live.Fleet, pool: str) -> str:
    own, every = live.use(fleet, pool), live.use(fleet)
    return (
        f"pool {pool}: {own.used} of {own.limit} out ({own.size} nodes); "
        f"cluster: {every.used} of {every.limit} ({every.size} nodes)"
    )


def _breakers(record: Record, led: Ledger | None, policy: Policy, now: datetime) -> dict[str, str]:
    if led is None:
        return {}
    found = {}
    for incident in record.open:
        check = led.check(incident.check)
        if not check.accused:
            continue
        words = breaker.numbers(check, led.size, now, policy.breaker)
        state = "open" if check.is_open else "closed"
        found[incident.check] = f"{state}; accuses {words}"
    return found


def _waiting(found: Found) -> list[str]:
    return [
        f"{p.notice.source}/{p.notice.check}: no node was there for it; "
        f"kept until {screen.moment(p.until)}"
        for p in found.waiting
    ]


def _events(session: Session, name: str, uid: str) -> tuple[list[Told], str]:
    """Our Events about the node, oldest first."""
    try:
        found = session.cluster.list_events(tell.NAMESPACE, "Node", name)
    except errors.Forbidden:
        return [], f"you may not list Events in namespace {tell.NAMESPACE}"
    # Those of one second in the order in which they were written.
    found.sort(key=lambda e: int(e.metadata.resource_version or 0))
    ours = [
        Told(e.last_timestamp or e.metadata.creation_timestamp, e.reason or "", e.message or "")
        for e in found
        if (e.reporting_component or "").partition("/")[0] == tell.COMPONENT
        and (not uid or e.involved_object.uid in ("", None, uid))
    ]
    ours.sort(key=lambda told: (told.at is not None, told.at))
    return ours[-EVENTS_SHOWN:], ""
