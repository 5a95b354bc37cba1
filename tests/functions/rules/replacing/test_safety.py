"""What an adversary, a crash or a clock tries: none of it may end or reboot the wrong machine."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from events.notice import Cause, Severity
from functions.rules import breaker, incidents, policy
from functions.rules.decision import Action
from functions.rules.incidents import Cordon, Record
from functions.rules.ledger import Ledger
from functions.rules.replacing import Act, Guard, Seen, clock, guards, intend
from functions.rules.replacing.book import Entry, Phase
from functions.rules.replacing.case import Case
from tests.support import facts as facts_support
from tests.support.facts import NOW, node
from tests.support.sick import (
    CLOSER,
    DAY,
    FULL,
    HOUR,
    MACHINE,
    MARKED,
    book,
    changed,
    decide,
    drained,
    entry,
    facts,
    holding,
    incident,
    machine,
    record,
    with_policy,
)

MINUTE = timedelta(minutes=1)


def ending(**more: Any) -> Entry:
    tried = entry(tried=("reboot",), boots=(NOW - 2 * HOUR,))
    made = intend(machine(), tried, "replace", "token", "why", NOW - 3 * MINUTE)
    return changed(made, intent=changed(made.intent, **more))


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
    before: dict[str, Any], after: dict[str, Any]
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


def test_a_machine_that_was_sick_again_too_often_keeps_its_clock_until_a_person_comes() -> None:
    over = incident(state=incidents.State.CLOSED, ended=NOW, why="quiet")
    found = record(over, held=("releases",))
    tried = machine(record=found, state="held", entry=entry(began=NOW - 3 * DAY))
    step = decide(tried, FULL)
    assert [d.action for d in step.decisions] == [Action.AT_RISK]
    assert "a person releases it" in step.decisions[0].reason
    later = decide(replace(tried, entry=step.entry), FULL, NOW + 5 * DAY)
    assert [d.action for d in later.decisions] == [Action.AT_RISK]
    assert later.act is Act.NONE
    free = replace(tried, entry=step.entry, record=record(over, cordon=None))
    released = decide(free, FULL).entry
    assert released is not None
    assert released.over


def test_a_mad_monitor_that_its_breaker_holds_fills_no_book() -> None:
    doubted = record(incident(), cordon=None, held=("breaker",))
    step = decide(machine(record=doubted, state="held", entry=None))
    assert step.entry is None
    # nor does what is only waited for, as nodes that miss a heartbeat together
    waiting = machine(record=record(incident(), cordon=None), state="watch", entry=None)
    assert decide(waiting).entry is None
    # what only the budget keeps in service is sick, and its clock runs
    held = machine(record=record(cordon=None, held=("budget",)), state="held", entry=None)
    assert decide(held).entry is not None


# stuck


def test_an_end_that_is_refused_or_hangs_for_days_is_at_risk_as_any() -> None:
    for closer in (CLOSER, replace(CLOSER, seen=Seen.ENDING), replace(CLOSER, seen=Seen.UNKNOWN)):
        hung = changed(ending(said="UnauthorizedOperation", again=NOW + HOUR), began=NOW - 3 * DAY)
        step = decide(machine(entry=hung, closer=closer), FULL)
        assert [d.action for d in step.decisions] == [Action.AT_RISK]
        assert "UnauthorizedOperation" in step.decisions[0].reason
        assert step.entry == changed(hung, warned=1)


def test_a_machine_whose_incidents_cannot_be_read_is_at_risk_as_any() -> None:
    step = decide(machine(entry=entry(began=NOW - 3 * DAY), record=None), FULL)
    assert [d.action for d in step.decisions] == [Action.AT_RISK]
    assert "cannot be read" in step.decisions[0].reason


# gone


def test_another_account_or_a_stopped_machine_is_no_confirmed_end() -> None:
    """What is confirmed is followed by the deletion of the Node."""
    asked = ending(asked=NOW - HOUR)
    for closer in (
        replace(CLOSER, seen=Seen.UNKNOWN, account="2"),
        replace(CLOSER, seen=Seen.UNKNOWN, account=""),
        replace(CLOSER, seen=Seen.STOPPED),
    ):
        step = decide(machine(entry=asked, closer=closer), FULL)
        assert (step.act, step.changed) == (Act.NONE, False)
        later = decide(machine(entry=asked, closer=closer), FULL, NOW + DAY)
        assert (later.act, later.entry.ended) == (Act.NONE, None)
    forgotten = replace(CLOSER, seen=Seen.UNKNOWN)
    assert decide(machine(entry=asked, closer=forgotten), FULL).act is Act.RELEASE
    lately = ending(asked=NOW - 30 * MINUTE)
    assert decide(machine(entry=lately, closer=forgotten), FULL).act is Act.NONE, "not so soon"
    lost = machine(view=None, record=None, entry=entry(), closer=replace(CLOSER, seen=Seen.STOPPED))
    assert not decide(lost, FULL).changed


# caps


def test_ends_count_although_the_clusters_book_was_lost() -> None:
    gone = changed(ending(), phase=Phase.CLOSED, ended=NOW - HOUR)
    day = {f"m{n}": changed(gone, intent=changed(gone.intent, at=NOW - 2 * HOUR)) for n in range(5)}
    books = {"": book(began=NOW - 2 * HOUR), "gpu": book(machines=day)}
    assert holding(decide(books=books)) == ["caps"]
    books = {"": book(began=NOW - 2 * HOUR), "gpu": book(), "old": book(machines=day)}
    assert decide(books=books).act is Act.TERMINATE  # of another pool, within the cluster's cap
    yesterday = {m: changed(e, intent=changed(e.intent, at=NOW - DAY)) for m, e in day.items()}
    books = {"": book(began=NOW - 2 * HOUR), "gpu": book(machines=yesterday)}
    assert decide(books=books).act is Act.TERMINATE


# what people say


def test_a_claim_that_cannot_be_read_is_a_persons_word_all_the_same() -> None:
    step = decide(machine(view=node(claim="alice", **MARKED)))
    assert holding(step) == ["cordoned"]


def test_a_node_that_was_moved_to_another_pool_is_judged_by_both() -> None:
    moved = machine(view=node(**(MARKED | {"pool": "research"})))
    only_gpu = policy.parse("version: 1\nreplace: {act_in: [gpu]}\nladder: [{rungs: [replace]}]")
    assert holding(decide(moved, only_gpu)) == ["shadow"]
    assert holding(decide(moved, paused=lambda pool: "" if pool == "gpu" else "paused")) == [
        "pause"
    ]
    reserved = policy.parse(
        "version: 1\nreplace: {act_in: ['*'], reserved: [research]}\nladder: [{rungs: [replace]}]"
    )
    assert holding(decide(moved, reserved)) == ["reserved"]
    watched = with_policy("ladder: [{rungs: [replace]}]\nshadow: [{check: '*', pool: research}]")
    assert holding(decide(moved, watched)) == ["shadow"]


# evidence


def test_two_voices_of_one_agent_are_no_second_source() -> None:
    """node-problem-detector and its kin say the same in a condition and in an Event."""
    twice = record(
        incident(in_log=False), incident(source="kubernetes.event", check="xid-79", in_log=False)
    )
    assert holding(decide(machine(record=twice))) == ["evidence"]


def test_a_reading_of_the_fleet_from_the_future_is_no_reading() -> None:
    led = Ledger(pool="gpu", size=100, rebuilt=NOW + timedelta(hours=2))
    assert holding(decide(ledgers={"gpu": led})) == ["looked"]


def test_a_machine_that_is_about_to_be_given_back_is_not_rebooted() -> None:
    """Its source, which tests all the time, says that it is well."""
    well = record(incident(severity=Severity.CORDON, latched=False, claimed=NOW - 5 * MINUTE))
    tried = machine(record=well, state="cordon", drain=None)
    step = decide(tried, FULL)
    assert step.act is Act.NONE
    assert "fault" in holding(step)
    said = record(incident(severity=Severity.CORDON, latched=False))
    assert decide(replace(tried, record=said), FULL).act is Act.REBOOT
    # A latched source's word needs the boot as its proof.
    latched = record(incident(severity=Severity.CORDON, claimed=NOW - 5 * MINUTE))
    assert decide(replace(tried, record=latched), FULL).act is Act.REBOOT


# each guard before a reboot, alone


OPEN = breaker.Check(accused={"x": breaker.Accusation(at=NOW)}, opened=NOW - HOUR)
REBOOT_GUARDS: list[tuple[Guard, dict[str, Any], dict[str, Any]]] = [
    (Guard.NODE, {"view": node(provider_id="aws:///us-east-1a/i-another", **MARKED)}, {}),
    (Guard.NODE, {"closer": replace(CLOSER, twins=("n2",))}, {}),
    (Guard.CORDONED, {"view": node(**(MARKED | {"unschedulable": False}))}, {}),
    (Guard.CORDONED, {"record": record(cordon=Cordon(at=NOW, theirs=True))}, {}),
    (Guard.OPT_OUT, {"view": node(labels={"groundcrew.dev/managed": "false"}, **MARKED)}, {}),
    (
        Guard.BREAKER,
        {},
        {
            "ledgers": {
                "gpu": Ledger(
                    pool="gpu", size=3, rebuilt=NOW, checks={"AcceleratedHardwareReady": OPEN}
                )
            }
        },
    ),
    (Guard.PAUSE, {}, {"paused": lambda pool: "paused until noon"}),
    (Guard.HOLD, {"hold": "held by bob"}, {}),
    (Guard.SHADOW, {"others": "NVSentinel acts on this node, too"}, {}),
    (Guard.MEMORY, {}, {"trouble": {"gpu": "not JSON"}}),
    (Guard.MEMORY, {"entry": entry(noted=NOW - MINUTE)}, {}),
    (Guard.LOOKED, {}, {"read": NOW - HOUR}),
    (Guard.TIME, {"drain": drained(NOW - MINUTE)}, {}),
    (Guard.CLOUD, {"closer": replace(CLOSER, seen=Seen.STOPPED, says="EC2 says stopped")}, {}),
]


@pytest.mark.parametrize(("guard", "change", "more"), REBOOT_GUARDS)
def test_one_guard_that_holds_is_enough_to_keep_a_machine_from_a_reboot(
    guard: Guard, change: dict[str, Any], more: dict[str, Any]
) -> None:
    assert decide(machine(), FULL).act is Act.REBOOT
    step = decide(machine(**change), FULL, **more)
    assert step.act is Act.NONE
    assert step.rung == "reboot"
    assert holding(step) == [guard.value]


def test_work_that_is_left_keeps_a_machine_from_a_reboot_also_after_its_seven_days() -> None:
    busy = replace(CLOSER, pods=("research/train-0",))
    step = decide(machine(closer=busy), FULL)
    assert step.act is Act.NONE
    assert {"time", "work"} <= set(holding(step))
    late = entry(began=NOW - 8 * DAY, warned=5)
    old = record(incident(first=NOW - 8 * DAY))
    only_reboots = with_policy("ladder: [{rungs: [reboot]}]")
    tried = machine(closer=busy, entry=late, record=old)
    assert decide(tried, only_reboots).act is Act.NONE


def test_the_reboots_of_the_last_days_are_counted_where_they_are_asked_for() -> None:
    often = entry(reboots=(NOW - DAY, NOW - 2 * DAY))
    checked = guards.for_reboot(
        Case(machine(entry=often), often, record().open, facts(machine(entry=often)), FULL, NOW)
    )
    assert [v.guard for v in checked if not v.passed] == [Guard.REBOOTS]
    assert decide(machine(entry=often), FULL).act is Act.TERMINATE
