"""The record on the node: what is written is read, within its size, and nothing unknown is lost."""

import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.notice import Cause, Kind, Notice, Severity, evidence
from functions.rules import incidents
from functions.rules.incidents import Cordon, Incident, Record, State
from functions.rules.policy import default, parse
from tests.support.facts import NOW, after, minutes, node, notice, only, recovery, run

times = st.datetimes(
    min_value=NOW.replace(tzinfo=None), max_value=NOW.replace(tzinfo=None) + timedelta(days=40)
).map(lambda at: at.replace(tzinfo=NOW.tzinfo))
words = st.text(max_size=60)
incident_lists = st.lists(
    st.builds(
        Incident,
        source=st.sampled_from(["kubernetes.node", "aws.health", "alertmanager"]),
        check=words,
        ref=words,
        kind=st.sampled_from([Kind.FAULT, Kind.MAINTENANCE]),
        severity=st.sampled_from(list(Severity)),
        cause=st.sampled_from(list(Cause)),
        state=st.sampled_from(list(State)),
        first=times,
        last=times,
        deadline=st.none() | times,
        evidence=st.text(max_size=400).map(evidence),
    ),
    max_size=60,
)


@given(incident_lists)
def test_it_fits_and_what_is_open_is_never_dropped(items: list[Incident]) -> None:
    record = Record(machine="m", cordon=Cordon(at=NOW), incidents=tuple(items))
    text = incidents.encode(record)
    assert len(text.encode()) <= incidents.MAX_BYTES
    back = incidents.decode(text)
    assert back.cordon == record.cordon
    worst: dict[str, Severity] = {}
    for item in items:
        if item.open:
            worst[item.source] = max(worst.get(item.source, Severity.WATCH), item.severity)
    kept: dict[str, Severity] = {}
    for item in back.open:
        kept[item.source] = max(kept.get(item.source, Severity.WATCH), item.severity)
    assert kept == worst
    if items and any(i.open for i in items):
        first = min(i.first for i in items if i.open)
        assert min(i.first for i in back.open) == first


@given(incident_lists.map(lambda items: items[:5]))
def test_a_small_record_comes_back_as_it_was(items: list[Incident]) -> None:
    record = Record(machine="m", incidents=tuple(items), releases=(NOW,))
    assert incidents.decode(incidents.encode(record)) == record


def test_fields_of_a_newer_version_survive_a_rewrite() -> None:
    text = json.dumps(
        {
            "v": 2,
            "machine": "m",
            "ladder": {"step": "reset"},
            "incidents": [
                {
                    "source": "s", "check": "c", "kind": "fault", "severity": "evict",
                    "first": "2026-03-02T09:00:00Z", "last": "2026-03-02T09:00:00Z",
                    "ticket": "OPS-1",
                }
            ],
        }
    )  # fmt: skip
    record = incidents.decode(text)
    changed = record.with_incident(
        msgspec.structs.replace(record.incidents[0], claimed=NOW), record.incidents[0]
    )
    back = json.loads(incidents.encode(changed))
    assert back["v"] == 2
    assert back["ladder"] == {"step": "reset"}
    assert back["incidents"][0]["ticket"] == "OPS-1"
    assert back["incidents"][0]["claimed"]
    assert "extra" not in back
    assert "extra" not in back["incidents"][0]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "null", "[]", '"x"', "{}", '{"v":0}', '{"v":"1"}', '{"v":1,"incidents":7}',
        '{"v":1,"incidents":[7]}', '{"v":1,"incidents":[{"source":"s"}]}',
        '{"v":9,"incidents":[{"source":"s","check":"c","kind":"omen","severity":"worst"}]}',
    ],
)  # fmt: skip
def test_what_is_no_record_is_unreadable_and_never_an_empty_one(text: str) -> None:
    with pytest.raises(incidents.Unreadable):
        incidents.decode(text)


