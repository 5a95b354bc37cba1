"""Which machines would have ended in pools where replace only tells, and what became of each: what
to read before a pool is named in the policy's ``replace.act_in``. From the books, which remember a
machine for 30 days after all is over."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from functions.steps.active import Active
from functions.steps.replacing.crew import books

END = "replace"
"""The rung that is the end of a machine."""
YET = "sick yet"


class WouldHaveEnded(msgspec.Struct, frozen=True):
    node: str
    pool: str
    machine: str
    fault: str
    """What it was accused of: source, check and ref."""
    began: datetime | None
    """Our first sight of it."""
    became: str
    """What came of it without us: that it recovered, and how, is a machine that would have ended
    for nothing."""


def make(active: Active) -> list[WouldHaveEnded]:
    """The newest fault first."""
    found = list(_would(active))
    return sorted(found, key=lambda one: (one.began is None, one.began, one.node), reverse=True)


def _would(active: Active) -> Iterator[WouldHaveEnded]:
    for pool, book in books(active)[0].items():
        for machine, entry in book.machines.items():
            if END in entry.would:
                became = entry.outcome or YET
                yield WouldHaveEnded(entry.node, pool, machine, entry.fault, entry.began, became)
