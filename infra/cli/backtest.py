"""``groundcrew backtest``: what would another policy have done with the same history?"""

import argparse
import logging
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infra.local.backtest.document import Document
    from infra.local.backtest.sides import Choice, Played

DESCRIPTION = """\
Play the same history under two policies, each in a cluster of its own in this process, on
simulated time, and say decision by decision what differs: nodes out of service, pods evicted,
node-hours of capacity, how soon a fault led to a cordon, and what was held back by what. Nothing
outside this process is read or changed.

A HISTORY is a folder that `groundcrew record` wrote, a file of its lines, or a scenario (by name
or file; `groundcrew replay --list`). A policy is a FILE, or the word `default`, or `none`: nobody
acts. With one --policy it is compared with `none`: what would it have done?"""

EPILOG = """\
examples:
  groundcrew backtest --policy default last-week/       before anything acts: what would it do?
  groundcrew backtest --policy default --policy mine.yaml last-week/
  groundcrew backtest --policy a.yaml --policy b.yaml -o html --file what-if.html january/ february/
  groundcrew backtest --policy default --policy mine.yaml a-bad-week -o json | jq .headline

What a backtest cannot know: events are played as they were recorded. A machine that was repaired
in the recording is repaired at that time under either policy, and what people did in answer to
what they saw they do again. The output names these limits, too.

exit codes: 0 done, 1 done, and calls of a function failed meanwhile, 2 wrong usage or input"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("histories", nargs="+", metavar="HISTORY", help="folder, file or scenario")
    parser.add_argument(
        "--policy",
        action="append",
        required=True,
        metavar="FILE",
        help="one or two of: a file, default, none",
    )
    parser.add_argument(
        "-o", "--output", choices=("table", "json", "html"), default="table", help="default: table"
    )
    parser.add_argument("--file", metavar="FILE", help="write there, not to the terminal")
    parser.add_argument(
        "--tolerance",
        type=_duration,
        default=timedelta(minutes=5),
        metavar="TIME",
        help="times no further apart count as the same (default: 5m)",
    )


def run(args: argparse.Namespace) -> int:
    from functions.rules.policy import PolicyError
    from infra.local.history import HistoryError
    from infra.local.scenario_file import ScenarioError
    from infra.local.telling import Untellable
    from infra.local.world import Refused

    # What the functions log is their story for a cluster's log; here it is the comparison.
    logging.getLogger("groundcrew").setLevel(logging.CRITICAL)
    try:
        choices = _choices(args.policy)
        played = _play(args.histories, choices)
        made = _document(choices, played, args.tolerance)
        _write(made, args.output, args.file)
    except (PolicyError, _Wrong, HistoryError, ScenarioError, Untellable, Refused) as problem:
        print(f"groundcrew backtest: {problem}", file=sys.stderr)
        return 2
    except OSError as problem:
        print(f"groundcrew backtest: {problem.filename}: {problem.strerror}", file=sys.stderr)
        return 2
    return 1 if any(one.failures for one in played) else 0


class _Wrong(Exception):
    """Wrong usage; the message says of what."""


def _choices(names: list[str]) -> "list[Choice]":
    from infra.local.backtest.sides import Choice

    if len(names) > 2:
        raise _Wrong(f"--policy: {len(names)} of them; two are compared, or one with `none`")
    given = ["none", *names] if len(names) == 1 else names
    bare = [Path(name).name for name in given]
    shown = bare if len(set(bare)) == len(bare) else given
    choices = [Choice(label, _policy(name)) for name, label in zip(given, shown, strict=True)]
    if all(choice.policy is None for choice in choices):
        raise _Wrong("--policy: none and none: nobody acts under either")
    # Nobody acting comes first: the other one is what is asked about.
    return sorted(choices, key=lambda choice: choice.policy is not None)


def _policy(name: str):  # type: ignore[no-untyped-def]
    from functions.rules import policy
    from functions.rules.policy import PolicyError

    if name == "none":
        return None
    if name == "default":
        return policy.default()
    try:
        return policy.parse(Path(name).read_text())
    except PolicyError as problem:
        raise _Wrong(f"{name}: {problem}") from problem
    except UnicodeDecodeError as problem:
        raise _Wrong(f"{name}: not UTF-8 (byte {problem.start})") from problem


def _play(names: list[str], choices: "list[Choice]") -> "list[Played]":
    from infra.local import scenario_file
    from infra.local.backtest import sides
    from infra.local.history import History, is_history

    # All are looked at before the first is played: it may take an hour.
    scenarios = {name: scenario_file.find(name) for name in names if not is_history(name)}
    recorded = {name: History.open(name) for name in names if name not in scenarios}
    progress = _Progress(sys.stderr.isatty())
    played = []
    for name in dict.fromkeys(names):
        if name in scenarios:
            played.append(sides.play_scenario(scenarios[name], choices, progress))
        else:
            played.append(sides.play_history(recorded[name], choices, progress))
    progress.end()
    return played


def _document(choices: "list[Choice]", played: "list[Played]", tolerance: timedelta) -> "Document":
    from infra.local.backtest.document import document

    return document(choices, played, tolerance)


def _write(made: "Document", form: str, file: str | None) -> None:
    if form == "table":
        from infra.cli.backtest_table import show

        if file:
            with Path(file).open("w") as out:
                show(made, out)
        else:
            show(made)
        return
    if form == "json":
        from infra.local.backtest.document import as_json

        text = as_json(made)
    else:
        from infra.local.backtest.page import render

        text = render(made).encode()
    if file:
        Path(file).write_bytes(text)
        print(made.headline)
    else:
        sys.stdout.write(text.decode())


class _Progress:
    """Where a long backtest is, on stderr: a line that is written over on a terminal, else one
    every `SECONDS`."""

    SECONDS = 30.0

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._began = self._told = time.monotonic()
        self._written = False

    def __call__(self, name: str, now: datetime, events: int) -> None:
        at = time.monotonic()
        if at - self._told < (0.2 if self._terminal else self.SECONDS):
            return
        self._told, self._written = at, True
        heard = f", {events:,} events" if events else ""
        text = f"{name}: {now:%a %Y-%m-%d %H:%M}{heard}, {at - self._began:.0f} s"
        end = "" if self._terminal else "\n"
        print(f"\r\x1b[K{text}" if self._terminal else text, end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._terminal and self._written:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _duration(text: str) -> timedelta:
    from functions.rules.quantities import Duration

    try:
        return Duration.parse(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