@pytest.mark.parametrize(
    "time", ["2026-03-02T09:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:00:00Z"]
)
@pytest.mark.parametrize("where", ["first", "ended", "jobs", "cordon", "releases"])
def test_one_with_a_time_that_nothing_can_be_reckoned_with_is_unreadable(
    time: str, where: str
) -> None:
    good = "2026-03-02T09:00:00Z"
    incident: dict[str, Any] = {"first": good, "last": good, "kind": "fault", "severity": "cordon"}
    record: dict[str, Any] = {"v": 1, "incidents": [incident | {"source": "s", "check": "c"}]}
    incidents.decode(json.dumps(record))
    match where:
        case "cordon":
            record["cordon"] = {"at": time}
        case "releases":
            record["releases"] = [time]
        case "jobs":
            record["incidents"][0]["jobs"] = {"gpu": {"team/job": time}}
        case _:
            record["incidents"][0][where] = time
    with pytest.raises(incidents.Unreadable, match=r"time zone|far off"):
        incidents.decode(json.dumps(record))


def test_thirty_repeats_out_of_order_open_one_incident() -> None:
    view, record = node(), Record(machine=node().machine)
    said = [notice(since=NOW - minutes(m)) for m in (5, 1, 9, 3)] * 8
    for number, one in enumerate(said):
        record = incidents.hear(record, view, [one], default(), NOW + timedelta(seconds=number))
    assert len(record.incidents) == 1
    assert record.incidents[0].first == NOW


def test_a_resolved_that_comes_before_its_firing_leaves_one_open_incident() -> None:
    view, record = node(), Record(machine=node().machine)
    early = recovery("HighTemp", source="alertmanager", ref="f1", since=NOW)
    record = incidents.hear(record, view, [early], default(), NOW)
    late = notice("HighTemp", source="alertmanager", ref="f1", since=NOW - minutes(5))
    record = incidents.hear(record, view, [late], default(), NOW)
    assert len(record.open) == 1


def test_a_time_ahead_of_us_is_taken_as_now() -> None:
    record = incidents.hear(
        Record(machine="m"), node(), [notice(since=NOW + timedelta(days=365))], default(), NOW
    )
    assert record.incidents[0].told == NOW


def test_five_hundred_notices_about_one_node_stay_within_the_size() -> None:
    said = [notice(f"check-{n}", evidence="x" * 200) for n in range(500)]
    record = incidents.hear(Record(machine="m"), node(), said, default(), NOW)
    assert len(incidents.encode(record)) <= incidents.MAX_BYTES


