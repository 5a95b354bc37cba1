"""What each of several events that were worked on together is told of what came of it."""

from collections.abc import Iterable, Sequence

from events.notice import Notice
from functions.rules.decision import Decision
from functions.steps.find import Found


def of(
    asked: Sequence[tuple[Notice, ...]], decisions: Iterable[Decision], found: Found
) -> list[tuple[Decision, ...]]:
    """The decisions for each of ``asked``: every one goes to the first that asked for its node,
    and what nobody asked for to the first of all."""
    owner: dict[str, int] = {}
    for place, notices in reversed(list(enumerate(asked))):
        for name in _names(notices, found):
            owner[name] = place
    told: list[list[Decision]] = [[] for _ in asked]
    for decision in decisions:
        told[owner.get(decision.node, 0)].append(decision)
    return [tuple(one) for one in told]


def _names(notices: Sequence[Notice], found: Found) -> set[str]:
    """What decisions about ``notices`` may call their node."""
    mine = {id(notice) for notice in notices}
    names = {name for name, about in found.notices.items() if any(id(n) in mine for n in about)}
    for notice in notices:
        said = notice.identity
        names.add(said.node or said.provider_id or said.instance_id)
    return names
