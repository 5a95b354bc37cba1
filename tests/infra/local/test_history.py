"""Reading a history: in order, in bounded memory, and never past a mistake."""

import gzip
import json
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.local.history import History, HistoryError

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-01"}}


def line(seconds: float, body: Any = None, **more: Any) -> str:
    at = (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    return json.dumps(
        {"at": at, "method": "POST", "path": "/", "headers": {}, "body": body, **more}
    )


def write(path: Path, lines: Iterable[str], *, end: str = "\n") -> Path:
    text = "".join(f"{one}\n" for one in lines).removesuffix("\n") + end
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def bodies(history: History) -> list[Any]:
    return [json.loads(event.recording.body) for event in history.events()]


def read_whole(history: History) -> list[Any]:
    return [history.start, *history.objects(), *history.events()]


def test_events_come_as_they_were_sent(tmp_path: Path) -> None:
    lines = [
        line(0, {"a": 1}, path="/from/imds", headers={"groundcrew-node": "gpu-01"}),
        line(1.5, "no JSON"),
        line(2, body_base64="AAE="),
    ]
    history = History.open(write(tmp_path / "mine.jsonl", lines))
    first, second, third = history.events()
    assert first.at == START == history.start
    assert second.at == START + timedelta(seconds=1.5)
    assert (first.recording.path, first.recording.headers) == (
        "/from/imds",
        {"groundcrew-node": "gpu-01"},
    )
    assert first.recording.body == b'{"a": 1}'
    assert (second.recording.body, third.recording.body) == (b"no JSON", b"\0\1")
    assert history.end == third.at
    assert list(history.objects()) == []


def test_segments_follow_each_other_packed_or_not(tmp_path: Path) -> None:
    write(tmp_path / "events-20260302T080000Z.jsonl.gz", [line(0, 0), line(500, 1)])
    write(tmp_path / "events-20260302T081000.000Z.jsonl", [line(600, 2), line(700, 3)])
    (tmp_path / "notes.txt").write_text("anything")
    assert bodies(History.open(tmp_path)) == [0, 1, 2, 3]


def test_segments_of_two_recorders_are_merged(tmp_path: Path) -> None:
    write(tmp_path / "events-20260302T080000Z.jsonl", [line(s, s) for s in range(0, 1000, 10)])
    write(tmp_path / "events-20260302T080005Z.jsonl", [line(s, s) for s in range(5, 400, 10)])
    write(tmp_path / "events-20260302T081000Z.jsonl", [line(s, s) for s in range(605, 900, 10)])
    found = bodies(History.open(tmp_path))
    assert found == sorted(found)
    assert len(found) == 100 + 40 + 30


def test_what_was_compressed_and_not_yet_taken_away_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "events-20260302T080000Z.jsonl", [line(0, 0)])
    write(tmp_path / "events-20260302T080000Z.jsonl.gz", [line(0, 0)])
    assert bodies(History.open(tmp_path)) == [0]


def test_lines_that_are_a_minute_off_are_put_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [line(60, 60), line(0, 0), line(30, 30), line(90, 90)])
    assert bodies(History.open(path)) == [0, 30, 60, 90]


def test_lines_that_are_further_off_are_refused_with_their_place(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [line(0), line(200), line(300), line(5)])
    with pytest.raises(HistoryError, match=r"x\.jsonl:4: is of 195 s before .* sort the file"):
        list(History.open(path).events())


def test_a_line_that_was_cut_off_at_the_end_is_left_out_and_told(tmp_path: Path) -> None:
    write(tmp_path / "events-20260302T080000Z.jsonl", [line(0, 0), line(1, 1)[:40]], end="")
    write(tmp_path / "events-20260302T081000Z.jsonl", [line(600, 2)])
    history = History.open(tmp_path)
    assert bodies(history) == [0, 2]
    (note,) = history.notes
    assert note.endswith("events-20260302T080000Z.jsonl:2: the last line was cut off while it was "
                         "written")  # fmt: skip


