"""The guards before a reboot and before the end of a machine: each one passed or holding, with the
sentence that says why. All are evaluated, also where one already holds: a person wants to see them
together.

The record of those who had none of them is long: a pool killed by a health signal that was wrong
(Karpenter #2811), machines of another cluster deleted (Karpenter #5536), a reboot after the
recovery (NVSentinel #121), loops without end (NVSentinel #1543).
"""

from collections.abc import Sequence
from datetime import datetime

from functions.rules.incidents import Incident
from functions.rules.policy import Policy
from functions.rules.replacing import collecting
from functions.rules.replacing.book import Entry
from functions.rules.replacing.facts import Facts, Guard, MachineFacts, Verdict
from functions.rules.replacing.guards import evidence, loss, memory, touch
from functions.rules.replacing.guards.evidence import rungs_of
from functions.rules.replacing.guards.loss import at_limit, settle_of
from functions.rules.replacing.guards.memory import LOOKED, SKEW, caps, turns
from functions.rules.replacing.guards.touch import shadow

__all__ = [
    "CLOSER",
    "LOOKED",
    "SKEW",
    "at_limit",
    "caps",
    "for_end",
    "for_reboot",
    "rungs_of",
    "settle_of",
    "shadow",
    "turns",
]

CLOSER = frozenset({Guard.WORK, Guard.VOLUMES, Guard.CLOUD})
"""Those that need what is read last."""


def for_reboot(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    facts: Facts,
    policy: Policy,
    now: datetime,
) -> tuple[Verdict, ...]:
    recent = [at for at in entry.reboots if now - at < policy.reboots.within]
    empty = entry.empty
    settled = empty is not None and now - empty >= policy.reboots.settle
    return (
        *_common(one, found, facts, policy, now, ends=False),
        evidence.not_recovering(one, found),
        Verdict(
            Guard.REBOOTS,
            len(recent) < policy.reboots.most,
            f"{len(recent)} of {policy.reboots.most} reboots within {policy.reboots.within}",
        ),
        Verdict(Guard.TIME, settled, loss.settling(empty, policy.reboots.settle)),
        loss.work(one, entry, forced=False),
        loss.cloud(one, to_end=False),
    )


def for_end(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    facts: Facts,
    policy: Policy,
    now: datetime,
) -> tuple[Verdict, ...]:
    limit = at_limit(entry, policy)
    forced = limit is not None and now >= limit
    return (
        *_common(one, found, facts, policy, now, ends=True),
        evidence.fault(one, found),
        evidence.evidence(one, entry, found, policy, forced=forced),
        evidence.ladder(one, entry, found, policy, now, forced=forced),
        loss.time(entry, found, policy, now, limit, forced=forced),
        loss.work(one, entry, forced=forced),
        loss.volumes(one, forced=forced),
        loss.reserved(one, policy),
        caps(one, facts.books.get(""), facts, policy, now),
        loss.cloud(one, to_end=True),
        collecting.guard(one, entry, facts, policy, now),
    )


def _common(
    one: MachineFacts,
    found: Sequence[Incident],
    facts: Facts,
    policy: Policy,
    now: datetime,
    *,
    ends: bool,
) -> tuple[Verdict, ...]:
    return (
        touch.node(one),
        touch.cordoned(one),
        touch.opt_out(one),
        touch.breaker(one, found, facts, policy, now),
        touch.pause(one, facts),
        Verdict(Guard.HOLD, not one.hold, one.hold or "nobody holds it"),
        shadow(one, found, policy),
        memory.memory(one, facts, policy, now, ends=ends),
        memory.looked(one, facts, now),
    )
