"""A sick machine that no Node stands for: its clock runs, and nothing is asked but whether it is
there."""

from datetime import datetime, timedelta

from functions.rules.decision import Action
from functions.rules.policy import Policy
from functions.rules.replacing.book import Entry
from functions.rules.replacing.facts import (
    TICK,
    Act,
    Closer,
    Guard,
    MachineFacts,
    Seen,
    Step,
    Verdict,
)
from functions.rules.replacing.risk import warned
from functions.rules.replacing.words import say

OBJECTS = ("karpenter", "cluster-api")
"""Ways by an object of its own: that there is none says something where there was one."""
ON_DEMAND = ("karpenter",)
"""Owners that start a machine when pods want one, so when the sick one is emptied: before its end,
or never."""
CLOUDS = ("ec2", "autoscaling", *OBJECTS)
"""Ways that know whether a machine is there without its Node."""
LOOK_FOR_LOST = timedelta(minutes=10)
"""How often the cloud is asked for a machine that no Node stands for."""
FORGOTTEN = timedelta(days=30)
"""So long after its seven days a machine of which nobody says a word is no longer waited for."""


def decide(one: MachineFacts, entry: Entry, policy: Policy, now: datetime) -> Step:
    if entry.over:
        return Step(facts=one, entry=entry)
    if one.known_as:
        # Its clock goes on under that name: it runs from what stands on the Node.
        return Step(facts=one, entry=entry.close(f"known as {one.known_as} since", now))
    closer = one.closer
    if closer is not None and _is_gone(closer, entry):
        gone = entry.close(f"gone: {closer.says or 'the cloud says so'}, and not by us", now)
        said = say(one, Action.GONE, "it ended without us, and its Node is gone")
        return Step(facts=one, entry=gone, decisions=(said,))
    verdict = Verdict(Guard.NODE, False, "no Node stands for it: nothing ends without one")
    if risk := warned(one, entry, policy, now, (verdict,)):
        return risk
    since = now - entry.changed
    if entry.began and min(now - entry.began - policy.seven_days.limit, since) >= FORGOTTEN:
        lost = entry.close("lost: no Node stands for it, and nobody said that it ended", now)
        said = say(one, Action.GONE, f"{lost.outcome}: it is waited for no longer")
        return Step(facts=one, entry=lost, decisions=(said,))
    # What it says stands in the cluster, and follows its Node within seconds.
    pace = TICK if entry.owner in ON_DEMAND else LOOK_FOR_LOST
    due = since % pace < TICK and closer is None
    return Step(
        facts=one,
        entry=entry,
        act=Act.LOOK_AT_CLOUD if due else Act.NONE,
        guards=(verdict,),
        look_again=now + pace - since % pace,
    )


def _is_gone(closer: Closer, entry: Entry) -> bool:
    """By the word of who runs it: that a Node is gone says nothing of its machine. EC2 forgets a
    machine an hour after its end; who never knew it is another account."""
    known = bool(closer.account) and closer.account == entry.account
    if closer.way in OBJECTS:
        showed = known or closer.way == entry.owner
        return closer.seen is Seen.ENDING or (closer.seen is Seen.GONE and showed)
    if closer.way not in CLOUDS:
        return False
    return closer.seen in (Seen.ENDING, Seen.GONE) or (closer.seen is Seen.UNKNOWN and known)
