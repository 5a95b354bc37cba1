"""What happened in a play, line by line, and what is the same in every world.

A timeline is a list of `Entry`. `normalised` leaves out what differs between the embedded
cluster and a real one without meaning anything: times of things that take their time, numbers
of pods, the order of different nodes.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from functions.rules.decision import Action, Decision


class Happened(msgspec.Struct, frozen=True, tag="happened", kw_only=True):
    """Something in the scenario itself."""

    at: datetime
    says: str
    line: int = 0


class Did(msgspec.Struct, frozen=True, tag="did", kw_only=True):
    """A decision of one of the functions."""

    at: datetime
    woken_by: str
    """Type of the event."""
    decision: Decision


class Checked(msgspec.Struct, frozen=True, tag="checked", kw_only=True):
    """An expectation, and whether it held."""

    at: datetime
    expected: str
    holds: bool
    seen: str = ""
    because: str = ""
    line: int = 0


class Trouble(msgspec.Struct, frozen=True, tag="trouble", kw_only=True):
    """An event that a function refused, or that could not be delivered."""

    at: datetime
    says: str


Entry = Happened | Did | Checked | Trouble

_CHATTER = frozenset({Action.EVICT, Action.WAIT, Action.NOTHING})
"""How often these are said depends on how long pods take."""


def normalised(entries: Iterable[Entry]) -> dict[str, list[str]]:
    """By node and function, what was decided: action, incident and severity, in order. Which of
    two functions was first depends on how long pods take, too."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        if not isinstance(entry, Did) or entry.decision.action in _CHATTER:
            continue
        decided = entry.decision
        words = (decided.action.value, decided.incident, decided.severity)
        about = f"{decided.node} {decided.function}"
        found.setdefault(about, []).append(" ".join(word for word in words if word))
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What is not the same in two worlds, a line each."""
    return [
        f"{key}: {one.get(key, 'nothing')} / {other.get(key, 'nothing')}"
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key)
    ]
