"""From what is known of sick machines to what is done about them: the decisions of
`functions.replace`.

Pure. `decide` takes machines with their nodes and what is remembered of them, and returns for each
what is to be remembered, what is to be asked, and every guard with its sentence. Called again with
what only a closer look shows (pods, volumes, the cloud) for the few for whom all else speaks.
"""

from datetime import datetime, timedelta

import msgspec

from functions.rules.policy import Policy
from functions.rules.replacing import ending, follow_up, machine, returned
from functions.rules.replacing.book import Book, Phase
from functions.rules.replacing.facts import (
    FUNCTION,
    Act,
    Closer,
    Facts,
    Guard,
    Joined,
    MachineFacts,
    Seen,
    Step,
    Verdict,
)
from functions.rules.replacing.under_way import intend
from functions.rules.replacing.words import say

__all__ = [
    "FUNCTION",
    "Act",
    "Closer",
    "Facts",
    "Guard",
    "Joined",
    "MachineFacts",
    "Seen",
    "Step",
    "Verdict",
    "attend",
    "decide",
    "intend",
    "returned",
    "say",
]

FRESH = timedelta(minutes=30)
"""How often it is written that replace still looks, while any clock runs."""
SILENCE = timedelta(minutes=90)
"""A break of that length is an absence, or a clock that has jumped."""


def decide(facts: Facts, policy: Policy, now: datetime) -> tuple[Step, ...]:
    """One step for each machine. No two of them take the same place under the caps: only the first
    that may end is let, the others look again."""
    steps = []
    for one in facts.machines:
        phase = one.entry.phase if one.entry else None
        rule = {Phase.ENDING: ending, Phase.ENDED: follow_up}.get(phase) if phase else None
        steps.append((rule or machine).decide(one, facts, policy, now))
    return tuple(steps)


def attend(book: Book, now: datetime) -> Book:
    """``book`` with our looking noted: begun, after a silence, or once in a while. The same object
    when there is nothing to note. A clock that is behind the book notes nothing."""
    if book.began is None:
        return msgspec.structs.replace(book, began=now, awake=now, seen=now)
    seen = book.seen or book.began
    running = any(not entry.over for entry in book.machines.values())
    if now - seen >= SILENCE:
        # With nothing to look at nothing was missed, but whoever comes next begins to be watched.
        return msgspec.structs.replace(book, awake=now, seen=now) if running else book
    if running and now - seen >= FRESH:
        return msgspec.structs.replace(book, seen=now)
    return book
