"""The document in words: the rows of its summary, and its differences with those that say the
same put together. What the terminal and the page show."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from infra.local.backtest.book import ALL
from infra.local.backtest.compare import Difference, Side
from infra.local.backtest.document import Document, Totals
from infra.local.summary import span

TOGETHER = timedelta(hours=1)
"""Differences that say the same and begin no further apart are one line."""


class Row(NamedTuple):
    title: str
    one: str
    other: str
    difference: str
    """Empty where there is none."""
    part: bool = False
    """Of the row above it."""


class Line(NamedTuple):
    """Differences that say the same."""

    history: str
    at: datetime
    nodes: tuple[str, ...]
    pool: str
    what: str
    """``out under A alone``, ``empty 4 h later under B``."""
    why: str
    """What the incident said."""
    sides: tuple[str, str]
    """What happened under each."""
    differences: tuple[Difference, ...]


def summary(made: Document) -> list[Row]:
    one, other = (under.totals for under in made.policies)
    rows = [
        _count("nodes taken out", one.nodes_out, other.nodes_out),
        _count("times out", one.outages, other.outages),
        _count("nodes emptied", one.drained, other.drained),
        _count("pods evicted", one.pods_evicted, other.pods_evicted),
    ]
    if one.pods_deleted or other.pods_deleted:
        rows.append(_count("pods deleted at a deadline", one.pods_deleted, other.pods_deleted))
    rows += _by_pool(one, other)
    rows += [
        _count("most out at once", one.most_out.get(ALL, 0), other.most_out.get(ALL, 0)),
        _count("given back", one.released, other.released),
        _count("still out at the end", one.still_out, other.still_out),
        _time("fault to cordon, median", one.median_seconds, other.median_seconds),
        _time("fault to cordon, slowest", one.slowest_seconds, other.slowest_seconds),
    ]
    for name in sorted(one.held.keys() | other.held.keys()):
        rows.append(_count(f"held back: {name}", one.held.get(name, 0), other.held.get(name, 0)))
    return rows


def lines(made: Document) -> list[Line]:
    groups: list[list[Difference]] = []
    open_groups: dict[tuple[str, ...], list[Difference]] = {}
    for one in made.differences:
        key = _key(one)
        group = open_groups.get(key)
        if group is None or one.at - group[-1].at > TOGETHER:
            group = open_groups[key] = []
            groups.append(group)
        group.append(one)
    return [_line(group) for group in groups]


def _by_pool(one: Totals, other: Totals) -> Iterator[Row]:
    for pool in dict.fromkeys((*one.node_hours, *other.node_hours)):
        hours = (one.node_hours.get(pool, 0.0), other.node_hours.get(pool, 0.0))
        part = pool != ALL
        if part and not any(hours):
            continue
        differs = f"{hours[1] - hours[0]:+,.1f}" if hours[0] != hours[1] else ""
        title = pool if part else "node-hours out of service"
        yield Row(title, f"{hours[0]:,.1f}", f"{hours[1]:,.1f}", differs, part)


def _count(title: str, one: int, other: int) -> Row:
    return Row(title, f"{one:,}", f"{other:,}", f"{other - one:+,}" if one != other else "")


def _time(title: str, one: float | None, other: float | None) -> Row:
    difference = ""
    if one is not None and other is not None and one != other:
        sign = "+" if other > one else "-"
        difference = sign + span(timedelta(seconds=abs(other - one)))
    return Row(title, _span_or_none(one), _span_or_none(other), difference)


def _span_or_none(seconds: float | None) -> str:
    return "-" if seconds is None else span(timedelta(seconds=seconds))


def _line(group: list[Difference]) -> Line:
    first = group[0]
    return Line(
        history=first.history,
        at=first.at,
        nodes=tuple(dict.fromkeys(difference.node for difference in group)),
        pool=first.pool,
        what=_what(first),
        why=first.reason or first.incident,
        sides=(_told([one.sides[0] for one in group]), _told([one.sides[1] for one in group])),
        differences=tuple(group),
    )


def _key(one: Difference) -> tuple[str, ...]:
    """What differences have in common that are one line."""
    sides = (
        side.instead.partition(":")[0]
        if side.instead
        else f"{side.severity} {bool(side.until)} {bool(side.drained)} {bool(side.blocked)}"
        for side in one.sides
    )
    return (one.history, one.pool, one.incident, *one.kinds, *sides)


def _what(one: Difference) -> str:
    left, right = one.sides
    if one.kinds == ("only",):
        return f"out under {right.policy if left.instead else left.policy} alone"
    implied = {"pods", "drained"} if "severity" in one.kinds else {"pods"}
    kinds = [kind for kind in one.kinds if kind not in implied] or ["pods"]
    return ", ".join(_kind(kind, left, right) for kind in kinds)


def _told(sides: list[Side]) -> str:
    """What happened under one policy to the nodes of one line."""
    first = sides[0]
    if first.instead:
        # Its numbers count up from node to node: those of the first are as good as any.
        return first.instead
    words = ["to be emptied" if first.severity == "evict" else "no new work"]
    if pods := sum(side.evicted + side.deleted for side in sides):
        words.append(f"{_plural(pods, 'pod')} moved")
    if first.blocked:
        words.append("the drain is blocked")
    hours = sum(side.hours for side in sides)
    words.append(f"{hours:,.1f} node-hours" + ("" if first.until else ", and still out"))
    return ", ".join(words)


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _kind(kind: str, one: Side, other: Side) -> str:
    if kind == "since":
        return f"taken out {_later(one.since, other.since)} under {other.policy}"
    if kind == "until":
        if other.until is None:
            return f"not given back under {other.policy}"
        if one.until is None:
            return f"not given back under {one.policy}"
        return f"given back {_later(one.until, other.until)} under {other.policy}"
    if kind == "severity":
        side = one if one.severity == "evict" else other
        return f"to be emptied under {side.policy} alone"
    if kind == "drained":
        if one.drained is None or other.drained is None:
            side = other if one.drained is None else one
            return f"empty under {side.policy} alone"
        return f"empty {_later(one.drained, other.drained)} under {other.policy}"
    pods = (one.evicted + one.deleted, other.evicted + other.deleted)
    return f"{_plural(pods[1], 'pod')} moved under {other.policy}, {pods[0]} under {one.policy}"


def _later(one: datetime | None, other: datetime | None) -> str:
    assert one is not None
    assert other is not None
    word = "later" if other > one else "earlier"
    return f"{span(abs(other - one))} {word}"
