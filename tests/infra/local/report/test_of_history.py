"""The report of recorded history: nobody wrote its story, and it may be long."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.rules import keys
from infra.local.history import Event
from infra.local.report import history, model, page, recorder, story
from tests.support.histories import (
    DOUBLE_BIT_ERROR,
    NVLINK_ERROR,
    START,
    marked,
    node,
    told,
)
from tests.support.recorded_runs import recorder_of

NODES = [f"gpu-{number:02}" for number in range(1, 21)]
PRESSURE = {"type": "DiskPressure", "status": "True", "reason": "Full", "message": "of what?"}
OURS = {"v": 1, "cordon": {"at": START.isoformat()}}


def run_of(folder: Path, *events: Event, nodes: list[Any] | None = None) -> model.Run:
    found = nodes if nodes is not None else [node(name) for name in NODES]
    return recorder_of(folder, events, *found)[1]


def kinds(run: model.Run, name: str) -> list[str]:
    return [mark.k for mark in run.marks if run.nodes[mark.n].name == name]


def test_what_was_recorded_is_in_the_lanes_and_what_came_of_it_too(tmp_path: Path) -> None:
    free = marked(node("gpu-03", DOUBLE_BIT_ERROR), "evict", OURS)
    free["spec"].pop("unschedulable")
    run = run_of(
        tmp_path,
        told(60, node("gpu-03", DOUBLE_BIT_ERROR)),
        told(61, marked(node("gpu-03", DOUBLE_BIT_ERROR), "evict", OURS)),
        told(600, free),
    )
    found = kinds(run, "gpu-03")
    assert found[:3] == ["said", "open", "cordon"]
    assert found[found.index("uncordoned-by-others") + 1] == "dismiss"
    assert [state.s for state in run.nodes[2].states][-1] == "dismissed"
    assert (run.nodes[2].states[0].a, run.nodes[2].states[0].s) == (0, "service")
    assert run.recorded
    assert run.cluster.out[1].ours == 1


def test_nodes_of_recorded_pools_are_told_by_the_instance_type_that_most_are_of(
    tmp_path: Path,
) -> None:
    labels = {"groundcrew.dev/pool": "b", "node.kubernetes.io/instance-type": "p5.48xlarge"}
    other = labels | {"node.kubernetes.io/instance-type": "p4d.24xlarge"}
    nodes = [node(f"b-{place}", labels=one) for place, one in enumerate((labels, other, labels))]
    run = run_of(tmp_path, told(60, nodes[0]), nodes=nodes)
    assert [(pool.name, pool.size, pool.kind) for pool in run.pools] == [("b", 3, "p5.48xlarge")]


def test_a_node_that_comes_later_has_a_lane_and_a_pool(tmp_path: Path) -> None:
    late = node("late-1", labels={"groundcrew.dev/pool": "new"})
    sick = node("late-1", NVLINK_ERROR, labels={"groundcrew.dev/pool": "new"})
    run = run_of(tmp_path, told(60, late, "add"), told(120, sick))
    assert (run.nodes[-1].name, run.nodes[-1].pool) == ("late-1", "new")
    assert run.nodes[-1].states[0].a == 60_000
    assert (run.pools[-1].name, run.pools[-1].size) == ("new", 1)
    assert "cordon" in kinds(run, "late-1")


def test_what_several_nodes_say_at_once_is_one_line_with_the_reason_first(tmp_path: Path) -> None:
    run = run_of(
        tmp_path,
        *[told(60 + place, node(name, PRESSURE)) for place, name in enumerate(NODES[:5])],
        told(3600, node("gpu-09"), "delete"),
    )
    lines = [(said.t // 1000, said.text) for said in run.story]
    assert lines == [
        (60, "5 nodes (gpu-01, gpu-02, gpu-03, ...): Full (DiskPressure=True): of what?"),
        (3600, "gpu-09: The machine and its Node are gone."),
    ]


def test_a_story_of_too_many_lines_keeps_those_of_most_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "MOST_TOLD", 2)
    run = run_of(
        tmp_path,
        told(60, node("gpu-01", PRESSURE)),
        told(600, node("gpu-02", PRESSURE)),
        told(1200, node("gpu-03", PRESSURE)),
        told(1201, node("gpu-04", PRESSURE)),
    )
    assert [said.text.partition(":")[0] for said in run.story] == [
        "gpu-01",
        "2 nodes (gpu-03, gpu-04)",
        "1 more stand in the lanes of their nodes.",
    ]


def test_a_condition_that_flaps_all_day_is_counted_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_MARKS", 10)
    flaps = [
        told(60.0 * at, node("gpu-03", PRESSURE if at % 2 else {**PRESSURE, "status": "False"}))
        for at in range(1, 60)
    ]
    heard, run = recorder_of(tmp_path, flaps, *[node(name) for name in NODES])
    assert len(kinds(run, "gpu-03")) == 10
    assert len(heard.nodes["gpu-03"].happenings) < 10
    assert run.nodes[2].left_out > 50
    assert run.summary[-1] == (
        "left out",
        f"{run.nodes[2].left_out:,} marks of 1 nodes, which had too many",
    )


def test_troubles_without_end_are_counted_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MOST_TROUBLES", 3)
    event = {"kind": "Event", "metadata": {"name": "x"}, "involvedObject": 7}
    broken = [told(at, event) for at in range(1, 9)]
    heard, run = recorder_of(tmp_path, broken, *[node(name) for name in NODES])
    assert heard.troubles == 8
    assert len([said for said in run.story if said.bad]) == 3


def test_of_nodes_without_anything_to_tell_not_each_heartbeat_is_kept(tmp_path: Path) -> None:
    quiet = [told(10.0 * at, node("gpu-05")) for at in range(1, 30)]
    run = run_of(tmp_path, told(5, node("gpu-03", PRESSURE)), *quiet)
    assert run.nodes[4].heard == ()
    beats = run_of(
        tmp_path / "again", told(5, node("gpu-03", PRESSURE)), told(60, node("gpu-03", PRESSURE))
    )
    assert sum(count for _, count in beats.nodes[2].heard) > 0


def test_what_its_reader_is_to_know_stands_on_the_page(tmp_path: Path) -> None:
    run = recorder_of(tmp_path, [told(0, node("gpu-03")), told(1, node("gpu-03"))])[1]
    assert "No starting point was recorded" in run.shows
    text = page.render([run])
    assert 'id="checks-0"' not in text
    assert "Nothing is told." in text


def test_in_a_run_of_more_than_a_week_a_weekday_does_not_say_the_day(tmp_path: Path) -> None:
    days = timedelta(days=8).total_seconds()
    run = run_of(tmp_path, told(60, node("gpu-03", PRESSURE)), told(days, node("gpu-05")))
    assert run.about.endswith("Monday 2 March 08:00 to Tuesday 10 March 09:00.")
    assert ">Mon 2 Mar 08:01:00</time>" in page.render([run])


def test_nodes_that_are_kept_for_teams_are_counted_by_team(tmp_path: Path) -> None:
    def of_team(name: str, team: str, *conditions: Any) -> dict[str, Any]:
        made = node(name, *conditions)
        made["spec"]["taints"] = [{"key": keys.TEAM, "value": team, "effect": "NoSchedule"}]
        return made

    labelled = node("gpu-05", labels={keys.TEAM: "audio"})
    nodes = [
        *(of_team(f"gpu-{number:02}", "vision") for number in (1, 2, 3)),
        of_team("gpu-04", "audio"),
        labelled,
        *(node(f"gpu-{number:02}") for number in range(6, 21)),
    ]
    run = run_of(tmp_path, told(60, of_team("gpu-02", "vision", DOUBLE_BIT_ERROR)), nodes=nodes)
    assert [(team.name, team.size, team.budget) for team in run.teams] == [
        ("audio", 2, None),
        ("vision", 3, None),
    ]
    audio, vision = run.teams
    assert [out.ours for out in audio.out] == [0]
    assert [out.ours for out in vision.out] == [0, 1]
    assert [one.team for one in run.nodes[:6]] == [
        "vision",
        "vision",
        "vision",
        "audio",
        "audio",
        "",
    ]


def test_a_node_that_changes_its_team_counts_where_it_was_last(tmp_path: Path) -> None:
    before, after = (node("gpu-01", labels={keys.TEAM: team}) for team in ("audio", "vision"))
    run = run_of(tmp_path, told(60, after), nodes=[before])
    assert [team.name for team in run.teams] == ["vision"]


def test_where_no_node_says_a_team_there_are_none(tmp_path: Path) -> None:
    run = run_of(tmp_path, told(60, node("gpu-03", DOUBLE_BIT_ERROR)))
    assert run.teams == ()
