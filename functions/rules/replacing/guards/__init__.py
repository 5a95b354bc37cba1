"""The guards before a reboot and before the end of a machine: each one passed or holding, with the
sentence that says why. All are evaluated, also where one already holds: a person wants to see them
together.

The record of those who had none of them is long: a pool killed by a health signal that was wrong
(Karpenter #2811), machines of another cluster deleted (Karpenter #5536), a reboot after the
recovery (NVSentinel #121), loops without end (NVSentinel #1543).
"""

from functions.rules.replacing import collecting
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import Guard, Verdict
from functions.rules.replacing.guards import evidence, loss, memory, touch
from functions.rules.replacing.guards.memory import LOOKED, SKEW, caps, turns
from functions.rules.replacing.guards.touch import shadow

__all__ = ["CLOSER", "LOOKED", "SKEW", "caps", "for_end", "for_reboot", "shadow", "turns"]

CLOSER = frozenset({Guard.WORK, Guard.VOLUMES, Guard.CLOUD})
"""Those that need what is read last."""


def for_reboot(case: Case) -> tuple[Verdict, ...]:
    empty, rule = case.entry.empty, case.policy.reboots
    recent = len(case.recent_reboots)
    return (
        *_common(case, ends=False),
        evidence.not_recovering(case),
        Verdict(
            Guard.REBOOTS,
            recent < rule.most,
            f"{recent} of {rule.most} reboots within {rule.within}",
        ),
        Verdict(
            Guard.TIME,
            empty is not None and case.now - empty >= rule.settle,
            loss.settling(empty, rule.settle),
        ),
        loss.work(case, forced=False),
        loss.cloud(case.one, to_end=False),
    )


def for_end(case: Case) -> tuple[Verdict, ...]:
    book = case.facts.books.get("")
    return (
        *_common(case, ends=True),
        evidence.fault(case),
        evidence.evidence(case),
        evidence.ladder(case),
        loss.time(case),
        loss.work(case, forced=case.is_at_limit),
        loss.volumes(case),
        loss.reserved(case),
        caps(case.one, book, case.facts, case.policy, case.now),
        loss.cloud(case.one, to_end=True),
        collecting.guard(case),
    )


def _common(case: Case, *, ends: bool) -> tuple[Verdict, ...]:
    one = case.one
    return (
        touch.node(one),
        touch.cordoned(one),
        touch.opt_out(one),
        touch.breaker(case),
        touch.pause(case),
        Verdict(Guard.HOLD, not one.hold, one.hold or "nobody holds it"),
        shadow(case),
        memory.memory(case, ends=ends),
        memory.looked(case),
    )
