"""What an adversary, a crash or a clock tries: none of it may end or reboot the wrong machine."""

from datetime import timedelta

import pytest

from events.notice import Cause, Severity
from functions.rules import incidents, policy
from functions.rules.incidents import Record
from functions.rules.replacing import clock, intend
from functions.rules.replacing.book import Entry
from tests.support import facts as facts_support
from tests.support.facts import NOW, node
from tests.support.sick import (
    DAY,
    HOUR,
    MACHINE,
    changed,
    entry,
    incident,
    machine,
    record,
)

MARKED = {"unschedulable": True, "state": "evict", "incidents": "{}"}
MINUTE = timedelta(minutes=1)


def ending(**more: object) -> Entry:
    tried = entry(tried=("reboot",), boots=(NOW - 2 * HOUR,))
    made = intend(machine(), tried, "replace", "token", "why", NOW - 3 * MINUTE)
    return changed(made, intent=changed(made.intent, **more))  # type: ignore[no-any-return]


# the clock


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"severity": Severity.WATCH}, {"severity": Severity.EVICT}),
        ({"severity": Severity.WATCH}, {"severity": Severity.CORDON}),
        (
            {"severity": Severity.CORDON, "cause": Cause.SOFTWARE},
            {"severity": Severity.EVICT, "cause": Cause.HARDWARE},
        ),
    ],
)
def test_what_was_harmless_for_a_week_has_its_seven_days_from_when_it_was_not(
    before: dict[str, object], after: dict[str, object]
) -> None:
    rules = policy.default()
    empty = Record(machine=MACHINE)
    watched = incidents.hear(empty, node(), [facts_support.notice(**before)], rules, NOW)
    assert clock.faults(watched) == ()
    raised = incidents.hear(watched, node(), [facts_support.notice(**after)], rules, NOW + 8 * DAY)
    found = clock.faults(raised)
    assert clock.began(found, None) == NOW + 8 * DAY
    worse = incidents.hear(
        raised, node(), [facts_support.notice(severity=Severity.EVICT)], rules, NOW + 9 * DAY
    )
    assert clock.began(clock.faults(worse), None) == NOW + 8 * DAY


def test_an_application_fault_that_is_the_gpus_after_all_has_its_days_from_then() -> None:
    rules, found = policy.default(), Record(machine=MACHINE)
    for day, job in ((0, "a"), (8, "b"), (8.1, "c"), (8.2, "d")):
        said = facts_support.notice(
            "xid-13", severity=Severity.WATCH, cause=Cause.SOFTWARE, gpu="0", job=job
        )
        found = incidents.hear(found, node(), [said], rules, NOW + day * DAY)
    assert clock.began(clock.faults(found), None) == NOW + 8.2 * DAY


def test_merging_for_space_keeps_the_time_from_which_it_mattered() -> None:
    many = [
        incident(check=f"c{n}-" + "x" * 140, severity=Severity.WATCH, first=NOW - 20 * DAY,
                 evidence="e" * 40)
        for n in range(20)
    ]  # fmt: skip
    bad = incident(first=NOW - 9 * DAY, raised=NOW - DAY)
    text = incidents.encode(record(*many, bad))
    found = clock.faults(incidents.decode(text))
    assert found[0].check == incidents.SEVERAL
    assert clock.began(found, None) == NOW - DAY
