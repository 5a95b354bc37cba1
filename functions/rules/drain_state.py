"""How far the drain of a node is: the annotation `keys.DRAIN`, written by drain alone.

It is short (at most `MAX_BYTES`), belongs to one boot of one machine, and is rewritten only when
something in it is news: a drain that waits writes nothing.
"""

import enum
import functools
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from functions.rules import written_times

VERSION = 1
MAX_BYTES = 2048
MAX_BLOCKERS = 5
_BLOCKER_BYTES = 200
_MAX_GANGS = 5
_MAX_RETURNED = 8
MAX_VOLUMES = 12


class State(enum.StrEnum):
    DRAINING = "draining"
    """Pods are leaving, or are about to."""
    BLOCKED = "blocked"
    """Nothing moves: see `DrainState.blocked_by`."""
    DRAINED = "drained"
    """Nothing is left but what is ignored."""
    STOPPED = "stopped"
    """Somebody uncordoned the node, or nothing asks for the drain any more."""


class DrainState(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    v: int = VERSION
    state: State
    started: datetime
    changed: datetime
    """When something happened last: a pod was evicted or left, or the state changed."""
    provider_id: str = ""
    uid: str = ""
    boot: str = ""
    deadline: datetime | None = None
    look_again: datetime | None = None
    """When drain looks at the node next, as seen at the last change."""
    blocked_by: tuple[str, ...] = ()
    evicted: int = 0
    warned: tuple[str, ...] = ()
    """Gangs that were warned. When they may go stands on their pods."""
    returned: dict[str, int] = {}
    """By controller UID: pods that came back to the node although it is cordoned."""
    volumes: tuple[str, ...] = ()
    """PersistentVolumes of the pods that are to leave: waited for until they are detached. The
    first few; empty when it is drained."""
    extra: dict[str, Any] = {}
    """Fields of a newer version, kept as they came."""

    def belongs_to(self, *, provider_id: str, uid: str, boot: str) -> bool:
        """Whether it is about that boot of that machine. A Node that registered anew under
        another UID is the same machine as long as its provider ID says so."""
        if self.provider_id and provider_id:
            same = self.provider_id == provider_id
        else:
            same = self.uid == uid
        return same and not (self.boot and boot and self.boot != boot)


class Unreadable(ValueError):
    """The annotation is not one that we can read."""


_FIELDS = frozenset(DrainState.__struct_fields__) - {"extra"}


@functools.lru_cache(maxsize=1024)  # each tick reads the same texts again
def decode(text: str) -> DrainState:
    """Raises `Unreadable`. Whoever catches it starts anew and says so."""
    try:
        raw = msgspec.json.decode(text)
        if not isinstance(raw, dict):
            raise Unreadable("not an object")
        state = msgspec.convert({k: v for k, v in raw.items() if k in _FIELDS}, DrainState)
    except msgspec.DecodeError as problem:
        raise Unreadable(str(problem)) from problem
    if wrong := written_times.trouble(msgspec.structs.astuple(state)):
        raise Unreadable(wrong)
    extra = {k: v for k, v in raw.items() if k not in _FIELDS}
    return msgspec.structs.replace(state, extra=extra)


def encode(state: DrainState) -> str:
    """The annotation's text. What is too long is cut; what a newer version wrote goes last."""
    text = _encode(state)
    for fewer in (2, 1, 0):
        if len(text) <= MAX_BYTES:
            break
        shorter = msgspec.structs.replace(
            state,
            blocked_by=state.blocked_by[:fewer],
            warned=state.warned[:fewer],
            volumes=state.volumes[:fewer],
        )
        text = _encode(shorter)
    if len(text) > MAX_BYTES:
        text = _encode(msgspec.structs.replace(shorter, extra={}))
    return text.decode()


def blockers(reasons: Iterable[str]) -> tuple[str, ...]:
    """The first few of ``reasons``, each cut, and how many more there are."""
    every = sorted(set(reasons))
    kept = tuple(_cut(reason) for reason in every[:MAX_BLOCKERS])
    more = len(every) - len(kept)
    return (*kept, f"and {more} more") if more else kept


def same_news(old: DrainState, new: DrainState) -> bool:
    """Whether writing ``new`` over ``old`` would say nothing new: times of looking are none."""
    return _timeless(old) == _timeless(new)


def _timeless(state: DrainState) -> DrainState:
    return msgspec.structs.replace(state, changed=state.started, look_again=None)


def _encode(state: DrainState) -> bytes:
    cut = msgspec.structs.replace(
        state,
        warned=state.warned[:_MAX_GANGS],
        volumes=state.volumes[:MAX_VOLUMES],
        returned=dict(list(state.returned.items())[-_MAX_RETURNED:]),
    )
    body = msgspec.to_builtins(cut)
    extra = body.pop("extra", {})
    return msgspec.json.encode({**extra, **body, "v": cut.v})


def _cut(text: str) -> str:
    raw = text.encode()
    if len(raw) <= _BLOCKER_BYTES:
        return text
    return raw[: _BLOCKER_BYTES - 3].decode(errors="ignore") + "..."
