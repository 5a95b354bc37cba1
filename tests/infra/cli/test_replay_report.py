"""`groundcrew replay --report`: that it is written, said, and changes nothing of the play."""

from pathlib import Path

import pytest

from infra.cli import main
from tests.support.histories import DOUBLE_BIT_ERROR, node, told, write

SCENARIO = "pdb-two-budgets"


def test_the_report_is_written_and_its_place_and_size_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "week.html"
    assert main(["replay", SCENARIO, "--report", str(file)]) == 0
    size = f"{file.stat().st_size / 1000:,.0f} kB"
    assert f"report: {file} ({size})" in capsys.readouterr().out.replace("\n", " ")
    assert file.read_text().startswith("<!doctype html>")


def test_a_play_with_a_report_is_the_play_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["replay", SCENARIO, "--json"])
    plain = capsys.readouterr().out
    main(["replay", SCENARIO, "--json", "--report", str(tmp_path / "one.html")])
    told = capsys.readouterr()
    assert told.out == plain
    assert "report: " in told.err


def test_several_scenarios_are_one_page(tmp_path: Path) -> None:
    file = tmp_path / "both.html"
    main(["replay", SCENARIO, "human-races-us", "--report", str(file)])
    text = file.read_text()
    assert "2 scenarios" in text
    assert text.count('class="run"') == 2


def test_recorded_history_is_shown_as_a_scenario_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [told(60, node("gpu-03", DOUBLE_BIT_ERROR)), told(300, node("gpu-05"))]
    week = write(tmp_path / "my-week", [node(f"gpu-{n:02}") for n in range(1, 21)], events)
    file = tmp_path / "week.html"
    assert main(["replay", str(week), "--report", str(file)]) == 0
    assert "kB)" in capsys.readouterr().out
    text = file.read_text()
    assert "<title>my-week · groundcrew replay</title>" in text
    assert "NvidiaDoubleBitError (AcceleratedHardwareReady=False)" in text
    main(["replay", SCENARIO, str(week), "--report", str(file)])
    assert "<title>2 plays · groundcrew replay</title>" in file.read_text()


def test_a_play_of_history_with_a_report_is_the_play_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [told(60, node("gpu-03", DOUBLE_BIT_ERROR)), told(300, node("gpu-05"))]
    week = write(tmp_path / "my-week", [node(f"gpu-{n:02}") for n in range(1, 21)], events)
    main(["replay", str(week), "--json"])
    plain = capsys.readouterr().out
    main(["replay", str(week), "--json", "--report", str(tmp_path / "one.html")])
    assert capsys.readouterr().out == plain != ""


def test_a_place_that_cannot_be_written_is_found_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", SCENARIO, "--report", str(tmp_path / "nowhere" / "x.html")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "nowhere/x.html: No such file or directory" in told.err
