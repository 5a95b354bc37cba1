"""A person's claim on a node: that it is out of service because they said so, with our commands.

`keys.CORDONED_BY` on the node, written by the operator's commands alone. It says who cordoned the
node and when, and keeps cordon from giving the node back: what a person took out of service, a
person returns. A claim on a node that cordon had already taken out names that cordon, so that one
which somebody forgot there does not hold a later one.
"""

from datetime import datetime

import msgspec

from functions.rules.incidents import Cordon

VERSION = 1


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    v: int = VERSION
    by: str
    at: datetime
    reason: str = ""
    """In their words."""
    over: datetime | None = None
    """When cordon had taken the node out of service, if it had."""


def encode(claim: Claim) -> str:
    return msgspec.json.encode(claim).decode()


def decode(text: str | None) -> Claim | None:
    """None also for what is no claim of ours: nothing is held on the word of garbage."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Claim)
    except msgspec.DecodeError:
        return None


def on(cordon: Cordon, text: str | None) -> Claim | None:
    """The claim that holds ``cordon``, if the node's annotation says one."""
    claim = decode(text)
    return claim if claim is not None and claim.over == cordon.at else None


def standing(cordon: Cordon | None, text: str | None, *, unschedulable: bool) -> Claim | None:
    """The claim by which the node is out of service, or would stay so when ``cordon`` is over.
    None where it was left behind: on a node in service, or by an earlier cordon."""
    claim = decode(text) if unschedulable else None
    if claim is None or cordon is None or cordon.theirs:
        return claim
    return claim if claim.over == cordon.at else None