class TestMergedForSpace:
    SAID = tuple(
        notice(f"check-{n}", source="alertmanager", evidence="x" * 200) for n in range(100)
    )

    def merged(self, *said: Notice) -> Record:
        record = incidents.hear(Record(machine="m"), node(), said or self.SAID, default(), NOW)
        return incidents.decode(incidents.encode(record))

    def test_many_of_one_source_become_one_under_a_name_of_its_own(self) -> None:
        (one,) = self.merged().incidents
        assert one.check == incidents.SEVERAL
        assert one.evidence == "several checks, merged for space"

    def test_a_repeat_of_all_of_them_changes_nothing(self) -> None:
        record = self.merged()
        later = NOW + minutes(1)
        assert incidents.hear(record, node(), self.SAID, default(), later) == record

    def test_what_one_of_them_takes_back_is_not_taken_back_by_all(self) -> None:
        record = self.merged()
        for number in range(100):
            said = recovery(f"check-{number}", source="alertmanager")
            record = incidents.hear(record, node(), [said], default(), NOW)
        assert record.incidents[0].claimed is None

    def test_something_worse_raises_it(self) -> None:
        worse = notice("check-3", source="alertmanager", severity=Severity.EVICT)
        record = incidents.hear(self.merged(), node(), [worse], default(), NOW)
        assert [i.severity for i in record.open] == [Severity.EVICT]

    def test_the_first_of_their_windows_holds(self) -> None:
        late, soon = (
            notice(f"w{days}", source="alertmanager", deadline=NOW + timedelta(days=days))
            for days in (9, 3)
        )
        record = self.merged(late, soon, *self.SAID)
        assert record.incidents[0].deadline == NOW + timedelta(days=3)
        again = incidents.hear(record, node(), [late, soon], default(), NOW + minutes(1))
        assert again == record

    @pytest.mark.parametrize("turned", [False, True])
    def test_it_has_the_worst_of_each(self, turned: bool) -> None:
        made: dict[str, Any] = {"source": "s", "kind": Kind.FAULT}
        well = Incident(
            **made, check="a", severity=Severity.WATCH, first=NOW, last=NOW,
            claimed=NOW, rebooted=NOW, latched=True, told=NOW + minutes(5),
        )  # fmt: skip
        sick = Incident(
            **made, check="b", severity=Severity.CORDON, in_log=True,
            first=NOW - minutes(5), last=NOW + minutes(5), told=NOW,
        )  # fmt: skip
        (one,) = incidents._merged((sick, well) if turned else (well, sick))
        assert (one.claimed, one.rebooted) == (None, None)
        assert (one.latched, one.in_log) == (True, True)
        assert (one.first, one.last) == (NOW - minutes(5), NOW + minutes(5))
        assert one.told == NOW + minutes(5)
        assert one.severity is Severity.CORDON
        half = msgspec.structs.replace(sick, claimed=NOW, rebooted=NOW)
        rest = msgspec.structs.replace(well, claimed=None, rebooted=None, last=NOW + minutes(9))
        (one,) = incidents._merged((half, rest) if turned else (rest, half))
        assert (one.claimed, one.rebooted, one.last) == (None, None, NOW + minutes(9))
        both = incidents._merged((well, msgspec.structs.replace(well, claimed=NOW + minutes(1))))
        assert both[0].claimed == NOW + minutes(1)

    def test_a_mild_line_of_the_kernel_log_proves_nothing_worse(self) -> None:
        made: dict[str, Any] = {"source": "s", "kind": Kind.FAULT, "first": NOW, "last": NOW}
        mild = Incident(**made, check="xid-94", severity=Severity.CORDON, in_log=True)
        bad = Incident(**made, check="b", severity=Severity.EVICT)
        for both in ((mild, bad), (bad, mild)):
            (one,) = incidents._merged(both)
            assert (one.severity, one.in_log) == (Severity.EVICT, False)

    def test_those_of_other_sources_and_states_are_left(self) -> None:
        others = [notice("c", source=f"s{n}") for n in range(3)]
        record = self.merged(*others, *self.SAID)
        assert len(record.open) == 4


class TestSizes:
    def test_what_is_closed_goes_before_any_evidence(self) -> None:
        closed = [
            Incident(
                source="s", check=f"c{n}", kind=Kind.FAULT, severity=Severity.CORDON,
                state=State.CLOSED, first=NOW, last=NOW, evidence="x" * 200,
            )
            for n in range(30)
        ]  # fmt: skip
        opened = msgspec.structs.replace(closed[0], state=State.OPEN, check="open")
        back = incidents.decode(incidents.encode(Record(incidents=(*closed, opened))))
        assert back.incidents == (opened,)

    def test_evidence_goes_before_any_check(self) -> None:
        said = [notice(f"c{n}", evidence="x" * 200) for n in range(25)]
        record = incidents.hear(Record(machine="m"), node(), said, default(), NOW)
        back = incidents.decode(incidents.encode(record))
        assert len(back.open) == 25
        assert {i.evidence for i in back.open} == {"x" * 40}

    def test_words_from_outside_are_cut_and_stay_different(self) -> None:
        long = [notice("x" * 300_000 + end, ref="y" * 10_000) for end in "ab"]
        cut = [incidents.bounded(n) for n in long]
        assert len({n.check for n in cut}) == 2
        assert all(len(n.check) == len(n.ref) == incidents.LONGEST_WORD for n in cut)
        assert incidents.bounded(cut[0]) is cut[0]
        record = only(run(node(), *long)).record
        assert len(incidents.encode(record)) <= incidents.MAX_BYTES
        assert len(record.open) == 2


