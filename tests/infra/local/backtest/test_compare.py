"""Which times out of service are one and the same, and what differs of those that are."""

from datetime import timedelta
from typing import Any

import pytest

from infra.local.backtest.book import Book, Outage
from infra.local.backtest.compare import Compared, compare
from tests.support.histories import START

FIVE_MINUTES = timedelta(minutes=5)


def out(node: str = "gpu-01", since: float = 60, until: float | None = 120, **more: Any) -> Outage:
    """Minutes after the start."""
    begins = START + timedelta(minutes=since)
    fields: dict[str, Any] = {
        "node": node,
        "machine": f"i-{node}",
        "pool": "gpu",
        "incident": "kubernetes.node/Ready/",
        "reason": "because",
        "kind": "fault",
        "opened": begins,
        "since": begins,
        "severity": "cordon",
        "until": None if until is None else START + timedelta(minutes=until),
    }
    return Outage(**fields | more)


def book(*outages: Outage) -> Book:
    made = Book(START, lambda labels: "gpu")
    made.outages = list(outages)
    made.close(START + timedelta(hours=10))
    return made


def compared(one: Book, other: Book) -> Compared:
    return compare("week", ("a", "b"), (one, other), FIVE_MINUTES)


def kinds(one: Outage, other: Outage) -> tuple[str, ...]:
    found = compared(book(one), book(other)).differences
    return found[0].kinds if found else ()


def test_what_differs_by_less_than_the_tolerance_is_the_same() -> None:
    found = compared(book(out()), book(out(since=64, until=116)))
    assert (found.differences, found.same) == ((), 1)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (out(since=90, opened=START + timedelta(minutes=60)), ("since",)),
        (out(until=200), ("until",)),
        (out(until=None), ("until",)),
        (out(severity="evict"), ("severity",)),
        (out(drained=START + timedelta(minutes=70)), ("drained",)),
        (out(evicted=2), ("pods",)),
        (out(deleted=1), ("pods",)),
    ],
)
def test_each_difference_is_named(other: Outage, expected: tuple[str, ...]) -> None:
    assert kinds(out(), other) == expected


def test_a_node_that_waits_hours_under_one_policy_is_out_for_the_same_incident() -> None:
    opened = START + timedelta(minutes=60)
    assert kinds(out(until=90), out(since=400, until=500, opened=opened)) == ("since", "until")


def test_an_incident_that_was_recorded_a_little_later_is_the_same() -> None:
    opened = START + timedelta(minutes=62)
    assert kinds(out(until=61), out(since=400, until=500, opened=opened)) == ("since", "until")
    opened = START + timedelta(minutes=70)
    assert kinds(out(until=61), out(since=400, until=500, opened=opened)) == ("only",)


def test_another_incident_of_the_same_time_is_the_same_time_out() -> None:
    found = compared(book(out(until=None)), book(out(incident="alertmanager/Hot/", since=70)))
    assert [one.kinds for one in found.differences] == [("since", "until")]


def test_another_machine_or_another_time_is_not_the_same() -> None:
    other = out(machine="i-another")
    later = out(since=300, until=310)
    for one in (other, later):
        found = compared(book(out()), book(one)).differences
        assert [difference.kinds for difference in found] == [("only",), ("only",)]


def test_of_several_the_nearest_of_the_incident_is_taken() -> None:
    opened = START + timedelta(minutes=60)
    again = [out(), out(since=63, until=66, opened=opened)]
    found = compared(book(*again), book(out(), again[1]))
    assert (found.differences, found.same) == ((), 2)


def test_differences_stand_in_the_order_of_time_and_name_both_sides() -> None:
    found = compared(book(out("gpu-02", 90), out("gpu-01", 90)), book(out("gpu-03", 60)))
    assert [(d.node, d.at) for d in found.differences] == [
        ("gpu-03", START + timedelta(minutes=60)),
        ("gpu-01", START + timedelta(minutes=90)),
        ("gpu-02", START + timedelta(minutes=90)),
    ]
    first = found.differences[0]
    assert [side.policy for side in first.sides] == ["a", "b"]
    assert first.sides[0].instead == "no such incident"
    assert (first.sides[1].instead, first.sides[1].hours) == ("", 1.0)
