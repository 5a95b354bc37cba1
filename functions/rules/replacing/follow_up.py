"""What becomes of a machine that has ended by us: the one that comes in its place. The seven days
run until that one serves."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from functions.rules.decision import Action
from functions.rules.policy import Policy
from functions.rules.replacing import returned
from functions.rules.replacing.book import Entry
from functions.rules.replacing.facts import (
    TICK,
    Act,
    Facts,
    Guard,
    Joined,
    MachineFacts,
    Step,
    Verdict,
)
from functions.rules.replacing.lost import ON_DEMAND
from functions.rules.replacing.risk import warned
from functions.rules.replacing.words import say

REPLACED = "dev.groundcrew.vm.replaced"
MISSING = "dev.groundcrew.replacement.missing"
GIVEN_UP = timedelta(days=7)
"""After that long no replacement is waited for any more."""


def decide(one: MachineFacts, facts: Facts, policy: Policy, now: datetime) -> Step:
    entry = one.entry
    assert entry is not None
    assert entry.ended is not None
    act = Act.NONE if entry.released else Act.RELEASE
    late = entry.ended + policy.replace.joined_within
    if facts.joined is None:
        return Step(facts=one, entry=entry, act=act, look_again=now + TICK)
    again = _same_hardware(one, entry, facts)
    candidate, serves = _replacement(one, entry, facts)
    if act is Act.RELEASE and (again or serves):
        # What held its volumes first: nobody looks after a machine that is over.
        return Step(facts=one, entry=entry, act=act, look_again=now + TICK)
    if again:
        return _came_back(one, entry, again, act, now)
    if candidate is not None and serves:
        closed = entry.close(
            f"replaced by {candidate.node} ({candidate.machine})", now, candidate.machine
        )
        took = now - (entry.began or entry.ended)
        said = say(
            one,
            Action.REPLACED,
            f"{candidate.node} ({candidate.machine}) serves in its "
            f"place, {_long(took)} after the first sight of its fault",
        )
        return Step(
            facts=one,
            entry=closed,
            act=act,
            decisions=(said,),
            answer=(
                REPLACED,
                {
                    "node": entry.node,
                    "machine": one.machine,
                    "by": candidate.machine,
                    "by_node": candidate.node,
                    "seconds": round(took.total_seconds()),
                },
            ),
        )
    why = f"{candidate.node} has joined and {candidate.waits_for}" if candidate else _none(entry)
    awaited = Verdict(Guard.NODE, False, f"it has ended, and {why}")
    if risk := warned(one, entry, policy, now, (awaited,)):
        return replace(risk, act=act)
    if now >= late and not entry.missing:
        kept = msgspec.structs.replace(entry, missing=True)
        said = say(
            one,
            Action.MISSING,
            f"no replacement serves {_long(now - entry.ended)} after its end: {why}",
            blocked_by=(why,),
        )
        data = {"node": entry.node, "machine": one.machine, "why": why}
        return Step(
            facts=one,
            entry=kept,
            act=act,
            decisions=(said,),
            answer=(MISSING, data),
            look_again=now + TICK,
        )
    if now - entry.ended >= GIVEN_UP:
        closed = entry.close("ended; no replacement ever served", now)
        says = f"no replacement ever served, {_long(now - entry.ended)} after its end: {why}; it is"
        said = say(one, Action.MISSING, f"{says} waited for no longer", blocked_by=(why,))
        return Step(facts=one, entry=closed, act=act, decisions=(said,))
    return Step(facts=one, entry=entry, act=act, look_again=now + TICK * (1 if now < late else 10))


def _same_hardware(one: MachineFacts, entry: Entry, facts: Facts) -> Joined | None:
    """A node with a GPU of the machine that ended, or on its host, under another provider ID."""
    mine = set(entry.gpus)
    return next(
        (
            j
            for j in facts.joined or ()
            if j.machine not in ("", one.machine)
            and (mine & set(j.gpus) or returned.is_on_host(j, entry))
        ),
        None,
    )


def _came_back(one: MachineFacts, entry: Entry, again: Joined, act: Act, now: datetime) -> Step:
    """It was no replacement: what came is the same hardware. Its own clock begins when cordon has
    heard of it."""
    what = f"is on host {entry.host}" if returned.is_on_host(again, entry) else "has GPUs"
    why = f"{again.node} ({again.machine}) {what} of {one.machine}, which was ended for "
    why += entry.fault or "a fault"
    closed = entry.close(
        f"the same hardware came back as {again.node} ({again.machine})", now, again.machine
    )
    said = say(one, Action.RETURNED, why)
    data = {"node": again.node, "machine": again.machine, "was": one.machine, "why": why}
    return Step(
        facts=one, entry=closed, act=act, decisions=(said,), answer=(returned.RETURNED, data)
    )


def _none(entry: Entry) -> str:
    if entry.owner in ON_DEMAND:
        return (
            "no node has joined its pool since it was drained. Karpenter starts one where pods "
            "want one: are any pending, and do the limits of the NodePool let them?"
        )
    return "no node has joined its pool"


def _replacement(one: MachineFacts, entry: Entry, facts: Facts) -> tuple[Joined | None, bool]:
    """The node that came for it, and whether it serves: of its pool, made after its end was asked
    (or its drain began, where the work that leaves it calls for another one), and nobody else's
    replacement. Of several the first that serves."""
    asked = entry.intent.at if entry.intent else entry.ended
    if entry.owner in ON_DEMAND and entry.drained_from:
        asked = entry.drained_from
    taken = {e.replacement for book in facts.books.values() for e in book.machines.values()}
    fits: Sequence[Joined] = sorted(
        (
            j
            for j in facts.joined or ()
            if j.pool == one.pool
            and j.machine not in (one.machine, "")
            and j.machine not in taken
            and asked is not None
            and j.created >= asked - timedelta(seconds=1)
        ),
        key=lambda j: (bool(j.waits_for), j.created, j.node),
    )
    return (fits[0], not fits[0].waits_for) if fits else (None, False)


def _long(length: timedelta) -> str:
    minutes = int(length.total_seconds() // 60)
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if n]
    return " ".join(parts[:2]) or "less than a minute"
