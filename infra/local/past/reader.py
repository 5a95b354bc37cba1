"""Recorded events, read once for all worlds in which they are to happen again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from events import recording
from events.cloudevent import CloudEvent
from events.errors import EventError
from functions.rules import incidents, keys
from infra.local import clock
from infra.local.history import Event

OUR_LABELS = frozenset({keys.STATE, keys.INSTANCE})
OUR_ANNOTATIONS = frozenset({keys.INCIDENTS, keys.DRAIN})
_OUT = ("cordon", "evict")
_NODE_CHANGE = "dev.knative.apiserver.resource."
_SAYS_AGAIN = (f"{_NODE_CHANGE}update", f"{_NODE_CHANGE}add")
_TAKEN = ("dev.groundcrew.alertmanager", "dev.groundcrew.from.")
"""Types of ours that are what a source said. All others are answers of our functions."""


class NodeChange(NamedTuple):
    """What becomes of one Node object."""

    name: str
    node: Mapping[str, Any] | None
    """The object without our marks; None: it is gone."""
    is_new: bool
    """Another Node object than the one before it under this name."""
    is_other_machine: bool
    cordoned: bool | None
    """Whether others cordoned (or uncordoned) it just now; None: they did neither."""


class Heard(NamedTuple):
    """What one recorded request comes to."""

    at: datetime
    events: tuple[CloudEvent, ...] = ()
    """To be told as they are."""
    changes: tuple[NodeChange, ...] = ()
    again: tuple[str, ...] = ()
    """Nodes that say again what they said, where it was recorded with our marks on them: each
    world tells of its own."""


@dataclass
class Counts:
    events: int = 0
    refused: int = 0
    """Malformed or unknown: refused then as now."""
    ours: int = 0
    """Our clocks, answers and Events: each world has its own."""


@dataclass
class Reader:
    counts: Counts = field(default_factory=Counts)
    _nodes: dict[str, "_Node"] = field(default_factory=dict)
    """By name, as it was last."""
    _cordoned: set[str] = field(default_factory=set)
    """Nodes that are cordoned by others."""

    def start(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """A Node of the starting point, without our marks."""
        seen = msgspec.convert(node, _Node)
        self._nodes[seen.metadata.name] = seen
        cordoned = _by_others(seen, before=False)
        if cordoned:
            self._cordoned.add(seen.metadata.name)
        return unmarked(node, cordoned=cordoned)

    def hear(self, event: Event) -> Heard:
        self.counts.events += 1
        try:
            told = recording.events_of(event.recording)
        except EventError:
            self.counts.refused += 1
            return Heard(event.at)
        if len(told) == 1 and (quiet := self._quiet(event.at, told[0])):
            return quiet
        found = Heard(event.at)
        for one in told:
            found = self._add(found, one)
        return found

    def _quiet(self, at: datetime, event: CloudEvent) -> Heard | None:
        """The usual: a node says again what it said, and nobody's marks are on it."""
        if event.type not in _SAYS_AGAIN or event.extensions.get("kind") != "Node":
            return None
        try:
            seen = _DECODER.decode(event.data)
        except msgspec.DecodeError:
            return None
        if seen == self._nodes.get(seen.metadata.name) and not _is_marked(seen):
            return Heard(at, (event,))
        return None

    def _add(self, found: Heard, event: CloudEvent) -> Heard:
        kind = event.type
        if kind == clock.PING or (
            kind.startswith("dev.groundcrew.") and not kind.startswith(_TAKEN)
        ):
            self.counts.ours += 1
            return found
        if kind.startswith(_NODE_CHANGE):
            try:
                said = _OBJECT.decode(event.data)
            except msgspec.DecodeError:
                self.counts.refused += 1
                return found
            if said.kind == "Event" and said.source.component == "groundcrew":
                self.counts.ours += 1
                return found
            if said.kind == "Node":
                return self._node(found, event)
        return found._replace(events=(*found.events, event))

    def _node(self, found: Heard, event: CloudEvent) -> Heard:
        seen = _DECODER.decode(event.data)
        name = seen.metadata.name
        before = self._nodes.get(name)
        if event.type.endswith(".delete"):
            if before is None or before.metadata.uid != seen.metadata.uid:
                return found
            del self._nodes[name]
            self._cordoned.discard(name)
            gone = NodeChange(name, None, False, False, None)
            return found._replace(changes=(*found.changes, gone))
        if seen == before:
            if _is_marked(seen):
                return found._replace(again=(*found.again, name))
            return found._replace(events=(*found.events, event))
        self._nodes[name] = seen
        is_new = before is None or before.metadata.uid != seen.metadata.uid
        machines = (before.spec.provider_id if before else None, seen.spec.provider_id)
        was = name in self._cordoned and not is_new
        now = _by_others(seen, before=was)
        (self._cordoned.add if now else self._cordoned.discard)(name)
        change = NodeChange(
            name=name,
            node=unmarked(msgspec.json.decode(event.data), cordoned=now),
            is_new=is_new,
            is_other_machine=all(machines) and machines[0] != machines[1],
            cordoned=None if now == was else now,
        )
        return found._replace(changes=(*found.changes, change))


