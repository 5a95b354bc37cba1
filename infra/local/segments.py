"""Writing a history's events: files that are closed when they are full, and taken away when there
are too many. `infra.local.history` says what they look like.

A line is written with one call before the caller goes on, so that a process that is killed loses
the line in flight and no other. It is safe from a power cut once `sync` has been called, when its
file is closed, and when it is compressed.
"""

import contextlib
import fcntl
import gzip
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infra.local import history

MODE = 0o640
"""Of every file of a history: what a cluster says of itself is not for all users of a machine."""


def opener(path: str | Path, flags: int) -> int:
    """Makes files of `MODE`."""
    return os.open(path, flags, MODE)


class FolderInUse(Exception):
    """Another recorder writes to the folder."""


@dataclass(frozen=True)
class Limits:
    size: int = 1 << 30
    """Bytes of all files together."""
    keep: timedelta = timedelta(days=14)
    """Events older than this go, a file at a time: when its last one is."""
    rotate_size: int = 64 << 20
    rotate_age: timedelta = timedelta(days=1)


class Segments:
    """Writes to ``folder``, which is made. Raises `FolderInUse`, `history.HistoryError` for files
    in it that are none of a history, and OSError."""

    def __init__(
        self,
        folder: Path,
        limits: Limits,
        *,
        packed: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.written = 0
        """Lines."""
        self.removed = 0
        """Files that were taken away."""
        self._limits = limits
        self._packed = packed
        self._now = now
        self._lock = self._locked()
        self._file = -1
        self._path = Path()
        self._began = self._last = datetime.min.replace(tzinfo=UTC)
        self._size = 0
        self._unsynced = False
        self._packing: threading.Thread | None = None
        for left in folder.glob("events-*.tmp"):
            left.unlink()
        self._known: dict[Path, int] = {}
        """The files that are there, and how large they are."""
        self.prune()
        self._pack_soon()

    def stamp(self) -> datetime:
        """The time of the next line: now, and never before the line above it, whatever somebody
        does to the clock."""
        self._last = max(self._last, self._now())
        return self._last

    def write(self, at: datetime, line: bytes) -> None:
        """Append ``line``, which ends in a newline. When this returns it outlives the process;
        when it raises (OSError: no space left) nothing of it is in the file."""
        full = self._size and (
            self._size + len(line) > self._limits.rotate_size
            or at - self._began >= self._limits.rotate_age
        )
        if self._file < 0 or full:
            self._rotate(at)
        try:
            done = 0
            while done < len(line):
                done += os.write(self._file, line[done:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)
        self._known[self._path] = self._size
        self._unsynced = True
        self.written += 1
        if sum(self._known.values()) > self._limits.size:
            self.prune()

    def sync(self) -> None:
        """Until the disk has it."""
        if self._unsynced and self._file >= 0:
            self._unsynced = False
            os.fsync(self._file)

    def prune(self) -> None:
        """Take away the oldest files until what is left is within the limits; never the one that
        is being written."""
        before = self._now() - self._limits.keep
        found = history.segments_in(self.folder)
        sizes = {one.path: _size(one.path) for one in found}
        total = sum(sizes.values())
        for place, one in enumerate(found):
            following = found[place + 1].start if place + 1 < len(found) else None
            aged = following is not None and following <= before
            if one.path == self._path or (total <= self._limits.size and not aged):
                break
            total -= sizes.pop(one.path)
            for twin in (one.path, one.path.with_name(f"{one.path.name}.gz")):
                twin.unlink(missing_ok=True)
            self.removed += 1
        self._known = sizes

    def close(self) -> None:
        self._end()
        if self._packing:
            self._packing.join()
        if self._packed:
            _pack_all(self._closed())
        self.prune()
        os.close(self._lock)

    @property
    def bytes(self) -> int:
        return sum(self._known.values())

    @property
    def files(self) -> int:
        return len(self._known)

    # how it is done

    def _rotate(self, at: datetime) -> None:
        self._end()
        self._pack_soon()
        while True:
            path = self.folder / f"events-{_stamp(at)}.jsonl"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
                self._file = opener(path, flags)
            except FileExistsError:
                at += timedelta(milliseconds=1)
                continue
            break
        self._path, self._began, self._size = path, at, 0
        self._known[path] = 0
        _sync_folder(self.folder)
        self.prune()

    def _end(self) -> None:
        if self._file >= 0:
            self.sync()
            os.close(self._file)
            self._file, self._path = -1, Path()

    def _pack_soon(self) -> None:
        """Compress what is closed, beside the writing: 64 MiB take seconds. What is closed is
        found here, and not beside the next file's making."""
        if self._packed and not (self._packing and self._packing.is_alive()):
            closed = self._closed()
            self._packing = threading.Thread(target=_pack_all, args=(closed,), name="packing")
            self._packing.start()

    def _closed(self) -> list[Path]:
        found = (one.path for one in history.segments_in(self.folder))
        return [path for path in found if path.suffix == ".jsonl" and path != self._path]

    def _locked(self) -> int:
        file = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, MODE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            os.close(file)
            raise FolderInUse(
                f"{self.folder}: another recorder writes there; give this one a folder of its own "
                "(--to DIR)"
            ) from problem
        return file


def _pack_all(closed: list[Path]) -> None:
    for path in closed:
        # Taken away meanwhile, perhaps, to stay within the limits.
        with contextlib.suppress(FileNotFoundError):
            _pack(path)


def _pack(path: Path) -> None:
    """Either the plain file or the whole packed one is there at any moment, or both."""
    packed = path.with_name(f"{path.name}.gz")
    half = path.with_name(f"{path.name}.gz.tmp")
    with path.open("rb") as plain, open(half, "wb", opener=opener) as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0, filename="") as file:
            shutil.copyfileobj(plain, file, 1 << 20)
        raw.flush()
        os.fsync(raw.fileno())
    half.rename(packed)
    path.unlink()
    _sync_folder(path.parent)


def _size(path: Path) -> int:
    """Of ``path``, or of what it was compressed to just now."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        packed = path.with_name(f"{path.name}.gz")
        return packed.stat().st_size if packed.exists() else 0


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S}.{at.microsecond // 1000:03}Z"
