"""When a lifecycle hook of an Auto Scaling group is told to go on holding, and when to let go.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks.html

A hook holds an instance for its heartbeat time, 30 s to 2 h; each heartbeat begins that time anew,
up to 48 h or a hundred times in all. What it is told at the end is CONTINUE or ABANDON, once.

What is remembered of a hook is on the node (`keys.LIFECYCLE`): when the last heartbeat went out,
and how it ended. So there is one heartbeat a period however many processes and redelivered
messages there are, and none goes on after its node or after the end: tools that began a loop for
each message had loops that outlived the instance.
"""

import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from functions.rules import written_times
from functions.rules.policy import Lifecycle as Policy

VERSION = 1
MOST_BEATS = 100
LOOKS = timedelta(minutes=1)
"""How often a hold is looked at (the clock of replace, infra/knative/pings.yaml)."""
SHORT = 2 * LOOKS
"""A hook that holds for less may run out between two looks."""
LAST = timedelta(minutes=1)
"""Kept before AWS's own end of a hook, so that it is we who say which end it takes."""


class Act(enum.StrEnum):
    ASK = "ask"
    """How long the hook holds is not known yet."""
    BEAT = "heartbeat"
    CONTINUE = "CONTINUE"
    ABANDON = "ABANDON"
    WAIT = "wait"
    NOTHING = "nothing"


Seconds = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]
"""Some weeks more than AWS allows: what anybody may write on a node is reckoned with."""


class Hold(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the annotation says of one hook that holds the node's instance."""

    seconds: Seconds = 0
    """The hook's heartbeat time. 0: not known."""
    most_seconds: Seconds = 0
    """AWS's own end of it."""
    beat: datetime | None = None
    """When the last heartbeat was taken."""
    beats: int = 0
    until: datetime | None = None
    """When it is over at the latest: what is left on an instance that ends then ends with it."""
    ended: str = ""
    """What it was told, or ``gone``: AWS knows of no such hook or hold any more."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One hook and its node, as read just now."""

    hold: Hold
    since: datetime
    """When the hold began, as far as is known."""
    launching: bool = False
    done: bool = False
    """The pods are gone; of a launch: the node is schedulable."""
    paused: str = ""
    """Why nothing may be ended now. Holding on goes on."""


class Next(msgspec.Struct, frozen=True):
    act: Act
    reason: str
    look_again: datetime | None = None


def decide(facts: Facts, policy: Policy, now: datetime) -> Next:
    """What comes next for one hook."""
    hold = facts.hold
    if hold.ended:
        return Next(Act.NOTHING, f"over: {hold.ended}")
    if facts.done and not facts.paused:
        what = "the node is schedulable" if facts.launching else "the pods are gone"
        return Next(Act.CONTINUE, what)
    if not hold.seconds:
        return Next(Act.ASK, "how long it holds is asked for")
    period = timedelta(seconds=hold.seconds)
    end = _end(facts, policy)
    if now >= end:
        if facts.launching:
            return Next(Act.NOTHING, "not schedulable in its time: the hook runs out")
        if facts.paused:
            return Next(Act.WAIT, f"its time is over, and {facts.paused}: the hook runs out")
        return Next(Act(policy.at_end), "its time is over and pods are left")
    begun = hold.beat or facts.since
    due = begun + period * policy.heartbeat
    if now >= due:
        return Next(Act.BEAT, f"{_share(policy)} of its {hold.seconds} s are over", now)
    if LOOKS < period <= now + LOOKS - begun:
        return Next(Act.BEAT, f"its {hold.seconds} s are over before the next look", now)
    return Next(Act.WAIT, "held", min(due, end))


def _end(facts: Facts, policy: Policy) -> datetime:
    """AWS's end of the hold or ours, whichever is sooner."""
    hold = facts.hold
    longest = min(hold.most_seconds, MOST_BEATS * hold.seconds)
    ours = policy.launch_within if facts.launching else policy.longest
    return facts.since + min(ours, timedelta(seconds=longest) - LAST)


def with_end(hold: Hold, facts: Facts, policy: Policy) -> Hold:
    """``hold`` with the time at which it is over, where that is known and ends an instance."""
    if not hold.seconds or facts.launching:
        return hold
    return msgspec.structs.replace(hold, until=_end(facts, policy))


def lost_at(text: str | None, provider_id: str) -> datetime | None:
    """When a hold of that machine is over, of what the annotation says; None: nobody knows."""
    try:
        holds = decode(text, provider_id)
    except Unreadable:
        return None
    ends = (hold.until for hold in holds.values() if hold.until and not hold.ended)
    return min(ends, default=None)


def _share(policy: Policy) -> str:
    return str(policy.heartbeat)


class Unreadable(ValueError):
    """The annotation is not one that we can read."""


class _Book(msgspec.Struct, frozen=True, omit_defaults=True):
    v: int = VERSION
    provider_id: str = ""
    hooks: dict[str, Hold] = {}


def decode(text: str | None, provider_id: str) -> dict[str, Hold]:
    """By hook, what the annotation says about that machine; another's is none of its business.

    Raises `Unreadable`: whoever catches it begins anew, at worst with one heartbeat too many.
    """
    if not text:
        return {}
    try:
        book = msgspec.json.decode(text, type=_Book)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Unreadable(str(problem)) from problem
    for hold in book.hooks.values():
        if wrong := written_times.trouble(msgspec.structs.astuple(hold)):
            raise Unreadable(wrong)
    return dict(book.hooks) if book.provider_id == provider_id else {}


def encode(hooks: Mapping[str, Hold], provider_id: str) -> str:
    book = _Book(provider_id=provider_id, hooks=dict(sorted(hooks.items())))
    return msgspec.json.encode(book).decode()
