"""That the seven days of a machine are at risk: told once at each of the policy's times, with what
holds."""

from datetime import datetime, timedelta

import msgspec

from functions.rules.decision import Action
from functions.rules.policy import Policy
from functions.rules.replacing.book import Entry
from functions.rules.replacing.case import at_limit
from functions.rules.replacing.facts import TICK, MachineFacts, Step, Verdict
from functions.rules.replacing.words import answer, days, say

AT_RISK = "dev.groundcrew.sla.at-risk"


def warned(
    one: MachineFacts, entry: Entry, policy: Policy, now: datetime, checked: tuple[Verdict, ...]
) -> Step | None:
    """That the seven days are at risk, once at each of the policy's times; None: not due."""
    if not is_due(entry, policy, now):
        return None
    limit = at_limit(entry, policy)
    assert limit is not None
    names = [v.guard.value for v in checked if not v.passed]
    left = limit - now
    time = (
        f"{days(left)} left of the seven days"
        if left > timedelta(0)
        else ("the seven days are over")
    )
    says = "; ".join(f"{v.guard.value}: {v.says}" for v in checked if not v.passed)
    said = say(one, Action.AT_RISK, f"{time}; {says or 'it is due'}", blocked_by=tuple(names))
    told = msgspec.structs.replace(entry, warned=_passed(entry, policy, now))
    more: dict[str, object] = {"due": limit, "holding": names}
    return Step(
        facts=one,
        entry=told,
        guards=checked,
        decisions=(said,),
        answer=answer(AT_RISK, one, entry, **more),
        look_again=now + TICK,
    )


def is_due(entry: Entry, policy: Policy, now: datetime) -> bool:
    return entry.began is not None and _passed(entry, policy, now) > entry.warned


def _passed(entry: Entry, policy: Policy, now: datetime) -> int:
    assert entry.began is not None
    times = [*sorted(policy.seven_days.at_risk), policy.seven_days.limit]
    return sum(now - entry.began >= at for at in times)
