"""A history: what a cluster was told, and how it stood when that began, in a folder.

    cluster.json[.gz]                      optional: the starting point, one JSON object
                                           {"v": 1, "at": RFC 3339, "objects": [{...}, ...]}
    events-20260302T080000.000Z.jsonl[.gz] the events from then on, one JSON object a line:
                                           {"at": RFC 3339, "method": "POST", "path": "/",
                                            "headers": {...}, "body": ...}

``groundcrew record`` writes it, ``groundcrew replay`` and ``backtest`` play it. A line is read as
`events.recording` reads a file: ``body`` is a JSON value taken byte for byte, or a string, which
is the body itself; ``body_base64`` holds what is no text. A single ``.jsonl`` file is a history,
too.

Everything is streamed: what is held in memory is one object, or the lines of one `WINDOW`.
"""

import gzip
import heapq
import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from events import recording
from events.errors import MalformedEvent
from events.recording import Recording

VERSION = 1
WINDOW = timedelta(seconds=60)
"""How far lines may be from their order in time: two recorders side by side, a clock that was set.
What is further off is a mistake that would make a replay tell another story, and is refused."""
WINDOW_BYTES = 64 * 1024 * 1024
"""No more lines than this are kept back to be put in order."""
LONGEST_LINE = 8 * 1024 * 1024
"""An event is 1 MiB at most; in base64, with every character escaped, it is less than this."""
CLUSTER = "cluster.json"
HEAD = '{"v":1,"at":"%s","objects":['
"""How ``groundcrew record`` begins a starting point: what follows is one object a line."""

_SEGMENT = re.compile(r"events-(\d{8}T\d{6}(?:\.\d{1,6})?Z)\.jsonl(?:\.gz)?")


class HistoryError(ValueError):
    """What is wrong with a history, with the file and, where there is one, the line."""

    def __init__(self, file: Path, problem: str, line: int = 0) -> None:
        self.file, self.line = file, line
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")


class Event(NamedTuple):
    at: datetime
    recording: Recording


class Segment(NamedTuple):
    """One file of events. ``start`` is what its name says; None for a file of another name."""

    start: datetime | None
    path: Path