class TestAccusedAgain:
    """An open incident: what is news, and what of it is kept."""

    VIEW = node()

    def hear(self, record: Record, *said: Notice, at: datetime = NOW) -> Record:
        return incidents.hear(record, self.VIEW, said, default(), at)

    def opened(self, **more: Any) -> Record:
        return self.hear(Record(machine="m"), notice(**more))

    def test_another_reason_alone_is_none(self) -> None:
        record = self.opened(reason="a")
        assert self.hear(record, notice(reason="b", evidence="e"), at=NOW + minutes(1)) == record

    def test_an_unknown_boot_id_is_no_new_one(self) -> None:
        record = self.opened()
        bare = node(boot_id="")
        assert incidents.hear(record, bare, [notice()], default(), NOW + minutes(1)) == record

    def test_a_source_that_begins_to_give_times_is_heard(self) -> None:
        dated = notice(since=NOW, deadline=NOW + minutes(9))
        assert self.hear(self.opened(deadline=NOW), dated).open[0].deadline == NOW + minutes(9)
        claimed = self.hear(self.opened(), recovery())
        assert self.hear(claimed, notice(since=NOW)).open[0].claimed is None

    def test_with_something_worse_its_words_are_taken(self) -> None:
        worse = notice(
            severity=Severity.EVICT, reason="b", evidence="e", cause=Cause.SOFTWARE, in_log=True
        )
        (one,) = self.hear(self.opened(reason="a"), worse, at=NOW + minutes(1)).open
        assert (one.severity, one.reason, one.evidence) == (Severity.EVICT, "b", "e")
        assert one.cause is Cause.SOFTWARE
        assert one.in_log
        assert one.first == NOW
        assert one.last == NOW + minutes(1)

    def test_the_kernel_log_is_a_proof_only_of_what_it_says_itself(self) -> None:
        """One condition of an agent has many reasons, and some are lines of the log."""
        mild = notice(severity=Severity.CORDON, in_log=True, reason="NvidiaXID94Error")
        bad = notice(severity=Severity.EVICT, reason="NvidiaDoubleBitError")
        for first, second in ((mild, bad), (bad, mild)):
            record = self.hear(Record(machine="m"), first)
            (one,) = self.hear(record, second, at=NOW + minutes(60)).open
            assert (one.severity, one.in_log) == (Severity.EVICT, False)
        logged = notice(severity=Severity.EVICT, in_log=True, reason="NvidiaXID79Error")
        (one,) = self.hear(self.hear(Record(), bad), logged, at=NOW + minutes(60)).open
        assert one.in_log

    def test_something_less_bad_lowers_nothing(self) -> None:
        record = self.opened(severity=Severity.EVICT, in_log=True, reason="a")
        less = notice(severity=Severity.WATCH, reason="b", evidence="e", cause=Cause.UNKNOWN)
        (one,) = self.hear(record, less, at=NOW + minutes(60)).open
        assert (one.severity, one.reason, one.in_log) == (Severity.EVICT, "a", True)
        assert one.cause is Cause.HARDWARE
        assert one.evidence == "AcceleratedHardwareReady is bad"

    def test_who_is_not_known_moves_no_window_and_who_is_takes_his_back(self) -> None:
        soon, late = NOW + minutes(1), NOW + timedelta(days=9)
        known = self.opened(severity=Severity.EVICT, deadline=late, since=NOW)
        stranger = notice(
            severity=Severity.EVICT, deadline=soon, since=NOW + minutes(4), unconfirmed=True
        )
        (one,) = self.hear(known, stranger, at=NOW + minutes(60)).open
        assert (one.severity, one.deadline) == (Severity.EVICT, late)
        record = self.hear(Record(machine="m"), stranger)
        assert (record.open[0].severity, record.open[0].deadline) == (Severity.WATCH, soon)
        assert record.open[0].evidence.startswith(incidents.UNCONFIRMED)
        said = notice(severity=Severity.EVICT, deadline=late, since=NOW)
        (one,) = self.hear(record, said, at=NOW + minutes(1)).open
        assert (one.severity, one.deadline) == (Severity.EVICT, late)
        assert not one.evidence.startswith(incidents.UNCONFIRMED)

    def test_who_is_not_known_takes_nothing_back_for_which_a_node_is_emptied(self) -> None:
        for severity, taken_back in ((Severity.EVICT, False), (Severity.WATCH, True)):
            record = self.opened(severity=severity)
            over = msgspec.structs.replace(recovery(), unconfirmed=True)
            (one,) = self.hear(record, over, at=NOW + minutes(1)).incidents
            assert (one.claimed is not None) is taken_back
            (one,) = self.hear(record, recovery(), at=NOW + minutes(1)).incidents
            assert one.claimed is not None

    def test_a_new_window_is_taken_and_an_older_message_does_not_bring_back_the_old(self) -> None:
        days = [NOW + timedelta(days=n) for n in (3, 20)]
        first = notice(deadline=days[0], since=NOW - minutes(9))
        moved = notice(deadline=days[1], since=NOW - minutes(5))
        record = self.hear(Record(machine="m"), first, moved)
        assert record.open[0].deadline == days[1]
        assert self.hear(record, first, at=NOW + minutes(1)) == record
        same = notice(deadline=days[0], since=NOW - minutes(5))
        assert self.hear(record, same).open[0].deadline == days[0]
        assert self.hear(record, notice(since=NOW), at=NOW).open[0].deadline == days[1]
        dated = self.hear(self.opened(), notice(deadline=days[0]))
        assert dated.open[0].deadline == days[0]

    def test_a_claim_ends_with_a_newer_word_and_not_with_an_older(self) -> None:
        record = self.opened(since=NOW - minutes(9))
        record = self.hear(record, recovery(since=NOW - minutes(5)))
        assert record.open[0].claimed == NOW
        older = notice(since=NOW - minutes(9), severity=Severity.EVICT)
        assert self.hear(record, older, at=NOW + minutes(1)) == record
        newer = notice(since=NOW - minutes(1))
        assert self.hear(record, newer, at=NOW + minutes(1)).open[0].claimed is None

    def test_a_claim_that_is_older_than_the_fault_is_none(self) -> None:
        record = self.opened(since=NOW - minutes(5))
        assert self.hear(record, recovery(since=NOW - minutes(6))) == record

    def test_a_claim_is_of_its_check_and_of_its_ref(self) -> None:
        record = self.opened(ref="a")
        for other in (recovery("other"), recovery(source="other"), recovery(ref="b")):
            assert self.hear(record, other) == record
        assert self.hear(record, recovery(ref="a")).open[0].claimed == NOW
        assert self.hear(record, recovery()).open[0].claimed == NOW

    def test_a_second_claim_moves_nothing(self) -> None:
        record = self.hear(self.opened(), recovery())
        assert self.hear(record, recovery(), at=NOW + minutes(5)) == record

    def test_once_latched_stays_latched(self) -> None:
        for fault, well in ((True, False), (False, True)):
            record = self.hear(self.opened(latched=fault), recovery(latched=well))
            assert record.open[0].latched

    def test_what_the_node_says_now_is_newer_than_any_time(self) -> None:
        record = self.opened(since=NOW)
        said = recovery(since=NOW - minutes(5))
        claimed = incidents.hear(record, self.VIEW, [said], default(), NOW, live=True)
        assert claimed.open[0].claimed == NOW
        assert claimed.open[0].told == NOW
        again = notice(since=NOW - minutes(9))
        sick = incidents.hear(claimed, self.VIEW, [again], default(), NOW, live=True)
        assert sick.open[0].claimed is None


