"""The rung of the ladder that is due for one machine, and what holds it."""

from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from events.notice import Severity
from functions.rules.decision import Action
from functions.rules.replacing import collecting, guards
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import TICK, Act, Guard, Step
from functions.rules.replacing.words import reason_of, say, verb

LOOK_AT_PODS = timedelta(hours=1)
"""How often the pods of a node that nobody drains are looked at: the list of one node's pods, for
each node that is cordoned for a fault."""
NOT_YET = frozenset({Guard.TIME, Guard.LADDER, Guard.MEMORY, Guard.LOOKED})
"""Guards that pass by time alone: what they hold is due later, and is told then."""
LOOK_AT_HELD = timedelta(minutes=30)
"""For a simulated clock: the resync looks each minute, whatever holds."""


def next_rung(case: Case) -> Step:
    one, entry, found, now = case.one, case.entry, case.found, case.now
    shadow = not guards.shadow(case).passed
    rung = next_of(case, shadow=shadow)
    checked, again = guards.for_end(case), _looks(case)
    seldom = one.closer is None and (now - entry.changed) % LOOK_AT_HELD < TICK
    if not rung:
        # All is told; whether whoever repairs nodes beside us still does is seen by looking.
        act = Act.LOOK_CLOSER if seldom and shadow and (entry.beside or entry.others) else Act.NONE
        return Step(facts=one, entry=entry, act=act, guards=checked, look_again=again)
    if rung != "replace":
        checked = guards.for_reboot(case)
        if rung == "reset":
            checked = tuple(v for v in checked if v.guard not in (Guard.REBOOTS, Guard.CLOUD))
    step = Step(facts=one, entry=entry, guards=checked, rung=rung, look_again=again)
    blind = found[0].severity is not Severity.EVICT and one.closer is None and one.state == "cordon"
    if blind and (now - found[0].first) % LOOK_AT_PODS < TICK:
        # Nobody drains it: whether its work has left is seen by looking.
        return replace(step, act=Act.LOOK_CLOSER)
    turns = [at for at in (again, *guards.turns(case)) if at]
    step = replace(step, look_again=min(turns, default=None))
    names = {v.guard for v in checked if not v.passed}
    if names & NOT_YET or (Guard.WORK in names and one.closer is None):
        # Its time has not come, and that is nothing to tell.
        return step
    # Whether a spare stands in for it is seen by looking, too.
    unseen = {Guard.SHADOW, Guard.COLLECTED, *([Guard.RESERVED] if seldom else ())}
    if not (names - unseen) and one.closer is None:
        return replace(step, act=Act.LOOK_CLOSER, look_again=now + TICK)
    if not names:
        act = {"reset": Act.RESET, "reboot": Act.REBOOT, "replace": Act.TERMINATE}[rung]
        free = msgspec.structs.replace(entry, holding=())
        return replace(step, entry=free, act=act, look_again=now + TICK)
    if names == {Guard.COLLECTED}:
        return collecting.step(case, checked)
    if names <= {Guard.SHADOW, Guard.COLLECTED}:
        return _only_told(case, step)
    return _held(case, step)


def next_of(case: Case, *, shadow: bool) -> str:
    """The rung that comes next; at the limit the last one, whatever is left of the others. What
    has been told in shadow is behind it as long as nothing else may be done."""
    told = case.entry.would if shadow else ()
    if case.is_at_limit and "replace" in case.rungs:
        return "" if "replace" in told else "replace"
    behind = {*case.entry.tried, *told, *(() if case.may_reboot else ("reboot",))}
    return next((rung for rung in case.rungs if rung not in behind), "")


def _only_told(case: Case, step: Step) -> Step:
    """All but the shadow speaks for it: said once, and the ladder goes on as if it were done."""
    why = next(v.says for v in step.guards if v.guard is Guard.SHADOW)
    told = tuple(dict.fromkeys((*case.entry.would, step.rung)))
    would = msgspec.structs.replace(case.entry, would=told, changed=case.now, holding=())
    says = f"it would {verb(step.rung)} now ({reason_of(step.guards)}); {why}"
    said = say(case.one, Action.HOLD, says, blocked_by=("shadow",), shadow=True)
    return replace(step, entry=would, decisions=(said,))


def _held(case: Case, step: Step) -> Step:
    """It is due, and something else holds: told when what holds has changed."""
    # Evidence is collected when all else speaks for the end.
    checked = tuple(v for v in step.guards if v.guard is not Guard.COLLECTED)
    names = tuple(v.guard.value for v in checked if not v.passed)
    latest = case.now + LOOK_AT_HELD
    step = replace(step, guards=checked, look_again=min(step.look_again or latest, latest))
    if names == case.entry.holding:
        return step
    others = [v for v in checked if not v.passed and v.guard is not Guard.SHADOW]
    shadow = len(others) < len(names)
    would = "would" if shadow else "is to"
    why = "; ".join(f"{v.guard.value}: {v.says}" for v in others)
    says = f"it {would} {verb(step.rung)}, and may not: {why}"
    said = say(case.one, Action.HOLD, says, blocked_by=names, shadow=shadow)
    return replace(
        step, entry=msgspec.structs.replace(case.entry, holding=names), decisions=(said,)
    )


def _looks(case: Case) -> datetime | None:
    """When time alone changes something next."""
    entry, found, policy, now = case.entry, case.found, case.policy, case.now
    times: list[datetime] = [case.limit] if case.limit else []
    if entry.began:
        times += (entry.began + at for at in policy.seven_days.at_risk)
    if entry.empty:
        times += (entry.empty + policy.reboots.settle, entry.empty + case.settle)
    if entry.boots:
        times.append(entry.boots[-1] + policy.reboots.watched)
    if found and found[0].severity is not Severity.EVICT:
        times.append(now + LOOK_AT_PODS - (now - found[0].first) % LOOK_AT_PODS)
    return min((at for at in times if at > now), default=None)