class History:
    """``open`` it, then read `objects` once and `events` as often as needed."""

    def __init__(self, path: Path, segments: list[Segment], cluster: Path | None) -> None:
        self.path = path
        self.segments = segments
        self.cluster = cluster
        self.notes: list[str] = []
        """What was left out while reading, a sentence each: a line that was cut off, events from
        before the starting point."""
        self._start: datetime | None = None

    @classmethod
    def open(cls, path: Path | str) -> "History":
        """The history in the folder, or in the file. Raises `HistoryError`."""
        path = Path(path)
        if path.is_file():
            if not path.name.endswith((".jsonl", ".jsonl.gz")):
                raise HistoryError(path, "no history: a file of events ends in .jsonl or .jsonl.gz")
            return cls(path, [Segment(None, path)], None)
        if not path.is_dir():
            raise HistoryError(path, "no such file or folder")
        segments = segments_in(path)
        found = [path / name for name in (CLUSTER, f"{CLUSTER}.gz") if (path / name).is_file()]
        if len(found) > 1:
            raise HistoryError(path, f"has both {CLUSTER} and {CLUSTER}.gz; take one away")
        if not segments:
            raise HistoryError(
                path, "no events in it (events-<UTC time>.jsonl); `groundcrew record` writes them"
            )
        return cls(path, segments, found[0] if found else None)

    @property
    def start(self) -> datetime:
        """When it begins: the time of the starting point, else of the first event."""
        if self._start is None:
            if self.cluster:
                self._start = _Starting(self.cluster).at
            else:
                first = next(self._merged(), None)
                if first is None:
                    raise HistoryError(self.path, "holds not one event")
                self._start = first.at
        return self._start

    @property
    def end(self) -> datetime:
        """The time of the last event. Reads the last file through."""
        last = self.start
        for segment in reversed(self.segments):
            times = [event.at for event in self._lines(segment)]
            if times:
                return max(last, *times)
        return last

    def objects(self) -> Iterator[dict[str, Any]]:
        """The Kubernetes objects of the starting point, in the file's order; none where there is
        no starting point. Raises `HistoryError`."""
        if self.cluster:
            yield from _Starting(self.cluster).objects()

    def events(self) -> Iterator[Event]:
        """All events from `start` on, in order of time. Raises `HistoryError`."""
        start, earlier, last = self.start, 0, datetime.min.replace(tzinfo=UTC)
        for line in self._merged():
            if line.at < last:
                late = (last - line.at).total_seconds()
                raise HistoryError(
                    line.file,
                    f"is of {late:.0f} s before the lines above it; at most "
                    f"{WINDOW.total_seconds():.0f} s are put in order: sort the file by `at`",
                    line.number,
                )
            last = line.at
            if line.at < start:
                earlier += 1
                continue
            yield Event(line.at, _recording(line))
        if earlier:
            self._note(
                f"{earlier:,} event{'s are' if earlier > 1 else ' is'} from before the starting "
                f"point ({_stamp(start)}), and left out"
            )

    # how it is done

    def _merged(self) -> Iterator["_Line"]:
        """The lines of all segments. One is opened only when the others have come to its time."""
        waiting = list(self.segments)
        heads: list[tuple[datetime, int, _Line, Iterator[_Line]]] = []
        for order in range(len(waiting) + 1):
            while heads and (
                order == len(waiting) or heads[0][0] < _opens(waiting[order], heads[0][0])
            ):
                _, place, line, rest = heads[0]
                yield line
                following = next(rest, None)
                if following:
                    heapq.heapreplace(heads, (following.at, place, following, rest))
                else:
                    heapq.heappop(heads)
            if order < len(waiting):
                rest = self._in_order(waiting[order])
                if first := next(rest, None):
                    heapq.heappush(heads, (first.at, order, first, rest))

    def _in_order(self, segment: Segment) -> Iterator["_Line"]:
        """The lines of one file, those within `WINDOW` put in order."""
        held: list[tuple[datetime, int, _Line]] = []
        size, newest = 0, datetime.min.replace(tzinfo=UTC)
        for line in self._lines(segment):
            heapq.heappush(held, (line.at, line.number, line))
            size += len(line.text)
            newest = max(newest, line.at)
            while held and (newest - held[0][0] > WINDOW or size > WINDOW_BYTES):
                oldest = heapq.heappop(held)[2]
                size -= len(oldest.text)
                yield oldest
        while held:
            yield heapq.heappop(held)[2]

    def _lines(self, segment: Segment) -> Iterator["_Line"]:
        path = segment.path
        number = 0
        try:
            with _opened(path) as file:
                while text := file.readline(LONGEST_LINE):
                    number += 1
                    if len(text) == LONGEST_LINE:
                        raise HistoryError(path, f"longer than {LONGEST_LINE} bytes", number)
                    line = self._line(path, number, text)
                    if line:
                        yield line
        except (EOFError, zlib.error) as problem:
            # As with a line that was cut off: what had been written stands.
            self._note(f"{path}: cut off after line {number}: {problem}")
        except OSError as problem:
            raise HistoryError(path, f"cannot be read: {problem}") from problem

    def _line(self, path: Path, number: int, text: bytes) -> "_Line | None":
        if not text.strip():
            return None
        try:
            at = msgspec.json.decode(text, type=_At).at
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            if not text.endswith(b"\n"):
                self._note(f"{path}:{number}: the last line was cut off while it was written")
                return None
            raise HistoryError(path, f"no recorded event: {problem}", number) from problem
        if at.tzinfo is None:
            raise HistoryError(path, "at: has no time zone; write 2026-03-02T08:00:00Z", number)
        return _Line(at.astimezone(UTC), path, number, text)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def segments_in(folder: Path) -> list[Segment]:
    """The files of events in ``folder``, in order of time. Raises `HistoryError`."""
    found: dict[str, Segment] = {}
    for path in sorted(folder.glob("events-*.jsonl*")):
        if path.name.endswith((".jsonl", ".jsonl.gz")):
            match = _SEGMENT.fullmatch(path.name)
            if not match:
                raise HistoryError(path, "no time in its name; as in events-20260302T080000Z.jsonl")
            # A recorder that was killed between compressing a file and taking the plain one away
            # left both, which hold the same; the plain one sorts first.
            found.setdefault(match[1], Segment(_start_of(path, match[1]), path))
    return sorted(found.values(), key=lambda one: (one.start, one.path))


