"""``groundcrew replay`` as a user meets it."""

import io
import json
import re
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from infra.cli import main
from infra.local import scenario_file

SMALL = "lost-events-found-by-resync"
BROKEN = """\
shows: a test
start: 2026-03-02T08:00:00Z
until: Mon 08:10
cluster:
  pools:
    gpu: {count: 3, instance_type: p5.48xlarge}
steps:
  - at: Mon 08:05
    says: Nothing happens.
expect:
  - {node: gpu-01, schedulable: false, because: a wish}
"""


def replay(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["replay", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def decoded(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def _short() -> list[Any]:
    """A month takes half a minute: it is played on the way to a real cluster."""
    return [
        pytest.param(name, marks=pytest.mark.controlplane if name == "false-alarms" else ())
        for name in scenario_file.known()
        if name not in ("a-bad-week", "seven-days")  # played below, as they are told
    ]


@pytest.mark.parametrize("name", _short())
def test_what_each_scenario_expects_comes_true(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = replay(capsys, name, "--json")
    assert decoded(out)[-1]["failed"] == []
    assert (code, err) == (0, "")


@pytest.fixture(scope="module")
def bad_week() -> tuple[int, str, str]:
    """What is said without an argument, on a terminal of 80 columns."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("COLUMNS", "80")
        code = main(["replay"])
    return code, out.getvalue(), err.getvalue()


def test_without_an_argument_a_bad_week_is_told_in_80_columns(
    bad_week: tuple[int, str, str],
) -> None:
    code, out, err = bad_week
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "a-bad-week"
    assert [line for line in lines if len(line) > 80] == []
    assert "\x1b" not in out
    assert any(re.match(r"Mon 09:14  A GPU of h100-07 falls off the bus", line) for line in lines)
    assert "           cordoned   h100-07  " in out
    assert re.search(r"a-bad-week: all \d+ expectations held", out)
    assert "0 disruption budgets broken" in out or "no disruption budget broken" in out
    assert "Try next: groundcrew replay --list" in out


@pytest.fixture(scope="module")
def in_the_readme() -> list[str]:
    """The pieces of plays that it shows."""
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    return re.findall(r"```text\n((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) .*?)```", readme, re.DOTALL)


def test_the_readme_shows_a_bad_week_as_it_is_told(
    bad_week: tuple[int, str, str], in_the_readme: list[str]
) -> None:
    assert in_the_readme[0] in bad_week[1]


def test_the_readme_shows_seven_days_as_they_are_told(
    in_the_readme: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = replay(capsys, "seven-days")
    assert (code, err) == (0, "")
    assert re.search(r"seven-days: all \d+ expectations held", out)
    assert in_the_readme[1] in out


def test_thirty_nodes_that_a_mad_monitor_accuses_take_a_few_lines(
    bad_week: tuple[int, str, str],
) -> None:
    _, out, _ = bad_week
    thursday = out[out.index("Thu 03:00") : out.index("Thu 03:30")]
    assert len(thursday.splitlines()) < 25
    assert re.search(r"held back +1\d nodes", thursday)
    assert re.search(r"and\s+\d+\s+more", thursday)


def test_json_has_a_line_for_each_decision_and_a_summary(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = replay(capsys, SMALL, "--json")
    *lines, summary = decoded(out)
    assert [(line["action"], line["node"]) for line in lines][:2] == [
        ("open", "h100-03"),
        ("cordon", "h100-03"),
    ]
    assert all({"at", "function", "action", "node", "reason"} <= line.keys() for line in lines)
    assert summary["summary"] == SMALL
    assert summary["nodes"]["h100-03"]["state"] == "evict"


def test_json_is_the_same_byte_for_byte_in_two_runs(capsys: pytest.CaptureFixture[str]) -> None:
    one, other = replay(capsys, SMALL, "--json"), replay(capsys, SMALL, "--json")
    assert one == other


def test_list_says_what_each_scenario_shows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = replay(capsys, "--list")
    assert code == 0
    for name in scenario_file.known():
        assert re.search(rf"^{name} +\w", out, re.MULTILINE)


def test_an_expectation_that_does_not_hold_is_named_and_the_exit_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(BROKEN)
    code, out, _ = replay(capsys, str(file))
    assert code == 1
    assert "mine: 1 not as expected; 0 of 1 expectations held" in out
    flat = " ".join(out.split())
    assert "mine.yaml:11: expected: gpu-01 is cordoned; seen: it takes work" in flat
    assert replay(capsys, str(file), "--json")[0] == 1


def test_several_scenarios_are_played_and_one_that_fails_fails_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(BROKEN)
    code, out, _ = replay(capsys, SMALL, str(file))
    assert code == 1
    assert out.splitlines()[-2].startswith(f"{SMALL}: all ")
    assert out.splitlines()[-1].startswith("mine: 1 not as expected")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BROKEN.replace("says: Nothing", "sez: Nothing"), "mine.yaml:9: steps[0].sez: no such"),
        (BROKEN.replace("node: gpu-01", "node: gpu-09"), "mine.yaml:11: expect[0].node: no node"),
        ("", "mine.yaml: a scenario is a mapping"),
        (
            BROKEN.replace(
                "says: Nothing happens.",
                "event: {recorded: ec2_spot/terminate, set: {detail.nothing.more: 1}}",
            ),
            "detail.nothing.more",
        ),
    ],
)
def test_a_wrong_file_is_told_in_a_line_and_the_exit_code_is_2(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    code, _, err = replay(capsys, str(file))
    assert code == 2
    assert len(err.splitlines()) == 1
    assert err.startswith("groundcrew replay: ")
    assert said in err


def test_a_name_that_is_no_scenario_says_which_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = replay(capsys, "a-good-week")
    assert code == 2
    assert "a-bad-week" in err


def test_a_wrong_policy_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\nbudget:\n  pool: many\n")
    code, _, err = replay(capsys, "--policy", str(file))
    assert code == 2
    assert "policy.yaml: line 3: budget.pool" in err
    assert replay(capsys, "--policy", str(tmp_path / "none.yaml"))[0] == 2


def test_another_policy_decides_otherwise_and_says_whose_expectations_these_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('version: 1\nshadow: [{check: "*"}]\n')
    code, out, _ = replay(capsys, SMALL, "--policy", str(file))
    assert code == 1
    assert "0 cordoned" in out
    assert "expectations were written for its own policy" in out


def test_at_a_speed_it_takes_its_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    code, _, _ = replay(capsys, SMALL, "--speed", "60")
    assert code == 0
    assert now[0] == pytest.approx(30, abs=0.2)


def test_who_has_seen_enough_ends_it_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    code, out, err = replay(capsys, SMALL, "--speed", "60")
    assert (code, err) == (130, "")
    assert out.startswith(SMALL)


@pytest.mark.parametrize("speed", ["0", "-1", "fast"])
def test_a_speed_that_is_none_is_wrong_usage(
    speed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay", "--speed", speed])
    assert ended.value.code == 2
    assert "is no number above 0" in capsys.readouterr().err
