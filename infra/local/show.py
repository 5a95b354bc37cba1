"""A play on a terminal: the story as it unfolds, a bar that says where it is, and a summary.

Nothing here is wider than the terminal (80 columns if there is none), and without colour nothing
is lost.
"""

import textwrap
from collections.abc import Iterable
from datetime import datetime, timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from infra.local.player import Played
from infra.local.scenario import Scenario
from infra.local.story import Line, Story
from infra.local.summary import failures_of, rows_of, verdict_of
from infra.local.timeline import Entry

WIDEST = 110
"""Longer lines are harder to read, however wide the terminal."""
TIME, WORD = 9, 10
NAMES = 3
"""So many of the nodes in a line are named."""
ABOUT = (
    "Functions, routing and requests are those of a real cluster; its API server is embedded "
    "here, and time is simulated."
)
STYLES = {
    "world": "bold",
    "bad": "yellow",
    "stop": "blue",
    "hold": "magenta",
    "good": "green",
    "quiet": "dim",
    "holds": "green",
    "fails": "bold red",
}


class Show:
    """Prints a play to ``console``; the bar is there only while somebody looks."""

    def __init__(self, console: Console, scenario: Scenario, *, first: bool = True) -> None:
        self._console = console
        self._scenario = scenario
        self._first = first
        self._story = Story()
        self._width = min(console.width, WIDEST)
        self._node = max(8, *(len(name) for name in scenario.nodes))
        self._last = ""
        self._day = -1
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:3.0f} %"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=1.0)

    def __enter__(self) -> "Show":
        self._head()
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._lines(self._story.end())
        self._progress.stop()

    def entry(self, entry: Entry) -> None:
        self._lines(self._story.add(entry))

    def time(self, now: datetime) -> None:
        """Where the play is."""
        scenario = self._scenario
        done = max(timedelta(0), now - scenario.start) / (scenario.end - scenario.start)
        self._progress.update(self._task, completed=done, description=f"{now:%a %H:%M}")

    def _head(self) -> None:
        scenario = self._scenario
        pools = ", ".join(f"{pool.count} {key}" for key, pool in scenario.cluster.pools.items())
        self._console.print(Text(scenario.name, "bold"), highlight=False)
        about = (
            f"{scenario.shows} {len(scenario.nodes)} nodes ({pools}), "
            f"{scenario.start:%A %-d %B %H:%M} to {scenario.end:%A %H:%M}."
        )
        for text, style in ((about, ""), (ABOUT, "dim"))[: 2 if self._first else 1]:
            for line in textwrap.wrap(text, self._width):
                self._console.print(Text(line, style), highlight=False)
        self._console.print()

    def _lines(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if self._day not in (-1, line.at.toordinal()):
                self._console.print()
            self._day = line.at.toordinal()
            when = f"{line.at:%a %H:%M}"
            stamp, self._last = (when if when != self._last else ""), when
            for row in _rows(line, stamp, self._width, self._node, self._marks()):
                self._console.print(row, highlight=False, soft_wrap=True)

    def _marks(self) -> tuple[str, str]:
        plain = "utf" not in (self._console.encoding or "").lower()
        return ("ok", "NOT SO") if plain else ("✓", "✗")


def _rows(
    line: Line, stamp: str, width: int, name_width: int, marks: tuple[str, str]
) -> Iterable[Text]:
    head = Text().append(stamp.ljust(TIME + 2), "cyan")
    text, style = line.text, STYLES[line.tone]
    if line.tone in ("holds", "fails"):
        head.append(f"{marks[line.tone == 'fails']} ", style)
        text_style = "dim" if line.tone == "holds" else style
    elif line.word:
        nodes = line.nodes[0] if len(line.nodes) == 1 else f"{len(line.nodes)} nodes"
        head.append(line.word.ljust(WORD + 1), style)
        head.append(nodes.ljust(name_width) + " ")
        text_style = "dim" if line.tone == "quiet" else ""
        if len(line.nodes) > 1:
            text += f" ({named(line.nodes)})"
    else:
        text_style = style
    indent = len(head.plain)
    rows = textwrap.wrap(text, max(20, width - indent)) or [""]
    yield head + Text(rows[0], text_style)
    for row in rows[1:]:
        yield Text(" " * indent + row, text_style)


def named(nodes: tuple[str, ...]) -> str:
    if len(nodes) <= NAMES + 1:
        return ", ".join(nodes)
    return f"{', '.join(nodes[:NAMES])} and {len(nodes) - NAMES} more"


def print_summary(console: Console, played: Played) -> None:
    width = min(console.width, WIDEST)
    console.print()
    failed = failures_of(played)
    style = "bold red" if failed else "bold green"
    console.print(Text(verdict_of(played), style), highlight=False)
    for title, text in rows_of(played):
        first, *rest = textwrap.wrap(text, max(20, width - 20)) or [""]
        console.print(Text(f"  {title:<17} ", "cyan") + Text(first), highlight=False)
        for row in rest:
            console.print(Text(" " * 20 + row), highlight=False)
    for text in failed:
        for row in textwrap.wrap(text, width, subsequent_indent="  "):
            console.print(Text(row, "red"), highlight=False)
