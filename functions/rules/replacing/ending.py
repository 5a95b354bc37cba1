"""What becomes of a machine that ends by us: the call, and the cloud's word.

An intent stands in the book before anything is asked. Whoever finds one asks the cloud first: a
machine that ends was asked; one that runs was not, and is asked only if every guard still passes.
An intent is followed by the call that wrote it, within seconds, or by another one two minutes
later: never by two at once.
"""

from datetime import datetime, timedelta

import msgspec

from functions.rules.decision import Action
from functions.rules.policy import Policy
from functions.rules.replacing import clock, guards
from functions.rules.replacing.book import Entry, Intent, Phase
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import (
    TICK,
    Act,
    Closer,
    Facts,
    Guard,
    MachineFacts,
    Seen,
    Step,
    Verdict,
)
from functions.rules.replacing.lost import CLOUDS
from functions.rules.replacing.risk import warned
from functions.rules.replacing.words import say

TERMINATED = "dev.groundcrew.vm.terminated"
TAKE_OVER = timedelta(minutes=2)
"""After that long an intent that nobody has followed is another call's: ten times what a call may
take between writing it and asking."""
SLOW = timedelta(minutes=30)
"""A machine that is asked to end and runs on for so long is asked once more; one that is ending, or
of which nothing is known, for so long is told of. Who is handed one has the policy's time."""
SLOW_TOLD = ("ending",)
"""What holds such a machine."""
MOST_ASKED = {"event": 2}
"""How often a way is asked that takes it and does nothing; who owns the machines hears each."""
MOST_ASKED_ELSE = 10
STUCK = ("asked",)
"""What holds such a machine."""


def decide(one: MachineFacts, facts: Facts, policy: Policy, now: datetime) -> Step:
    entry = one.entry
    assert entry is not None
    intent, closer = entry.intent, one.closer
    if intent is None:
        return Step(facts=one, entry=msgspec.structs.replace(entry, phase=Phase.SICK))
    if intent.asked is None and now < intent.at + TAKE_OVER and not intent.said:
        return Step(facts=one, entry=entry, rung="replace", look_again=intent.at + TAKE_OVER)
    if risk := warned(one, entry, policy, now, (_unconfirmed(intent, closer),)):
        # What it waits for is known to who is asked.
        return risk if closer else Step(facts=one, entry=entry, act=Act.LOOK_CLOSER)
    if intent.again and now < intent.again:
        return Step(facts=one, entry=entry, rung="replace", look_again=intent.again)
    if closer is None:
        return Step(
            facts=one, entry=entry, act=Act.LOOK_CLOSER, rung="replace", look_again=now + TICK
        )
    if closer.seen is Seen.GONE and closer.way not in CLOUDS and intent.taken is None:
        return _unclaimed(one, entry, now)
    if closer.seen is Seen.GONE or (
        closer.seen is Seen.UNKNOWN
        and _was_asked_long_ago(entry, now)
        and closer.account
        and closer.account == entry.account
    ):
        return _is_gone(one, entry, now)
    if closer.seen is Seen.ENDING:
        # Where it was not asked, the call was made, and whoever made it did not live to write so.
        taken = msgspec.structs.replace(
            intent, asked=intent.asked or now, taken=intent.taken or now
        )
        kept = msgspec.structs.replace(entry, intent=taken)
        if now - (taken.taken or now) >= _patience(intent, policy) and entry.holding != SLOW_TOLD:
            return _is_slow(one, kept, closer, now)
        return Step(facts=one, entry=kept, rung="replace", look_again=now + TICK)
    if closer.seen in (Seen.UNKNOWN, Seen.STOPPED):
        if now - intent.at >= SLOW and entry.holding != SLOW_TOLD:
            return _is_slow(one, entry, closer, now)
        return Step(facts=one, entry=entry, rung="replace", look_again=now + TICK)
    if intent.asked is not None and now - intent.asked < _patience(intent, policy):
        return Step(facts=one, entry=entry, rung="replace", look_again=now + TICK)
    return _again(one, entry, facts, policy, now)


def _patience(intent: Intent, policy: Policy) -> timedelta:
    return policy.replace.handed_over_within if intent.way == "event" else SLOW


