"""The ledger made anew from the nodes: what a resync that read all of them writes.

The ledger is no source of truth that could be lost: sizes, marks and others' cordons are on the
nodes, and the machines' records too. What only the ledger knows (accusations of the last day,
machines without a node) is kept when it is there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from functions.rules import breaker, incidents
from functions.rules.cordoning import is_out
from functions.rules.ledger import Ledger, live
from functions.rules.node_view import NodeView

KEPT_MACHINES = timedelta(days=30)
"""How long a machine without a node is remembered."""


@dataclass
class Census:
    """What one read of all nodes found."""

    machines: dict[str, set[str]] = field(default_factory=dict)
    """By pool."""
    domains: dict[str, Counter[str]] = field(default_factory=dict)
    others: dict[str, dict[str, str]] = field(default_factory=dict)
    ours: dict[str, set[str]] = field(default_factory=dict)
    """By pool, the machines that are out of service for an incident of ours."""

    @property
    def size(self) -> int:
        return sum(len(machines) for machines in self.machines.values())

    def count(self, view: NodeView, domains: Iterable[str]) -> None:
        self.machines.setdefault(view.pool, set()).add(view.machine)
        self.domains.setdefault(view.pool, Counter()).update(domains)
        if is_out(view) and _is_readable(view):
            self.ours.setdefault(view.pool, set()).add(view.machine)
        elif view.unschedulable:
            self.others.setdefault(view.pool, {})[view.machine] = view.name


def _is_readable(view: NodeView) -> bool:
    """Whether the ledger can remember what the node's annotation says. One that it cannot is
    counted with those that others took out: out of service it is."""
    try:
        incidents.read(view)
    except incidents.Unreadable:
        return False
    return True


def rebuild(known: Mapping[str, Ledger], census: Census, now: datetime) -> dict[str, Ledger]:
    """All pools' ledgers after ``census``."""
    pools = {*known, *census.machines}
    return {pool: _pool(known.get(pool, Ledger(pool=pool)), census, now) for pool in pools}


def _pool(known: Ledger, census: Census, now: datetime) -> Ledger:
    present = census.machines.get(known.pool, set())
    checks = {}
    for name, check in known.checks.items():
        check = breaker.clear(check, [m for m in check.accused if m not in present], now)
        if check.accused or check.opened:
            checks[name] = check
    # Mostly they are all decided about, and so remembered, in the same write. That is seen by the
    # next reading: this one may come to writing what it read, and to nothing more.
    cordoned = {machine for machine, entry in known.machines.items() if entry.cordoned}
    return msgspec.structs.replace(
        known,
        rebuilt=now,
        size=len(present),
        domains=dict(census.domains.get(known.pool, ())),
        others=census.others.get(known.pool, {}),
        reservations=live(known, now),
        forgot=not census.ours.get(known.pool, set()) <= cordoned,
        checks=checks,
        machines={
            machine: entry
            for machine, entry in known.machines.items()
            if machine in present or now - entry.seen < KEPT_MACHINES
        },
    )
