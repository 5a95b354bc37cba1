"""What a backtest comes to, as one document: what ``-o json`` prints, and what the table and the
page are made of. Fields are added in later versions, and none changes its meaning while ``v`` is 1.

It holds no time and no duration of the computer that made it: the same histories, policies and
version give the same bytes.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from functions.rules import policy as policies
from infra.local.backtest.book import ALL, Book
from infra.local.backtest.compare import Compared, Difference, compare
from infra.local.backtest.sides import Choice, Played

LIMITS = (
    "Events are played as they were recorded. What people and other programs did in answer to "
    "what we did at the time happens again, and what they would have done in answer to either "
    "policy does not.",
    "A machine that was repaired, rebooted or replaced in the recording is so at that time under "
    "both policies, and no other is, however early or late a policy takes it out.",
    "Pods are those of the starting point. They move when a node is emptied, and none comes or "
    "goes by itself; how long they take to stop is a guess of one second, where not recorded.",
    "Our own marks, cordons, pauses and ledgers of the time of the recording are taken off; "
    "evictions that were recorded are not undone.",
)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    nodes_out: int
    """Nodes that were taken out of service at least once."""
    outages: int
    """Times that a node was."""
    drained: int
    """Drains that came to their end and had something to do."""
    pods_evicted: int
    pods_deleted: int
    """Past their budgets, at a deadline of the policy."""
    released: int
    """Cordons of ours that we took off."""
    still_out: int
    """Nodes that were out of service when the history ended."""
    node_hours: dict[str, float]
    """Out of service, by pool; ``all`` is the cluster."""
    most_out: dict[str, int]
    """The most nodes that were out at once, by pool and in all."""
    held: dict[str, int]
    """By what held us back (budget, breaker, shadow, ...): on how many nodes."""
    median_seconds: float | None
    """From the first record of a fault to the cordon, of all times out for a fault: what is
    announced for later is cordoned later. None: no node was cordoned for a fault."""
    slowest_seconds: float | None


class Under(msgspec.Struct, frozen=True, kw_only=True):
    """One policy."""

    name: str
    fingerprint: str | None
    """As ``groundcrew policy check`` says it; null where nobody acts."""
    totals: Totals


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One history."""

    name: str
    kind: str
    """``recorded`` or ``scenario``."""
    start: datetime
    end: datetime
    nodes: int
    events: int
    needed_nothing: int
    refused: int
    ours: int
    failures: int
    notes: tuple[str, ...]
    totals: tuple[Totals, ...]
    """In the order of the policies."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    v: int = 1
    headline: str
    policies: tuple[Under, Under]
    histories: tuple[Past, ...]
    tolerance_seconds: int
    differences: tuple[Difference, ...]
    same: int
    """Times out of service that are alike under both policies."""
    limits: tuple[str, ...] = LIMITS


def document(choices: Sequence[Choice], played: Sequence[Played], tolerance: timedelta) -> Document:
    """``choices`` are two."""
    names = [choice.name for choice in choices]
    compared = [compare(one.name, names, one.books, tolerance) for one in played]
    under = tuple(
        Under(
            name=choice.name,
            fingerprint=policies.fingerprint(choice.policy) if choice.policy else None,
            totals=_totals([one.books[place] for one in played]),
        )
        for place, choice in enumerate(choices)
    )
    first, second = under
    return Document(
        headline=_headline(first, second, sum(one.nodes for one in played), compared),
        policies=(first, second),
        histories=tuple(_past(one) for one in played),
        tolerance_seconds=int(tolerance.total_seconds()),
        differences=tuple(difference for one in compared for difference in one.differences),
        same=sum(one.same for one in compared),
    )


def as_json(made: Document) -> bytes:
    return msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"


def _past(one: Played) -> Past:
    return Past(
        name=one.name,
        kind=one.kind,
        start=one.start,
        end=one.end,
        nodes=one.nodes,
        events=one.events,
        needed_nothing=one.needed_nothing,
        refused=one.refused,
        ours=one.ours,
        failures=one.failures,
        notes=tuple(one.notes),
        totals=tuple(_totals([book]) for book in one.books),
    )


def _totals(books: Sequence[Book]) -> Totals:
    hours: Counter[str] = Counter()
    most: dict[str, int] = {}
    held: Counter[str] = Counter()
    for book in books:
        hours.update(book.hours())
        held.update(book.held())
        for pool, count in book.most_out.items():
            most[pool] = max(most.get(pool, 0), count)
    outages = [out for book in books for out in book.taken_out]
    faults = [out for out in outages if out.kind == "fault"]
    took = [(out.since - out.opened).total_seconds() for out in faults]
    return Totals(
        nodes_out=sum(len(book.nodes_out) for book in books),
        outages=len(outages),
        drained=sum(book.drained for book in books),
        pods_evicted=sum(book.pods_evicted for book in books),
        pods_deleted=sum(book.pods_deleted for book in books),
        released=sum(book.released for book in books),
        still_out=sum(out.until is None for out in outages),
        node_hours={pool: round(hours[pool], 2) for pool in _in_order(hours)},
        most_out={pool: most[pool] for pool in _in_order(most)},
        held=dict(sorted(held.items())),
        median_seconds=statistics.median(took) if took else None,
        slowest_seconds=max(took, default=None),
    )


def _in_order(names: Sequence[str] | dict[str, float] | dict[str, int]) -> list[str]:
    """The cluster first, then the pools by name."""
    return sorted(names, key=lambda name: (name != ALL, name))


def _headline(first: Under, second: Under, nodes: int, compared: Sequence[Compared]) -> str:
    one, other = first.totals, second.totals
    if first.fingerprint is None:
        return (
            f"{second.name} would have taken out {other.nodes_out} of {nodes} nodes, evicted "
            f"{_pods(other)}, and cost {other.node_hours.get(ALL, 0.0):,.1f} node-hours."
        )
    if not any(one.differences for one in compared):
        return f"{first.name} and {second.name} would have done the same."
    pods = (one.pods_evicted + one.pods_deleted, other.pods_evicted + other.pods_deleted)
    hours = (one.node_hours.get(ALL, 0.0), other.node_hours.get(ALL, 0.0))
    return (
        f"{second.name} would have taken out {_instead('nodes', one.nodes_out, other.nodes_out)}, "
        f"evicted {_instead('pods', *pods)}, and cost {_instead('node-hours', *hours)}."
    )


def _instead(noun: str, before: float, after: float) -> str:
    one, other = (f"{n:,.1f}" if isinstance(n, float) else f"{n:,}" for n in (before, after))
    if one == other:
        return f"as many {noun} ({other})"
    return f"{other} {noun.removesuffix('s') if other == '1' else noun} instead of {one}"


def _pods(totals: Totals) -> str:
    count = totals.pods_evicted + totals.pods_deleted
    return f"{count} pod{'' if count == 1 else 's'}"
