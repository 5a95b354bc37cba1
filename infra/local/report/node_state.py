"""How a Node object looks from outside: in service, cordoned, draining, ... and for what."""

from collections.abc import Mapping

import msgspec

from functions.rules import drain_state, incidents, keys

STATES = {
    "service": "in service",
    "watch": "watched",
    "held": "held back",
    "cordon": "cordoned",
    "evict": "to be emptied",
    "draining": "draining",
    "blocked": "drain blocked",
    "drained": "emptied",
    "others": "cordoned by others",
    "dismissed": "dismissed",
    "gone": "no machine",
}
OURS = frozenset({"cordon", "evict", "draining", "blocked", "drained"})
"""Out of service for us: these use up the budget."""


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Taint(msgspec.Struct):
    key: str = ""
    value: str | None = None


class _Spec(msgspec.Struct):
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class Condition(msgspec.Struct, frozen=True):
    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _Info(msgspec.Struct):
    boot_id: str = msgspec.field(default="", name="bootID")


class _Status(msgspec.Struct):
    conditions: list[Condition] | None = None
    info: _Info | None = msgspec.field(default=None, name="nodeInfo")
    capacity: dict[str, str] | None = None


class Node(msgspec.Struct):
    """What is read of a Node."""

    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def boot_id(self) -> str:
        return self.status.info.boot_id if self.status.info else ""

    @property
    def gpus(self) -> str:
        return (self.status.capacity or {}).get(keys.GPU, "")

    @property
    def team(self) -> str:
        """The team that it is kept for; empty: none."""
        kept = (one.value for one in self.spec.taints or () if one.key == keys.TEAM)
        return next(kept, None) or self.label(keys.TEAM)

    @property
    def cordoned(self) -> bool:
        return bool(self.spec.unschedulable)

    @property
    def conditions(self) -> Mapping[str, Condition]:
        return {one.type: one for one in self.status.conditions or ()}

    def note(self, key: str) -> str:
        return (self.metadata.annotations or {}).get(key, "")

    def label(self, key: str) -> str:
        return (self.metadata.labels or {}).get(key, "")


def decode(body: bytes) -> Node:
    return msgspec.json.decode(body, type=Node)


def record_of(node: Node) -> incidents.Record:
    """Its incidents; none where the annotation is absent, garbled or of another machine."""
    text = node.note(keys.INCIDENTS)
    try:
        record = incidents.decode(text) if text else incidents.Record()
    except incidents.Unreadable:
        return incidents.Record()
    ours = record.machine in ("", node.spec.provider_id, f"uid:{node.metadata.uid}")
    return record if ours else incidents.Record()


def state_of(node: Node, record: incidents.Record) -> str:
    """Key of `STATES`."""
    asked = node.label(keys.STATE)
    if not node.cordoned:
        return asked if asked in ("watch", "held", "dismissed") else "service"
    if asked not in ("cordon", "evict"):
        return "others"
    drain = _drain_of(node) if asked == "evict" else None
    if drain is not None and drain.state is not drain_state.State.STOPPED:
        return str(drain.state.value)
    if record.cordon is not None and record.cordon.theirs:
        return "others"
    return asked


def _drain_of(node: Node) -> drain_state.DrainState | None:
    text = node.note(keys.DRAIN)
    try:
        state = drain_state.decode(text) if text else None
    except drain_state.Unreadable:
        return None
    here = {
        "provider_id": node.spec.provider_id,
        "uid": node.metadata.uid,
        "boot": node.boot_id,
    }
    return state if state and state.belongs_to(**here) else None
