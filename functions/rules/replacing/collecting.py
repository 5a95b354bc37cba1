"""What a machine's failure left is collected before it ends: a Job on its node, for a bounded time.

Nothing waits for it longer than that, and nothing is held by its failure: evidence is for people
who come later, and the seven days are a promise to those who wait now.
"""

from dataclasses import replace

import msgspec

from functions.rules.decision import Action
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import TICK, Act, Guard, Step, Verdict
from functions.rules.replacing.words import say

LATE = "out of time"


def guard(case: Case) -> Verdict:
    entry, now = case.entry, case.now
    within = case.policy.replace.evidence_within
    if entry.collected:
        return Verdict(Guard.COLLECTED, True, entry.collected)
    if not case.facts.collects or not within:
        return Verdict(Guard.COLLECTED, True, "nothing is collected: there is no template for it")
    if entry.collecting is None:
        return Verdict(Guard.COLLECTED, False, "the evidence on it is collected first")
    until = entry.collecting + within
    if now < until:
        says = f"the evidence on it is being collected, until {until:%H:%M}Z at the latest"
        return Verdict(Guard.COLLECTED, False, says)
    return Verdict(
        Guard.COLLECTED, True, f"{LATE}: the evidence was not collected by {until:%H:%M}Z"
    )


def step(case: Case, checked: tuple[Verdict, ...]) -> Step:
    """All else speaks for its end: begin, or look how far it is."""
    one, entry, now = case.one, case.entry, case.now
    made = Step(
        facts=one,
        entry=entry,
        act=Act.COLLECT,
        guards=checked,
        rung="replace",
        look_again=now + TICK,
    )
    if entry.collecting is not None:
        return made
    within = case.policy.replace.evidence_within
    said = say(one, Action.COLLECT, f"before it ends a Job collects evidence, for at most {within}")
    begun = msgspec.structs.replace(entry, collecting=now, holding=())
    return replace(made, entry=begun, decisions=(said,))
