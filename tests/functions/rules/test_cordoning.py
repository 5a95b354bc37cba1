"""What cordon decides, rule by rule (the numbers are those of the safety rules)."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from events.notice import Cause, Identity, Kind, Notice, Severity
from functions.rules import breaker, incidents, keys, ledger
from functions.rules.cordoning import Facts, NodeFacts, Verdict, decide, in_doubt, remembered
from functions.rules.ledger import Ledger
from functions.rules.node_view import NodeView
from functions.rules.policy import default, parse
from tests.support.facts import (
    NOW,
    actions,
    after,
    minutes,
    node,
    notice,
    only,
    rebuilt,
    recovery,
    run,
)

EVICT: dict[str, Any] = {"severity": Severity.EVICT}


def test_a_fault_of_severity_cordon_cordons_and_records_in_one_verdict() -> None:
    verdict = only(run(node(), notice()))
    assert verdict.unschedulable is True
    assert verdict.state == "cordon"
    assert verdict.record.cordoned_by_us
    assert [i.check for i in verdict.record.open] == ["AcceleratedHardwareReady"]
    assert [d.action for d in verdict.decisions] == ["open", "cordon"]


def test_a_fault_to_watch_is_recorded_and_the_node_stays_in_service() -> None:
    verdict = only(run(node(), notice(severity=Severity.WATCH)))
    assert verdict.changed
    assert verdict.unschedulable is None
    assert verdict.state == "watch"


def test_a_repeat_writes_nothing() -> None:
    first = run(node(), notice())
    pool = first.ledgers["gpu"]
    again = run(after(only(first)), notice(), at=NOW + minutes(1), pool=pool)
    assert not only(again).changed
    assert not again.ledgers
    assert again.cluster is None
    assert actions(again) == []


def test_what_was_closed_is_told_once_although_the_same_was_closed_before() -> None:
    view, at = node(), NOW
    for _ in range(2):
        view = after(only(run(view, notice(severity=Severity.WATCH), at=at)))
        closing = run(view, recovery(since=at + minutes(1)), at=at + minutes(1))
        assert actions(closing) == ["close"]
        view, at = after(only(closing)), at + minutes(60)
    assert len(incidents.read(view).incidents) == 2
    assert actions(run(view, at=at)) == []


def test_last_seen_moves_at_most_hourly() -> None:
    marked = after(only(run(node(), notice())))
    assert not only(run(marked, notice(), at=NOW + minutes(59))).changed
    moved = only(run(marked, notice(), at=NOW + minutes(60)))
    assert moved.changed
    assert moved.record.open[0].first == NOW


def test_the_union_of_open_incidents_decides_and_closing_one_only_recalculates() -> None:
    both = only(run(node(), notice("A"), notice("B", source="other")))
    back = only(run(after(both), recovery("A"), at=NOW + minutes(1)))
    rested = only(run(after(back), at=NOW + minutes(20)))
    assert [i.check for i in rested.record.open] == ["B"]
    assert rested.unschedulable is None
    assert rested.state == "cordon"


def test_a_raised_severity_is_told_once() -> None:
    marked = after(only(run(node(), notice())))
    raised = run(marked, notice(**EVICT), at=NOW + minutes(1))
    assert only(raised).state == "evict"
    assert "raise" in actions(raised)
    assert "raise" not in actions(run(after(only(raised)), notice(**EVICT), at=NOW + minutes(2)))


class TestOwnership:
    """Rule 1: undo only what our mark shows."""

    def test_a_humans_cordon_is_not_taken_over(self) -> None:
        theirs = node(unschedulable=True)
        verdict = only(run(theirs, notice()))
        assert verdict.unschedulable is None
        assert not verdict.record.cordoned_by_us
        over = only(run(after(verdict), recovery(), at=NOW + minutes(1)))
        over = only(run(after(over), at=NOW + minutes(30)))
        assert not over.record.open
        assert over.unschedulable is None
        assert after(over).unschedulable

    def test_an_uncordon_by_somebody_else_dismisses_the_incident(self) -> None:
        marked = after(only(run(node(), notice())))
        plan = run(msgspec.structs.replace(marked, unschedulable=False), notice())
        assert only(plan).unschedulable is None
        assert only(plan).record.cordon is None
        assert only(plan).state == "dismissed"
        assert actions(plan) == ["dismiss"]

    @pytest.mark.parametrize(
        ("what", "acts"),
        [
            ({}, False),
            ({"notice": notice(ref="another message of the same check")}, False),
            ({"notice": notice(**EVICT)}, True),
            ({"notice": notice("OtherCheck")}, True),
            ({"boot_id": "boot-2"}, True),
            ({"later": timedelta(hours=24)}, True),
            ({"later": timedelta(hours=23)}, False),
        ],
        ids=str,
    )
    def test_a_dismissed_check_keeps_quiet_until(self, what: dict[str, Any], acts: bool) -> None:
        marked = after(only(run(node(), notice())))
        dismissed = after(only(run(msgspec.structs.replace(marked, unschedulable=False))))
        dismissed = msgspec.structs.replace(dismissed, boot_id=what.get("boot_id", "boot-1"))
        again = run(dismissed, what.get("notice", notice()), at=NOW + what.get("later", minutes(1)))
        assert (only(again).unschedulable is True) is acts

    def test_a_dismissed_incident_is_looked_at_again_when_the_override_is_over(self) -> None:
        dismissed = after(only(run(node(), notice())), unschedulable=False)
        assert only(run(dismissed, notice())).look_again == NOW + timedelta(hours=24)

    def test_a_dismissed_check_is_heard_again_once_it_was_quiet_for_long_enough(self) -> None:
        marked = after(only(run(node(), notice())))
        dismissed = after(only(run(msgspec.structs.replace(marked, unschedulable=False))))
        well = after(only(run(dismissed, recovery(), at=NOW + minutes(1))))
        rested = run(well, at=NOW + minutes(16))
        assert actions(rested) == ["close"]
        heard = run(after(only(rested)), notice(), at=NOW + minutes(17))
        assert only(heard).unschedulable is True

    def test_our_load_balancer_label_goes_on_and_off_with_our_cordon(self) -> None:
        assert only(run(node(), notice())).load_balancer_label is True
        marked = after(only(run(node(), notice())))
        dismissed = only(run(msgspec.structs.replace(marked, unschedulable=False)))
        assert dismissed.load_balancer_label is False

    def test_somebody_elses_load_balancer_label_stays(self) -> None:
        labelled = node(labels={keys.EXCLUDE_FROM_LOAD_BALANCERS: "x"})
        cordoned = only(run(labelled, notice(latched=False)))
        assert cordoned.load_balancer_label is None
        claimed = only(run(after(cordoned), recovery(), at=NOW + minutes(1)))
        released = only(run(after(claimed), at=NOW + minutes(17)))
        assert released.unschedulable is False
        assert released.load_balancer_label is None


class TestRecovery:
    """Rule 3: recovery needs proof."""

    def test_a_latched_sources_word_is_not_believed(self) -> None:
        marked = after(only(run(node(), notice(latched=True))))
        claimed = after(only(run(marked, recovery(latched=True), at=NOW + minutes(1))))
        rested = only(run(claimed, at=NOW + timedelta(days=3)))
        assert rested.record.open
        assert rested.unschedulable is None

    def test_a_new_boot_and_a_quiet_time_with_all_gpus_release_a_cordon(self) -> None:
        marked = after(only(run(node(), notice(latched=True))), boot_id="boot-2")
        booted = only(run(marked, recovery(latched=True), at=NOW + minutes(5)))
        assert booted.look_again == NOW + minutes(20)
        quiet = only(run(after(booted), at=NOW + minutes(19)))
        assert quiet.unschedulable is None
        released = run(after(booted), at=NOW + minutes(20))
        assert only(released).unschedulable is False
        assert actions(released) == ["close", "uncordon"]

    @pytest.mark.parametrize("gpus", [{"gpus": 7}, {"gpus_allocatable": 7}, {"gpus": None}])
    def test_not_while_a_gpu_is_missing(self, gpus: dict[str, Any]) -> None:
        marked = after(only(run(node(), notice(latched=True))), boot_id="boot-2", **gpus)
        booted = after(only(run(marked, at=NOW + minutes(5))))
        assert only(run(booted, at=NOW + minutes(60))).unschedulable is None

    def test_a_fault_after_the_boot_starts_the_quiet_time_anew(self) -> None:
        marked = after(only(run(node(), notice(latched=True))), boot_id="boot-2")
        booted = after(only(run(marked, at=NOW + minutes(5))))
        accused = after(only(run(booted, notice(latched=True), at=NOW + minutes(10))))
        assert only(run(accused, at=NOW + minutes(24))).unschedulable is None

    def test_severity_evict_is_never_released_by_itself(self) -> None:
        marked = after(only(run(node(), notice(**EVICT))), boot_id="boot-2")
        claimed = after(only(run(marked, recovery(), at=NOW + minutes(5))))
        assert only(run(claimed, at=NOW + timedelta(days=6))).unschedulable is None

    def test_the_third_release_within_a_week_is_a_humans(self) -> None:
        view, at = node(), NOW
        for _ in range(3):
            cordoned = only(run(view, notice(since=at), at=at))
            assert cordoned.unschedulable is True
            claimed = only(
                run(after(cordoned), recovery(since=at + minutes(1)), at=at + minutes(1))
            )
            at += timedelta(hours=2)
            last = only(run(after(claimed), at=at))
            view = after(last)
        assert last.unschedulable is None
        assert "a human releases" in last.decisions[-1].reason


class TestFirstSeen:
    """Rule 4: first-seen is ours; flapping and new words restart and stop nothing."""

    def test_flapping_and_changed_reasons_keep_it(self) -> None:
        view = after(only(run(node(), notice(latched=True, reason="NvidiaXID79Error"))))
        for minute in range(1, 10):
            said = (recovery if minute % 2 else notice)(
                latched=True, reason=f"r{minute}", since=NOW + minutes(minute)
            )
            view = after(only(run(view, said, at=NOW + minutes(minute))))
        record = incidents.decode(view.incidents or "")
        assert [i.first for i in record.open] == [NOW]

    def test_an_older_word_does_not_undo_a_newer_one(self) -> None:
        late = notice(since=NOW - minutes(10))
        marked = after(only(run(node(), notice(since=NOW - minutes(10)))))
        claimed = after(only(run(marked, recovery(since=NOW - minutes(2)), at=NOW)))
        again = only(run(claimed, late, at=NOW + minutes(1)))
        assert again.record.open[0].claimed == NOW

    def test_a_waiting_time_counts_from_our_first_sight(self) -> None:
        ready = notice("Ready", since=NOW - timedelta(days=1))
        waiting = only(run(node(), ready))
        assert waiting.unschedulable is None
        assert waiting.look_again == NOW + minutes(5)
        assert only(run(after(waiting), ready, at=NOW + minutes(5))).unschedulable is True

    def test_what_is_taken_back_within_its_waiting_time_is_never_acted_on(self) -> None:
        waiting = only(run(node(), notice("Ready")))
        back = only(run(after(waiting), recovery("Ready"), at=NOW + minutes(3)))
        later = only(run(after(back), at=NOW + minutes(6)))
        assert (back.unschedulable, later.unschedulable) == (None, None)
        again = only(run(after(later), notice("Ready"), at=NOW + minutes(7)))
        assert again.unschedulable is True


class TestClocks:
    """Instances of us differ by seconds: what one did is not undone by another that is behind."""

    BEHIND = timedelta(seconds=3)

    @pytest.mark.parametrize(
        ("check", "wait"), [("KernelReady", minutes(0)), ("Ready", minutes(5))]
    )
    def test_a_cordon_is_not_released_by_a_clock_behind_the_one_that_wrote_it(
        self, check: str, wait: timedelta
    ) -> None:
        seen = after(only(run(node(), notice(check))))
        cordoned = run(seen, notice(check), at=NOW + wait)
        marked = after(only(cordoned)) if wait else seen
        assert marked.unschedulable
        for said in ((), (notice(check),)):
            behind = run(marked, *said, at=NOW + wait - self.BEHIND)
            assert only(behind).unschedulable is None
            assert only(behind).state == "cordon"

    def test_nor_one_for_a_window_that_was_due_by_that_clock(self) -> None:
        window = {"kind": Kind.MAINTENANCE, "deadline": NOW + timedelta(hours=24), **EVICT}
        marked = after(only(run(node(), notice("m", **window))))
        assert marked.unschedulable
        assert only(run(marked, at=NOW - self.BEHIND)).unschedulable is None

    def test_an_agent_that_is_a_little_ahead_is_known_again_after_a_reboot(self) -> None:
        said = notice(latched=True, since=NOW + self.BEHIND)
        marked = after(only(run(node(), said)), boot_id="boot-2")
        view = after(only(run(marked, said, at=NOW + minutes(5))))
        view = after(only(run(view, recovery(latched=True), at=NOW + minutes(6))))
        assert only(run(view, at=NOW + minutes(21))).unschedulable is False


class TestBudget:
    """Rule 5: budgets pace; involuntary losses use them up and ask for none."""

    def test_one_node_of_a_small_pool_passes_and_the_second_waits(self) -> None:
        four = rebuilt(4)
        facts = Facts(
            nodes=(NodeFacts(node("n1"), (notice(),)), NodeFacts(node("n2"), (notice(),))),
            ledgers={"gpu": four},
            cluster=Ledger(rebuilt=NOW),
        )
        first, second = decide(facts, default(), NOW).verdicts
        assert first.unschedulable is True
        assert second.unschedulable is None
        assert second.state == "held"
        assert "budget" in second.decisions[-1].blocked_by

    def test_it_is_taken_up_when_the_first_is_back(self) -> None:
        full = rebuilt(
            4, reservations={"m": ledger.Reservation("n0", NOW + minutes(2), pool="gpu")}
        )
        held = run(node(), notice(), pool=full)
        assert only(held).state == "held"
        later = only(run(after(only(held)), at=NOW + minutes(3), pool=rebuilt(4)))
        assert later.unschedulable is True

    def test_an_interruption_passes_and_uses_it_up(self) -> None:
        spot = notice("spot", source="aws.ec2", kind=Kind.INTERRUPTION, **EVICT)
        facts = Facts(
            nodes=(NodeFacts(node("n1"), (notice(),)), NodeFacts(node("n2"), (spot,))),
            ledgers={"gpu": rebuilt(4)},
            cluster=Ledger(rebuilt=NOW),
        )
        fault, interruption = decide(facts, default(), NOW).verdicts
        assert interruption.unschedulable is True
        assert fault.unschedulable is None

    def test_a_place_taken_in_vain_is_given_back(self) -> None:
        mine = ledger.Reservation("n1", NOW + minutes(2), pool="gpu")
        other = ledger.Reservation("n0", NOW + minutes(2), pool="gpu")
        plan = run(
            node(),
            notice(),
            pool=rebuilt(4, reservations={"m": other}),
            cluster=Ledger(rebuilt=NOW, reservations={node().machine: mine, "m": other}),
        )
        assert only(plan).state == "held"
        assert plan.cluster is not None
        assert list(plan.cluster.reservations) == ["m"]

    def test_without_a_ledger_nothing_voluntary_is_done(self) -> None:
        for pool, cluster in ((Ledger(pool="gpu", size=9), Ledger()), (rebuilt(), None)):
            held = only(run(node(), notice(), pool=pool, cluster=cluster))
            assert held.unschedulable is None
            assert "resync" in held.decisions[-1].reason

    def test_without_a_ledger_an_interruption_is_still_answered(self) -> None:
        spot = notice("spot", kind=Kind.INTERRUPTION, **EVICT)
        verdict = only(run(node(), spot, pool=Ledger(pool="gpu"), cluster=None))
        assert verdict.unschedulable is True


class TestBreaker:
    """Rule 5: the circuit breaker stops what one mad check would do."""

    def accuse(self, count: int, size: int = 20, **more: Any) -> tuple[list[Verdict], Ledger]:
        pool, cluster, verdicts = rebuilt(size), Ledger(rebuilt=NOW), []
        for number in range(count):
            plan = run(node(f"n{number}"), notice(latched=True, **more), pool=pool, cluster=cluster)
            pool = plan.ledgers.get("gpu", pool)
            cluster = plan.cluster or cluster
            verdicts.append(only(plan))
        return verdicts, pool

    def test_it_opens_over_a_fifth_of_the_pool_within_ten_minutes(self) -> None:
        verdicts, pool = self.accuse(5)
        assert pool.checks["AcceleratedHardwareReady"].is_open
        assert "breaker" in verdicts[4].record.held
        assert "5 of 20 nodes" in verdicts[4].decisions[-1].reason
        assert not self.accuse(4)[1].checks["AcceleratedHardwareReady"].is_open

    def test_two_nodes_never_open_it(self) -> None:
        assert not self.accuse(2, size=3)[1].checks["AcceleratedHardwareReady"].is_open

    def test_evictions_stop_and_cordons_stand_while_it_is_open(self) -> None:
        verdicts, pool = self.accuse(5, **EVICT)
        acted = verdicts[0]
        assert acted.state == "evict"
        lowered = only(run(after(acted), pool=pool, at=NOW + minutes(1)))
        assert lowered.state == "cordon"
        assert lowered.unschedulable is None

    def test_another_check_of_the_same_node_still_acts(self) -> None:
        _, pool = self.accuse(5)
        rules = "budget: {pool: 50%, cluster: 50%}"
        both = (notice(latched=True), notice("KernelDeadlock"))
        verdict = only(run(node("n9"), *both, pool=pool, rules=rules))
        assert verdict.unschedulable is True
        assert "breaker" in verdict.record.held

    def test_another_check_still_acts(self) -> None:
        _, pool = self.accuse(5)
        other = only(
            run(
                node("n9"),
                notice("KernelDeadlock"),
                pool=pool,
                rules="budget: {pool: 50%, cluster: 50%}",
            )
        )
        assert other.unschedulable is True

    def test_an_interruption_passes(self) -> None:
        _, pool = self.accuse(5)
        spot = notice("AcceleratedHardwareReady", kind=Kind.INTERRUPTION, **EVICT)
        assert only(run(node("n9"), spot, pool=pool)).unschedulable is True

    def test_recoveries_go_on_even_of_a_latched_source(self) -> None:
        verdicts, pool = self.accuse(5, **EVICT)
        back = run(after(verdicts[0]), recovery(latched=True), pool=pool, at=NOW + minutes(8))
        assert only(back).unschedulable is False

    def test_it_closes_when_the_check_took_it_back_and_has_been_quiet(self) -> None:
        verdicts, pool = self.accuse(5)
        for number, verdict in enumerate(verdicts):
            plan = run(after(verdict), recovery(latched=True), pool=pool, at=NOW + minutes(8))
            pool = plan.ledgers.get("gpu", pool)
            assert pool.checks["AcceleratedHardwareReady"].is_open, number
        plan = run(node("n9"), at=NOW + minutes(31), pool=pool)
        assert not plan.ledgers["gpu"].checks["AcceleratedHardwareReady"].is_open

    def test_what_was_said_while_it_was_open_is_not_replayed_when_it_closes(self) -> None:
        verdicts, pool = self.accuse(5, source="kubernetes.event")
        held = verdicts[4]
        later = NOW + timedelta(days=2)
        check = pool.checks["AcceleratedHardwareReady"]
        closed = pool.with_check(
            "AcceleratedHardwareReady", msgspec.structs.replace(check, accused={}, closed=later)
        )
        assert only(run(after(held), at=later, pool=closed)).unschedulable is None
        fresh = run(after(held), notice(source="kubernetes.event"), at=later, pool=closed)
        assert only(fresh).unschedulable is True


class TestMaintenance:
    WINDOW = NOW + timedelta(days=14)

    def retirement(self, **more: Any) -> Notice:
        made: dict[str, Any] = {
            "source": "aws.health",
            "kind": Kind.MAINTENANCE,
            "cause": Cause.PROVIDER,
            "deadline": self.WINDOW,
        }
        return notice("AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", **(made | EVICT | more))

    def test_two_weeks_ahead_nothing_is_done_yet(self) -> None:
        verdict = only(run(node(), self.retirement()))
        assert verdict.unschedulable is None
        assert verdict.look_again == self.WINDOW - timedelta(hours=24)

    def test_it_is_cordoned_a_day_ahead_and_drained_four_hours_ahead(self) -> None:
        seen = after(only(run(node(), self.retirement())))
        cordoned = only(run(seen, at=self.WINDOW - timedelta(hours=24)))
        assert cordoned.state == "cordon"
        assert cordoned.look_again == self.WINDOW - timedelta(hours=4)
        drained = only(run(after(cordoned), at=self.WINDOW - timedelta(hours=4)))
        assert drained.state == "evict"

    LEADS = """maintenance: {leads: [
        {check: "*RETIREMENT*", pool: training, cordon_before: 4d, drain_before: 3d},
        {check: "*RETIREMENT*", pool: gpu, cordon_before: 2h, drain_before: 1h}]}"""

    def test_the_policy_gives_a_kind_in_a_pool_other_times(self) -> None:
        seen = only(run(node(), self.retirement(), rules=self.LEADS))
        assert seen.look_again == self.WINDOW - timedelta(hours=2)
        at = self.WINDOW - timedelta(hours=2)
        cordoned = only(run(after(seen), at=at, rules=self.LEADS))
        assert (cordoned.state, cordoned.look_again) == ("cordon", at + timedelta(hours=1))
        reboot = notice("REBOOT", kind=Kind.MAINTENANCE, deadline=self.WINDOW, **EVICT)
        assert only(run(node(), reboot, rules=self.LEADS)).look_again == (
            self.WINDOW - timedelta(hours=24)
        )

    SATURDAYS = """maintenance: {windows: [
        {pool: gpu, days: [sat], opens: "20:00", closes: "02:00"}]}"""
    OPENS = NOW + timedelta(days=12, hours=11)

    def test_it_is_drained_in_the_last_window_of_its_team_and_cordoned_a_day_before(self) -> None:
        seen = only(run(node(), self.retirement(), rules=self.SATURDAYS))
        assert seen.look_again == self.OPENS - timedelta(hours=20)
        cordoned = only(run(after(seen), at=seen.look_again, rules=self.SATURDAYS))
        assert (cordoned.state, cordoned.look_again) == ("cordon", self.OPENS)
        drained = only(run(after(cordoned), at=self.OPENS, rules=self.SATURDAYS))
        assert drained.state == "evict"

    def test_in_a_window_it_asks_for_a_place_in_the_budget_and_at_its_time_for_none(self) -> None:
        busy = ledger.Reservation("n0", NOW + timedelta(days=30), pool="gpu")
        full = rebuilt(4, reservations={"m": busy})
        seen = after(only(run(node(), self.retirement(), pool=full, rules=self.SATURDAYS)))
        held = only(run(seen, at=self.OPENS, pool=full, rules=self.SATURDAYS))
        assert held.unschedulable is None
        at = self.WINDOW - timedelta(hours=4)
        due = only(run(after(held), at=at, pool=full, rules=self.SATURDAYS))
        assert (due.unschedulable, due.state) == (True, "evict")

    def test_without_a_window_left_its_deadline_holds(self) -> None:
        sunday = self.OPENS + timedelta(hours=14)
        seen = only(run(node(), self.retirement(), at=sunday, rules=self.SATURDAYS))
        assert (seen.state, seen.look_again) == ("cordon", self.WINDOW - timedelta(hours=4))

    def test_one_that_is_first_heard_of_a_day_after_its_time_is_a_leftover(self) -> None:
        late = only(run(node(), self.retirement(), at=self.WINDOW + timedelta(hours=25)))
        assert late.unschedulable is None
        assert late.state == "watch"
        in_time = only(run(node(), self.retirement(), at=self.WINDOW + timedelta(hours=23)))
        assert in_time.unschedulable is True

    def test_with_its_deadline_due_it_passes_the_budget(self) -> None:
        full = rebuilt(
            4, reservations={"m": ledger.Reservation("n0", NOW + timedelta(days=30), pool="gpu")}
        )
        seen = after(only(run(node(), self.retirement(), pool=full)))
        held = only(run(seen, at=self.WINDOW - timedelta(hours=24), pool=full))
        assert held.unschedulable is None
        due = only(run(after(held), at=self.WINDOW - timedelta(hours=4), pool=full))
        assert due.unschedulable is True

    def test_the_providers_withdrawal_gives_the_node_back_at_once(self) -> None:
        seen = after(only(run(node(), self.retirement())))
        cordoned = after(only(run(seen, at=self.WINDOW - timedelta(hours=24))))
        closed = self.retirement(kind=Kind.RECOVERY)
        released = only(run(cordoned, closed, at=self.WINDOW - timedelta(hours=12)))
        assert released.unschedulable is False

    def test_a_new_boot_after_the_window_ends_it(self) -> None:
        seen = after(only(run(node(), self.retirement())))
        drained = after(only(run(seen, at=self.WINDOW - timedelta(hours=4))), boot_id="boot-2")
        booted = after(only(run(drained, at=self.WINDOW + minutes(30))))
        assert only(run(booted, at=self.WINDOW + minutes(46))).unschedulable is False


class TestIdentity:
    """A hardware incident belongs to the provider ID."""

    def test_a_node_that_registers_again_as_the_same_machine_inherits(self) -> None:
        first = run(node(), notice())
        kept = first.ledgers["gpu"].machines["aws:///us-east-1a/i-n1"]
        anew = node(uid="uid-anew")
        plan = run(anew, inherited=kept, at=NOW + minutes(3))
        assert only(plan).unschedulable is True
        assert only(plan).record.open[0].first == NOW

    def test_a_node_that_our_patch_never_reached_is_not_called_ours(self) -> None:
        first = run(node(), notice())
        kept = first.ledgers["gpu"].machines["aws:///us-east-1a/i-n1"]
        humans = run(node(unschedulable=True), notice(), inherited=kept)
        assert only(humans).record.cordon.theirs
        assert "open" in actions(humans)

    def test_a_new_machine_under_the_old_name_never_does(self) -> None:
        marked = after(only(run(node(), notice())), provider_id="aws:///us-east-1a/i-other")
        verdict = only(run(marked))
        assert not verdict.record.incidents
        assert verdict.state == ""

    def test_a_damaged_annotation_is_restored_from_the_ledger(self) -> None:
        first = run(node(), notice())
        kept = first.ledgers["gpu"].machines["aws:///us-east-1a/i-n1"]
        damaged = after(only(first), incidents='{"v":1,"incid')
        verdict = only(run(damaged, inherited=kept, at=NOW + minutes(1)))
        assert verdict.changed
        assert verdict.record.cordoned_by_us
        assert verdict.record.open

    def test_a_damaged_annotation_that_nobody_remembers_stops_us_and_says_what_to_do(self) -> None:
        verdict = only(run(node(incidents="not json", state="cordon"), notice(**EVICT)))
        assert not verdict.changed
        assert "kubectl annotate node n1 groundcrew.dev/incidents-" in verdict.decisions[-1].reason


def test_a_pause_stops_every_act_and_undoes_none() -> None:
    paused: dict[str, Any] = {"paused": lambda pool: "paused until tomorrow: upgrade"}
    held = only(run(node(), notice(**EVICT), **paused))
    assert held.unschedulable is None
    assert held.state == "held"
    marked = after(only(run(node(), notice(**EVICT))))
    still = only(run(marked, at=NOW + minutes(1), **paused))
    assert still.unschedulable is None
    assert still.state == "evict"


def test_a_pause_lets_recoveries_go_on() -> None:
    marked = after(only(run(node(), notice())))
    claimed = after(only(run(marked, recovery(), at=NOW + minutes(1))))
    plan = run(claimed, at=NOW + minutes(16), paused=lambda pool: "paused")
    assert only(plan).unschedulable is False


def test_shadow_mode_decides_and_tells_and_does_nothing() -> None:
    plan = run(node(), notice(), rules="shadow: [{check: Accel*}]")
    assert only(plan).unschedulable is None
    told = plan.decisions[-1]
    assert told.shadow
    assert "would cordon" in told.reason


def test_an_opted_out_node_is_left_alone_and_takes_no_place() -> None:
    plan = run(node(labels={keys.OPT_OUT: "false"}), notice(**EVICT))
    verdict = only(plan)
    assert not verdict.changed
    assert verdict.decisions[-1].blocked_by == ("opt-out",)
    assert plan.cluster is None
    assert not any(found.reservations for found in plan.ledgers.values())


def test_of_an_opted_out_node_that_is_well_nothing_is_said() -> None:
    assert not run(node(labels={keys.OPT_OUT: "false"})).decisions


class TestApplicationFaults:
    """Rule 11: counted, not punished, until they follow one GPU across jobs."""

    def hit(self, view: NodeView, job: str, gpu: str, at: datetime) -> Verdict:
        said = notice(
            "xid-31", source="kubernetes.event", severity=Severity.WATCH,
            cause=Cause.SOFTWARE, gpu=gpu, job=job,
        )  # fmt: skip
        return only(run(view, said, at=at))

    def test_a_storm_of_one_job_cordons_nothing(self) -> None:
        view = node()
        for minute in range(40):
            verdict = self.hit(
                view, "team/train-0", f"0000:0{minute % 8}:00", NOW + minutes(minute)
            )
            view = after(verdict)
        assert verdict.state == "watch"

    def test_one_gpu_across_three_jobs_within_a_day_is_the_gpus(self) -> None:
        view = node()
        for hour, job in enumerate(("a/1", "b/2", "c/3")):
            verdict = self.hit(view, job, "0000:0f:00", NOW + timedelta(hours=hour))
            view = after(verdict)
        assert verdict.unschedulable is True
        assert "3 jobs" in verdict.record.open[0].evidence

    def test_not_when_the_jobs_are_days_apart(self) -> None:
        view = node()
        for day, job in enumerate(("a/1", "b/2", "c/3")):
            verdict = self.hit(view, job, "0000:0f:00", NOW + timedelta(hours=25 * day))
            view = after(verdict)
        assert verdict.state == "watch"


def test_a_notice_of_an_earlier_boot_claims_no_recovery() -> None:
    marked = after(only(run(node(boot_id="boot-2"), notice())))
    late = recovery(identity=Identity(node="n1", boot_id="boot-1"))
    assert only(run(marked, late)).record.open[0].claimed is None


class TestWhatIsSaid:
    """A decision explains itself a month later."""

    def test_an_incident_is_opened_with_its_reason_its_window_and_when_it_is_acted_on(self) -> None:
        plain = run(node(), notice("a")).decisions[0]
        assert plain.reason == "kubernetes.node says a"
        assert (plain.incident, plain.severity) == ("kubernetes.node/a", "cordon")
        assert (plain.node, plain.pool, plain.evidence) == ("n1", "gpu", "a is bad")
        assert "says a (b)" in run(node(), notice("a", reason="b")).decisions[0].reason
        assert "(" not in run(node(), notice("a", reason="a")).decisions[0].reason
        waits = run(node(), notice("Ready")).decisions[0]
        assert waits.reason.endswith("acted on from 2026-03-02 09:05Z if it lasts")
        watched = run(node(), notice("a", severity=Severity.WATCH)).decisions[0]
        assert "acted on" not in watched.reason
        dated = notice("m", kind=Kind.MAINTENANCE, deadline=NOW + timedelta(days=9))
        assert ", due 2026-03-11 09:00Z" in run(node(), dated).decisions[0].reason

    def test_a_cordon_names_the_worst_and_how_many_more(self) -> None:
        one = run(node(), notice("a", reason="b")).decisions[-1]
        assert one.reason == "kubernetes.node says a (b): to take no new work"
        assert one.incident == "kubernetes.node/a"
        more = run(node(), notice("a"), notice("b", **EVICT), notice("c")).decisions[-1]
        assert more.reason == "kubernetes.node says b and 2 more: to be emptied"
        assert more.severity == "evict"
        watched = run(node(), notice("a"), notice("b", severity=Severity.WATCH)).decisions[-1]
        assert "more" not in watched.reason
        spot = notice("s", kind=Kind.INTERRUPTION, deadline=NOW + minutes(2), **EVICT)
        assert "s, due 2026-03-02 09:02Z: to be emptied" in run(node(), spot).decisions[-1].reason

    def test_of_two_equal_ones_the_older_is_named(self) -> None:
        waiting = rebuilt(reservations={"m": ledger.Reservation("x", NOW + minutes(9), "gpu")})
        full: dict[str, Any] = {"pool": waiting, "rules": "budget: {pool: 1%}"}
        seen = after(only(run(node(), notice("b"), **full)))
        both = run(seen, notice("a"), at=NOW + minutes(1))
        assert both.decisions[-1].incident == "kubernetes.node/b"

    def test_a_release_says_what_is_over(self) -> None:
        claimed = after(only(run(after(only(run(node(), notice()))), recovery())))
        plan = run(claimed, at=NOW + minutes(15))
        assert "no longer says it" in plan.decisions[-1].reason

    def test_when_the_cordon_is_somebody_elses_that_is_said(self) -> None:
        seen = run(node(unschedulable=True), notice())
        assert seen.decisions[-1].blocked_by == ("cordoned by somebody else",)
        claimed = after(only(run(after(only(seen)), recovery())))
        over = run(claimed, at=NOW + minutes(15))
        assert "stays" in over.decisions[-1].reason
        assert only(over).record.cordon is None
        raised = run(node(unschedulable=True), notice(**EVICT))
        assert actions(raised) == ["open", "raise"]

    def test_what_holds_is_told_when_it_begins_and_not_each_time(self) -> None:
        full = rebuilt(4, reservations={"m": ledger.Reservation("n0", NOW + minutes(9), "gpu")})
        held = run(node(), notice(), pool=full)
        assert held.decisions[-1].action == "hold"
        assert held.decisions[-1].look_again == NOW + minutes(2)
        again = run(after(only(held)), notice(), pool=full, at=NOW + minutes(1))
        assert not again.decisions
        assert not only(again).changed

    def test_a_machine_that_registers_again_is_said_to(self) -> None:
        kept = run(node(), notice()).ledgers["gpu"].machines["aws:///us-east-1a/i-n1"]
        anew = run(node(uid="anew"), inherited=kept)
        assert "registered again" in anew.decisions[0].reason
        unreached = run(node(), inherited=kept)
        assert not any("registered again" in d.reason for d in unreached.decisions)


class TestMarks:
    def test_a_watched_incident_is_not_dismissed_by_an_uncordon(self) -> None:
        both = run(node(), notice("w", severity=Severity.WATCH), notice("c"))
        uncordoned = only(run(after(only(both), unschedulable=False), at=NOW + minutes(1)))
        assert [(i.check, i.state) for i in uncordoned.record.incidents] == [
            ("w", "open"),
            ("c", "dismissed"),
        ]
        assert uncordoned.state == "watch"

    def test_one_dismissed_beside_one_that_is_over_still_shows(self) -> None:
        both = after(only(run(node(), notice("w", severity=Severity.WATCH), notice("c"))))
        one = after(only(run(both, recovery("w"))), unschedulable=False)
        assert only(run(one, at=NOW + minutes(1))).state == "dismissed"

    def test_a_state_label_that_somebody_took_off_is_put_back(self) -> None:
        marked = after(only(run(node(), notice())), state="")
        verdict = only(run(marked, at=NOW + minutes(1)))
        assert verdict.changed
        assert verdict.state == "cordon"
        assert not verdict.decisions

    def test_an_annotation_that_says_nothing_any_more_goes(self) -> None:
        empty = node(incidents='{"v":1,"machine":"aws:///us-east-1a/i-n1"}')
        verdict = only(run(empty))
        assert verdict.changed
        assert verdict.state == ""

    def test_a_reboot_of_a_node_that_was_released_is_not_written_down(self) -> None:
        claimed = after(only(run(after(only(run(node(), notice()))), recovery())))
        released = after(only(run(claimed, at=NOW + minutes(15))), boot_id="boot-2")
        assert released.state == "released"
        assert not only(run(released, at=NOW + minutes(16))).changed

    def test_a_node_returns_until_drain_has_taken_off_what_it_wrote(self) -> None:
        claimed = after(only(run(after(only(run(node(), notice()))), recovery())), drain="{}")
        back = only(run(claimed, at=NOW + minutes(15)))
        assert back.unschedulable is False
        assert back.state == "returning"
        returning = after(back)
        assert returning.drain == "{}"
        assert not only(run(returning, at=NOW + minutes(16))).changed
        settled = msgspec.structs.replace(returning, drain=None)
        assert only(run(settled, at=NOW + minutes(16))).state == "released"

    def test_what_only_a_newer_version_knows_keeps_the_annotation(self) -> None:
        kept = node(incidents='{"v":1,"machine":"aws:///us-east-1a/i-n1","ladder":1}', gpus=None)
        verdict = only(run(kept))
        assert verdict.state == "released"
        assert verdict.record.extra == {"ladder": 1}

    def test_the_most_gpus_ever_shown_are_remembered(self) -> None:
        marked = after(only(run(node(), notice(latched=True))), gpus=4)
        worse = only(run(marked, notice("b"), at=NOW + minutes(1)))
        assert worse.record.gpus == 8


class TestReservations:
    def test_each_cordon_reserves_in_both_ledgers_beside_those_that_hold(self) -> None:
        old = ledger.Reservation("old", NOW, "gpu")
        mine = ledger.Reservation("n0", NOW + minutes(1), "gpu")
        facts = Facts(
            nodes=tuple(NodeFacts(node(n), (notice(),)) for n in ("n1", "n2")),
            ledgers={"gpu": rebuilt(100, reservations={"m": mine, "o": old})},
            cluster=Ledger(rebuilt=NOW, reservations={"m": mine, "o": old}),
        )
        rules = parse("version: 1\nbudget: {domains: [{label: zone, share: 50%}]}")
        plan = decide(facts, rules, NOW)
        machines = {f"aws:///us-east-1a/i-{n}" for n in ("n1", "n2")}
        assert plan.cluster is not None
        for found in (plan.ledgers["gpu"], plan.cluster):
            assert set(found.reservations) == {"m", *machines}
            until = {found.reservations[m].until for m in machines}
            assert until == {NOW + minutes(2)}

    def test_a_node_that_is_out_already_reserves_nothing_more(self) -> None:
        marked = after(only(run(node(), notice())))
        plan = run(marked, notice(**EVICT), at=NOW + minutes(5))
        assert only(plan).state == "evict"
        assert plan.cluster is None

    def test_those_that_may_not_hold_up_no_other(self) -> None:
        opted_out = node("n0", labels={keys.OPT_OUT: "false"})
        unknown = node("n1", pool="unknown")
        facts = Facts(
            nodes=tuple(NodeFacts(n, (notice(),)) for n in (opted_out, unknown, node("n2"))),
            ledgers={"gpu": rebuilt(100)},
            cluster=Ledger(rebuilt=NOW),
        )
        plan = decide(facts, default(), NOW)
        assert [v.unschedulable for v in plan.verdicts] == [None, None, True]
        assert list(plan.ledgers["gpu"].reservations) == ["aws:///us-east-1a/i-n2"]

    def test_a_failure_domain_has_a_budget_of_its_own(self) -> None:
        zone = {"zone": "a"}
        facts = Facts(
            nodes=tuple(NodeFacts(node(n, labels=zone), (notice(),)) for n in ("n1", "n2")),
            ledgers={"gpu": rebuilt(100, domains={"zone=a": 10})},
            cluster=Ledger(rebuilt=NOW),
        )
        rules = parse("version: 1\nbudget: {domains: [{label: zone, share: 10%}]}")
        first, second = decide(facts, rules, NOW).verdicts
        assert first.unschedulable is True
        assert "zone=a: 1 of 1" in second.decisions[-1].reason

    def test_the_worst_goes_first_and_of_equals_the_oldest(self) -> None:
        held = rebuilt(4, reservations={"m": ledger.Reservation("x", NOW + minutes(1), "gpu")})
        older = after(only(run(node("n1"), notice(), pool=held)))
        later = NOW + minutes(5)

        def first(*nodes: NodeFacts) -> list[str]:
            facts = Facts(nodes=nodes, ledgers={"gpu": rebuilt(4)}, cluster=Ledger(rebuilt=NOW))
            plan = decide(facts, default(), later)
            return [v.view.name for v in plan.verdicts if v.unschedulable]

        young = NodeFacts(node("n2"), (notice(),))
        worse = NodeFacts(node("n3"), (notice("b", **EVICT),))
        assert first(young, NodeFacts(older)) == ["n1"]
        assert first(young, NodeFacts(older), worse) == ["n3"]

    def test_an_interruption_in_a_pool_without_a_ledger_is_answered(self) -> None:
        spot = notice("spot", kind=Kind.INTERRUPTION, **EVICT)
        plan = decide(Facts(nodes=(NodeFacts(node(), (spot,)),)), default(), NOW)
        assert only(plan).unschedulable is True
        assert not plan.ledgers


class TestRemembered:
    """What the ledger keeps of a machine."""

    MACHINE = "aws:///us-east-1a/i-n1"

    def kept(self, *said: Notice) -> bool:
        return self.MACHINE in run(node(), *said).ledgers.get("gpu", rebuilt()).machines

    def test_what_takes_it_out_of_service_and_not_what_is_watched(self) -> None:
        watched = notice("w", severity=Severity.WATCH)
        assert self.kept(notice())
        assert self.kept(watched, notice())
        assert not self.kept(watched)

    def test_until_nothing_is_left_of_it(self) -> None:
        plan = run(node(), notice())
        pool = plan.ledgers["gpu"]
        for at, said in ((minutes(1), (recovery(),)), (minutes(16), ()), (timedelta(days=9), ())):
            plan = run(after(only(plan)), *said, at=NOW + at, pool=pool)
            pool = plan.ledgers.get("gpu", pool)
        assert only(plan).state == ""
        assert self.MACHINE not in pool.machines

    def test_of_two_pools_the_newer_word_holds(self) -> None:
        old, new = (ledger.Machine("n1", NOW + minutes(n), "{}", uid=f"u{n}") for n in (0, 1))
        ledgers = {"a": rebuilt(machines={"m": new}), "b": rebuilt(machines={"m": old})}
        assert remembered(ledgers, "m") == new
        assert remembered(ledgers, "other") is None


class TestInDoubt:
    def doubt(self, minute: float, *, closed: float | None = None, **more: Any) -> bool:
        check = breaker.Check(opened=NOW, closed=NOW + minutes(closed) if closed else None)
        record = only(run(node(), notice(**more), at=NOW + minutes(minute))).record
        found = rebuilt().with_check("AcceleratedHardwareReady", check)
        return in_doubt(record.open[0], found, default())

    def test_while_it_is_open_and_ten_minutes_before(self) -> None:
        assert [self.doubt(m) for m in (-11, -10, 5)] == [False, True, True]

    def test_what_was_said_until_it_closed_stays_so(self) -> None:
        assert [self.doubt(m, closed=30) for m in (5, 30, 31)] == [True, True, False]

    def test_a_providers_word_never_is(self) -> None:
        assert not self.doubt(5, kind=Kind.MAINTENANCE, deadline=NOW)


def test_maintenance_without_a_date_is_acted_on_now() -> None:
    said = notice("m", kind=Kind.MAINTENANCE, **EVICT)
    assert only(run(node(), said)).state == "evict"


@pytest.mark.parametrize("minutes_since", [1, 3])
def test_a_node_that_was_read_before_it_was_cordoned_stays_remembered_as_cordoned(
    minutes_since: int,
) -> None:
    """Another instance cordoned it between our reading of the node and of the ledgers."""
    theirs = run(node(), notice())
    ours = run(node(), at=NOW + minutes(minutes_since), pool=theirs.ledgers["gpu"])
    assert not only(ours).changed
    kept = ours.ledgers.get("gpu", theirs.ledgers["gpu"]).machines
    # Once the place that it took is free again, no call of that time goes on.
    assert [one.cordoned for one in kept.values()] == ([True] if minutes_since == 1 else [])
