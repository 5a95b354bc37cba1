"""When an incident is over: what proves it, what does not, and what a late word changes."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from events.notice import Identity, Kind, Severity
from functions.rules import incidents, keys, policy, recovery
from functions.rules.incidents import Incident, Record, State
from functions.rules.node_view import NodeView
from tests.support.facts import NOW, actions, after, minutes, node, notice, only, run
from tests.support.facts import recovery as taken_back

BEFORE = NOW - minutes(1)


def incident(**more: Any) -> Incident:
    made: dict[str, Any] = {
        "source": "s", "check": "c", "kind": Kind.FAULT, "severity": Severity.CORDON,
        "first": NOW, "last": NOW, "boot": "boot-1",
    }  # fmt: skip
    return Incident(**(made | more))


def settled(
    one: Incident,
    *,
    at: datetime = NOW,
    view: NodeView | None = None,
    doubt: bool = False,
    said: bool = False,
    gpus: int = 0,
) -> tuple[Incident, datetime | None]:
    record, due = recovery.settle(
        Record(incidents=(one,), gpus=gpus),
        view or node(),
        policy.default(),
        at,
        lambda _: doubt,
        frozenset({one.key}) if said else frozenset(),
    )
    return record.incidents[0], due


class TestSeverityCordon:
    def test_the_quiet_time_counts_from_when_its_source_took_it_back(self) -> None:
        claimed = incident(claimed=NOW)
        waiting, due = settled(claimed, at=NOW + minutes(14))
        assert waiting.open
        assert due == NOW + minutes(15)
        over, due = settled(claimed, at=NOW + minutes(15))
        assert over.state is State.CLOSED
        assert over.ended == NOW + minutes(15)
        assert due is None

    def test_nothing_is_over_that_nobody_took_back(self) -> None:
        assert settled(incident(), at=NOW + timedelta(days=30)) == (incident(), None)

    def test_a_reboot_is_noted_when_it_is_first_seen_and_never_again(self) -> None:
        seen, due = settled(incident(), view=node(boot_id="boot-2"))
        assert seen.rebooted == NOW
        assert due == NOW + minutes(15)
        later, _ = settled(seen, at=NOW + minutes(1), view=node(boot_id="boot-2"))
        assert later is seen

    @pytest.mark.parametrize(("ours", "nodes"), [("", "boot-2"), ("boot-1", "")])
    def test_an_unknown_boot_id_is_no_new_one(self, ours: str, nodes: str) -> None:
        seen, _ = settled(incident(boot=ours), view=node(boot_id=nodes))
        assert seen.rebooted is None

    def test_of_a_latched_source_quiet_counts_from_the_later_of_boot_and_claim(self) -> None:
        both = incident(latched=True, rebooted=NOW, claimed=NOW + minutes(5))
        assert settled(both, at=NOW + minutes(19))[0].open
        assert not settled(both, at=NOW + minutes(20))[0].open
        claimed_first = incident(latched=True, rebooted=NOW + minutes(5), claimed=NOW)
        assert settled(claimed_first, at=NOW + minutes(19))[0].open

    def test_why_it_is_over_names_the_proof(self) -> None:
        later = NOW + minutes(15)
        assert "s no longer says it, quiet" in settled(incident(claimed=NOW), at=later)[0].why
        booted = incident(latched=True, rebooted=NOW)
        assert "a new boot ID, quiet" in settled(booted, at=later)[0].why

    def test_what_the_node_still_says_is_not_over(self) -> None:
        booted = incident(latched=True, rebooted=NOW)
        assert settled(booted, at=NOW + minutes(60), said=True)[0].open


class TestGpus:
    BOOTED = incident(latched=True, rebooted=NOW)

    def over(self, view: NodeView, gpus: int = 0) -> bool:
        return not settled(self.BOOTED, at=NOW + minutes(15), view=view, gpus=gpus)[0].open

    def test_a_known_instance_type_says_how_many_there_must_be(self) -> None:
        labels = {keys.INSTANCE_TYPE: "p5.48xlarge"}
        assert self.over(node(labels=labels))
        assert not self.over(node(labels=labels, gpus=7))
        assert not self.over(node(labels=labels, gpus_allocatable=7))

    def test_an_unknown_one_must_show_what_it_once_showed(self) -> None:
        assert self.over(node(gpus=4, gpus_allocatable=4), gpus=4)
        assert not self.over(node(gpus=4, gpus_allocatable=4), gpus=8)
        assert not self.over(node(gpus=None, gpus_allocatable=None), gpus=1)

    def test_gpus_in_parts_are_not_counted(self) -> None:
        labels = {keys.INSTANCE_TYPE: "p5.48xlarge"}
        parts = node(labels=labels, gpus=None, gpus_allocatable=None, sliced=True)
        assert self.over(parts)

    def test_a_node_that_never_showed_any_needs_none(self) -> None:
        assert self.over(node(gpus=None, gpus_allocatable=None))


class TestProvidersWord:
    @pytest.mark.parametrize("kind", [Kind.MAINTENANCE, Kind.INTERRUPTION, Kind.TERMINATION])
    def test_its_withdrawal_is_believed_at_once(self, kind: Kind) -> None:
        over, _ = settled(incident(kind=kind, severity=Severity.EVICT, claimed=NOW))
        assert over.state is State.CLOSED
        assert "provider" in over.why

    def test_a_boot_before_the_announced_time_ends_nothing(self) -> None:
        planned = incident(kind=Kind.MAINTENANCE, rebooted=NOW, deadline=NOW + minutes(1))
        assert settled(planned, at=NOW + timedelta(days=1)) == (planned, None)

    def test_a_boot_after_it_does_when_quiet_and_whole(self) -> None:
        planned = incident(kind=Kind.MAINTENANCE, rebooted=NOW, deadline=NOW)
        assert settled(planned, at=NOW + minutes(14)) == (planned, NOW + minutes(15))
        assert not settled(planned, at=NOW + minutes(15))[0].open
        assert settled(planned, at=NOW + minutes(15), view=node(gpus=7), gpus=8)[0].open

    def test_a_boot_ends_an_interruption_that_had_no_time(self) -> None:
        spot = incident(kind=Kind.INTERRUPTION, rebooted=NOW)
        assert not settled(spot, at=NOW + minutes(15))[0].open


class TestSeverityWatch:
    def test_its_sources_word_suffices(self) -> None:
        assert not settled(incident(severity=Severity.WATCH, claimed=NOW))[0].open
        assert settled(incident(severity=Severity.WATCH))[0].open

    def test_a_reboot_alone_is_not_enough(self) -> None:
        booted = incident(severity=Severity.WATCH, rebooted=NOW)
        assert settled(booted, at=NOW + timedelta(days=1))[0].open

    def test_of_a_latched_source_a_new_boot_is_needed_too(self) -> None:
        watched = incident(severity=Severity.WATCH, claimed=NOW, latched=True)
        assert settled(watched)[0].open
        assert not settled(msgspec.structs.replace(watched, rebooted=NOW))[0].open


class TestApplicationFaults:
    """A kernel log takes nothing back: without an end every node of a fleet is watched some day."""

    HIT = incident(check="xid-31", severity=Severity.WATCH, latched=True, in_log=True)
    DAY = policy.default().application_faults.within

    def test_it_is_over_once_none_of_its_jobs_counts(self) -> None:
        end = NOW + self.DAY + incidents.REFRESH
        waiting, due = settled(self.HIT, at=end - minutes(1))
        assert (waiting, due) == (self.HIT, end)
        over, due = settled(self.HIT, at=end)
        assert (over.state, over.ended, due) == (State.CLOSED, end, None)
        assert "none of the jobs" in over.why

    def test_it_is_not_over_while_it_is_said_again_each_day(self) -> None:
        said = notice("xid-31", severity=Severity.WATCH, source="kubernetes.event", latched=True)
        view, at = after(only(run(node(), said))), NOW
        for _ in range(3):
            at += self.DAY
            view = after(only(run(view, said, at=at)))
            assert incidents.read(view).open

    def test_one_that_followed_a_gpu_or_is_the_hardwares_is_not_over_by_itself(self) -> None:
        for other in (
            msgspec.structs.replace(self.HIT, severity=Severity.CORDON),
            msgspec.structs.replace(self.HIT, check="xid-63"),
        ):
            assert settled(other, at=NOW + timedelta(days=30)) == (other, None)


def test_in_doubt_the_word_of_the_check_that_accused_all_is_enough() -> None:
    evict = incident(severity=Severity.EVICT, latched=True)
    assert settled(evict, doubt=True)[0].open
    over, _ = settled(msgspec.structs.replace(evict, claimed=NOW), doubt=True)
    assert "too many" in over.why
    assert settled(msgspec.structs.replace(evict, claimed=NOW))[0].open


def test_the_next_time_to_look_is_the_earliest_of_all_incidents() -> None:
    first, later = incident(claimed=NOW), incident(check="d", claimed=NOW + minutes(5))
    _, due = recovery.settle(
        Record(incidents=(later, first)), node(), policy.default(), NOW, lambda _: False
    )
    assert due == NOW + minutes(15)


class TestDismissed:
    """A person judged the check: what flaps does not undo that."""

    def dismissed(self, **more: Any) -> NodeView:
        marked = after(only(run(node(), notice(since=BEFORE, **more))))
        return after(only(run(msgspec.structs.replace(marked, unschedulable=False))))

    def test_a_source_that_flaps_does_not_cordon_again(self) -> None:
        view = self.dismissed()
        for minute in range(1, 60, 2):
            moments = (NOW + minutes(minute), NOW + minutes(minute + 1))
            well = run(view, taken_back(since=moments[0]), at=moments[0])
            sick = run(after(only(well)), notice(since=moments[1]), at=moments[1])
            view = after(only(sick))
            assert not view.unschedulable

    def test_an_agent_that_restarts_does_not_either(self) -> None:
        view = self.dismissed(latched=True)
        well = run(view, taken_back(since=NOW, latched=True), at=NOW + minutes(1))
        sick = run(
            after(only(well)),
            notice(since=NOW + minutes(60), latched=True),
            at=NOW + minutes(60),
        )
        assert only(sick).unschedulable is None

    def test_an_uncordon_after_a_reboot_counts_from_that_boot(self) -> None:
        left = notice(since=BEFORE, latched=True)
        marked = after(only(run(node(), left)), boot_id="boot-2")
        booted = after(only(run(marked, left, at=NOW + minutes(5))), unschedulable=False)
        view = after(only(run(booted, left, at=NOW + minutes(6))))
        assert view.state == "dismissed"
        assert only(run(view, left, at=NOW + minutes(7))).unschedulable is None
        assert only(run(view, notice(), at=NOW + minutes(7))).unschedulable is None

    def test_after_the_override_a_latched_one_that_says_nothing_is_over(self) -> None:
        view = self.dismissed(latched=True)
        view = after(only(run(view, taken_back(since=NOW, latched=True), at=NOW + minutes(1))))
        over = run(view, at=NOW + timedelta(hours=24))
        assert actions(over) == ["close"]

    def test_past_the_override_there_is_no_time_to_look_again_at(self) -> None:
        view = self.dismissed()
        assert only(run(view, at=NOW + timedelta(hours=23))).look_again == NOW + timedelta(hours=24)
        assert only(run(view, at=NOW + timedelta(hours=25))).look_again is None

    def test_a_withdrawal_of_the_provider_ends_it_at_once(self) -> None:
        withdrawn = incident(
            kind=Kind.MAINTENANCE, state=State.DISMISSED, ended=NOW, claimed=NOW + minutes(1)
        )
        assert settled(withdrawn, at=NOW + minutes(1))[0].state is State.CLOSED

    def test_a_late_event_of_an_earlier_boot_is_no_new_boot(self) -> None:
        marked = after(only(run(node(boot_id="boot-2"), notice())))
        view = after(only(run(msgspec.structs.replace(marked, unschedulable=False))))
        late = notice(identity=Identity(node="n1", boot_id="boot-1"))
        assert only(run(view, late, at=NOW + minutes(2))).unschedulable is None

    def test_a_condition_left_from_before_a_reboot_still_ends_with_that_reboot(self) -> None:
        view = msgspec.structs.replace(self.dismissed(latched=True), boot_id="boot-2")
        left = notice(since=BEFORE, latched=True)
        view = after(only(run(view, left, at=NOW + minutes(5))))
        view = after(only(run(view, taken_back(latched=True), at=NOW + minutes(6))))
        assert only(run(view, at=NOW + minutes(21))).unschedulable is False


class TestAfterAReboot:
    """The kubelet tells the new boot ID before the agents have started: until then the Node shows
    the conditions of the boot before."""

    def rebooted(self, **more: Any) -> NodeView:
        return after(
            only(run(node(), notice(latched=True, since=BEFORE, **more))), boot_id="boot-2"
        )

    def test_a_condition_left_from_before_it_does_not_stand_in_the_way_for_ever(self) -> None:
        left = notice(latched=True, since=BEFORE)
        view = after(only(run(self.rebooted(), left, at=NOW + minutes(5))))
        well = taken_back(latched=True, since=NOW + minutes(6))
        view = after(only(run(view, well, at=NOW + minutes(6))))
        assert only(run(view, at=NOW + minutes(20))).unschedulable is None
        assert only(run(view, at=NOW + minutes(21))).unschedulable is False

    def test_one_that_is_found_anew_needs_another_boot(self) -> None:
        view = after(only(run(self.rebooted(), at=NOW + minutes(5))))
        found = notice(latched=True, since=NOW + minutes(6))
        view = after(only(run(view, found, at=NOW + minutes(6))))
        assert only(run(view, at=NOW + minutes(60))).unschedulable is None

    @pytest.mark.parametrize(
        "identity", [Identity(node="n1"), Identity(node="n1", boot_id="boot-1")], ids=str
    )
    def test_an_event_that_is_sent_again_changes_nothing(self, identity: Identity) -> None:
        more = {"source": "kubernetes.event"}
        view = after(only(run(self.rebooted(**more), at=NOW + minutes(5))))
        again = notice(latched=True, since=BEFORE, identity=identity, **more)
        plan = run(view, again, at=NOW + minutes(6))
        assert not only(plan).changed
        assert only(run(after(only(plan)), at=NOW + minutes(20))).unschedulable is False
