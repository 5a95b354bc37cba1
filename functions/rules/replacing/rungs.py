"""The rung of the ladder that is due for one machine, and what holds it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from events.notice import Severity
from functions.rules.decision import Action
from functions.rules.incidents import Incident
from functions.rules.policy import Policy
from functions.rules.replacing import collecting, guards
from functions.rules.replacing.book import Entry
from functions.rules.replacing.facts import TICK, Act, Facts, Guard, MachineFacts, Step, Verdict
from functions.rules.replacing.words import reason_of, say, verb

LOOK_AT_PODS = timedelta(hours=1)
"""How often the pods of a node that nobody drains are looked at: the list of one node's pods, for
each node that is cordoned for a fault."""
NOT_YET = frozenset({Guard.TIME, Guard.LADDER, Guard.MEMORY, Guard.LOOKED})
"""Guards that pass by time alone: what they hold is due later, and is told then."""
LOOK_AT_HELD = timedelta(minutes=30)
"""For a simulated clock: the resync looks each minute, whatever holds."""


def next_rung(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    facts: Facts,
    policy: Policy,
    now: datetime,
) -> Step:
    shadow = not guards.shadow(one, found, policy).passed
    rung = next_of(one, entry, found, policy, now, shadow=shadow)
    end = guards.for_end(one, entry, found, facts, policy, now)
    limit = guards.at_limit(entry, policy)
    again = _looks(entry, found, policy, now, limit)
    seldom = one.closer is None and (now - entry.changed) % LOOK_AT_HELD < TICK
    if not rung:
        # All is told; whether whoever repairs nodes beside us still does is seen by looking.
        act = Act.LOOK_CLOSER if seldom and shadow and (entry.beside or entry.others) else Act.NONE
        return Step(facts=one, entry=entry, act=act, guards=end, look_again=again)
    checked = end
    if rung != "replace":
        checked = guards.for_reboot(one, entry, found, facts, policy, now)
        if rung == "reset":
            checked = tuple(v for v in checked if v.guard not in (Guard.REBOOTS, Guard.CLOUD))
    holding = [v for v in checked if not v.passed]
    blind = found[0].severity is not Severity.EVICT and one.closer is None and one.state == "cordon"
    if blind and (now - found[0].first) % LOOK_AT_PODS < TICK:
        # Nobody drains it: whether its work has left is seen by looking.
        return Step(
            facts=one, entry=entry, act=Act.LOOK_CLOSER, guards=checked, rung=rung, look_again=again
        )
    turns = [at for at in (again, *guards.turns(one, facts, policy, now)) if at]
    again = min(turns, default=None)
    names = {v.guard for v in holding}
    if names & NOT_YET or (Guard.WORK in names and one.closer is None):
        # Its time has not come, and that is nothing to tell.
        return Step(facts=one, entry=entry, guards=checked, rung=rung, look_again=again)
    # Whether a spare stands in for it is seen by looking, too.
    unseen = {Guard.SHADOW, Guard.COLLECTED, *([Guard.RESERVED] if seldom else ())}
    if not (names - unseen) and one.closer is None:
        return Step(
            facts=one,
            entry=entry,
            act=Act.LOOK_CLOSER,
            guards=checked,
            rung=rung,
            look_again=now + TICK,
        )
    if not holding:
        act = {"reset": Act.RESET, "reboot": Act.REBOOT, "replace": Act.TERMINATE}[rung]
        free = msgspec.structs.replace(entry, holding=())
        return Step(
            facts=one, entry=free, act=act, guards=checked, rung=rung, look_again=now + TICK
        )
    if names == {Guard.COLLECTED}:
        return collecting.step(one, entry, checked, policy, now)
    if names <= {Guard.SHADOW, Guard.COLLECTED}:
        return _only_told(one, entry, rung, checked, now, again)
    return _held(one, entry, rung, checked, now, again)


def next_of(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    policy: Policy,
    now: datetime,
    *,
    shadow: bool,
) -> str:
    """The rung that comes next; at the limit the last one, whatever is left of the others. What
    has been told in shadow is behind it as long as nothing else may be done."""
    rungs = guards.rungs_of(found, one.pool, policy)
    told = entry.would if shadow else ()
    limit = guards.at_limit(entry, policy)
    if limit and now >= limit and "replace" in rungs:
        return "" if "replace" in told else "replace"
    recent = [at for at in entry.reboots if now - at < policy.reboots.within]
    # Whoever has rebooted it meanwhile: it was put to the test.
    booted = bool(entry.boots) or any(incident.rebooted for incident in found)
    for rung in rungs:
        if rung in entry.tried or rung in told:
            continue
        if rung == "reboot" and (
            booted or len(recent) >= policy.reboots.most or _boot_is_no_proof(one)
        ):
            continue
        return rung
    return ""


def _boot_is_no_proof(one: MachineFacts) -> bool:
    """Without boot IDs nobody would know that it was rebooted."""
    return one.view is not None and not one.view.boot_id


def _only_told(
    one: MachineFacts,
    entry: Entry,
    rung: str,
    checked: tuple[Verdict, ...],
    now: datetime,
    again: datetime | None,
) -> Step:
    """All but the shadow speaks for it: said once, and the ladder goes on as if it were done."""
    why = next(v.says for v in checked if v.guard is Guard.SHADOW)
    told = tuple(dict.fromkeys((*entry.would, rung)))
    would = msgspec.structs.replace(entry, would=told, changed=now, holding=())
    said = say(
        one,
        Action.HOLD,
        f"it would {verb(rung)} now ({reason_of(checked)}); {why}",
        blocked_by=("shadow",),
        shadow=True,
    )
    return Step(
        facts=one, entry=would, guards=checked, rung=rung, decisions=(said,), look_again=again
    )


def _held(
    one: MachineFacts,
    entry: Entry,
    rung: str,
    checked: tuple[Verdict, ...],
    now: datetime,
    again: datetime | None,
) -> Step:
    """It is due, and something else holds: told when what holds has changed."""
    # Evidence is collected when all else speaks for the end.
    checked = tuple(v for v in checked if v.guard is not Guard.COLLECTED)
    names = tuple(v.guard.value for v in checked if not v.passed)
    looks = min(again or now + LOOK_AT_HELD, now + LOOK_AT_HELD)
    if names == entry.holding:
        return Step(facts=one, entry=entry, guards=checked, rung=rung, look_again=looks)
    others = [v for v in checked if not v.passed and v.guard is not Guard.SHADOW]
    says = "; ".join(f"{v.guard.value}: {v.says}" for v in others)
    shadow = len(others) < len(names)
    would = "would" if shadow else "is to"
    said = say(
        one,
        Action.HOLD,
        f"it {would} {verb(rung)}, and may not: {says}",
        blocked_by=names,
        shadow=shadow,
    )
    kept = msgspec.structs.replace(entry, holding=names)
    return Step(
        facts=one, entry=kept, guards=checked, rung=rung, decisions=(said,), look_again=looks
    )


def _looks(
    entry: Entry, found: Sequence[Incident], policy: Policy, now: datetime, limit: datetime | None
) -> datetime | None:
    """When time alone changes something next."""
    times: list[datetime] = [limit] if limit else []
    if entry.began:
        times += (entry.began + at for at in policy.seven_days.at_risk)
    if entry.empty:
        times += (
            entry.empty + policy.reboots.settle,
            entry.empty + guards.settle_of(found, policy),
        )
    if entry.boots:
        times.append(entry.boots[-1] + policy.reboots.watched)
    if found and found[0].severity is not Severity.EVICT:
        times.append(now + LOOK_AT_PODS - (now - found[0].first) % LOOK_AT_PODS)
    return min((at for at in times if at > now), default=None)
