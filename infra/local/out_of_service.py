"""How many nodes were out of service at once in a play, and who took them out."""

import enum
from collections import Counter
from collections.abc import Callable

import msgspec

from events.notice import Kind, Severity
from functions.gateways.kubernetes import types
from functions.rules import incidents, keys
from infra.local.world import Change

ALL = "all"
_TAKEN = (Kind.INTERRUPTION, Kind.TERMINATION)


class By(enum.StrEnum):
    US = "us"
    CLOUD = "cloud"
    """By us, and only because the cloud takes the machine anyway."""
    OTHERS = "others"
    """By people or programs. What we find on such a node is recorded, and the cordon theirs."""


class OutOfService:
    def __init__(self, pool_of: Callable[[types.Node], str]) -> None:
        self.most: dict[str, int] = {}
        """By pool, and `ALL`: the most nodes that the functions had taken out at once."""
        self.most_by: dict[str, int] = {}
        """By who took them out (`By`): the most at once in all pools."""
        self._pool_of = pool_of
        self._out: dict[str, tuple[str, By]] = {}
        """By node: its pool, and who took it out."""

    def changed(self, change: Change) -> None:
        if change.kind != "Node":
            return
        node = msgspec.json.decode(change.body, type=types.Node)
        before = self._out.pop(node.name, None)
        by = None if change.verb == "delete" else taken_out_by(node)
        if by is None:
            return
        pool = self._pool_of(node)
        self._out[node.name] = (pool, by)
        if before == (pool, by):
            return
        ours = Counter(pool for pool, by in self._out.values() if by is not By.OTHERS)
        if by is not By.OTHERS:
            for where, now in ((ALL, ours.total()), (pool, ours[pool])):
                self.most[where] = max(self.most.get(where, 0), now)
        now = sum(one is by for _, one in self._out.values())
        self.most_by[by] = max(self.most_by.get(by, 0), now)


def taken_out_by(node: types.Node) -> By | None:
    """Who took it out of service; None while it takes work."""
    if not node.unschedulable:
        return None
    text = (node.metadata.annotations or {}).get(keys.INCIDENTS)
    try:
        record = incidents.decode(text) if text else incidents.Record()
    except incidents.Unreadable:
        return By.OTHERS
    if not record.cordoned_by_us:
        return By.OTHERS
    why = [one.kind for one in record.open if one.severity >= Severity.CORDON]
    return By.CLOUD if why and all(kind in _TAKEN for kind in why) else By.US
