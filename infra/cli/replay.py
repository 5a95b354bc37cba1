"""``groundcrew replay``: plays scenarios on an embedded cluster, a week in seconds."""

import argparse
import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from infra.local.player import Played
    from infra.local.report.writing import Report
    from infra.local.scenario import Scenario

DEFAULT = "a-bad-week"

DESCRIPTION = """\
Play scenarios: a cluster, what happens to it, and what must come of it. The functions, their
routing and their requests are those of a real cluster; the API server is a small one in this
process, and time is simulated. Nothing outside this process is read or changed.

A SCENARIO is one of the project's (--list), or a file of your own; without one, a-bad-week. Or it
is a folder that `groundcrew record` has written: then what your cluster was told happens again, and
nothing is expected of it."""

EPILOG = """\
examples:
  groundcrew replay                                 a week in which much goes wrong
  groundcrew replay --list                          what there is
  groundcrew replay a-bad-week --policy mine.yaml   what would your policy have done?
  groundcrew replay --report week.html              and a page to look at it closely
  groundcrew replay my-week --policy mine.yaml      your own week, as recorded
  groundcrew replay my-week --report my-week.html   and a page of it
  groundcrew replay --speed 3600                    an hour a second, to watch it
  groundcrew replay --json | jq 'select(.action == "cordon")'

exit codes: 0 all that was expected came true, 1 something did not, 2 wrong usage or input"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="name, file or recorded folder"
    )
    parser.add_argument("--list", action="store_true", help="list the project's scenarios")
    parser.add_argument(
        "--json", action="store_true", help="a JSON line for each decision, and one at the end"
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        metavar="N",
        help="play N seconds of the scenario in a second; as fast as possible if not given",
    )
    parser.add_argument(
        "--policy", metavar="FILE", help="play with this policy instead of the scenario's own"
    )
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        help="write a page that shows what happened to every node, and the decision behind it",
    )


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not speed > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return speed


def run(args: argparse.Namespace) -> int:
    from functions.rules.policy import PolicyError
    from infra.local import scenario_file
    from infra.local.history import HistoryError
    from infra.local.scenario_file import ScenarioError
    from infra.local.telling import Untellable
    from infra.local.world import Refused

    # What the functions log is their story for a cluster's log; here it is the timeline.
    logging.getLogger("groundcrew").setLevel(logging.CRITICAL)
    try:
        if args.list:
            return _list([scenario_file.find(name) for name in scenario_file.known()])
        policy = _policy(args.policy)
        chosen = [_find(name) for name in args.scenarios or [DEFAULT]]
        report = _report(args.report)
        played: list[Played] = []
        for one in chosen:
            if isinstance(one, Path):
                played.append(_play_history(one, args, policy, report, first=not played))
            else:
                played.append(_play(one, args, policy, report, first=not played))
        if report is not None:
            _say_written(report, args)
    except PolicyError as problem:
        return _wrong(f"{args.policy}: {problem}")
    except (ScenarioError, HistoryError, Untellable, Refused) as problem:
        return _wrong(str(problem))
    except KeyboardInterrupt:
        return 130  # as a shell says it of a program that was interrupted
    except OSError as problem:
        return _wrong(f"{problem.filename}: {problem.strerror}")
    return _end(played, args)


def _wrong(text: str) -> int:
    print(f"groundcrew replay: {text}", file=sys.stderr)
    return 2


def _find(name: str) -> "Scenario | Path":
    """A scenario, or the place of a recorded history."""
    from infra.local import history, scenario_file

    if history.is_history(name) and name not in scenario_file.known():
        return Path(name)
    return scenario_file.find(name)


def _policy(file: str | None) -> str | None:
    from functions.rules import policy

    if file is None:
        return None
    text = Path(file).read_text()
    policy.parse(text)
    return text


def _report(file: str | None) -> "Report | None":
    if file is None:
        return None
    from infra.local.report.writing import Report

    return Report(file)


def _say_written(report: "Report", args: argparse.Namespace) -> None:
    size = report.write()
    # Between JSON lines it would be no JSON.
    to = sys.stderr if args.json else sys.stdout
    print(f"report: {report.file} ({size / 1000:,.0f} kB)", file=to)


def _play(
    scenario: "Scenario",
    args: argparse.Namespace,
    policy: str | None,
    report: "Report | None",
    *,
    first: bool,
) -> "Played":
    from infra.local import player
    from infra.local.clock import SimulatedClock
    from infra.local.timeline import Entry
    from infra.local.world import EmbeddedWorld, World

    world: World = EmbeddedWorld(SimulatedClock(scenario.start - player.WARM_UP))
    recorder = report.recorder(scenario, policy) if report else None

    def play(tell: Callable[[Entry], None], pace: Callable[[datetime], None]) -> "Played":
        if report is None or recorder is None:
            return player.play(scenario, world, policy=policy, on_entry=tell, on_time=pace)

        def told(entry: Entry) -> None:
            recorder.entry(entry)
            tell(entry)

        played = player.play(
            scenario,
            recorder.world(world),
            policy=policy,
            on_entry=told,
            on_time=pace,
            through=recorder.through,
        )
        report.add(recorder, played)
        return played

    return _shown(scenario, args, play, first=first)


def _play_history(
    path: Path,
    args: argparse.Namespace,
    policy: str | None,
    report: "Report | None",
    *,
    first: bool,
) -> "Played":
    from infra.local import recorded_play
    from infra.local.timeline import Entry

    scenario, history, reader = recorded_play.load(path)
    recorder = report.recorder(scenario, policy) if report else None

    def play(tell: Callable[[Entry], None], pace: Callable[[datetime], None]) -> "Played":
        if recorder is None:
            return recorded_play.play(
                scenario, history, reader, policy=policy, on_entry=tell, on_time=pace
            )

        def told(entry: Entry) -> None:
            recorder.entry(entry)
            tell(entry)

        return recorded_play.play(
            scenario,
            history,
            reader,
            policy=policy,
            on_entry=told,
            on_time=pace,
            around=recorder.world,
            through=recorder.through,
        )

    played = _shown(scenario, args, play, first=first)
    notes = recorded_play.notes_on(scenario, history, reader)
    if report is not None and recorder is not None:
        report.add(recorder, played, notes)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return played


def _shown(
    scenario: "Scenario", args: argparse.Namespace, play: Callable[..., "Played"], *, first: bool
) -> "Played":
    if args.json:
        return _play_as_json(scenario, args, play)
    from infra.local.show import Show, print_summary

    console = _console()
    with Show(console, scenario, first=first) as show:
        played = play(show.entry, _Pace(scenario.start, args.speed, show.time))
    print_summary(console, played)
    console.print()
    return played


def _play_as_json(
    scenario: "Scenario", args: argparse.Namespace, play: Callable[..., "Played"]
) -> "Played":
    import msgspec

    from infra.local.summary import as_json
    from infra.local.timeline import Did, Entry

    def told(entry: Entry) -> None:
        if isinstance(entry, Did):
            line = {"at": entry.at, **msgspec.to_builtins(entry.decision)}
            print(msgspec.json.encode(line).decode(), flush=args.speed is not None)

    played = play(told, _Pace(scenario.start, args.speed, lambda now: None))
    print(msgspec.json.encode(as_json(played)).decode())
    return played


class _Pace:
    """Called before time goes to a moment: waits until it is due at the chosen speed."""

    def __init__(self, start: datetime, speed: float | None, tell: Any) -> None:
        self._start = start
        self._speed = speed
        self._tell = tell
        self._began = time.monotonic()

    def __call__(self, now: datetime) -> None:
        if self._speed and now > self._start:
            due = self._began + (now - self._start).total_seconds() / self._speed
            while (left := due - time.monotonic()) > 0:
                time.sleep(min(left, 0.1))
        self._tell(now)


def _console() -> "Console":
    from rich.console import Console

    return Console(markup=False, emoji=False)


def _list(scenarios: "list[Scenario]") -> int:
    import textwrap

    from rich.text import Text

    console = _console()
    width = max(len(scenario.name) for scenario in scenarios) + 2
    for scenario in scenarios:
        rows = textwrap.wrap(scenario.shows, max(20, min(console.width, 110) - width))
        console.print(Text(scenario.name.ljust(width), "bold") + Text(rows[0]), highlight=False)
        for row in rows[1:]:
            console.print(Text(" " * width + row), highlight=False)
    return 0


def _end(played: "list[Played]", args: argparse.Namespace) -> int:
    from infra.local.summary import failures_of, verdict_of

    failed = [one for one in played if failures_of(one)]
    if args.json:
        return 1 if failed else 0
    if len(played) > 1:
        for one in played:
            print(verdict_of(one))
    elif args.policy and failed:
        print(f"The scenario's expectations were written for its own policy, not {args.policy}.")
    elif not args.scenarios:
        print(
            "Try next: groundcrew replay --list, scenarios that show one rule each. Or see\n"
            "what a policy of yours would have done: groundcrew replay --policy FILE"
        )
    return 1 if failed else 0
