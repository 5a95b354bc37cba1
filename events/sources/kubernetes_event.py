"""Event objects about Nodes that carry an XID: node-problem-detector's copies of the kernel log,
the EKS node monitoring agent's warnings, the GKE device plugin's ``XIDError``, NVSentinel's.

Both forms of the object are read: core/v1 (``message``, ``involvedObject``) and events.k8s.io/v1
(``note``, ``regarding``). Everything else that is said in Events (scheduling, image pulls, our own
story of a node) is declined. https://kubernetes.io/docs/reference/kubernetes-api/core/event-v1/
"""

import re
from datetime import datetime

import msgspec

from events import names, xid
from events.cloudevent import CloudEvent
from events.decoding import decode, plausible
from events.errors import MalformedEvent
from events.kubernetes_object import DELETED, change_of, from_raw
from events.notice import Identity, Kind, Notice, Reading, Severity, evidence
from events.xid import Xid

__all__ = ["from_raw", "read"]

SOURCE = "kubernetes.event"
OURSELVES = "groundcrew"
RECOVERY_ACTION = 154
"""Says what the driver wants done, and later that it wants nothing any more."""


class ObjectReference(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str | None = None


class EventSource(msgspec.Struct, frozen=True):
    component: str = ""


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class EventObject(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 and events.k8s.io/v1 in one: each field has at most one of them."""

    kind: str = "Event"
    metadata: Meta = Meta()
    involved_object: ObjectReference | None = None
    regarding: ObjectReference | None = None
    reason: str | None = None
    message: str | None = None
    note: str | None = None
    source: EventSource | None = None
    reporting_component: str | None = None
    reporting_controller: str | None = None
    last_timestamp: datetime | None = None
    deprecated_last_timestamp: datetime | None = None
    event_time: datetime | None = None
    first_timestamp: datetime | None = None
    deprecated_first_timestamp: datetime | None = None

    @property
    def about(self) -> ObjectReference:
        about = self.involved_object or self.regarding
        if about is None:
            raise MalformedEvent("involvedObject", "missing: an Event says what it is about")
        return about

    @property
    def told_by_us(self) -> bool:
        told_by = (
            self.reporting_component,
            self.reporting_controller,
            self.source.component if self.source else None,
        )
        return any(name and name.partition("/")[0].startswith(OURSELVES) for name in told_by)


_DECODER = msgspec.json.Decoder(EventObject)
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read(event: CloudEvent) -> Reading:
    """The notices in an Event object. Raises `MalformedEvent` and `UnknownSource`."""
    change = change_of(event)
    if change.reference:
        return Reading(declined="a reference to an Event says nothing of what happened")
    if change.verb == DELETED:
        return Reading(declined="an Event has run out: nothing has happened")
    said = decode(_DECODER, event.data)
    if said.kind != "Event":
        raise MalformedEvent("kind", f"expected Event, got {said.kind!r}")
    about = said.about
    if about.kind != "Node":
        return Reading(declined=f"an Event about a {about.kind or 'thing without kind'}")
    if not about.name:
        raise MalformedEvent("involvedObject.name", "empty: a Node has a name")
    if not names.NODE.fullmatch(about.name):
        raise MalformedEvent(
            "involvedObject.name", f"{about.name[:80]!r} cannot be the name of a Node"
        )
    if said.told_by_us:
        return Reading(declined="our own Event")
    text = said.message or said.note or ""
    # The reason names the same XID as the message, without what decides about some of them.
    found = xid.parse_all(text) or xid.parse_all(said.reason or "")
    if not found:
        return Reading(declined="an Event about a Node that speaks of no XID")
    ignored = tuple(
        f"{x.check} needs nothing: {x.verdict.name}" for x in found if x.verdict.ignored
    )
    notices = tuple(_notice(x, said, about, text) for x in found if not x.verdict.ignored)
    if notices:
        return Reading(notices, skipped=ignored)
    return Reading(declined="; ".join(ignored))


def _notice(found: Xid, said: EventObject, about: ObjectReference, text: str) -> Notice:
    verdict, uid = found.verdict, about.uid or ""
    return Notice(
        kind=Kind.RECOVERY if verdict.clears else Kind.FAULT,
        severity=verdict.severity if not verdict.clears else Severity.WATCH,
        cause=verdict.cause,
        source=SOURCE,
        check=found.check,
        reason=evidence(said.reason or ""),
        dedup=_dedup(said),
        # The kubelet writes the node's name where the UID belongs.
        identity=Identity(node=about.name, node_uid=uid if _UID.fullmatch(uid) else ""),
        since=_since(said),
        # Other lines are never taken back; this one is, for the GPU that it speaks of.
        ref=found.gpu if found.code == RECOVERY_ACTION else "",
        latched=found.code != RECOVERY_ACTION,
        in_log=True,
        gpu=found.gpu,
        evidence=evidence(text or said.reason or ""),
    )


def _dedup(said: EventObject) -> str:
    meta = said.metadata
    return f"{meta.uid}/{meta.resource_version}" if meta.uid and meta.resource_version else ""


def _since(said: EventObject) -> datetime | None:
    """When it was last seen: an Event counts its repeats up and keeps the first time."""
    for field, when in (
        ("lastTimestamp", said.last_timestamp),
        ("deprecatedLastTimestamp", said.deprecated_last_timestamp),
        ("eventTime", said.event_time),
        ("firstTimestamp", said.first_timestamp),
        ("deprecatedFirstTimestamp", said.deprecated_first_timestamp),
    ):
        if when is not None:
            if when.tzinfo is None:
                raise MalformedEvent(field, f"{when.isoformat()} has no time zone")
            return plausible(when, field=field)
    return None