def _unclaimed(one: MachineFacts, entry: Entry, now: datetime) -> Step:
    """Its Node is gone, which anybody may have deleted, and its owner has never taken it: it did
    not end as far as we know. Its clock runs."""
    lost = msgspec.structs.replace(entry, phase=Phase.SICK, changed=now, intent=None)
    said = say(
        one,
        Action.HOLD,
        "its Node is gone, and its owner never took it: nobody says that the machine has ended",
        blocked_by=("node",),
    )
    return Step(facts=one, entry=lost, decisions=(said,), look_again=now + TICK)


def _is_slow(one: MachineFacts, entry: Entry, closer: Closer, now: datetime) -> Step:
    """It ends and ends: said once, with what whoever ends it waits for."""
    assert entry.intent is not None
    kept = msgspec.structs.replace(entry, holding=SLOW_TOLD)
    since = entry.intent.at.strftime("%Y-%m-%d %H:%MZ")
    said = say(
        one,
        Action.HOLD,
        f"to end since {since}, and is not gone: {closer.says}",
        blocked_by=SLOW_TOLD,
    )
    return Step(facts=one, entry=kept, rung="replace", decisions=(said,), look_again=now + TICK)


def _unconfirmed(intent: Intent, closer: Closer | None) -> Verdict:
    says = intent.said or (closer.says if closer else "") or "the cloud has not confirmed it"
    return Verdict(Guard.CLOUD, False, f"to end since {intent.at:%Y-%m-%d %H:%M}Z: {says}")


def _was_asked_long_ago(entry: Entry, now: datetime) -> bool:
    """EC2 forgets a machine an hour after its end. One that another account does not know may be
    there all the same."""
    asked = entry.intent.asked if entry.intent else None
    return asked is not None and now - asked > SLOW


def _again(one: MachineFacts, entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Step:
    """It runs, and is asked only if all that let it be asked still holds."""
    found = clock.faults(one.record)
    checked = guards.for_end(Case(one, entry, found, facts, policy, now))
    holding = [v for v in checked if not v.passed]
    if not holding and _is_asked_enough(entry):
        return _left_to_people(one, entry, checked, now)
    if not holding:
        return Step(
            facts=one,
            entry=entry,
            act=Act.TERMINATE,
            guards=checked,
            rung="replace",
            look_again=now + TICK,
        )
    says = "; ".join(f"{v.guard.value}: {v.says}" for v in holding)
    names = tuple(v.guard.value for v in holding)
    if not found and one.record is not None:
        kept = entry.close(f"recovered: {clock.how_it_stopped(one.record)}", now)
    else:
        kept = msgspec.structs.replace(
            entry, phase=Phase.SICK, changed=now, intent=None, holding=names
        )
    said = say(
        one, Action.WITHDRAW, f"it was to end, runs, and may not any more: {says}", blocked_by=names
    )
    return Step(
        facts=one,
        entry=kept,
        act=Act.WITHDRAW,
        guards=checked,
        decisions=(said,),
        look_again=now + TICK,
    )


def _is_asked_enough(entry: Entry) -> bool:
    intent = entry.intent
    if intent is None or intent.asked is None:
        return False
    return intent.tries + 1 >= MOST_ASKED.get(intent.way, MOST_ASKED_ELSE)


def _left_to_people(
    one: MachineFacts, entry: Entry, checked: tuple[Verdict, ...], now: datetime
) -> Step:
    """It was taken each time, and nothing came of it: said once, and not asked again."""
    intent, later = entry.intent, now + SLOW
    assert intent is not None
    if entry.holding == STUCK:
        return Step(facts=one, entry=entry, guards=checked, rung="replace", look_again=later)
    kept = msgspec.structs.replace(entry, holding=STUCK)
    said = say(
        one,
        Action.HOLD,
        f"asked to end {intent.tries + 1} times by way of {intent.way}, it runs on: it is not "
        "asked again, and a person has to see to it",
        blocked_by=STUCK,
    )
    return Step(
        facts=one, entry=kept, guards=checked, rung="replace", decisions=(said,), look_again=later
    )


def _is_gone(one: MachineFacts, entry: Entry, now: datetime) -> Step:
    ended = msgspec.structs.replace(entry, phase=Phase.ENDED, changed=now, ended=now)
    said = say(
        one,
        Action.TERMINATED,
        "the cloud says that it is gone; what held its volumes is "
        "let go, and its replacement is waited for",
    )
    why = entry.intent.why if entry.intent else ""
    return Step(
        facts=one,
        entry=ended,
        act=Act.RELEASE,
        rung="replace",
        decisions=(said,),
        answer=(TERMINATED, {"node": entry.node, "machine": one.machine, "why": why}),
        look_again=now + TICK,
    )
