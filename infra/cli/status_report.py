"""What ``groundcrew status`` says, as data: also the form of ``-o json``."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from functions.cordon import FULL_READ
from functions.gateways.kubernetes import types
from functions.rules import breaker, claim, drain_state, draining, incidents, keys, policy
from functions.rules.cordoning import Verdict
from functions.rules.decision import Action
from functions.rules.drain_state import DrainState, State
from functions.rules.drain_times import Looks
from functions.rules.incidents import Incident, Record
from functions.rules.pause import CLUSTER as WHOLE_CLUSTER
from functions.rules.replacing.book import KEY as BOOK
from functions.steps import mark
from functions.steps.active import CLUSTER, ledger_name
from functions.steps.replacing import note
from functions.steps.replacing.crew import books
from infra.cli import live, pausing, shadow_report
from infra.cli.live import Fleet
from infra.cli.shadow_report import WouldHaveEnded

STALE = 3 * FULL_READ
"""A ledger older than this was missed by two resyncs in a row."""
BY_HAND, BY_OTHERS = "by hand", "by others"


class Breaker(msgspec.Struct, frozen=True):
    check: str
    opened: datetime
    numbers: str
    closes: datetime | None
    """The earliest time at which it may close by itself."""


class Pool(msgspec.Struct, frozen=True):
    name: str
    nodes: int
    out: int
    """Out of service by us."""
    others: int
    reserved: int
    limit: int
    """The budget: how many nodes may be out at once."""
    breakers: list[Breaker]

    @property
    def used(self) -> int:
        return self.out + self.others + self.reserved


class Pause(msgspec.Struct, frozen=True):
    what: str
    until: datetime
    reason: str
    by: str


class Drain(msgspec.Struct, frozen=True):
    state: str
    started: datetime
    evicted: int
    blocked_by: tuple[str, ...]
    deadline: datetime | None

    @classmethod
    def of(cls, drain: DrainState) -> "Drain":
        return cls(
            drain.state.value, drain.started, drain.evicted, drain.blocked_by, drain.deadline
        )


class Machine(msgspec.Struct, frozen=True):
    """As replace has noted it on the node."""

    phase: str
    began: datetime | None
    due: datetime | None
    """When the seven days end."""
    tried: tuple[str, ...]
    would: tuple[str, ...]
    """Rungs that would have been taken, where it is only told."""
    holding: tuple[str, ...]
    """The guards that hold, once its rung is due."""
    beside: tuple[str, ...]
    """Who else repairs nodes here."""

    @classmethod
    def of(cls, node: types.Node) -> "Machine | None":
        found = note.read(node)
        if found is None:
            return None
        return cls(
            phase=found.phase,
            began=found.began,
            due=found.due,
            tried=found.tried,
            would=found.would,
            holding=found.holding,
            beside=found.beside,
        )


class Taken(msgspec.Struct, frozen=True):
    """A person has taken the node out of service with our commands, and gives it back."""

    by: str
    at: datetime
    reason: str

    @classmethod
    def of(cls, node: types.Node, record: Record) -> "Taken | None":
        text = node.metadata.annotation(keys.CORDONED_BY)
        found = claim.standing(record.cordon, text, unschedulable=node.unschedulable)
        return cls(found.by, found.at, found.reason) if found else None


class Node(msgspec.Struct, frozen=True):
    name: str
    pool: str
    state: str
    """The state label: ``evict``, ``cordon``, ``held``, ``watch``, ``dismissed``, ``released``;
    or that a person did, by hand or in another way."""
    since: datetime | None
    """When it was cordoned; else our first sight of the worst incident."""
    incident: str
    """The worst incident that is open (or dismissed): source and check."""
    reason: str
    more_incidents: int
    theirs: bool
    """Somebody else had cordoned it before."""
    held_by: dict[str, str]
    """What keeps us from acting: ``budget``, ``breaker``, ``pause``, ... and a sentence."""
    drain: Drain | None
    machine: Machine | None
    """Its seven-day clock and its rung; None: none runs."""
    next_look: datetime | None
    """When there is something to decide anew; None: whenever something is said or seen."""
    taken: Taken | None


class Policy(msgspec.Struct, frozen=True):
    hash: str
    author: str
    """Empty: the defaults."""


class Report(msgspec.Struct, frozen=True):
    at: datetime
    namespace: str
    policy: Policy
    trouble: list[str]
    """What is not as it should be about groundcrew itself."""
    pauses: list[Pause]
    cluster: Pool
    pools: list[Pool]
    ledger_rebuilt: datetime | None
    """The oldest of all ledgers."""
    nodes: list[Node]
    would_have_ended: list[WouldHaveEnded]
    """In the last 30 days, in pools where replace only tells."""


def make(fleet: Fleet, namespace: str, *, everything: bool) -> Report:
    in_force, now = fleet.active, fleet.now
    # A pool without a ledger is new: the next full read makes it.
    rebuilt = min((led.rebuilt for led in in_force.ledgers.values() if led.rebuilt), default=None)
    pools = [_pool(fleet, name) for name in sorted(in_force.pools)]
    return Report(
        at=now,
        namespace=namespace,
        policy=Policy(policy.fingerprint(in_force.policy), in_force.author),
        trouble=list(_trouble(fleet, namespace, rebuilt)),
        pauses=[
            Pause(pausing.where(name), pause.until, pause.reason, pause.by)
            for name, pause in sorted(in_force.pauses.items(), key=lambda p: p[0] != WHOLE_CLUSTER)
            if pause.until > now
        ],
        cluster=_pool(fleet, ""),
        pools=pools,
        ledger_rebuilt=rebuilt,
        nodes=sorted(_nodes(fleet, everything=everything), key=_gravest_first),
        would_have_ended=shadow_report.make(in_force),
    )


def _trouble(fleet: Fleet, namespace: str, rebuilt: datetime | None) -> Iterable[str]:
    if fleet.active.trouble:
        yield f"{fleet.active.trouble}; until then nothing but recoveries is done"
    if CLUSTER not in fleet.active.ledgers:
        yield (
            f"no ledger in namespace {namespace}: groundcrew has not run there yet (another one "
            "is named with --namespace), or it cannot be read; nodes are cordoned once the next "
            "resync has written it"
        )
    elif rebuilt is None or fleet.now - rebuilt > STALE:
        age = (
            f"was last rebuilt {_words(fleet.now - rebuilt)} ago"
            if rebuilt
            else "was never rebuilt"
        )
        yield (
            f"the ledger {age}, not within {_words(STALE)}: is the resync running? "
            f"kubectl -n {namespace} get pods"
        )
    for pool, why in sorted(books(fleet.active)[1].items()):
        yield (
            f"the book of {f'pool {pool}' if pool else 'the cluster'} cannot be read ({why}): none "
            "of its machines is rebooted or ended, and what would have ended there is not listed; "
            f"delete the key `{BOOK}` of ConfigMap {ledger_name(pool)}"
        )


def _words(length: timedelta) -> str:
    from infra.cli.screen import span

    return span(length)


def _pool(fleet: Fleet, name: str) -> Pool:
    used = live.use(fleet, name)
    rule, found = fleet.active.policy.breaker, fleet.active.pools.get(name)
    breakers = [
        Breaker(
            check_name,
            check.opened,
            breaker.numbers(check, found.size, fleet.now, rule),
            breaker.closes_at(check, rule),
        )
        for check_name, check in sorted(found.checks.items() if found else ())
        if check.is_open and check.opened and found
    ]
    return Pool(name, used.size, used.ours, used.others, used.reserved, used.limit, breakers)


def _nodes(fleet: Fleet, *, everything: bool) -> Iterable[Node]:
    marked = [node for node in fleet.nodes if node.metadata.label(keys.STATE)]
    verdicts = live.decide(fleet, marked).verdicts
    for node, verdict in zip(marked, verdicts, strict=True):
        yield _node(node, verdict, fleet.now)
    if everything:
        for node in fleet.nodes:
            if node.unschedulable and not node.metadata.label(keys.STATE):
                yield _unmarked(node, mark.view(node, fleet.active.policy).pool)


def _unmarked(node: types.Node, pool: str) -> Node:
    """Cordoned, and not by us."""
    taken = Taken.of(node, Record())
    return Node(
        name=node.name,
        pool=pool,
        state=BY_HAND if taken else BY_OTHERS,
        since=taken.at if taken else None,
        incident="",
        reason="",
        more_incidents=0,
        theirs=True,
        held_by={},
        drain=None,
        machine=None,
        next_look=None,
        taken=taken,
    )


def _node(node: types.Node, verdict: Verdict, now: datetime) -> Node:
    try:
        # As it is written, not as it would be after the next look.
        record = incidents.read(verdict.view)
    except incidents.Unreadable:
        record = Record()
    standing = [i for i in record.incidents if i.state is not incidents.State.CLOSED]
    worst = max(
        standing, key=lambda i: (i.open, i.severity.rank, -i.first.timestamp()), default=None
    )
    since = record.cordon.at if record.cordon else worst.first if worst else None
    drain = drain_of(node)
    return Node(
        name=node.name,
        pool=verdict.view.pool,
        state=node.metadata.label(keys.STATE),
        since=since,
        incident=_named(worst),
        reason=worst.reason if worst and worst.reason != worst.check else "",
        more_incidents=max(0, len([i for i in standing if i.open]) - 1),
        theirs=bool(record.cordon and record.cordon.theirs),
        held_by=held_by(verdict),
        drain=Drain.of(drain) if drain else None,
        machine=Machine.of(node),
        next_look=next_look(verdict, drain, now),
        taken=Taken.of(node, record),
    )


def held_by(verdict: Verdict) -> dict[str, str]:
    return {d.blocked_by[0]: d.reason for d in verdict.decisions if d.action is Action.HOLD}


def next_look(verdict: Verdict, drain: DrainState | None, now: datetime) -> datetime | None:
    """When cordon or drain looks at the node next."""
    looks = [verdict.look_again]
    if drain and drain.state is not State.STOPPED and not draining.refusal(verdict.view):
        # What drain wrote down is from its last change: it looks on while nothing changes.
        looks += [drain.look_again, Looks.of(drain, verdict.view).next(now)]
    return min((at for at in looks if at and at > now), default=None)


def drain_of(node: types.Node) -> DrainState | None:
    """The drain of this boot of this machine, if there is one and it can be read."""
    text = node.metadata.annotation(keys.DRAIN)
    if text is None:
        return None
    try:
        found = drain_state.decode(text)
    except drain_state.Unreadable:
        return None
    this = found.belongs_to(provider_id=node.provider_id, uid=node.metadata.uid, boot=node.boot_id)
    return found if this else None


def _named(incident: Incident | None) -> str:
    return f"{incident.check} ({incident.source})" if incident else ""


_ORDER = (
    "evict",
    "cordon",
    "held",
    "watch",
    BY_HAND,
    BY_OTHERS,
    "dismissed",
    "returning",
    "released",
)


def _gravest_first(node: Node) -> tuple[int, str, str]:
    place = _ORDER.index(node.state) if node.state in _ORDER else len(_ORDER)
    return place, node.pool, node.name
