"""What a report knows of a play: one-of-each.yaml, in which everything happens once."""

from infra.local.report import model

MINUTE = 60_000
HOUR = 60 * MINUTE
START = 8 * HOUR
"""Scenarios of these tests begin at eight."""


def at(clock: str, day: int = 0) -> int:
    hours, minutes = clock.split(":")
    return day * 24 * HOUR + int(hours) * HOUR + int(minutes) * MINUTE - START


def node(run: model.Run, name: str) -> model.Node:
    return next(one for one in run.nodes if one.name == name)


def states(run: model.Run, name: str) -> list[tuple[int, str]]:
    return [(one.a, one.s) for one in node(run, name).states]


def marks(run: model.Run, name: str) -> list[model.Mark]:
    return [mark for mark in run.marks if run.nodes[mark.n].name == name]


def test_a_node_is_drained_emptied_and_given_back_with_another_machine(run: model.Run) -> None:
    assert states(run, "h100-03")[:4] == [
        (0, "service"),
        (at("8:10"), "draining"),
        (at("8:10") + 20_000, "drained"),
        (at("8:30"), "service"),
    ]


def test_what_happened_stands_before_what_was_decided_about_it(run: model.Run) -> None:
    kinds = [mark.k for mark in marks(run, "h100-03") if mark.t < at("8:30")]
    told = ["said", "open", "cordon", "start-drain", "wait", "evicted", "drained"]
    assert kinds == [*told, "hold"]  # the last: what would be done about its machine


def test_a_machine_that_is_exchanged_in_one_moment_was_never_gone(run: model.Run) -> None:
    kinds = [mark.k for mark in marks(run, "h100-03") if mark.t == at("8:30")]
    assert kinds == ["replaced"]


def test_a_cordon_of_a_person_is_told_apart_from_ours(run: model.Run) -> None:
    assert states(run, "h100-05")[1:3] == [(at("9:00"), "others"), (at("9:30"), "service")]
    kinds = [mark.k for mark in marks(run, "h100-05")][:2]
    assert kinds == ["cordoned-by-others", "uncordoned-by-others"]


def test_a_person_who_uncordons_leaves_a_dismissed_node_and_its_quiet_time(run: model.Run) -> None:
    assert (at("10:00"), "blocked") in states(run, "h100-19")
    assert (at("11:00"), "dismissed") in states(run, "h100-19")
    (clock,) = node(run, "h100-19").clocks
    assert (clock.kind, clock.a, clock.b) == ("override", at("11:00"), at("11:00", day=1))


def test_a_blocked_drain_names_what_blocks_it(run: model.Run) -> None:
    wait = next(mark for mark in marks(run, "h100-19") if mark.k == "wait")
    assert "PodDisruptionBudget default/vectors" in wait.blocked[0]
    assert wait.again is not None
    assert wait.again > wait.t


def test_a_check_that_must_last_has_a_clock(run: model.Run) -> None:
    clock = node(run, "h100-08").clocks[0]
    assert (clock.kind, clock.a, clock.b) == ("wait", at("12:00"), at("12:05"))


def test_a_recovery_that_must_last_has_a_clock(run: model.Run) -> None:
    kinds = [mark.k for mark in marks(run, "h100-10")]
    assert kinds == [
        "gpus", "open", "cordon", "reboot", "gpus", "close", "uncordon", "clock-stopped",
    ]  # fmt: skip
    clock = node(run, "h100-10").clocks[0]
    assert (clock.kind, clock.a, clock.b) == ("quiet", at("14:00"), at("14:15"))


def test_a_machine_that_is_gone_ends_its_incidents_and_deadlines(run: model.Run) -> None:
    assert states(run, "spot-03")[-1] == (at("15:02"), "gone")
    (incident,) = node(run, "spot-03").incidents
    assert (incident.b, incident.end) == (at("15:02"), "over: its Node is gone")
    assert node(run, "spot-03").clocks[0].kind == "deadline"


def test_a_deadline_after_the_end_is_cut_there_and_keeps_its_time(run: model.Run) -> None:
    deadline, window = node(run, "h100-17").clocks
    assert (deadline.kind, deadline.b, deadline.due) == ("deadline", run.length, at("10:00", day=2))
    assert (window.kind, window.a) == ("window", at("10:00", day=1))


def test_breakers_pauses_and_a_lost_api_server_are_bands(run: model.Run) -> None:
    told = {band.kind: (band.pool, band.a, band.b, band.text) for band in run.bands}
    breaker = "circuit breaker open: AcceleratedHardwareReady"
    assert told == {
        "breaker": ("h100", at("20:00"), at("20:30"), breaker),
        "pause": ("", at("16:00"), at("17:00"), "paused by alice: a rollout"),
        "away": ("", at("18:00"), at("18:10"), "nobody reaches the API server"),
    }


def test_nodes_out_of_service_are_counted_by_pool_and_by_who_took_them_out(run: model.Run) -> None:
    h100 = run.pools[0]
    assert (h100.name, h100.size, h100.budget) == ("h100", 20, 2)
    assert (run.cluster.size, run.cluster.budget) == (30, 1)
    by_time = {one.t: (one.ours, one.others) for one in h100.out}
    assert by_time[at("8:10")] == (1, 0)
    assert by_time[at("8:30")] == (0, 0)
    assert by_time[at("9:00")] == (0, 1)
    assert max(one.ours for one in run.cluster.out) == 1


def test_a_decision_leads_to_the_event_and_the_requests_of_its_call(run: model.Run) -> None:
    cordon = next(mark for mark in marks(run, "h100-03") if mark.k == "cordon")
    assert cordon.call is not None
    call = run.calls[cordon.call]
    assert (call.f, call.type) == ("cordon", "dev.knative.apiserver.resource.update")
    assert call.subject.endswith("h100-03")
    assert len(call.id) == 32
    assert dict(call.requests)["patch nodes"] == 1


def test_every_decision_belongs_to_a_call_of_its_own_function(run: model.Run) -> None:
    decided = [mark for mark in run.marks if mark.f]
    assert len(decided) > 50
    for mark in decided:
        assert mark.call is not None
        assert run.calls[mark.call].f == mark.f


def test_events_that_needed_nothing_are_counted_at_their_node(run: model.Run) -> None:
    assert sum(run.heard) > 100
    assert sum(count for _, count in node(run, "h100-03").heard) > 0
    assert node(run, "h100-12").heard == ()


def test_the_story_and_the_expectations_keep_their_lines_of_the_file(run: model.Run) -> None:
    assert run.story[0].text == "A GPU of h100-03 falls off the bus (XID 79)."
    assert run.story[0].line > 1
    assert [check.ok for check in run.checks] == [True, True, True]
    assert run.checks[0].because == "what is broken takes no new work"


def test_the_summary_holds_nothing_of_our_own_clock(run: model.Run) -> None:
    rows = dict(run.summary)
    assert rows["time"].startswith("1 d 4 h simulated; ")
    assert rows["time"].endswith(" resyncs made")
