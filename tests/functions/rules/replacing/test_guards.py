"""Each guard alone keeps a machine from its end, and says why."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from events.notice import Cause, Kind, Severity
from functions.rules import breaker, claim, policy
from functions.rules.decision import Action
from functions.rules.incidents import Cordon
from functions.rules.ledger import Ledger
from functions.rules.replacing import Act, Guard, Seen
from functions.rules.replacing.book import Book, End
from tests.support.facts import NOW, node
from tests.support.sick import (
    ACTS,
    CLOSER,
    DAY,
    FULL,
    HOUR,
    MACHINE,
    MARKED,
    book,
    decide,
    drained,
    entry,
    holding,
    incident,
    machine,
    record,
    with_policy,
)


def ended(count: int, end: End) -> dict[str, Book]:
    """The books after so many ends."""
    return {"": book(ends={str(number): end for number in range(count)}), "gpu": book()}


def test_with_every_guard_passed_the_machine_ends() -> None:
    step = decide()
    assert step.act is Act.TERMINATE
    assert holding(step) == []
    assert {v.guard for v in step.guards} == set(Guard) - {Guard.REBOOTS}
    assert all(v.says for v in step.guards)


MISSING_GUARD: list[tuple[Guard, dict[str, Any]]] = [
    (Guard.NODE, {"view": node(provider_id="aws:///us-east-1a/i-another", **MARKED)}),
    (Guard.NODE, {"closer": replace(CLOSER, twins=("n2",))}),
    (Guard.CORDONED, {"view": node(**(MARKED | {"unschedulable": False}))}),
    (Guard.CORDONED, {"record": record(cordon=Cordon(at=NOW, theirs=True))}),
    (Guard.CORDONED, {"record": record(cordon=None)}),
    (Guard.CORDONED, {"state": "released"}),
    (
        Guard.CORDONED,
        {"view": node(claim=claim.encode(claim.Claim(by="alice", at=NOW)), **MARKED)},
    ),
    (Guard.OPT_OUT, {"view": node(labels={"groundcrew.dev/managed": "false"}, **MARKED)}),
    (Guard.FAULT, {"record": record(incident(claimed=NOW - HOUR))}),
    (Guard.FAULT, {"record": record(incident(rebooted=NOW - HOUR))}),
    (Guard.EVIDENCE, {"record": record(incident(in_log=False))}),
    (
        Guard.EVIDENCE,
        {"record": record(incident(severity=Severity.CORDON), incident(check="b", in_log=False))},
    ),
    (Guard.HOLD, {"hold": "held until tomorrow by bob: I look at it"}),
    (Guard.SHADOW, {"others": ("nvsentinel",)}),
    (Guard.RESERVED, {"reserved": "it runs in a capacity block"}),
    (Guard.WORK, {"closer": replace(CLOSER, pods=("research/train-0",))}),
    (Guard.VOLUMES, {"closer": replace(CLOSER, volumes=("pv-1",))}),
    (Guard.CLOUD, {"closer": replace(CLOSER, seen=Seen.UNKNOWN, says="no such instance")}),
    (Guard.CLOUD, {"closer": replace(CLOSER, protected="termination protection is on")}),
    (Guard.BREAKER, {"record": record(held=("breaker",))}),
]  # fmt: skip


@pytest.mark.parametrize(("guard", "change"), MISSING_GUARD)
def test_one_guard_that_holds_is_enough(guard: Guard, change: dict[str, Any]) -> None:
    step = decide(machine(**change))
    assert step.act is not Act.TERMINATE
    assert guard.value in holding(step)
    if guard is Guard.FAULT:  # what is not said any more is no evidence either
        assert holding(step) == ["fault", "evidence"]
    elif guard is not Guard.WORK:  # what is left now was not gone for the settle time
        assert holding(step) == [guard.value]


@pytest.mark.parametrize(
    ("guard", "more"),
    [
        (Guard.PAUSE, {"paused": lambda pool: "paused until noon"}),
        (Guard.MEMORY, {"books": {"": book(), "gpu": book(began=NOW - timedelta(minutes=59))}}),
        (Guard.MEMORY, {"books": {"": book(), "gpu": book(awake=NOW - timedelta(minutes=14))}}),
        (Guard.MEMORY, {"books": {"": book(), "gpu": book(seen=NOW + timedelta(minutes=6))}}),
        (Guard.MEMORY, {"books": {"": book(seen=NOW + HOUR), "gpu": book()}}),
        (Guard.MEMORY, {"books": {"gpu": book()}}),
        (Guard.MEMORY, {"trouble": {"gpu": "not JSON"}}),
        (Guard.LOOKED, {"read": NOW - timedelta(minutes=16)}),
        (Guard.LOOKED, {"ledgers": {}}),
        (Guard.CAPS, {"books": ended(2, End(at=NOW - HOUR / 2))}),
        (Guard.CAPS, {"books": ended(10, End(at=NOW - 2 * HOUR))}),
        (Guard.CAPS, {"books": ended(5, End(at=NOW - 2 * HOUR, pool="gpu"))}),
    ],
)  # fmt: skip
def test_what_is_known_of_others_holds_as_well(guard: Guard, more: dict[str, Any]) -> None:
    step = decide(machine(), **more)
    assert step.act is not Act.TERMINATE
    assert guard.value in holding(step)


def test_a_machine_that_is_seen_for_the_first_time_is_watched_for_a_while_first() -> None:
    assert holding(decide(machine(entry=None))) == ["memory"]
    fresh = machine(entry=entry(noted=NOW - timedelta(minutes=14)))
    assert holding(decide(fresh)) == ["memory"]
    assert decide(fresh, at=NOW + timedelta(minutes=1)).act is Act.TERMINATE


def test_its_own_place_under_the_caps_is_no_reason_against_it() -> None:
    ends = {MACHINE: End(at=NOW, pool="gpu"), "another": End(at=NOW)}
    assert decide(books={"": book(ends=ends), "gpu": book()}).act is Act.TERMINATE


def test_an_open_breaker_holds_those_that_its_check_accuses() -> None:
    check = breaker.Check(accused={"x": breaker.Accusation(at=NOW)}, opened=NOW - HOUR)
    led = Ledger(pool="gpu", size=3, rebuilt=NOW, checks={"AcceleratedHardwareReady": check})
    step = decide(ledgers={"gpu": led})
    assert "breaker" in holding(step)
    assert "accuses 1 of 3 nodes" in step.decisions[0].reason


def test_what_was_said_while_a_breaker_was_open_stays_in_doubt_when_it_closes() -> None:
    closed = breaker.Check(opened=NOW - 3 * HOUR, closed=NOW - HOUR)
    led = Ledger(pool="gpu", size=99, rebuilt=NOW, checks={"AcceleratedHardwareReady": closed})
    assert "breaker" in holding(decide(ledgers={"gpu": led}))


def test_a_pool_that_the_policy_does_not_name_is_only_told_about_and_once() -> None:
    rules = policy.parse("version: 1\nreplace: {act_in: [a100]}\nladder: [{rungs: [replace]}]")
    step = decide(rules=rules)
    assert step.act is Act.NONE
    (said,) = step.decisions
    assert (said.action, said.shadow, said.blocked_by) == (Action.HOLD, True, ("shadow",))
    assert "would be ended and replaced" in said.reason
    again = decide(machine(entry=step.entry), rules)
    assert again.decisions == ()
    assert again.act is Act.NONE


@pytest.mark.parametrize(
    "sources",
    [
        (incident(in_log=False), incident(source="alertmanager", check="GpuBad", in_log=False)),
        (incident(in_log=False, source="groundcrew.preflight", check="nccl"),),
        (incident(severity=Severity.CORDON), incident(check="xid-79", source="kubernetes.event")),
    ],
)
def test_a_test_a_second_source_or_the_kernel_log_confirms(sources: tuple[Any, ...]) -> None:
    assert decide(machine(record=record(*sources))).act is Act.TERMINATE


def test_a_second_source_that_took_it_back_confirms_nothing() -> None:
    second = incident(source="alertmanager", check="GpuBad", in_log=False, claimed=NOW)
    found = record(incident(in_log=False), second)
    assert holding(decide(machine(record=found))) == ["evidence"]


def test_only_the_proofs_that_the_policy_takes_count() -> None:
    rules = with_policy("ladder: [{rungs: [replace]}]\nterminate: {confirmed_by: [active-test]}")
    assert holding(decide(rules=rules)) == ["evidence"]


def test_a_fault_of_severity_cordon_settles_for_a_day() -> None:
    cordoned = record(
        incident(severity=Severity.CORDON), incident(source="b", severity=Severity.CORDON)
    )
    tried = machine(record=cordoned, state="cordon", drain=None, entry=entry(empty=NOW - 23 * HOUR))
    assert holding(decide(tried)) == ["time"]
    assert decide(tried, at=NOW + HOUR).act is Act.TERMINATE


def test_the_settle_time_begins_when_the_node_is_empty() -> None:
    tried = machine(drain=drained(NOW - timedelta(minutes=59)))
    assert holding(decide(tried)) == ["time"]
    assert decide(tried, at=NOW + timedelta(minutes=1)).act is Act.TERMINATE


@pytest.mark.parametrize(
    "incidents_",
    [
        (incident(kind=Kind.MAINTENANCE, deadline=NOW + DAY),),
        (incident(cause=Cause.SOFTWARE),),
        (incident(cause=Cause.PROVIDER),),
        (incident(severity=Severity.WATCH),),
    ],
)
def test_what_is_no_fault_of_the_hardware_ends_no_machine(incidents_: tuple[Any, ...]) -> None:
    step = decide(machine(record=record(*incidents_), entry=None))
    assert (step.entry, step.act) == (None, Act.NONE)


# at the end of the seven days


LIMIT = NOW + 7 * DAY


def old(**more: Any) -> Any:
    return entry(began=NOW, **more)


def test_at_the_limit_work_and_volumes_that_are_left_end_with_the_machine_and_are_named() -> None:
    closer = replace(CLOSER, pods=("search/vectors-0",), volumes=("pv-7",))
    found = record(incident(first=NOW))
    tried = machine(record=found, drain=None, entry=old(empty=None, warned=4), closer=closer)
    assert decide(tried, at=LIMIT - timedelta(minutes=1)).act is not Act.TERMINATE
    told = decide(tried, at=LIMIT)
    assert told.decisions[0].action is Action.AT_RISK
    step = decide(replace(tried, entry=told.entry), at=LIMIT)
    assert step.act is Act.TERMINATE
    says = {v.guard: v.says for v in step.guards}
    assert "search/vectors-0" in says[Guard.WORK]
    assert "pv-7" in says[Guard.VOLUMES]


@pytest.mark.parametrize(("guard", "change"), MISSING_GUARD)
def test_at_the_limit_all_other_guards_hold_as_before(guard: Guard, change: dict[str, Any]) -> None:
    if guard in (Guard.WORK, Guard.VOLUMES, Guard.EVIDENCE):
        return
    tried = machine(**({"record": record(incident(first=NOW))} | change), entry=old(warned=5))
    step = decide(tried, at=LIMIT)
    assert step.act is not Act.TERMINATE
    assert guard.value in holding(step)


def test_at_the_limit_a_word_that_nobody_confirmed_is_enough_if_its_source_tests_all_the_time() -> (
    None
):
    found = record(incident(first=NOW, in_log=False, latched=False))
    tried = machine(record=found, entry=old(warned=5))
    assert decide(tried, at=LIMIT).act is Act.TERMINATE


def test_at_the_limit_a_latched_word_of_one_boot_is_a_leftover_and_ends_nothing() -> None:
    latched = incident(first=NOW, in_log=False)
    tried = machine(record=record(latched), entry=old(warned=5))
    assert holding(decide(tried, at=LIMIT)) == ["evidence"]
    # Said anew after a boot: it was put to the test.
    view = node(boot_id="boot-2", **MARKED)
    renewed = record(incident(first=NOW, in_log=False, boot="boot-2"))
    put = machine(view=view, record=renewed, entry=old(warned=5))
    assert decide(put, at=LIMIT).act is Act.TERMINATE


def test_a_ladder_that_does_not_end_with_replace_ends_nothing_ever() -> None:
    rules = with_policy("ladder: [{rungs: [reboot]}]")
    tried = machine(record=record(incident(first=NOW)), entry=old(warned=5, tried=("reboot",)))
    assert decide(tried, rules, at=LIMIT + 30 * DAY).act is Act.NONE


def test_where_who_owns_the_machine_repairs_it_ours_is_told_once_and_not_done() -> None:
    repaired = replace(CLOSER, others="Karpenter's node repair is on")
    step = decide(machine(closer=repaired), FULL)
    assert step.act is Act.NONE
    (said,) = step.decisions
    assert "it would be rebooted now" in said.reason
    assert said.reason.endswith("Karpenter's node repair is on")
    twice = decide(machine(closer=repaired, entry=step.entry), FULL)
    (said,) = twice.decisions
    assert "it would be ended and replaced now" in said.reason
    assert decide(machine(closer=repaired, entry=twice.entry), FULL).decisions == ()


def test_reserved_capacity_ends_with_a_persons_word_or_an_idle_node_that_stands_in() -> None:
    kept = machine(reserved="it runs in a capacity block")
    assert "stands in for it" in decide(kept).decisions[0].reason
    assert holding(decide(kept)) == ["reserved"]
    assert decide(kept).entry.holding == ("reserved",)
    assert decide(replace(kept, approved=True)).act is Act.TERMINATE
    spare = replace(kept, closer=replace(CLOSER, spares=("n7",)))
    step = decide(spare)
    assert step.act is Act.TERMINATE
    said = next(v.says for v in step.guards if v.guard is Guard.RESERVED)
    assert said == "it runs in a capacity block, and idle n7 stands in for it"


def test_what_the_cloud_says_of_its_capacity_is_remembered_for_looks_that_do_not_ask_it() -> None:
    told = machine(closer=replace(CLOSER, reserved="it runs in capacity reservation cr-1"))
    step = decide(told)
    assert holding(step) == ["reserved"]
    assert step.entry is not None
    later = decide(machine(entry=step.entry, closer=None), at=NOW + timedelta(minutes=1))
    assert (holding(later), later.act) == (["reserved"], Act.NONE)
    assert decide(machine(entry=step.entry)).act is Act.TERMINATE, "it is in none any more"


def test_whether_a_spare_stands_in_is_looked_at_every_half_hour_and_not_each_minute() -> None:
    kept = machine(reserved="it runs in a capacity block", closer=None)
    looks = [decide(kept, ACTS, NOW + timedelta(minutes=minute)).act for minute in range(120)]
    assert looks.count(Act.LOOK_CLOSER) == 4


@pytest.mark.parametrize(
    "seen",
    [
        {"others": ("nvsentinel",)},
        {"closer": replace(CLOSER, beside=("nvsentinel",))},
        {"closer": None, "entry": entry(beside=("nvsentinel",))},
    ],
)
def test_where_somebody_else_repairs_nodes_it_is_only_told_until_the_policy_names_them(
    seen: dict[str, Any],
) -> None:
    tried = machine(**seen)
    step = decide(tried)
    shadow = next(v for v in step.guards if v.guard is Guard.SHADOW)
    assert not shadow.passed
    assert "nvsentinel acts on this node, too" in shadow.says
    assert step.act not in (Act.TERMINATE, Act.REBOOT)
    named = policy.parse(
        "version: 1\nladder: [{rungs: [replace]}]\nreplace: {act_in: ['*'], beside: [nvsentinel]}"
    )
    wanted = Act.LOOK_CLOSER if tried.closer is None else Act.TERMINATE
    assert decide(tried, named).act is wanted


@pytest.mark.parametrize(
    "seen", [{"beside": ("nvsentinel",)}, {"others": "Karpenter's node repair is on"}]
)
def test_whoever_repaired_nodes_beside_us_is_looked_for_again_when_all_is_told(
    seen: dict[str, Any],
) -> None:
    first = decide(machine(closer=replace(CLOSER, **seen)))
    assert first.entry is not None
    assert first.entry.would == ("replace",)
    told = machine(closer=None, entry=first.entry)
    looks = [decide(told, ACTS, NOW + timedelta(minutes=minute)).act for minute in range(60)]
    assert looks.count(Act.LOOK_CLOSER) == 2
    gone = decide(replace(told, closer=CLOSER))
    assert gone.act is Act.TERMINATE
