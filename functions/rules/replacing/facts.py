"""What `decide` is given and what it gives back."""

import enum
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from functions.rules.decision import Decision
from functions.rules.drain_state import DrainState
from functions.rules.incidents import Record
from functions.rules.ledger import Ledger
from functions.rules.node_view import NodeView
from functions.rules.replacing.book import Book, End, Entry, Phase

FUNCTION = "replace"

TICK = timedelta(minutes=1)
"""How often the clock wakes replace (infra/knative/pings.yaml)."""


class Guard(enum.StrEnum):
    """What must hold before a machine is rebooted or ends. `explain` shows each."""

    NODE = "node"
    """A Node stands for it, and only one."""
    CORDONED = "cordoned"
    """Out of service by our mark, and not by a person's word."""
    OPT_OUT = "opt-out"
    FAULT = "fault"
    """It is accused, now."""
    EVIDENCE = "evidence"
    """The accusation is confirmed; at the limit: it is not a stale one."""
    LADDER = "ladder"
    """The rungs before are behind it."""
    TIME = "time"
    """The settle time is over, or the seven days are gone."""
    WORK = "work"
    """No workload is left, or the seven days are gone."""
    VOLUMES = "volumes"
    """No volume is attached, or the seven days are gone."""
    BREAKER = "breaker"
    PAUSE = "pause"
    HOLD = "hold"
    """Nobody has asked to leave this machine alone."""
    SHADOW = "shadow"
    RESERVED = "reserved"
    REBOOTS = "reboots"
    """It was not rebooted too often."""
    CAPS = "caps"
    COLLECTED = "collected"
    """The evidence on it was collected, or the time for that is over."""
    MEMORY = "memory"
    """What was done before is known, and the clocks agree."""
    LOOKED = "looked"
    """cordon has read the fleet lately, so that a recovery would have been seen."""
    CLOUD = "cloud"
    """The cloud knows the machine as ours, and running."""


@dataclass(frozen=True)
class Verdict:
    """One guard, at this moment."""

    guard: Guard
    passed: bool
    says: str


class Seen(enum.StrEnum):
    """What the cloud says of a machine."""

    RUNNING = "running"
    ENDING = "ending"
    GONE = "gone"
    STOPPED = "stopped"
    """It is there, does not run, and may be started again."""
    UNKNOWN = "unknown"
    """It knows no such machine in this account and region, or does not answer."""


@dataclass(frozen=True)
class Closer:
    """What is read only of a machine that all else speaks for."""

    pods: tuple[str, ...] = ()
    """Workload that is left, ``namespace/name``."""
    volumes: tuple[str, ...] = ()
    """What is still attached."""
    twins: tuple[str, ...] = ()
    """Other Nodes with the same provider ID."""
    seen: Seen = Seen.UNKNOWN
    says: str = ""
    """The cloud's words, or why it has none."""
    way: str = ""
    spares: tuple[str, ...] = ()
    """Idle nodes of its pool that stand in for it, where its capacity is reserved."""
    beside: tuple[str, ...] = ()
    """Who else repairs nodes in this cluster, by the policy's names (``replace.beside``)."""
    host: str = ""
    account: str = ""
    protected: str = ""
    """Why the cloud would refuse to end it."""
    others: str = ""
    """Who mends or replaces it without us, by the word of who owns it."""
    reserved: str = ""
    """Why its capacity may not come back, by the cloud's word."""


@dataclass(frozen=True, kw_only=True)
class MachineFacts:
    """One machine: its Node as read just now, and what is remembered of it."""

    machine: str
    """Provider ID."""
    pool: str
    view: NodeView | None = None
    """None: no Node stands for it."""
    record: Record | None = None
    """Its incidents as cordon's rules see them now. None: they cannot be read."""
    state: str = ""
    """What cordon's rules make of the node now: ``cordon``, ``evict``, or that it is given back."""
    drain: DrainState | None = None
    entry: Entry | None = None
    ready: bool = True
    hold: str = ""
    """Why a person wants this machine left alone."""
    approved: bool = False
    """A person has agreed to its end."""
    reserved: str = ""
    """Why its capacity may not come back, by what its Node shows."""
    others: tuple[str, ...] = ()
    """Who else acts on this node, as it shows, by the policy's names (``replace.beside``)."""
    owner: str = ""
    """Who makes its machines, where its Node shows that: ``karpenter``, ``cluster-api``."""
    leaving: str = ""
    """Who is ending it already, by what its Node shows."""
    gpus: tuple[str, ...] = ()
    host: str = ""
    """The physical one, where something says it."""
    known_as: str = ""
    """Of one that was known by its Node's UID: the provider ID that this Node has got since."""
    closer: Closer | None = None


@dataclass(frozen=True, kw_only=True)
class Joined:
    """A Node that may be a replacement."""

    node: str
    machine: str
    pool: str
    created: datetime
    waits_for: str = ""
    """Why it does not serve yet; empty: it does."""
    gpus: tuple[str, ...] = ()
    host: str = ""
    marked: bool = False
    """It carries our mark already."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    machines: tuple[MachineFacts, ...]
    books: Mapping[str, Book]
    """By pool; ``""`` is the cluster's. What is missing cannot be acted on."""
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)
    """cordon's, by pool."""
    cluster: Ledger | None = None
    joined: tuple[Joined, ...] | None = None
    """All nodes, where they were read; None where they were not."""
    paused: Callable[[str], str] = lambda pool: ""
    collects: bool = False
    """There is a template of a Job that collects evidence."""
    trouble: Mapping[str, str] = field(default_factory=dict)
    """By pool, why its book cannot be read."""

    @functools.cached_property
    def ends(self) -> Mapping[str, End]:
        """Ends of machines, by what the pools' books remember of each: the cluster's book may have
        been lost since."""
        return {
            machine: End(at=entry.intent.at, pool=pool)
            for pool, book in self.books.items()
            for machine, entry in book.machines.items()
            if entry.intent
            and entry.intent.rung == "replace"
            and (entry.phase is Phase.ENDING or entry.ended)
        }


class Act(enum.StrEnum):
    NONE = "none"
    LOOK_CLOSER = "look closer"
    """All else speaks for it: read pods, volumes and the cloud, and decide again."""
    LOOK_AT_CLOUD = "look at the cloud"
    """Nothing is asked: only whether the machine is there."""
    RESET = "reset"
    REBOOT = "reboot"
    TERMINATE = "terminate"
    COLLECT = "collect"
    """Begin, or look at, the Job that collects evidence."""
    WITHDRAW = "withdraw"
    """An intent of which nothing came: it no longer holds."""
    RELEASE = "release"
    """The machine is gone: let go what holds its volumes."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What becomes of one machine."""

    facts: MachineFacts
    entry: Entry | None
    """As it is to be written; None: nothing is to be remembered."""
    act: Act = Act.NONE
    guards: tuple[Verdict, ...] = ()
    """For the rung that is next."""
    rung: str = ""
    """That is next; empty: none."""
    decisions: tuple[Decision, ...] = ()
    answer: tuple[str, Mapping[str, object]] | None = None
    """Type of the answer that this is worth, and what it says of the node."""
    look_again: datetime | None = None

    @property
    def changed(self) -> bool:
        return self.entry != self.facts.entry

    @property
    def holding(self) -> tuple[str, ...]:
        return tuple(v.guard.value for v in self.guards if not v.passed)
