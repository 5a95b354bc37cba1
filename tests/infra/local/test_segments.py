"""A recording's files: when one is full, when there are too many, and after a sudden end."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.local.history import History
from infra.local.segments import FolderInUse, Limits, Segments

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def write(segments: Segments, body: int, padding: int = 0) -> None:
    at = segments.stamp()
    stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    more = f', "padding": "{"x" * padding}"' if padding else ""
    line = f'{{"at": "{stamp}", "path": "/", "headers": {{}}, "body": {body}{more}}}\n'
    segments.write(at, line.encode())


def bodies(folder: Path) -> list[int]:
    return [int(event.recording.body) for event in History.open(folder).events()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_new_file_begins_when_one_is_full_or_old(tmp_path: Path) -> None:
    clock = Clock()
    segments = Segments(tmp_path, Limits(rotate_size=1000, rotate_age=10 * MINUTE), now=clock)
    for number in range(3):
        write(segments, number, 350)
        clock.now += MINUTE
    clock.now += 10 * MINUTE
    write(segments, 3)
    write(segments, 4)
    segments.close()
    assert names(tmp_path) == [
        "events-20260302T080000.000Z.jsonl",
        "events-20260302T080200.000Z.jsonl",
        "events-20260302T081300.000Z.jsonl",
    ]
    assert bodies(tmp_path) == [0, 1, 2, 3, 4]


def test_the_oldest_files_go_when_all_together_are_too_large(tmp_path: Path) -> None:
    clock = Clock()
    segments = Segments(tmp_path, Limits(size=5000, rotate_size=1000), now=clock)
    most = 0
    for number in range(60):
        write(segments, number, 200)
        clock.now += MINUTE
        most = max(most, sum(path.stat().st_size for path in tmp_path.glob("events-*")))
    segments.close()
    assert most <= 5000
    kept = bodies(tmp_path)
    assert kept == list(range(kept[0], 60))
    assert len(kept) > 10
    assert segments.removed > 10


def test_a_file_goes_when_its_last_event_is_too_old(tmp_path: Path) -> None:
    clock = Clock()
    limits = Limits(keep=30 * MINUTE, rotate_age=10 * MINUTE)
    segments = Segments(tmp_path, limits, now=clock)
    for number in range(6):
        write(segments, number)
        clock.now += 10 * MINUTE
    segments.prune()
    assert bodies(tmp_path) == [3, 4, 5]
    clock.now += 1000 * MINUTE
    segments.prune()
    assert bodies(tmp_path) == [5]  # the one that is being written stays
    segments.close()


def test_closed_files_are_compressed(tmp_path: Path) -> None:
    segments = Segments(tmp_path, Limits(rotate_size=300), packed=True)
    for number in range(100):  # files begin while others are compressed
        write(segments, number, 100)
    segments.close()
    found = names(tmp_path)
    assert len(found) > 40
    assert all(name.endswith(".jsonl.gz") for name in found)
    assert bodies(tmp_path) == list(range(100))


@pytest.mark.parametrize("packed", [False, True])
def test_files_are_not_for_all_users_of_the_machine(tmp_path: Path, packed: bool) -> None:
    segments = Segments(tmp_path, Limits(), packed=packed)
    write(segments, 1)
    segments.close()
    assert [path.stat().st_mode & 0o007 for path in tmp_path.iterdir()] == [0, 0]


def test_what_a_killed_recorder_left_is_taken_up(tmp_path: Path) -> None:
    (tmp_path / "events-20260302T070000.000Z.jsonl.gz.tmp").write_bytes(b"half")
    (tmp_path / "events-20260302T070000.000Z.jsonl").write_text(
        '{"at": "2026-03-02T07:00:00Z", "path": "/", "headers": {}, "body": 7}\n{"at": "20'
    )
    segments = Segments(tmp_path, Limits(), packed=True, now=Clock())
    write(segments, 8)
    segments.close()
    assert [name[-9:] for name in names(tmp_path)] == [".jsonl.gz"] * 2
    history = History.open(tmp_path)
    assert [int(event.recording.body) for event in history.events()] == [7, 8]
    assert "cut off" in history.notes[0]


def test_two_recorders_do_not_share_a_folder(tmp_path: Path) -> None:
    first = Segments(tmp_path, Limits())
    with pytest.raises(FolderInUse, match="another recorder"):
        Segments(tmp_path, Limits())
    first.close()
    Segments(tmp_path, Limits()).close()


def test_a_line_that_did_not_fit_on_the_disk_is_not_half_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = Segments(tmp_path, Limits(), now=Clock())
    write(segments, 0)
    real = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) > 20:
            return real(file, data[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            write(segments, 1)
    write(segments, 2)
    segments.close()
    assert bodies(tmp_path) == [0, 2]


def test_a_clock_that_is_set_back_does_not_turn_the_order(tmp_path: Path) -> None:
    clock = Clock()
    segments = Segments(tmp_path, Limits(), now=clock)
    write(segments, 0)
    clock.now -= 1000 * MINUTE
    write(segments, 1)
    segments.close()
    assert bodies(tmp_path) == [0, 1]
