"""A backtest on a terminal: the headline, the sums side by side, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from infra.cli import screen
from infra.local.backtest import rows

if TYPE_CHECKING:
    from rich.console import Console

    from infra.local.backtest.document import Document, Past
    from infra.local.backtest.rows import Line

NAMED = 3
"""So many of the nodes in a line are named."""
SHOWN = 60
"""So many lines of differences; the JSON and the page have them all."""


def show(made: Document, out: TextIO | None = None) -> None:
    console = _to(out) if out else screen.console()
    console.print(screen.text(made.headline, "bold"))
    console.print()
    for past in made.histories:
        _past(console, past)
    console.print()
    _sums(console, made)
    _differences(console, made)
    console.print(screen.text("What this cannot know", "bold"))
    console.print(screen.pairs([("-", limit) for limit in made.limits]))


def _to(out: TextIO) -> Console:
    from rich.console import Console

    return Console(file=out, width=120, markup=False, emoji=False, highlight=False)


def _past(console: Console, past: Past) -> None:
    about = (
        f"{past.name}: {screen.moment(past.start)} to {screen.moment(past.end)}, "
        f"{past.nodes:,} nodes, {past.events:,} events, of which {past.needed_nothing:,} needed "
        "nothing"
    )
    if past.refused:
        about += f"; {past.refused:,} were refused"
    console.print(screen.text(about, "dim"))
    for note in past.notes:
        console.print(screen.text(f"  {note}", "yellow"))
    if past.failures:
        console.print(screen.text(f"  {past.failures:,} calls failed", "bold red"))


def _sums(console: Console, made: Document) -> None:
    one, other = made.policies
    table = screen.table("", one.name, other.name, "", right=(one.name, other.name))
    for row in rows.summary(made):
        title = f"  {row.title}" if row.part else row.title
        table.add_row(title, row.one, row.other, screen.text(row.difference, "bold"))
    console.print(table)
    console.print()


def _differences(console: Console, made: Document) -> None:
    lines = rows.lines(made)
    count = len(made.differences)
    alike = f"; {made.same} times out of service are alike" if made.same else ""
    noun = "difference" if count == 1 else "differences"
    console.print(screen.text(f"{count} {noun}{alike}", "bold"))
    several = len(made.histories) > 1
    for line in lines[:SHOWN]:
        where = f"{line.history}  " if several else ""
        head = f"{where}{line.at:%a %d %b %H:%M}  {_nodes(line)}: {line.what}"
        console.print(screen.text(head, "cyan"))
        names = (under.name for under in made.policies)
        said = zip(names, line.sides, strict=True)
        told = [("why", line.why), *(pair for pair in said if pair[1])]
        console.print(screen.pairs(told, indent=4))
    if len(lines) > SHOWN:
        console.print(f"... and {len(lines) - SHOWN} more (-o json, -o html)")
    console.print()


def _nodes(line: Line) -> str:
    if len(line.nodes) <= NAMED:
        return ", ".join(line.nodes)
    return f"{line.nodes[0]} and {len(line.nodes) - 1} more nodes of {line.pool}"
