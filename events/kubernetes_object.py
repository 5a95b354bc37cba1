"""Kubernetes objects as events: what Knative's ApiServerSource calls them, and raw bodies.

https://knative.dev/docs/eventing/sources/apiserversource/. Types are
``dev.knative.apiserver.resource.<verb>`` with the whole object as data (for delete its last
state), and ``dev.knative.apiserver.ref.<verb>`` with kind and name alone.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent, UnknownSource

ADDED, UPDATED, DELETED = "add", "update", "delete"
_RESOURCE = "dev.knative.apiserver.resource."
_REFERENCE = "dev.knative.apiserver.ref."

WHOLE_UPDATE = _RESOURCE + UPDATED
"""The type of an update that carries the whole object."""

KINDS = ("Node", "Event")
_ITEM_KINDS = {"NodeList": "Node", "EventList": "Event", "List": ""}
"""The API server leaves the kind out of the items of a typed list; kubectl's List has it in."""


class Change(NamedTuple):
    verb: str
    reference: bool


class Reference(msgspec.Struct, frozen=True):
    """The data of a reference event."""

    kind: str
    name: str


_CHANGES = {
    prefix + verb: Change(verb, prefix == _REFERENCE)
    for prefix in (_RESOURCE, _REFERENCE)
    for verb in (ADDED, UPDATED, DELETED)
}


def change_of(event: CloudEvent) -> Change:
    """What happened to the object. Raises `UnknownSource` for a type that is none of the six."""
    if change := _CHANGES.get(event.type):
        return change
    raise UnknownSource(f"type: {event.type!r} is none of {', '.join(_CHANGES)}")


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True):
    kind: str = ""
    metadata: _Meta = _Meta()
    items: list[msgspec.Raw] | None = None


_OBJECT = msgspec.json.Decoder(_Object)


def from_raw(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The events of a Node or core Event object, or of a list of them (``kubectl get -o json``).

    Each counts as an update. The ID is uid and resourceVersion where the object has them, so that
    the same body gives the same IDs. Raises `MalformedEvent` that names the field.
    """
    whole = decoding.decode(_OBJECT, body, field="body")
    if whole.kind not in _ITEM_KINDS:
        return [_event(whole, body, "")]
    expected = _ITEM_KINDS[whole.kind]
    events = []
    for index, raw in enumerate(whole.items or ()):
        try:
            item = decoding.decode(_OBJECT, bytes(raw), field="object")
            events.append(_event(item, bytes(raw), expected))
        except MalformedEvent as problem:
            raise problem.at(index) from problem
    return events


def _event(item: _Object, data: bytes, expected: str) -> CloudEvent:
    kind = item.kind or expected
    if not kind:
        raise MalformedEvent("kind", "missing: a Kubernetes object says what it is")
    if kind not in KINDS:
        raise MalformedEvent("kind", f"{kind!r} is not read; known are {', '.join(KINDS)}")
    if not item.metadata.name:
        raise MalformedEvent("metadata.name", "missing or empty")
    uid, version = item.metadata.uid, item.metadata.resource_version
    return CloudEvent(
        id=f"{uid}/{version}" if uid and version else hashlib.sha256(data).hexdigest()[:32],
        source="/kubernetes",
        type=WHOLE_UPDATE,
        subject=item.metadata.name,
        extensions={"kind": kind, "name": item.metadata.name},
        data=data,
    )
