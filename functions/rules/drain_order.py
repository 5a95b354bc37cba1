"""Which nodes go first, where several ask to be emptied. Pure.

Nodes that are cordoned with many others wait until the others are: whatever accuses dozens of
nodes within seconds (a switch, a driver, a recall) accuses more of them a moment later. A pod that
is evicted meanwhile may come up on one that is accused next, and has to go again; and evictions
would take the API server's time from cordons, which are what keeps new pods off.

Nodes that carry our own pods go last, one at a time.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from functions.rules import incidents
from functions.rules.drain_times import SOON, lost_at
from functions.rules.ledger import Ledger
from functions.rules.node_view import NodeView

MANY = 10
"""Nodes cordoned within `COMING`, from which on more are to be expected."""
COMING = timedelta(seconds=4)
"""A cordon is dated when its call began, and a call takes that long."""
LONGEST = timedelta(seconds=30)
"""Nobody waits longer than that after his own cordon, whatever still comes."""


def held_for_cordons(views: Iterable[NodeView], now: datetime) -> Mapping[str, int]:
    """Of ``views`` (all nodes that ask to be emptied), those that are not to be begun yet: how
    many were cordoned just now, by name. Empty where they are few."""
    marked = {v.name: (v, now - at) for v in views if (at := _cordoned_at(v)) is not None}
    # One in the future is of a clock that is wrong, and says nothing about now.
    fresh = sum(abs(age) < COMING for _, age in marked.values())
    if fresh < MANY:
        return {}
    return {
        name: fresh
        for name, (view, age) in marked.items()
        if abs(age) < LONGEST and not is_urgent(view, now)
    }


def waits(fresh: int) -> str:
    return f"{fresh} nodes were cordoned just now: those that are accused with them go first"


def cordoned_lately(pools: Iterable[Ledger], now: datetime) -> int:
    """How many machines the ledgers saw cordoned within `COMING`."""
    return sum(
        abs(now - machine.seen) < COMING and machine.cordoned and not machine.leaving
        for pool in pools
        for machine in pool.machines.values()
    )


def before_ours(name: str, busy: Collection[str], ours: Iterable[str]) -> list[str]:
    """What goes before ``name``, a node that carries our pods: all ``busy`` nodes that carry none
    and, after them, those of ``ours`` that come before it."""
    return list(busy) or [other for other in sorted(ours) if other < name]


def is_urgent(view: NodeView, now: datetime) -> bool:
    """The machine goes away whether its turn has come or not."""
    return is_soon(lost_at(view), now)


def is_soon(lost: datetime | None, now: datetime) -> bool:
    return lost is not None and lost - now < SOON


def _cordoned_at(view: NodeView) -> datetime | None:
    try:
        cordon = incidents.read(view).cordon
    except incidents.Unreadable:
        return None
    return cordon.at if cordon else None