def test_a_packed_file_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl.gz", [line(s, "x" * s) for s in range(2000)])
    path.write_bytes(path.read_bytes()[:-200])
    history = History.open(path)
    found = list(history.events())
    assert 0 < len(found) < 2000
    assert "cut off" in history.notes[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "x.jsonl:2: no recorded event: "),
        ("[]", "x.jsonl:2: no recorded event: "),
        ('{"path": "/", "headers": {}}', "x.jsonl:2: .*missing required field `at`"),
        ('{"at": "2026-03-02T08:00:00", "path": "/", "headers": {}}', "x.jsonl:2: at: .*time zone"),
        ('{"at": "2026-03-02T08:00:00Z", "body": {}}', "x.jsonl:2: no recorded event: file: "),
        (line(0, body_base64="?"), "x.jsonl:2: no recorded event: body_base64"),
    ],
)
def test_what_is_no_event_is_named_with_file_and_line(
    text: str, problem: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "x.jsonl", [line(0), text, line(1)])
    with pytest.raises(HistoryError, match=problem):
        list(History.open(path).events())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("x.txt", r"a file of events ends in \.jsonl"),
        ("events-today.jsonl", "no time in its name"),
        ("events-20269902T080000Z.jsonl", "no time"),
    ],
)
def test_what_is_no_history_is_refused_when_it_is_opened(
    name: str, problem: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, [line(0)])
    with pytest.raises(HistoryError, match=problem):
        History.open(tmp_path if name.startswith("events") else path)


def test_an_empty_or_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="groundcrew record"):
        History.open(tmp_path)
    with pytest.raises(HistoryError, match="no such file or folder"):
        History.open(tmp_path / "nowhere")


def starting(objects: list[Any], *, at: str = "2026-03-02T08:00:00Z", v: int = 1) -> str:
    return json.dumps({"v": v, "at": at, "objects": objects})


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("by_line", [False, True])
def test_the_starting_point_is_read_in_either_form(
    packed: bool, by_line: bool, tmp_path: Path
) -> None:
    text = starting([NODE, NODE])
    if by_line:
        head, item = '{"v":1,"at":"2026-03-02T08:00:00Z","objects":[', json.dumps(NODE)
        text = f"{head}\n{item},\n{item}\n]}}\n"
    path = tmp_path / ("cluster.json.gz" if packed else "cluster.json")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    write(tmp_path / "events-20260302T070000Z.jsonl", [line(-9, 0), line(0, 1)])
    history = History.open(tmp_path)
    assert history.start == START
    assert list(history.objects()) == [NODE, NODE]
    assert bodies(history) == [1]
    assert history.notes == [
        "1 event is from before the starting point (2026-03-02 08:00:00Z), and left out"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "no starting point"),
        (starting([NODE], v=2), "v: 2 is not read, only 1"),
        (starting([NODE], at="2026-03-02T08:00:00"), "no time zone"),
        (starting([NODE, {"kind": "Node"}]), r"objects\[1\]: no Kubernetes object"),
        ('{"v":1,"at":"2026-03-02T08:00:00Z","objects":[\n{}\n]}', "cluster.json:2: no Kubern"),
        (f'{{"v":1,"at":"2026-03-02T08:00:00Z","objects":[\n{json.dumps(NODE)},\n', "cut off"),
    ],
)
def test_a_bad_starting_point_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(text)
    write(tmp_path / "events-20260302T080000Z.jsonl", [line(0)])
    history = History.open(tmp_path)
    with pytest.raises(HistoryError, match=problem):
        read_whole(history)


def test_a_long_history_is_read_in_little_memory(tmp_path: Path) -> None:
    for hour in range(4):
        name = f"events-20260302T{8 + hour:02}0000Z.jsonl.gz"
        write(tmp_path / name, (line(3600 * hour + s, "x" * 3000) for s in range(0, 3600, 8)))
    history = History.open(tmp_path)
    tracemalloc.start()
    count = sum(1 for _ in history.events())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1800
    assert peak < 1_000_000  # of 5.5 MB