class TestReopened:
    def test_it_says_what_is_said_now_and_counts_anew(self) -> None:
        window, moved = NOW + timedelta(hours=10), NOW + timedelta(days=20)
        said = {"source": "aws.health", "kind": Kind.MAINTENANCE}
        marked = after(only(run(node(), notice(**said, deadline=window, since=NOW))))
        uncordoned = msgspec.structs.replace(marked, unschedulable=False)
        view = after(only(run(uncordoned, at=NOW + minutes(1))))
        later = NOW + timedelta(hours=25)
        again = notice(**said, deadline=moved, since=later, reason="moved", latched=True)
        verdict = only(run(view, again, at=later))
        (one,) = verdict.record.open
        assert (one.deadline, one.first, one.told) == (moved, later, later)
        assert (one.reason, one.latched, one.ended) == ("moved", True, None)
        assert verdict.unschedulable is None

    def test_a_closed_one_is_not_reopened_by_a_late_word_and_is_by_a_new_one(self) -> None:
        view = after(only(run(node(), notice(since=NOW - minutes(9), severity=Severity.WATCH))))
        view = after(only(run(view, recovery(since=NOW - minutes(5)))))
        assert not only(run(view, notice(since=NOW - minutes(9)), at=NOW + minutes(1))).changed
        record = only(run(view, notice(since=NOW), at=NOW + minutes(1))).record
        assert [i.state for i in record.incidents] == [State.CLOSED, State.OPEN]


