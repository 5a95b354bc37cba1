"""What each of several events that were worked on together is told of what came of it."""

from collections.abc import Iterable, Mapping, Sequence

from events.notice import Notice
from functions.gateways.kubernetes import errors
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


def problem_of(
    notices: Sequence[Notice],
    failed: Mapping[str, errors.KubernetesError],
    lost: Iterable[Notice],
    found: Found,
) -> errors.KubernetesError | None:
    """What went wrong with ``notices``, of those that were asked for together: their node, by name
    in ``failed``, could not be written, or they are among those ``lost``."""
    mine = {id(notice) for notice in notices}
    for name, problem in failed.items():
        if any(id(notice) in mine for notice in found.notices.get(name, ())):
            return problem
    left = sum(id(notice) in mine for notice in lost)
    if not left:
        return None
    return errors.Contended(
        f"neither done nor kept for later ({left} of {len(notices)} notices): others write the "
        "ledgers all the time, or too many notices wait already"
    )


def _names(notices: Sequence[Notice], found: Found) -> set[str]:
    """What decisions about ``notices`` may call their node."""
    mine = {id(notice) for notice in notices}
    names = {name for name, about in found.notices.items() if any(id(n) in mine for n in about)}
    for notice in notices:
        said = notice.identity
        names.add(said.node or said.provider_id or said.instance_id)
    return names
