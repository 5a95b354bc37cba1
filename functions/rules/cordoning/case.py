"""One node on its way through `decide`: what is known, asked for, held back and said so far."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from events.notice import Severity
from functions.rules.cordoning.facts import FUNCTION, NodeFacts
from functions.rules.cordoning.wishes import Wish
from functions.rules.decision import Action, Decision
from functions.rules.incidents import Incident, Record
from functions.rules.node_view import NodeView


class Origin(enum.Enum):
    """Where a node's record was read."""

    NODE = "its annotation"
    LEDGER = "the ledger: the machine is known, the Node says nothing"
    REPAIRED = "the ledger: the annotation is damaged"


class Doubt(NamedTuple):
    """A check whose breaker is open."""

    sentence: str
    look_again: datetime


@dataclass
class Case:
    """One node on its way through `decide`."""

    facts: NodeFacts
    before: Record
    record: Record
    unreadable: str = ""
    origin: Origin = Origin.NODE
    accused: frozenset[str] = frozenset()
    """Keys of the incidents that were accused just now."""
    said: frozenset[str] = frozenset()
    """Keys of those that the node itself, as read just now, speaks of."""
    decisions: list[Decision] = field(default_factory=list)
    wishes: dict[str, Wish] = field(default_factory=dict)
    doubts: Mapping[str, "Doubt"] = field(default_factory=dict)
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


def worst_of(case: Case) -> Severity:
    return max((w.severity for w in case.wishes.values()), key=lambda s: s.rank)


def main_of(case: Case) -> Incident | None:
    """The incident that the decision is about: the worst, then the oldest."""
    return max(
        case.record.open,
        key=lambda i: (
            case.wishes[i.key].severity.rank if i.key in case.wishes else 0,
            -i.first.timestamp(),
        ),
        default=None,
    )
