"""Recorded events, read once for all worlds in which they are to happen again."""

import re
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
OUR_ANNOTATIONS = frozenset({keys.INCIDENTS, keys.DRAIN, keys.LIFECYCLE, keys.REPLACEMENT})
_OUT = ("cordon", "evict")
_NODE_CHANGE = "dev.knative.apiserver.resource."
_SAYS_AGAIN = (f"{_NODE_CHANGE}update", f"{_NODE_CHANGE}add")
_TAKEN = ("dev.groundcrew.alertmanager", "dev.groundcrew.from.")
"""Types of ours that are what a source said. All others are answers of our functions."""

REMEMBERED = 10_000
"""Deleted nodes whose late words are known as such; a fleet may grow and shrink all day."""
_NUMBER = re.compile("[1-9][0-9]{0,38}").fullmatch
"""A version that is a number: of 128 bits at most."""


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
    _gone: dict[str, None] = field(default_factory=dict)
    """UIDs of Node objects that are no more, the last `REMEMBERED` of them."""

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
        before = self._nodes.get(seen.metadata.name)
        if before and _is_same(seen, before) and not _is_marked(seen):
            if not _is_older(seen, before):
                self._nodes[seen.metadata.name] = seen
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
        try:
            seen = _DECODER.decode(event.data)
        except msgspec.DecodeError:
            self.counts.refused += 1
            return found
        name = seen.metadata.name
        before = self._nodes.get(name)
        if event.type.endswith(".delete"):
            self._forget(seen.metadata.uid)
            if before is None or before.metadata.uid != seen.metadata.uid:
                return found
            del self._nodes[name]
            self._cordoned.discard(name)
            gone = NodeChange(name, None, False, False, None)
            return found._replace(changes=(*found.changes, gone))
        is_late = seen.metadata.uid in self._gone or (before and _is_older(seen, before))
        if is_late or (before and _is_same(seen, before)):
            if not is_late:
                self._nodes[name] = seen
            if _is_marked(seen):
                return found._replace(again=(*found.again, name))
            return found._replace(events=(*found.events, event))
        self._nodes[name] = seen
        is_new = before is None or before.metadata.uid != seen.metadata.uid
        machines = (before.spec.provider_id if before else None, seen.spec.provider_id)
        if before and is_new:
            self._forget(before.metadata.uid)
        was = name in self._cordoned and not is_new
        now = _by_others(seen, before=was)
        turned = now != was or (before and not is_new and _is_taken_back(seen, before))
        (self._cordoned.add if now else self._cordoned.discard)(name)
        change = NodeChange(
            name=name,
            node=unmarked(msgspec.json.decode(event.data), cordoned=now),
            is_new=is_new,
            is_other_machine=all(machines) and machines[0] != machines[1],
            cordoned=now if turned else None,
        )
        return found._replace(changes=(*found.changes, change))

    def _forget(self, uid: str) -> None:
        """What is said of that object from now on is late."""
        if uid:
            self._gone[uid] = None
            if len(self._gone) > REMEMBERED:
                del self._gone[next(iter(self._gone))]


_UNREAD = ("images", "runtimeHandlers", "volumesInUse")


def unmarked(node: Mapping[str, Any], *, cordoned: bool) -> dict[str, Any]:
    """``node`` as it would be without us, and without what no function reads and each of their
    readings would carry. ``cordoned``: by others."""
    meta, spec = dict(node["metadata"]), dict(node.get("spec") or {})
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    hidden = OUR_LABELS
    if (record := _record(notes.get(keys.INCIDENTS))) and record.cordon and record.cordon.lb:
        hidden = OUR_LABELS | {keys.EXCLUDE_FROM_LOAD_BALANCERS}
    meta["labels"] = {k: v for k, v in labels.items() if k not in hidden}
    meta["annotations"] = {k: v for k, v in notes.items() if k not in OUR_ANNOTATIONS}
    meta.pop("managedFields", None)
    spec.pop("unschedulable", None)
    if cordoned:
        spec["unschedulable"] = True
    found = {"apiVersion": "v1", "kind": "Node", **node, "metadata": meta, "spec": spec}
    if status := node.get("status"):
        found["status"] = {k: v for k, v in status.items() if k not in _UNREAD}
    return found


def _by_others(node: "_Node", *, before: bool) -> bool:
    """Whether the node is cordoned, and not by us. ``before``: whether it was when last seen: a
    cordon that was there when we came stays theirs."""
    if not node.spec.unschedulable:
        return False
    if (node.metadata.labels or {}).get(keys.STATE) not in _OUT:
        return True
    record = _record((node.metadata.annotations or {}).get(keys.INCIDENTS))
    return record.cordon.theirs if record and record.cordon else before


def _is_taken_back(node: "_Node", before: "_Node") -> bool:
    """Whether somebody has just uncordoned what we had cordoned. Who takes his own cordon off
    takes its mark off with it; here it still stands, or what it was for is dismissed already."""
    if node.spec.unschedulable or not before.spec.unschedulable:
        return False
    record = _record((node.metadata.annotations or {}).get(keys.INCIDENTS))
    if record is None:
        return False
    if record.cordon is not None:
        return not record.cordon.theirs
    old = _record((before.metadata.annotations or {}).get(keys.INCIDENTS))
    return bool(_dismissed(record) - (_dismissed(old) if old else set()))


def _dismissed(record: incidents.Record) -> set[tuple[str, datetime]]:
    return {(i.key, i.first) for i in record.incidents if i.state is incidents.State.DISMISSED}


def _record(text: str | None) -> incidents.Record | None:
    try:
        return incidents.decode(text) if text else None
    except incidents.Unreadable:
        return None


def _is_same(node: "_Node", before: "_Node") -> bool:
    """Whether it says what it said before. The version of an object grows with each heartbeat."""
    one, other = node.metadata, before.metadata
    return (
        (one.uid, one.labels, one.annotations) == (other.uid, other.labels, other.annotations)
        and node.spec == before.spec
        and node.status == before.status
    )


def _is_older(node: "_Node", before: "_Node") -> bool:
    """Whether ``node`` comes late: the same object has been seen as it was after that.

    Versions are compared as numbers, as the API allows of one resource where both are decimal
    (KEP-5504; Kubernetes 1.35 promises it, and earlier API servers did it). Any other version
    means nothing to us, and what comes last is the newest then.
    """
    one, other = node.metadata, before.metadata
    if one.uid != other.uid or not (_NUMBER(one.version) and _NUMBER(other.version)):
        return False
    return int(one.version) < int(other.version)


def _is_marked(node: "_Node") -> bool:
    labels, notes = node.metadata.labels or {}, node.metadata.annotations or {}
    return keys.STATE in labels or keys.INCIDENTS in notes


class _Meta(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")
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
    """What makes one word of a Node another than the one before, and its version."""

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
