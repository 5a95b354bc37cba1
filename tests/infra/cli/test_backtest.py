"""``groundcrew backtest`` as a user meets it."""

import json
import re
import time
from pathlib import Path

import pytest

from infra.cli import main
from tests.support.histories import DOUBLE_BIT_ERROR, NVLINK_ERROR, node, told, write

SMALL = "lost-events-found-by-resync"
README = Path(__file__).parents[3] / "README.md"
STRICT = "version: 1\nseverity: [{reason: NvidiaXID74Error, severity: evict}]\n"


@pytest.fixture
def week(tmp_path: Path) -> Path:
    events = [
        told(60, node("gpu-03", DOUBLE_BIT_ERROR)),
        told(120, node("gpu-07", NVLINK_ERROR)),
        told(7320, node("gpu-05")),
    ]
    names = [f"gpu-{number:02}" for number in range(1, 41)]
    return write(tmp_path / "week", [node(name) for name in names], events)


@pytest.fixture
def strict(tmp_path: Path) -> Path:
    file = tmp_path / "strict.yaml"
    file.write_text(STRICT)
    return file


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["backtest", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_table_says_in_a_sentence_and_in_numbers_what_differs(
    week: Path, strict: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "--policy", "default", "--policy", strict, week)
    assert (code, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0] == (
        "strict.yaml would have taken out as many nodes (2), evicted as many pods (0), and cost "
        "as many node-hours (4.0)."
    )
    assert "week: 2026-03-02 08:00Z to 2026-03-02 10:02Z, 40 nodes, 3 events" in out
    assert "1 difference; 1 times out of service are alike" in lines
    assert "Mon 02 Mar 08:02  gpu-07: to be emptied under strict.yaml alone" in out
    assert "What this cannot know" in lines


def test_one_policy_is_compared_with_none(week: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--policy", "default", week)
    assert code == 0
    assert out.startswith("default would have taken out 2 of 40 nodes, evicted 0 pods, and cost ")
    assert "nobody acts" in out
    cordons = [line.split()[-3:] for line in out.splitlines() if "fault to cordon" in line]
    assert cordons == [["-", "0", "s"]] * 2, "no time where nobody cordons, and no difference"


def test_what_the_readme_compares_says_how_many_nodes_a_policy_spares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (text,) = re.findall(r"```yaml\n(# unlimited\.yaml\n.*?)```", README.read_text(), re.DOTALL)
    unlimited = tmp_path / "unlimited.yaml"
    unlimited.write_text(text)
    names = [f"gpu-{number:02}" for number in range(60)]
    accused = [told(60 + n, node(name, DOUBLE_BIT_ERROR)) for n, name in enumerate(names[:40])]
    fleet = write(tmp_path / "week", [node(name) for name in names], accused)
    code, out, _ = run(capsys, "--policy", unlimited, "--policy", "default", fleet)
    assert code == 0
    assert out.startswith("default would have taken out 3 nodes instead of 40, ")


def test_json_is_stable_and_the_same_byte_for_byte_in_two_runs(
    week: Path, strict: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--policy", "default", "--policy", strict, "-o", "json", week, SMALL)
    one, other = run(capsys, *words), run(capsys, *words)
    assert one == other
    made = json.loads(one[1])
    assert list(made) == [
        "v",
        "headline",
        "policies",
        "histories",
        "tolerance_seconds",
        "differences",
        "same",
        "limits",
    ]
    assert [past["kind"] for past in made["histories"]] == ["recorded", "scenario"]
    assert [under["name"] for under in made["policies"]] == ["default", "strict.yaml"]
    assert list(made["policies"][0]["totals"]) == [
        "nodes_out",
        "outages",
        "drained",
        "pods_evicted",
        "pods_deleted",
        "released",
        "still_out",
        "node_hours",
        "most_out",
        "held",
        "median_seconds",
        "slowest_seconds",
    ]
    (difference,) = made["differences"]
    assert difference["kinds"] == ["severity", "drained"]
    assert difference["incident"] == "kubernetes.node/AcceleratedHardwareReady"


def test_html_is_one_file_and_the_headline_goes_to_the_terminal(
    week: Path, strict: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "what-if.html"
    words = ("--policy", "default", "--policy", strict, "-o", "html", "--file", file)
    code, out, _ = run(capsys, *words, week)
    assert code == 0
    assert out.startswith("strict.yaml would have taken out as many nodes (2)")
    assert file.read_text().startswith("<!doctype html>")
    first = file.read_bytes()
    run(capsys, *words, week)
    assert file.read_bytes() == first


def test_a_table_goes_to_a_file_too(
    week: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "table.txt"
    code, out, _ = run(capsys, "--policy", "default", "--file", file, week)
    assert (code, out) == (0, "")
    assert file.read_text().startswith("default would have taken out 2 of 40 nodes")
    assert "\x1b" not in file.read_text()


def test_policies_of_one_name_are_told_apart_by_their_folders(
    week: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        files.append(tmp_path / folder / "policy.yaml")
        files[-1].write_text(STRICT)
    _, out, _ = run(capsys, "--policy", files[0], "--policy", files[1], "-o", "json", week)
    made = json.loads(out)
    assert [under["name"] for under in made["policies"]] == [str(file) for file in files]
    assert made["differences"] == []


def test_a_wrong_policy_is_told_with_file_line_and_field(
    week: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("version: 1\nbudget:\n  pool: many\n")
    code, out, err = run(capsys, "--policy", file, week)
    assert (code, out) == (2, "")
    assert err.startswith(f"groundcrew backtest: {file}: line 3: budget.pool: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "none", "{week}"], "nobody acts under either"),
        (["--policy", "default"] * 3 + ["{week}"], "two are compared"),
        (["--policy", "default", "a-good-week"], "no such scenario or file"),
        (["--policy", "default", "{week}/nothing.jsonl"], "no such file or folder"),
        (["--policy", "default", "{folder}"], "no events in it"),
        (["--policy", "missing.yaml", "{week}"], "missing.yaml: No such file"),
    ],
)
def test_wrong_input_is_told_in_a_line_before_anything_is_played(
    words: list[str],
    said: str,
    week: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "folder").mkdir()
    filled = [word.format(week=week, folder=tmp_path / "folder") for word in words]
    code, out, err = run(capsys, *filled)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert said in err


def test_a_line_that_is_no_event_is_told_with_its_file_and_number(
    week: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (segment,) = week.glob("events-*")
    segment.write_text(segment.read_text() + "{}\n")
    code, _, err = run(capsys, "--policy", "default", week)
    assert code == 2
    assert f"{segment}:4: " in err


@pytest.mark.parametrize("words", [["week"], ["--policy", "default"]])
def test_what_is_missing_is_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["backtest", *words])
    assert ended.value.code == 2


def test_a_wrong_tolerance_says_how_to_write_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["backtest", "--policy", "default", "--tolerance", "soon", SMALL])
    assert "write 90s, 5m, 1h30m or 7d" in capsys.readouterr().err


def test_long_work_says_where_it_is_on_stderr_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def later() -> float:
        now[0] += 31.0
        return now[0]

    monkeypatch.setattr(time, "monotonic", later)
    _, out, err = run(capsys, "--policy", "default", "-o", "json", SMALL)
    assert json.loads(out)
    assert err.splitlines()[0].startswith(f"{SMALL}: Mon 2026-")
