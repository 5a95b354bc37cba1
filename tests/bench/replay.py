"""What it costs to play recorded history: a day of a fleet of 288 nodes, 190,000 events.

    python -m tests.bench.replay                 the case fleet-day, on one core
    python -m tests.bench.replay backtest        days under two policies: does memory grow?
    python -m tests.bench.replay backtest --days 30 --against-nobody    one policy; a line after
                                                 each day, on stderr
    python -m tests.bench.replay report          days in a page: memory, and its size

Played is what `tests.bench.fleet` makes up, by the way that ``groundcrew backtest`` plays a
folder: line, request, CloudEvent, broker, function, embedded cluster. The time that making the
events up takes is not counted. ``seconds`` are of the processor, which is wall time on an idle
core and does not count what others of a busy machine take meanwhile.
"""

import argparse
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from events import recording
from functions.rules import policy
from infra.local import recorded_play
from infra.local.backtest import sides
from infra.local.backtest.sides import Choice, Played
from infra.local.history import Event
from infra.local.past.reader import Reader
from infra.local.report import build, page
from infra.local.report.recorder import Recorder
from tests.bench import fleet
from tests.bench.fleet import Fleet

WANTED_SECONDS = 45.0
NEED_NOTHING = 0.991
DAYS = 3
STRICT = "version: 1\nseverity: [{reason: NvidiaXID74Error, severity: evict}]\nwaits: []\n"


class Day(NamedTuple):
    seconds: float
    """Of the processor, without making the events up."""
    rss_mb: float
    """At its end."""


class MadeUp:
    """As `infra.local.history.History`, without files."""

    path = Path("fleet-day")
    start = fleet.START
    notes: tuple[str, ...] = ()

    def __init__(self, days: int, events: int) -> None:
        self._fleet, self._days, self._events = Fleet(), days, events
        self.end = self.start + days * fleet.DAY
        self.making_seconds = 0.0
        self.by_day: list[Day] = []

    def objects(self) -> Iterator[dict[str, Any]]:
        return self._fleet.objects()

    def events(self) -> Iterator[Event]:
        lines = self._fleet.lines(self._days, self._events)
        before = time.process_time()
        for number in range(1, self._days * self._events + 1):
            began = time.process_time()
            line = next(lines)
            self.making_seconds += time.process_time() - began
            yield Event(msgspec.json.decode(line, type=_At).at, recording.load(line))
            if number % self._events == 0:
                now = time.process_time() - self.making_seconds
                self.by_day.append(Day(round(now - before, 1), _rss_mb()))
                before = now
                if self._days > 1:
                    print(f"day {len(self.by_day)}: {self.by_day[-1]}", file=sys.stderr, flush=True)


class _At(msgspec.Struct):
    at: datetime


def play(days: int, events: int, *policies: str | None) -> tuple[MadeUp, Played, SimpleNamespace]:
    """``policies`` as text; None is nobody acting."""
    history = MadeUp(days, events)
    choices = [
        Choice(f"policy {n}", None if text is None else policy.parse(text))
        for n, text in enumerate(policies)
    ]
    wall, cpu = time.perf_counter(), time.process_time()
    played = sides.play_history(history, choices, lambda name, now, events: None)  # type: ignore[arg-type]
    took = SimpleNamespace(
        wall=time.perf_counter() - wall,
        cpu=time.process_time() - cpu - history.making_seconds,
    )
    return history, played, took


def fleet_day(events: int = fleet.EVENTS) -> dict[str, float]:
    _, played, took = play(1, events, "version: 1")
    book = played.books[0]
    return {
        "seconds": round(took.cpu, 2),
        "wall_seconds": round(took.wall, 2),
        "rss_mb": _most_rss_mb(),
        "events": played.events,
        "needed_nothing": round(played.needed_nothing / played.events, 5),
        "decisions": sum(book.actions.values()),
        "cordoned": len(book.outages),
        "failures": played.failures,
    }


def backtest_days(
    days: int = DAYS, events: int = fleet.EVENTS, *, other: str | None = STRICT
) -> dict[str, Any]:
    history, played, took = play(days, events, "version: 1", other)
    return {
        "seconds_a_day": round(took.cpu / days, 2),
        "rss_mb": history.by_day[-1].rss_mb,
        "rss_mb_by_day": [day.rss_mb for day in history.by_day],
        "seconds_by_day": [day.seconds for day in history.by_day],
        "most_rss_mb": _most_rss_mb(),
        "events": played.events,
        "outages": [len(book.outages) for book in played.books],
        "failures": played.failures,
    }


def report_days(days: int = DAYS, events: int = fleet.EVENTS, file: str = "") -> dict[str, Any]:
    history, reader = MadeUp(days, events), Reader()
    scenario = recorded_play.begin(history, reader)  # type: ignore[arg-type]
    recorder = Recorder(scenario, policy.default())
    wall, cpu = time.perf_counter(), time.process_time()
    played = recorded_play.play(
        scenario,
        history,  # type: ignore[arg-type]
        reader,
        on_entry=recorder.entry,
        around=recorder.world,
        through=recorder.through,
    )
    before = _rss_mb()
    run = build.build(recorder, played, [])
    text = page.render([run]).encode()
    if file:
        Path(file).write_bytes(text)
    return {
        "seconds_a_day": round((time.process_time() - cpu - history.making_seconds) / days, 2),
        "wall_seconds": round(time.perf_counter() - wall, 2),
        "rss_mb_by_day": [day.rss_mb for day in history.by_day],
        "rss_mb_of_the_play": before,
        "most_rss_mb": _most_rss_mb(),
        "events": days * events,
        "marks": len(run.marks),
        "lanes": len({mark.n for mark in run.marks}),
        "page_kb": len(text) // 1000,
    }


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024, 1)


def _most_rss_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def main(argv: list[str]) -> int:
    logging.getLogger("groundcrew").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.replay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", nargs="?", choices=["backtest", "report"])
    parser.add_argument("--days", type=int, default=DAYS, help="of backtest and report")
    parser.add_argument("--events", type=int, default=fleet.EVENTS, help="a day")
    parser.add_argument(
        "--against-nobody", action="store_true", help="backtest: one policy, against nobody acting"
    )
    parser.add_argument("--file", default="", help="where the page of report goes")
    args = parser.parse_args(argv)
    if args.case == "backtest":
        other = None if args.against_nobody else STRICT
        name, found = "backtest-days", backtest_days(args.days, args.events, other=other)
    elif args.case == "report":
        name, found = "report-days", report_days(args.days, args.events, args.file)
    else:
        name, found = "fleet-day", fleet_day(args.events)
    print(f"{'case':16}{'':24}{name}")
    for key, value in found.items():
        wanted = f"   (wanted: below {WANTED_SECONDS:.0f})" if key == "seconds" else ""
        print(f"{'':16}{key:24}{value}{wanted}")
    print(json.dumps({"bench": "replay", "cases": {name: found}}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