def is_history(path: Path | str) -> bool:
    """Whether ``path`` is meant as one: a folder, or a file of lines."""
    path = Path(path)
    return path.is_dir() or path.name.endswith((".jsonl", ".jsonl.gz"))


class _At(msgspec.Struct):
    at: datetime


class _Line(NamedTuple):
    at: datetime
    file: Path
    number: int
    text: bytes


class _Starting:
    """The file of the starting point. One that `HEAD` begins is read line by line, any other as
    a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._reading(), _opened(path) as file:
            head = file.readline(LONGEST_LINE)
        self._by_line = head.rstrip().endswith(b'"objects":[')
        text = head.rstrip() + b"]}" if self._by_line else self._whole()
        try:
            found = msgspec.json.decode(text, type=_ClusterHead)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise HistoryError(path, f"no starting point: {problem}") from problem
        if found.v != VERSION:
            raise HistoryError(path, f"v: {found.v} is not read, only {VERSION}")
        if found.at.tzinfo is None:
            raise HistoryError(path, "at: has no time zone; write 2026-03-02T08:00:00Z")
        self.at = found.at.astimezone(UTC)

    def objects(self) -> Iterator[dict[str, Any]]:
        if not self._by_line:
            for index, raw in enumerate(msgspec.json.decode(self._whole(), type=_Whole).objects):
                yield self._object(bytes(raw), 0, f"objects[{index}]: ")
            return
        ended = False
        with self._reading(), _opened(self._path) as file:
            file.readline(LONGEST_LINE)
            number = 1
            while text := file.readline(LONGEST_LINE):
                number += 1
                text = text.strip()
                if text == b"]}":
                    ended = True
                elif text:
                    yield self._object(text.removesuffix(b","), number, "")
        if not ended:
            raise HistoryError(self._path, "cut off: record the starting point anew")

    def _object(self, text: bytes, line: int, where: str) -> dict[str, Any]:
        try:
            msgspec.json.decode(text, type=_Known)
            found: dict[str, Any] = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise HistoryError(
                self._path, f"{where}no Kubernetes object: {problem}", line
            ) from problem
        return found

    def _whole(self) -> bytes:
        with self._reading(), _opened(self._path) as file:
            return file.read()

    def _reading(self) -> "_Reading":
        return _Reading(self._path)


class _Reading:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, EOFError | zlib.error | OSError):
            raise HistoryError(self._path, f"cannot be read: {problem}") from problem


class _ClusterHead(msgspec.Struct):
    v: int
    at: datetime


class _Whole(msgspec.Struct):
    objects: list[msgspec.Raw]


class _Name(msgspec.Struct):
    name: str


class _Known(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: _Name


def _recording(line: _Line) -> Recording:
    try:
        return recording.load(line.text)
    except MalformedEvent as problem:
        raise HistoryError(line.file, f"no recorded event: {problem}", line.number) from problem


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _opens(segment: Segment, otherwise: datetime) -> datetime:
    """From when on lines of ``segment`` may be next."""
    return segment.start - WINDOW if segment.start else otherwise


def _start_of(path: Path, text: str) -> datetime:
    form = "%Y%m%dT%H%M%S.%fZ" if "." in text else "%Y%m%dT%H%M%SZ"
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError as problem:
        raise HistoryError(path, f"no time: {text}: {problem}") from problem


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"
