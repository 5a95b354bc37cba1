"""What each of several events that were worked on together is told of what came of it."""

from collections.abc import Sequence
from dataclasses import replace

from events.notice import Notice
from functions.edge.context import Outcome
from functions.rules.decision import Decision
from functions.steps.find import Found

TOGETHER = "done together with the event of another call"


def of(asked: Sequence[tuple[Notice, ...]], whole: Outcome, found: Found) -> list[Outcome]:
    """One outcome for each of ``asked``. Every decision goes to the first that asked for its
    node; the answer, the requests and what nobody asked for go to the first of all."""
    if len(asked) == 1:
        return [whole]
    owner: dict[str, int] = {}
    for place, notices in reversed(list(enumerate(asked))):
        for name in _names(notices, found):
            owner[name] = place
    told: list[list[Decision]] = [[] for _ in asked]
    for decision in whole.decisions:
        told[owner.get(decision.node, 0)].append(decision)
    first = replace(whole, decisions=tuple(told[0]))
    rest = [
        Outcome(decisions=tuple(decisions), declined="" if decisions else TOGETHER)
        for decisions in told[1:]
    ]
    return [first, *rest]


def _names(notices: Sequence[Notice], found: Found) -> set[str]:
    """What decisions about ``notices`` may call their node."""
    mine = {id(notice) for notice in notices}
    names = {name for name, about in found.notices.items() if any(id(n) in mine for n in about)}
    for notice in notices:
        said = notice.identity
        names.add(said.node or said.provider_id or said.instance_id)
    return names
