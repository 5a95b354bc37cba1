"""Two books side by side: which times out of service are the same, and what differs."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from infra.local.backtest.book import Book, Outage


class Side(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node under one policy: out of service from ``since`` on, or what was done ``instead``."""

    policy: str
    instead: str = ""
    """Why it was not taken out. Empty when it was; all else is then given."""
    opened: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Absent: it was still out when the history ended."""
    hours: float = 0.0
    severity: str = ""
    drained: datetime | None = None
    evicted: int = 0
    deleted: int = 0
    blocked: str = ""
    ended: str = ""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    history: str
    at: datetime
    """When it began under the policy that was first."""
    node: str
    machine: str
    pool: str
    incident: str
    reason: str
    kinds: tuple[str, ...]
    """``only``: out of service under one policy alone. Else what differs: ``since``, ``until``,
    ``severity``, ``drained``, ``pods``."""
    sides: tuple[Side, Side]


class Compared(msgspec.Struct, frozen=True):
    differences: tuple[Difference, ...]
    same: int
    """Times out of service that are alike under both."""


def compare(
    history: str, names: Sequence[str], books: Sequence[Book], tolerance: timedelta
) -> Compared:
    """``tolerance``: times that are no further apart count as the same."""
    one, other = books
    found: list[Difference] = []
    same = 0
    for left, right in _pairs(one.outages, other.outages, tolerance):
        if all(out is None or out.theirs for out in (left, right)) and not (left and right):
            continue  # one policy marked what others had cordoned, the other left it alone
        kinds = _kinds(left, right, tolerance)
        if not kinds:
            same += 1
            continue
        first = min((out for out in (left, right) if out), key=lambda out: out.since)
        sides = (
            _side(names[0], one, left, first, tolerance),
            _side(names[1], other, right, first, tolerance),
        )
        found.append(
            Difference(
                history=history,
                at=first.since,
                node=first.node,
                machine=first.machine,
                pool=first.pool,
                incident=first.incident,
                reason=first.reason,
                kinds=kinds,
                sides=sides,
            )
        )
    found.sort(key=lambda one: (one.at, one.node, one.incident))
    return Compared(tuple(found), same)


def _pairs(
    one: Sequence[Outage], other: Sequence[Outage], tolerance: timedelta
) -> Iterator[tuple[Outage | None, Outage | None]]:
    """Each outage with its like: of the same machine, for the same incident as it was recorded
    under both; else for whatever reason at the same time."""
    left = list(one)
    by_machine: dict[tuple[str, str], list[Outage]] = {}
    for out in other:
        by_machine.setdefault((out.node, out.machine), []).append(out)
    for alike in (_same_incident, _same_time):
        rest: list[Outage] = []
        for out in left:
            candidates = by_machine.get((out.node, out.machine), [])
            match = _nearest(out, (c for c in candidates if alike(out, c, tolerance)))
            if match is None:
                rest.append(out)
            else:
                candidates.remove(match)
                yield out, match
        left = rest
    yield from ((out, None) for out in left)
    yield from ((None, out) for rest in by_machine.values() for out in rest)


def _nearest(out: Outage, candidates: Iterable[Outage]) -> Outage | None:
    return min(candidates, key=lambda one: abs(one.since - out.since), default=None)


def _same_incident(one: Outage, other: Outage, tolerance: timedelta) -> bool:
    return one.incident == other.incident and abs(one.opened - other.opened) <= tolerance


def _same_time(one: Outage, other: Outage, tolerance: timedelta) -> bool:
    first, second = sorted((one, other), key=lambda out: out.since)
    return first.until is None or second.since <= first.until + tolerance


def _kinds(one: Outage | None, other: Outage | None, tolerance: timedelta) -> tuple[str, ...]:
    if one is None or other is None:
        return ("only",)
    differs = {
        "since": abs(one.since - other.since) > tolerance,
        "until": _apart(one.until, other.until, tolerance),
        "severity": one.severity != other.severity,
        "drained": _apart(one.drained, other.drained, tolerance),
        "pods": (one.evicted, one.deleted) != (other.evicted, other.deleted),
    }
    return tuple(kind for kind, yes in differs.items() if yes)


def _apart(one: datetime | None, other: datetime | None, tolerance: timedelta) -> bool:
    if one is None or other is None:
        return one is not other
    return abs(one - other) > tolerance


def _side(name: str, book: Book, out: Outage | None, first: Outage, tolerance: timedelta) -> Side:
    if out is None:
        return Side(policy=name, instead=book.instead_of(first, tolerance))
    assert book.end is not None, "the book is still open"
    return Side(
        policy=name,
        opened=out.opened,
        since=out.since,
        until=out.until,
        hours=round(out.hours(book.end), 2),
        severity=out.severity,
        drained=out.drained,
        evicted=out.evicted,
        deleted=out.deleted,
        blocked=out.blocked,
        ended=out.ended,
    )
