"""``groundcrew notices``: how events are understood.

For people who write a source, an alert rule or a Trigger, and want to know what comes of it.
Nothing is decided here: the policy may give a notice another severity.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from events import recording, registry
from events.errors import EventError
from events.notice import Notice, Reading, Severity

DESCRIPTION = """\
Print how events are understood: one JSON line a notice, and on stderr why an event yields none.

A FILE is a recorded request (method, path, headers, body), or a bare body whose form --source
names. - is stdin. Files that end in .notices.json are expectations and are passed over."""

EPILOG = """\
examples:
  groundcrew notices events/recorded/aws_health/*.json --table
  aws sqs receive-message ... | jq -r .Messages[0].Body | groundcrew notices - --source eventbridge
  kubectl get node n1 -o json | groundcrew notices - --source kubernetes

exit codes: 0 every event was understood, 2 one was refused or a file cannot be read"""

SHOWN = (
    "kind",
    "severity",
    "cause",
    "source",
    "check",
    "identity",
    "since",
    "deadline",
    "evidence",
)
"""Always there, null when the event does not say."""
DETAILS = ("reason", "ref", "dedup", "latched", "in_log", "gpu", "job")
"""There when the event says so."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", help="recorded event, or - for stdin")
    parser.add_argument(
        "--source",
        default="",
        choices=sorted(registry.RAW),
        help="whose form a bare body has; a recorded request says so itself",
    )
    parser.add_argument("--table", action="store_true", help="a table instead of JSON lines")


def run(args: argparse.Namespace) -> int:
    failed = False
    rows: list[tuple[str, Notice]] = []
    for name in args.files:
        if name.endswith(recording.EXPECTED_SUFFIX):
            continue
        try:
            reading = recording.understand(recording.load(_content(name), source=args.source))
        except EventError as problem:
            print(f"{name}: refused: {problem}", file=sys.stderr)
            failed = True
            continue
        except OSError as problem:
            print(f"{name}: cannot be read: {problem.strerror}", file=sys.stderr)
            failed = True
            continue
        for line in _why(reading):
            print(f"{name}: {line}", file=sys.stderr)
        for notice in reading.notices:
            rows.append((name, notice))
            if not args.table:
                print(msgspec.json.encode(_line(name, notice)).decode())
    if args.table and rows:
        _print_table(rows)
    return 2 if failed else 0


def _content(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def _why(reading: Reading) -> Iterator[str]:
    if reading.declined:
        yield f"no notice: {reading.declined}"
    for part in reading.skipped:
        yield f"no notice from a part of it: {part}"


def _line(name: str, notice: Notice) -> dict[str, Any]:
    shown = {field: getattr(notice, field) for field in SHOWN}
    details = {field: value for field in DETAILS if (value := getattr(notice, field))}
    return {**shown, **details, "file": name}


def _print_table(rows: list[tuple[str, Notice]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = {Severity.WATCH: "cyan", Severity.CORDON: "yellow", Severity.EVICT: "red"}
    # A pipe has no width of its own; 80 columns would cut off what somebody greps for.
    console = Console(width=None if sys.stdout.isatty() else 160)
    many = len({name for name, _ in rows}) > 1 and console.width >= 120
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("machine", "kind", "severity"):
        table.add_column(title, no_wrap=True)
    table.add_column("check", overflow="fold")
    table.add_column("until", no_wrap=True)
    if many:
        table.add_column("file", no_wrap=True, overflow="ellipsis")
    for name, notice in rows:
        who = notice.identity
        # As Text, since what an event says must not be taken for markup.
        cells = [
            Text(who.node or who.instance_id or who.provider_id),
            Text(notice.kind),
            Text(notice.severity, style=colours[notice.severity]),
            Text(notice.check),
            Text(notice.deadline.strftime("%Y-%m-%d %H:%MZ") if notice.deadline else ""),
        ]
        table.add_row(*cells, *([Text(Path(name).name)] if many else []))
    console.print(table)
