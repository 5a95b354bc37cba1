"""What `decide` is given and what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from events.notice import Notice, Severity
from functions.rules import budget
from functions.rules.decision import Decision
from functions.rules.incidents import Record
from functions.rules.ledger import Ledger, Machine
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy

FUNCTION = "cordon"


SELF = "kubernetes.node"
"""Source of what a Node says of itself, which can be read at any time."""


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
    remembered: tuple[budget.Place, ...] = ()
    """In place of `out`, where nobody read them: at least those that are out of service, as the
    ledgers remember them."""
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
    asked: bool = False
    """Whether places had to be asked for. Who loses its machine anyway asks for none."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(d for v in self.verdicts for d in v.decisions)


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
