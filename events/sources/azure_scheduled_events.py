"""Azure's Scheduled Events: what is about to be done to VMs, as their metadata service lists it.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (version 2020-07-01)

- The document lists all events of the VM's scale set or availability set, whichever of its VMs
  asks. ``Resources`` names the VMs (``aks-pool-12345678-vmss_0``), often several for one event.
- ``EventStatus`` is Scheduled, then Started. ``NotBefore`` is blank, or absent, once it has
  started. Hardware that fails unannounced is Started the first time that it is seen.
- There is no status for the end: an event that is no longer listed is done, or was cancelled. A
  document without it says nothing about anybody by name, so the sender says for which VMs it
  speaks, with the header ``Groundcrew-Instance-Id`` (the attribute ``instanceid``), a VM's name as
  ``Resources`` has it, or several with commas between: for each of them, a type of event that is
  not listed is a recovery of that type. Without it a document only announces. An event that ends
  while another of its type is listed for the VM ends with that one.
- ``DocumentIncarnation`` counts the changes: a sender that has seen it has nothing new to post.

Freeze is a pause of seconds that keeps memory: watched, unless the policy says otherwise (a tool
that drained on it left whole pools cordoned). All other types take the VM away.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from events import decoding, documents, names
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity, evidence

RAW = "azure-scheduled-events"
SOURCE = "azure.scheduled-events"


class Event(msgspec.Struct, frozen=True, rename="pascal"):
    event_id: str
    event_type: str
    event_status: str
    resources: list[str]
    resource_type: str = "VirtualMachine"
    not_before: str | None = None
    description: str | None = None
    event_source: str | None = None
    """Platform, or User: somebody asked for it."""


class Document(msgspec.Struct, frozen=True, rename="pascal"):
    events: list[msgspec.Raw]
    document_incarnation: int = 0


_DOCUMENT = msgspec.json.Decoder(Document)
_EVENT = msgspec.json.Decoder(Event)


class _Meaning(NamedTuple):
    kind: Kind
    severity: Severity
    waits: bool
    """Announced long enough ahead that without a time it is not urgent (15 minutes to 7 days)."""


_TYPES = {
    "Freeze": _Meaning(Kind.MAINTENANCE, Severity.WATCH, waits=True),
    "Reboot": _Meaning(Kind.MAINTENANCE, Severity.EVICT, waits=True),
    "Redeploy": _Meaning(Kind.MAINTENANCE, Severity.EVICT, waits=True),
    "Preempt": _Meaning(Kind.INTERRUPTION, Severity.EVICT, waits=False),
    "Terminate": _Meaning(Kind.TERMINATION, Severity.EVICT, waits=False),
}
_UNKNOWN = _Meaning(Kind.MAINTENANCE, Severity.WATCH, waits=True)


def from_raw(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The document as an event. Raises `MalformedEvent`."""
    decoding.decode(_DOCUMENT, body, field="body")
    return [documents.event_of(RAW, headers, body)]


def read(event: CloudEvent) -> Reading:
    """A notice for each VM of each event that is listed, and a recovery of each type that is not,
    for the VMs that the document speaks for. Raises `MalformedEvent`."""
    notices: list[Notice] = []
    skipped: list[str] = []
    for index, (one, incarnation) in enumerate(listed(event.data)):
        if one.resource_type != "VirtualMachine":
            skipped.append(f"{one.event_id}: about a {one.resource_type or 'nothing'}")
            continue
        notices += _announced(one, incarnation, f"Events[{index}]")
    live = {(notice.identity.instance_id, notice.check) for notice in notices}
    for machine in documents.machines_of(event):
        for name in _TYPES:
            if (machine, name) not in live:
                notices.append(_gone(machine, name))
    if notices:
        return Reading(tuple(notices), skipped=tuple(skipped))
    return Reading(declined="; ".join(skipped[:10]) or "no events are listed")


def listed(body: bytes) -> list[tuple[Event, int]]:
    """The events of a document, each with the document's incarnation. Raises `MalformedEvent`."""
    document = decoding.decode(_DOCUMENT, body)
    found = []
    for index, raw in enumerate(document.events):
        where = f"Events[{index}]"
        event = decoding.decode(_EVENT, bytes(raw), field=where, within=f"{where}.")
        for field, text in (
            ("EventId", event.event_id),
            ("EventType", event.event_type),
            ("EventStatus", event.event_status),
        ):
            decoding.name(text, field=f"{where}.{field}", most=128)
        found.append((event, document.document_incarnation))
    return found


def _announced(listed: Event, incarnation: int, where: str) -> list[Notice]:
    kind, severity, waits = _TYPES.get(listed.event_type, _UNKNOWN)
    starts: datetime | None = None
    if listed.not_before:
        starts = decoding.gmt(listed.not_before, field=f"{where}.NotBefore")
    doubt = ""
    if listed.event_type not in _TYPES:
        doubt = "a type that is not known"
    elif listed.event_status not in ("Scheduled", "Started"):
        severity, doubt = Severity.WATCH, "a status that is not known"
    elif listed.event_status == "Scheduled" and starts is None and waits:
        severity, doubt = Severity.WATCH, "it does not say when"
    elif listed.event_status == "Started" and severity is Severity.EVICT:
        # It happens now: no plan that could wait for a budget.
        kind = Kind.INTERRUPTION if kind is Kind.MAINTENANCE else kind
    said = f"{listed.event_type} {listed.event_status}"
    if listed.event_source:
        said += f" by {listed.event_source}"
    said += f": {listed.description}" if listed.description else ""
    notices = []
    for number, machine in enumerate(listed.resources):
        if not names.INSTANCE.fullmatch(machine):
            raise MalformedEvent(f"{where}.Resources[{number}]", f"{machine[:80]!r} names no VM")
        notice = Notice(
            kind=kind,
            severity=severity,
            cause=Cause.PROVIDER,
            source=SOURCE,
            check=listed.event_type,
            reason=listed.event_status,
            ref=listed.event_id,
            dedup=f"{listed.event_id}/{listed.event_status}/{incarnation}",
            identity=Identity(instance_id=machine),
            deadline=starts,
            evidence=evidence(said + (f" ({doubt})" if doubt else "")),
        )
        notices.append(notice)
    return notices


def _gone(machine: str, name: str) -> Notice:
    return Notice(
        kind=Kind.RECOVERY,
        severity=Severity.WATCH,
        cause=Cause.PROVIDER,
        source=SOURCE,
        check=name,
        identity=Identity(instance_id=machine),
        evidence=f"no {name} is listed for the VM: done, or cancelled",
    )
