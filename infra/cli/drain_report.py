"""What came of a drain, as data: also the form of ``-o json``."""

import enum
from collections.abc import Sequence

import msgspec


class State(enum.StrEnum):
    DRAINED = "drained"
    REFUSED = "refused"
    """Found impossible before anything was changed."""
    BLOCKED = "blocked"
    """What is left will not leave by waiting."""
    TIMED_OUT = "timed-out"
    STOPPED = "stopped"
    """Somebody uncordoned the node meanwhile."""
    GONE = "gone"
    """The node was deleted, or replaced by another of its name."""
    FAILED = "failed"
    """The API server did not let us, or stayed away."""
    INTERRUPTED = "interrupted"
    PLANNED = "planned"
    """A dry run: nothing was changed."""


class Blocker(msgspec.Struct, frozen=True):
    pod: str
    why: str


class Planned(msgspec.Struct, frozen=True):
    """What a dry run says about one pod."""

    pod: str
    action: str
    """``evict``, ``wait`` (until a budget or a gang lets it go), ``leaving``, ``blocked`` or
    ``leave`` (it stays)."""
    why: str = ""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    state: State
    cordon: str = ""
    """``made`` by this command; ``kept``: it was cordoned before; ``claimed``: for an incident,
    and held by you from now on; ``taken back``; empty where nothing was changed."""
    why: str = ""
    seconds: float = 0.0
    evicted: Sequence[str] = ()
    left: Sequence[str] = ()
    """Pods that are still there and were to leave."""
    blocked: Sequence[Blocker] = ()
    """Why they are, as far as something is in the way."""
    ignored: dict[str, str] = {}
    """Pods that stay, and why."""
    warned: Sequence[str] = ()
    """Gangs that were warned."""
    plan: Sequence[Planned] = ()
    warnings: Sequence[str] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    dry_run: str
    nodes: Sequence[Node]


def encode(report: Report) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
