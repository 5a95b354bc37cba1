"""What starts, keeps and stops a machine's clock, and which rung comes when."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from events.notice import Severity
from functions.rules.decision import Action
from functions.rules.incidents import State
from functions.rules.replacing import Act, Closer, Seen, attend, intend
from functions.rules.replacing.book import Book, Entry, Phase
from functions.rules.replacing.under_way import refused
from tests.support.facts import NOW, node
from tests.support.sick import (
    CLOSER,
    DAY,
    FULL,
    HOUR,
    MARKED,
    book,
    changed,
    decide,
    drained,
    entry,
    holding,
    incident,
    machine,
    record,
    with_policy,
    without_closer,
)


def test_the_clock_begins_with_our_first_sight_and_keeps_it() -> None:
    step = decide(machine(record=record(incident(first=NOW - DAY), incident(check="b"))))
    assert step.entry is not None
    assert step.entry.began == NOW - DAY
    # The first fault is over, the second never was: the machine has not been well in between.
    later = decide(machine(entry=step.entry, record=record(incident(check="b"))))
    assert later.entry is not None
    assert later.entry.began == NOW - DAY


def test_the_clock_is_written_once_and_a_repeat_writes_nothing() -> None:
    first = decide(without_closer(machine(drain=None)), FULL)
    again = decide(without_closer(machine(drain=None, entry=first.entry)), FULL, NOW + HOUR)
    assert not again.changed


def test_a_node_that_registers_anew_goes_on_with_the_clock_of_its_machine() -> None:
    tried = machine(view=node(uid="another", **MARKED), entry=entry(began=NOW - DAY))
    step = decide(tried, FULL)
    assert step.entry is not None
    assert (step.entry.began, step.entry.uid) == (NOW - DAY, "another")


def test_proven_recovery_stops_the_clock_and_a_new_fault_begins_another() -> None:
    closed = incident(state=State.CLOSED, ended=NOW, why="a new boot ID, quiet for 15m")
    step = decide(machine(entry=entry(reboots=(NOW - HOUR,)), record=record(closed)))
    assert step.entry is not None
    assert step.entry.phase is Phase.CLOSED
    assert "a new boot ID" in step.entry.outcome
    assert [d.action for d in step.decisions] == [Action.CLOCK_STOPPED]
    fresh = record(closed, incident(first=NOW + DAY))
    again = decide(machine(entry=step.entry, record=fresh), FULL, NOW + DAY)
    assert again.entry is not None
    assert (again.entry.began, again.entry.reboots) == (NOW + DAY, (NOW - HOUR,))


def test_a_persons_uncordon_stops_the_clock() -> None:
    dismissed = incident(state=State.DISMISSED, ended=NOW, why="somebody uncordoned the node")
    step = decide(machine(entry=entry(), record=record(dismissed)))
    assert step.entry is not None
    assert step.entry.outcome.startswith("recovered: AcceleratedHardwareReady is dismissed")


def test_an_annotation_that_cannot_be_read_stops_nothing_and_does_nothing() -> None:
    step = decide(machine(entry=entry(), record=None))
    assert (step.entry, step.act) == (entry(), Act.NONE)


def test_a_machine_without_a_node_keeps_its_clock_and_ends_never() -> None:
    lost = machine(view=None, record=None, entry=entry(began=NOW - 8 * DAY, warned=5), closer=None)
    step = decide(lost, FULL)
    assert step.entry == lost.entry
    assert holding(step) == ["node"]
    running = decide(replace(lost, closer=CLOSER), FULL)
    assert (running.act, running.entry) == (Act.NONE, lost.entry)


def test_a_machine_that_ended_without_us_is_closed_by_the_clouds_word_alone() -> None:
    lost = machine(view=None, record=None, entry=entry(), closer=None)
    gone = decide(replace(lost, closer=Closer(seen=Seen.GONE, way="ec2")), FULL)
    assert gone.entry is not None
    assert gone.entry.phase is Phase.CLOSED
    # That a Node is gone is no word of a cloud, and who never knew the machine is another account.
    for said in (
        Closer(seen=Seen.GONE, way="event"),
        Closer(seen=Seen.GONE, way="cluster-api", account="cluster-api"),
        Closer(seen=Seen.UNKNOWN, way="ec2", account="2"),
        Closer(seen=Seen.UNKNOWN, way="ec2"),
    ):
        assert decide(replace(lost, closer=said), FULL).entry == lost.entry
    forgotten = Closer(seen=Seen.UNKNOWN, way="ec2", account="1")
    closed = decide(replace(lost, closer=forgotten), FULL).entry
    assert closed is not None
    assert closed.over


def test_a_machine_without_a_node_is_not_waited_for_for_ever() -> None:
    lost = machine(view=None, record=None, closer=None, entry=entry(began=NOW, warned=5))
    at = NOW + 37 * DAY
    assert decide(lost, FULL, at - HOUR).entry == lost.entry
    # Something was done about it a moment ago: it is not the absence that is so old.
    lately = replace(lost, entry=changed(lost.entry, changed=at - HOUR))
    assert decide(lately, FULL, at).entry == lately.entry
    step = decide(lost, FULL, at)
    assert [d.action for d in step.decisions] == [Action.GONE]
    assert step.entry is not None
    assert step.entry.outcome == "lost: no Node stands for it, and nobody said that it ended"


def test_karpenters_word_is_asked_for_at_once_and_a_clouds_every_ten_minutes() -> None:
    def asked(owner: str, since: timedelta) -> bool:
        lost = entry(owner=owner, changed=NOW - since)
        step = decide(machine(view=None, record=None, closer=None, entry=lost))
        return step.act is Act.LOOK_AT_CLOUD

    assert asked("karpenter", timedelta(minutes=5))
    assert not asked("", timedelta(minutes=5))
    assert asked("", timedelta(minutes=10))


def test_that_no_nodeclaim_is_left_says_something_where_its_node_showed_one() -> None:
    gone = Closer(seen=Seen.GONE, way="karpenter", account="karpenter")

    def outcome(owner: str) -> str:
        lost = machine(view=None, record=None, closer=gone, entry=entry(owner=owner))
        found = decide(lost).entry
        assert found is not None
        return found.outcome

    assert outcome("karpenter").startswith("gone: ")
    assert outcome("") == ""


def test_the_risk_is_told_at_the_times_of_the_policy_once_each_with_what_holds() -> None:
    held = machine(hold="held by bob", entry=entry(began=NOW), record=record(incident(first=NOW)))
    told = []
    tried = held
    for hours in range(0, 24 * 8, 6):
        at = NOW + timedelta(hours=hours)
        step = decide(tried, FULL, at)
        told += [(hours, d) for d in step.decisions if d.action is Action.AT_RISK]
        tried = replace(tried, entry=step.entry)
    assert [hours for hours, _ in told] == [72, 120, 144, 156, 168]
    assert told[0][1].reason.startswith("4 d left of the seven days; hold: held by bob")
    assert "the seven days are over" in told[-1][1].reason


def test_after_an_absence_what_was_missed_is_told_once() -> None:
    tried = machine(entry=entry(began=NOW), record=record(incident(first=NOW)), hold="x")
    step = decide(tried, FULL, NOW + timedelta(days=6, hours=13))
    assert step.entry is not None
    assert step.entry.warned == 4
    assert len(step.decisions) == 1


# the ladder


def test_an_empty_node_is_rebooted_after_its_settle_time_and_looked_at_closely_first() -> None:
    early = machine(drain=drained(NOW - timedelta(minutes=9)), closer=None)
    assert decide(early, FULL).act is Act.NONE
    due = machine(drain=drained(NOW - timedelta(minutes=10)), closer=None)
    assert decide(due, FULL).act is Act.LOOK_CLOSER
    assert decide(replace(due, closer=CLOSER), FULL).act is Act.REBOOT
    assert decide(replace(due, closer=replace(CLOSER, pods=("a/b",))), FULL).act is Act.NONE


def rebooting(minutes: int, **more: Any) -> Entry:
    """Asked to reboot so long ago, unless ``more`` of its intent says otherwise."""
    at = NOW - timedelta(minutes=minutes)
    made = intend(machine(), entry(), "reboot", "token", "why", at)
    return changed(made, intent=changed(made.intent, **({"asked": at} | more)))


def test_another_boot_id_confirms_a_reboot() -> None:
    view = node(boot_id="boot-2", **MARKED)
    step = decide(machine(view=view, entry=rebooting(5)), FULL)
    assert [d.action for d in step.decisions] == [Action.REBOOTED]
    assert step.answer is not None
    assert step.answer[0] == "dev.groundcrew.vm.rebooted"
    assert step.entry is not None
    assert (step.entry.phase, step.entry.tried) == (Phase.SICK, ("reboot",))


def test_a_reboot_that_does_not_come_is_behind_it_after_its_time_and_is_not_asked_again() -> None:
    assert not decide(machine(entry=rebooting(29)), FULL).changed
    step = decide(machine(entry=rebooting(30)), FULL)
    assert step.entry is not None
    assert (step.entry.phase, step.entry.tried) == (Phase.SICK, ("reboot",))
    assert step.act is Act.NONE


def test_a_reboot_that_may_not_have_been_asked_for_is_not_behind_it() -> None:
    """Its process died between the intent and the call. The next rung is the end of the machine."""
    step = decide(machine(entry=rebooting(30, asked=None)), FULL)
    assert step.entry is not None
    assert (step.entry.phase, step.entry.tried) == (Phase.SICK, ())
    assert len(step.entry.reboots) == 1
    again = decide(machine(entry=step.entry), FULL, NOW + timedelta(minutes=1))
    assert again.act is Act.REBOOT
    # As often as a machine may be rebooted: who never lives to ask does not keep it for ever.
    twice = changed(step.entry, reboots=(NOW - HOUR, NOW))
    assert decide(machine(entry=twice), FULL, NOW + timedelta(minutes=1)).act is Act.TERMINATE


def test_a_refused_reboot_is_asked_again_at_its_time_if_it_still_may_and_counts_for_nothing() -> (
    None
):
    at = NOW - timedelta(minutes=40)
    refusal = {"asked": None, "said": "RequestLimitExceeded", "again": NOW + timedelta(minutes=1)}
    made = refused(rebooting(40), rebooting(40, **refusal).intent, perhaps=False, now=at)  # type: ignore[arg-type]
    assert (made.reboots, made.tried) == ((), ())
    early = decide(machine(entry=made), FULL)
    assert (early.act, early.changed) == (Act.NONE, False)
    due = NOW + timedelta(minutes=1)
    assert decide(machine(entry=made, closer=None), FULL, due).act is Act.LOOK_CLOSER
    assert decide(machine(entry=made), FULL, due).act is Act.REBOOT
    held = decide(machine(entry=made, hold="mine"), FULL, due)
    assert held.act is Act.NONE
    assert held.entry is not None
    assert (held.entry.phase, held.entry.intent, held.entry.tried) == (Phase.SICK, None, ())


def test_a_reboot_that_can_never_be_is_behind_it_and_one_that_may_have_come_counts() -> None:
    never = rebooting(1, asked=None, said="UnauthorizedOperation")
    assert never.intent is not None
    after = refused(never, never.intent, perhaps=False, now=NOW)
    assert (after.phase, after.tried, after.reboots) == (Phase.SICK, ("reboot",), ())
    maybe = refused(never, never.intent, perhaps=True, now=NOW)
    assert (maybe.phase, maybe.tried, len(maybe.reboots)) == (Phase.REBOOTING, (), 1)


def test_the_risk_is_told_while_a_reboot_is_asked_for_again_and_again() -> None:
    refusal = {"asked": None, "said": "RequestLimitExceeded", "again": NOW + HOUR}
    made = changed(rebooting(1, **refusal), began=NOW - 3 * DAY)
    step = decide(machine(entry=made, record=record(incident(first=NOW - 3 * DAY))), FULL)
    assert [d.action for d in step.decisions] == [Action.AT_RISK]


def test_after_a_boot_the_machine_is_watched_and_ends_only_if_it_is_accused_anew() -> None:
    view = node(boot_id="boot-2", **MARKED)
    after = entry(seen_boot="boot-2", boots=(NOW - timedelta(minutes=59),), tried=("reboot",))
    accused = record(incident(boot="boot-2"))
    tried = machine(view=view, entry=after, record=accused)
    assert holding(decide(tried, FULL)) == ["ladder"]
    assert decide(tried, FULL, NOW + timedelta(minutes=1)).act is Act.TERMINATE
    quiet = machine(view=view, entry=after, record=record(incident(rebooted=NOW - HOUR)))
    step = decide(quiet, FULL, NOW + timedelta(minutes=1))
    assert step.act is Act.NONE
    assert "a test or a person says whether it is well" in step.decisions[0].reason


def test_a_machine_that_somebody_has_rebooted_is_not_rebooted_by_us() -> None:
    booted = machine(entry=entry(boots=(NOW - 2 * HOUR,)), closer=None)
    assert decide(booted, FULL).rung == "replace"
    seen_late = machine(record=record(incident(rebooted=NOW - HOUR)), closer=None)
    assert decide(seen_late, FULL).rung == "replace"


def test_a_machine_whose_boots_nobody_can_tell_apart_is_not_rebooted() -> None:
    blind = machine(view=node(boot_id="", **MARKED), entry=entry(first_boot="", seen_boot=""))
    step = decide(blind, FULL)
    assert (step.rung, step.act) == ("replace", Act.TERMINATE)


def test_at_most_two_reboots_of_a_machine_in_seven_days_whatever_its_incidents() -> None:
    twice = entry(reboots=(NOW - 6 * DAY, NOW - DAY))
    assert decide(machine(entry=twice), FULL).rung == "replace"
    long_ago = entry(reboots=(NOW - 8 * DAY, NOW - DAY))
    assert decide(machine(entry=long_ago), FULL).act is Act.REBOOT


def test_a_reset_is_asked_of_others_and_given_its_time() -> None:
    rules = with_policy("ladder: [{rungs: [reset, reboot, replace]}]")
    assert decide(rules=rules).act is Act.RESET
    asked = intend(machine(), entry(), "reset", "t", "why", NOW - timedelta(minutes=29))
    assert not decide(machine(entry=asked), rules).changed
    late = NOW + timedelta(minutes=1)
    # Nobody says that it was heard: asked for once more, unless something speaks against it by now.
    assert decide(machine(entry=asked, closer=None), rules, late).act is Act.LOOK_CLOSER
    assert decide(machine(entry=asked), rules, late).act is Act.RESET
    held = decide(machine(entry=asked, hold="mine"), rules, late)
    assert held.act is Act.NONE
    assert held.entry is not None
    assert (held.entry.phase, held.entry.intent, held.entry.tried) == (Phase.SICK, None, ())
    twice = changed(asked, intent=changed(asked.intent, tries=1))
    over = decide(machine(entry=twice), rules, late)
    assert over.entry is not None
    assert over.entry.tried == ("reset",)
    assert decide(machine(entry=over.entry), rules, NOW + timedelta(minutes=2)).act is Act.REBOOT


def test_a_node_that_nobody_drains_is_looked_at_now_and_then_for_whether_it_is_empty() -> None:
    cordoned = record(incident(severity=Severity.CORDON, first=NOW))
    tried = machine(
        record=cordoned, state="cordon", drain=None, closer=None, entry=entry(empty=None)
    )
    looks = [decide(tried, FULL, NOW + timedelta(minutes=minute)).act for minute in range(181)]
    assert looks.count(Act.LOOK_CLOSER) == 4
    busy = decide(replace(tried, closer=replace(CLOSER, pods=("a/b",))), FULL)
    assert busy.entry is not None
    assert busy.entry.empty is None
    empty = decide(replace(tried, closer=CLOSER), FULL)
    assert empty.entry is not None
    assert empty.entry.empty == NOW


def test_what_holds_is_told_when_it_changes_and_not_each_minute() -> None:
    tried = machine(hold="held by bob")
    step = decide(tried, FULL)
    assert step.decisions[0].blocked_by == ("hold",)
    again = decide(replace(tried, entry=step.entry), FULL, NOW + timedelta(minutes=1))
    assert (again.decisions, again.changed) == ((), False)


# that somebody looks


def test_a_machine_that_somebody_ends_already_is_left_to_them_and_that_is_told_once() -> None:
    going = machine(leaving="Karpenter ends it", entry=entry(tried=("reboot",)))
    step = decide(going)
    (said,) = step.decisions
    assert said.action is Action.HOLD
    assert said.reason == "Karpenter ends it: groundcrew leaves it to them"
    assert step.act is Act.NONE
    assert decide(replace(going, entry=step.entry)).decisions == ()
    assert decide(machine(entry=step.entry)).act is Act.TERMINATE


def test_whose_machine_it_is_is_remembered_for_when_its_node_is_gone() -> None:
    step = decide(machine(owner="karpenter", entry=None))
    assert step.entry is not None
    assert (step.entry.owner, step.entry.drained_from) == ("karpenter", drained().started)


def test_what_was_seen_of_a_machine_is_remembered_when_nothing_shows_it_any_more() -> None:
    seen = machine(gpus=("GPU-1",), entry=None, closer=replace(CLOSER, host="h-1"))
    first = decide(seen).entry
    assert first is not None
    # Its agent is silent, its Node made anew, and the cloud does not answer.
    blind = machine(entry=first, closer=Closer(seen=Seen.UNKNOWN, way="ec2"))
    later = decide(blind).entry
    assert later is not None
    assert (later.gpus, later.host, later.account) == (("GPU-1",), "h-1", CLOSER.account)
    moved = machine(gpus=("GPU-2",), host="h-2", entry=later)
    now = decide(moved).entry
    assert now is not None
    assert (now.gpus, now.host) == (("GPU-2",), "h-2")


def test_a_silence_is_noted_and_a_clock_that_is_behind_notes_nothing() -> None:
    running = {"m": entry()}
    seen = book(machines=running, seen=NOW - timedelta(minutes=89))
    assert attend(seen, NOW).awake == seen.awake
    silent = attend(book(machines=running, seen=NOW - timedelta(minutes=90)), NOW)
    assert (silent.awake, silent.seen) == (NOW, NOW)
    ahead = book(machines=running, seen=NOW + HOUR)
    assert attend(ahead, NOW) is ahead
    begun = attend(Book(), NOW)
    assert (begun.began, begun.awake) == (NOW, NOW)