class TestTidy:
    def test_what_was_closed_a_week_ago_goes_and_what_was_dismissed_stays(self) -> None:
        made = Incident(
            source="s", check="c", kind=Kind.FAULT, severity=Severity.CORDON,
            first=NOW, last=NOW, ended=NOW + timedelta(days=1), state=State.CLOSED,
        )  # fmt: skip
        dismissed = msgspec.structs.replace(made, state=State.DISMISSED)
        record = Record(incidents=(made, dismissed))
        for days, kept in ((7.9, 2), (8, 1)):
            tidied = incidents.tidy(record, default(), NOW + timedelta(days=days))
            assert len(tidied.incidents) == kept

    @pytest.mark.parametrize(("within", "kept"), [("30d", 30), ("1d", 7)])
    def test_releases_are_kept_as_long_as_the_policy_counts_them(
        self, within: str, kept: int
    ) -> None:
        rules = parse(f"version: 1\nrecovery: {{releases_within: {within}}}")
        record = Record(releases=(NOW,))
        before = NOW + timedelta(days=kept) - minutes(1)
        assert incidents.tidy(record, rules, before).releases
        assert not incidents.tidy(record, rules, NOW + timedelta(days=kept)).releases


class TestWhose:
    def test_the_record_of_another_machine_is_not_read(self) -> None:
        text = incidents.encode(Record(machine="aws:///a/i-other", releases=(NOW,)))
        assert incidents.read(node(incidents=text)).releases == ()

    def test_that_of_the_same_node_before_its_provider_id_was_known_is(self) -> None:
        text = incidents.encode(Record(machine="uid:uid-n1", releases=(NOW,)))
        assert incidents.read(node(incidents=text)).releases == (NOW,)
        assert incidents.read(node(incidents=text, uid="anew")).releases == ()


def test_application_faults_count_each_job_once_and_the_newest_eight() -> None:
    rules = parse("version: 1\napplication_faults: {jobs: 20}")
    record = Record(machine="m")
    for number in range(12):
        said = notice("xid-31", severity=Severity.WATCH, gpu="g", job=f"j{number}")
        later = NOW + minutes(number)
        record = incidents.hear(record, node(), [said], rules, later)
        assert incidents.hear(record, node(), [said], rules, later) == record
    assert list(record.open[0].jobs["g"]) == [f"j{n}" for n in range(4, 12)]
    for other in ({"job": ""}, {"gpu": ""}, {"check": "xid-79"}):
        said = notice(**({"check": "xid-31", "gpu": "g", "job": "new"} | other))
        heard = incidents.hear(record, node(), [said], rules, NOW + minutes(12))
        assert heard.open[0].jobs == record.open[0].jobs
        assert not any(one.jobs for one in heard.open[1:])
