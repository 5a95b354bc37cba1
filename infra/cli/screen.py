"""How the operator's commands look: times in words, colours of states, tables that fit.

On a terminal, tables take its width and colours are on (NO_COLOR turns them off); in a pipe they
are plain and wide, so that nothing is cut off from what somebody greps for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    Row = tuple[str, str | Text]
    """A name, and what is to be said about it."""
    Rows = Sequence[Row]

COLOURS = {
    "evict": "red",
    "cordon": "yellow",
    "held": "magenta",
    "watch": "cyan",
    "dismissed": "blue",
    "returning": "green",
    "released": "green",
    "blocked": "red",
    "trouble": "bold red",
    "alarm": "bold magenta",
}


def console() -> Console:
    from rich.console import Console

    wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else 160
    return Console(width=wide, markup=False, emoji=False, highlight=False, soft_wrap=False)


def text(words: object, style: str = "") -> Text:
    """As Text, since what a node or an event says must not be taken for markup."""
    from rich.text import Text

    return Text(str(words), style=style)


def table(*columns: str, fold: Sequence[str] = (), right: Sequence[str] = ()) -> Table:
    """A table without lines; the columns in ``fold`` give way when it gets narrow."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in columns:
        made.add_column(
            title,
            no_wrap=title not in fold,
            overflow="fold" if title in fold else "ellipsis",
            justify="right" if title in right else "left",
            ratio=1 if title in fold else None,
        )
    return made


def pairs(rows: Rows, indent: int = 2) -> RenderableType:
    """Names on the left, what is to be said about them on the right."""
    from rich.padding import Padding
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, value if not isinstance(value, str) else text(value))
    return Padding(grid, (0, 0, 0, indent), expand=False)


def moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}Z"


def span(length: timedelta) -> str:
    """The two largest units: ``3d 4h``, ``2h 5m``, ``40s``."""
    seconds = max(0, int(length.total_seconds()))
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0s"


def ago(at: datetime, now: datetime) -> str:
    return f"{moment(at)} ({span(now - at)} ago)"


def ahead(at: datetime, now: datetime) -> str:
    return f"{moment(at)} (in {span(at - now)})" if at > now else f"{moment(at)} (due)"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
