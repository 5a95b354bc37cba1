"""``groundcrew status`` on a screen of 80 columns or more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from infra.cli import screen
from infra.cli.screen import COLOURS, text
from infra.cli.status_report import BY_OTHERS, Breaker, Machine, Node, Pool, Report, Taken

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

WIDE = 100
"""From here on, the pool and the next look have columns of their own."""
MANY = 3
"""More nodes than this of which the same is to be said share a row."""
NAMES_SHOWN = 8
HISTORY = ("returning", "released")
ON_TOP = {"pause": "held back by the pause", "breaker": "held back by the open breaker"}
"""What is said in full above the table."""


def show(report: Report, *, everything: bool) -> None:
    console = screen.console()
    for line in _alarms(report):
        console.print(line)
        console.print()
    history = [node for node in report.nodes if node.state in HISTORY]
    shown = [node for node in report.nodes if everything or node.state not in HISTORY]
    alarms = report.trouble or report.pauses or any(pool.breakers for pool in report.pools)
    if not shown and not alarms and not report.cluster.used:
        console.print(
            text(f"All quiet: {_size(report)}, none marked or cordoned. {_basis(report)}")
        )
    else:
        if report.pools:
            console.print(_pools(report))
            console.print()
        if shown:
            console.print(_nodes(shown, report, wide=console.width >= WIDE))
            console.print()
        elif report.pools:
            console.print(text("No node is marked."))
        console.print(text(_basis(report), "dim"))
    if history and not everything:
        console.print(text(_history(history), "dim"))
    if report.would_have_ended and everything:
        console.print()
        console.print(_would_have_ended(report))
    elif report.would_have_ended:
        count = screen.count(len(report.would_have_ended), "machine")
        said = f"{count} would have ended in the last 30 days, in pools where replace only tells"
        console.print(text(f"{said}: --all names them.", "dim"))


def _would_have_ended(report: Report) -> Table:
    why = "WHY, AND WHAT BECAME OF IT"
    table = screen.table("WOULD HAVE ENDED", "SINCE", why, fold=["WOULD HAVE ENDED", why])
    table.columns[0].ratio, table.columns[0].max_width = None, 26
    for one in report.would_have_ended:
        since = screen.span(report.at - one.began) if one.began else ""
        lines = [text(one.fault), text(one.became), text(f"{one.machine}, pool {one.pool}", "dim")]
        table.add_row(text(one.node), text(since), _lines(lines))
    return table


def _alarms(report: Report) -> Iterable[Text]:
    for sentence in report.trouble:
        yield text("! ", COLOURS["trouble"]) + text(sentence)
    for pause in report.pauses:
        by = f" by {pause.by}" if pause.by else ""
        until = screen.ahead(pause.until, report.at)
        yield text("PAUSED ", COLOURS["alarm"]) + text(
            f"{pause.what}, until {until}{by}: {pause.reason}"
        )
    for pool in report.pools:
        for one in pool.breakers:
            yield text("BREAKER OPEN ", COLOURS["alarm"]) + text(
                f"{one.check} in pool {pool.name} since {screen.ago(one.opened, report.at)}: "
                f"accuses {one.numbers}; {_closes(one, report)}"
            )


def _closes(one: Breaker, report: Report) -> str:
    if one.closes and one.closes > report.at:
        return f"may close from {screen.moment(one.closes)}"
    return "closes when fewer stand accused"


def _pools(report: Report) -> Table:
    table = screen.table(
        "POOL", "NODES", "OUT", "BY OTHERS", "BUDGET USED",
        fold=["POOL"], right=["NODES", "OUT", "BY OTHERS", "BUDGET USED"],
    )  # fmt: skip
    table.columns[0].ratio = None
    every = report.pools + ([report.cluster] if len(report.pools) > 1 else [])
    for pool in every:
        style = "dim" if pool is report.cluster else ""
        table.add_row(
            text(pool.name or "cluster", style),
            *(text(n, style) for n in (pool.nodes, pool.out, pool.others)),
            text(_used(pool), "red" if pool.used >= pool.limit else style),
        )
    return table


def _used(pool: Pool) -> str:
    reserved = f" ({pool.reserved} reserved)" if pool.reserved else ""
    return f"{pool.used} of {pool.limit}{reserved}"


def _nodes(nodes: list[Node], report: Report, *, wide: bool) -> Table:
    # Narrow, the pool and the next look go beneath the reason.
    if wide:
        table = screen.table("NODE", "POOL", "STATE", "SINCE", "WHY", "NEXT LOOK", fold=["WHY"])
    else:
        table = screen.table("NODE", "STATE", "SINCE", "WHY", fold=["NODE", "WHY"])
        table.columns[0].ratio, table.columns[0].max_width = None, 26
    for alike in _rows(nodes, report.at):
        node = alike[0]
        first = min((n.since for n in alike if n.since), default=None)
        name = text(node.name if len(alike) == 1 else screen.count(len(alike), "node"))
        state = text(_state(node), COLOURS.get(_state(node), COLOURS.get(node.state, "")))
        since = text(screen.span(report.at - first) if first else "")
        lines = [text(line, style) for line, style in _why(node, report.at)]
        if len(alike) > 1:
            lines.append(text(_names(alike)))
        soon = f"in {screen.span(node.next_look - report.at)}" if node.next_look else ""
        if wide:
            table.add_row(name, text(node.pool), state, since, _lines(lines), text(soon))
        else:
            lines.append(text(f"pool {node.pool}" + (f", next look {soon}" if soon else ""), "dim"))
            table.add_row(name, state, since, _lines(lines))
    return table


def _rows(nodes: list[Node], at: datetime) -> Iterable[list[Node]]:
    """One node a row; nodes of which the same is to be said together, if they are many."""

    def said(node: Node) -> tuple[str, str, str, str]:
        return node.pool, node.state, repr(list(_why(node, at))), repr(node.next_look)

    for _, alike in groupby(nodes, said):
        group = list(alike)
        if len(group) > MANY:
            yield group
        else:
            yield from ([node] for node in group)


def _lines(lines: list[Text]) -> Text:
    return text("\n").join(lines)


def _state(node: Node) -> str:
    if node.state in ("evict", "cordon") and node.drain:
        return node.drain.state
    return node.state


def _clock(found: Machine, at: datetime) -> str:
    words = found.phase
    if found.due:
        left = found.due - at
        words += (
            f", {screen.span(left)} of the seven days left"
            if left > timedelta(0)
            else (", the seven days are over")
        )
    for name, rungs in (("tried", found.tried), ("would have", found.would)):
        if rungs:
            words += f", {name}: {', '.join(rungs)}"
    if found.holding:
        words += f", held by {', '.join(found.holding)}"
    if found.beside:
        words += f"; {', '.join(found.beside)} acts on nodes here, too"
    return f"machine: {words}"


def taken(found: Taken, at: datetime) -> str:
    """``jane, 3h ago: swap the NIC``."""
    reason = f": {found.reason}" if found.reason else ""
    return f"{found.by}, {screen.span(at - found.at)} ago{reason}"


def _why(node: Node, at: datetime) -> Iterable[tuple[str, str]]:
    if node.state == BY_OTHERS:
        yield "cordoned by somebody else, no incident", ""
        return
    reason = f": {node.reason}" if node.reason else ""
    more = f", and {node.more_incidents} more" if node.more_incidents else ""
    if node.incident:
        yield f"{node.incident}{reason}{more}", ""
    if node.taken:
        yield f"taken by {taken(node.taken, at)}" + ("; stays so" if node.incident else ""), ""
    elif node.theirs:
        yield "the cordon is somebody else's and stays", ""
    for what, sentence in node.held_by.items():
        yield ON_TOP.get(what, sentence), COLOURS["held"]
    if node.machine:
        yield _clock(node.machine, at), ""
    if node.drain:
        if node.drain.evicted or not node.drain.blocked_by:
            yield f"{screen.count(node.drain.evicted, 'pod')} evicted", ""
        for blocker in node.drain.blocked_by:
            yield f"blocked: {blocker}", COLOURS["blocked"]


def _names(nodes: list[Node]) -> str:
    names = ", ".join(node.name for node in nodes[:NAMES_SHOWN])
    more = len(nodes) - NAMES_SHOWN
    return f"{names} and {more} more (-o json)" if more > 0 else names


def _history(nodes: list[Node]) -> str:
    return f"Back in service, with history: {_names(nodes)}"


def _size(report: Report) -> str:
    nodes, pools = report.cluster.nodes, len(report.pools)
    return f"{screen.count(nodes, 'node')} in {screen.count(pools, 'pool')}"


def _basis(report: Report) -> str:
    by = f"by {report.policy.author}" if report.policy.author else "defaults"
    age = screen.span(report.at - report.ledger_rebuilt) if report.ledger_rebuilt else ""
    return f"Policy {report.policy.hash} ({by})" + (f", ledger {age} old." if age else ".")