def unmarked(node: Mapping[str, Any], *, cordoned: bool) -> dict[str, Any]:
    """``node`` as it would be without us. ``cordoned``: by others."""
    meta, spec = dict(node["metadata"]), dict(node.get("spec") or {})
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    hidden = OUR_LABELS
    if (record := _record(notes.get(keys.INCIDENTS))) and record.cordon and record.cordon.lb:
        hidden = OUR_LABELS | {keys.EXCLUDE_FROM_LOAD_BALANCERS}
    meta["labels"] = {k: v for k, v in labels.items() if k not in hidden}
    meta["annotations"] = {k: v for k, v in notes.items() if k not in OUR_ANNOTATIONS}
    spec.pop("unschedulable", None)
    if cordoned:
        spec["unschedulable"] = True
    return {"apiVersion": "v1", "kind": "Node", **node, "metadata": meta, "spec": spec}


def _by_others(node: "_Node", *, before: bool) -> bool:
    """Whether the node is cordoned, and not by us. ``before``: whether it was when last seen: a
    cordon that was there when we came stays theirs."""
    if not node.spec.unschedulable:
        return False
    if (node.metadata.labels or {}).get(keys.STATE) not in _OUT:
        return True
    record = _record((node.metadata.annotations or {}).get(keys.INCIDENTS))
    return record.cordon.theirs if record and record.cordon else before


def _record(text: str | None) -> incidents.Record | None:
    try:
        return incidents.decode(text) if text else None
    except incidents.Unreadable:
        return None


def _is_marked(node: "_Node") -> bool:
    labels, notes = node.metadata.labels or {}, node.metadata.annotations or {}
    return keys.STATE in labels or keys.INCIDENTS in notes


class _Meta(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Taint(msgspec.Struct, frozen=True):
    key: str
    value: str | None = None
    effect: str = ""


class _Spec(msgspec.Struct, frozen=True):
    unschedulable: bool | None = None
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    taints: list[_Taint] | None = None


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    """All but the time of the heartbeat."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _Info(msgspec.Struct, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: list[_Condition] | None = None
    capacity: dict[str, str | int] | None = None
    allocatable: dict[str, str | int] | None = None
    node_info: _Info | None = None


class _Node(msgspec.Struct, frozen=True):
    """What makes one word of a Node another than the one before."""

    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Component(msgspec.Struct):
    component: str = ""


class _Object(msgspec.Struct):
    kind: str = ""
    source: _Component = msgspec.field(default_factory=_Component)


_DECODER = msgspec.json.Decoder(_Node)
_OBJECT = msgspec.json.Decoder(_Object)
