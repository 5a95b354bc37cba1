"""What a Compute Engine VM hears from its own metadata server, posted on by whoever asked it.

https://cloud.google.com/compute/docs/metadata/getting-live-migration-notice

    instance/maintenance-event     NONE, MIGRATE_ON_HOST_MAINTENANCE, TERMINATE_ON_HOST_MAINTENANCE
    instance/preempted             FALSE, TRUE: a spot VM has half a minute
    instance/upcoming-maintenance  as in the API (`events.sources.gcp_upcoming`)

Two forms: a map of these paths to their values, or the whole of ``instance/?recursive=true``,
which has them in camel case and the VM's name. A map does not say whose it is: the sender does
(`events.documents`). When a value changed is not said, so there is no deadline: what it announces
is acted on at once. Senders wait for a change (``?wait_for_change=true``) and post it.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from events import decoding, documents
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity, evidence
from events.sources import gcp_upcoming
from events.sources.gcp_upcoming import SOURCE, Upcoming

RAW = "gcp-metadata"


class Scheduling(msgspec.Struct, frozen=True, rename="camel"):
    on_host_maintenance: str = ""


class Whole(msgspec.Struct, frozen=True, rename="camel"):
    """``instance/?recursive=true``."""

    name: str = ""
    maintenance_event: str = ""
    preempted: Literal["TRUE", "FALSE", ""] = ""
    upcoming_maintenance: Upcoming | None = None
    scheduling: Scheduling | None = None


class Values(msgspec.Struct, frozen=True):
    """Single values by their paths."""

    maintenance_event: str = msgspec.field(default="", name="instance/maintenance-event")
    preempted: Literal["TRUE", "FALSE", ""] = msgspec.field(default="", name="instance/preempted")
    upcoming_maintenance: Upcoming | None = msgspec.field(
        default=None, name="instance/upcoming-maintenance"
    )
    on_host_maintenance: str = msgspec.field(
        default="", name="instance/scheduling/on-host-maintenance"
    )


_WHOLE = msgspec.json.Decoder(Whole)
_VALUES = msgspec.json.Decoder(Values)


def from_raw(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The document as an event of the VM that the headers or its own name say.

    Raises `MalformedEvent`.
    """
    event = documents.event_of(RAW, headers, body)
    _machine(event)
    return [event]


def read(event: CloudEvent) -> Reading:
    """What the VM is told. Raises `MalformedEvent`."""
    identity = _machine(event)
    whole = decoding.decode(_WHOLE, event.data)
    values = decoding.decode(_VALUES, event.data)
    announced = whole.maintenance_event or values.maintenance_event
    preempted = whole.preempted or values.preempted
    upcoming = whole.upcoming_maintenance or values.upcoming_maintenance
    policy = whole.scheduling.on_host_maintenance if whole.scheduling else ""
    notices = []
    if announced:
        notices.append(_maintenance(announced, identity))
    if preempted == "TRUE":
        notices.append(
            Notice(
                kind=Kind.INTERRUPTION,
                severity=Severity.EVICT,
                cause=Cause.PROVIDER,
                source=SOURCE,
                check="preempted",
                identity=identity,
                evidence="instance/preempted: TRUE",
            )
        )
    if upcoming is not None:
        migrates = (policy or values.on_host_maintenance) == "MIGRATE"
        where = "upcomingMaintenance."
        notices += gcp_upcoming.notices(upcoming, identity, migrates=migrates, where=where)
    if notices:
        return Reading(tuple(notices))
    if preempted:
        return Reading(declined="the VM has not been preempted")
    raise MalformedEvent(
        "body", "no maintenance event, no preemption, no upcoming maintenance: not what is read"
    )


def _machine(event: CloudEvent) -> Identity:
    if said := documents.machine_of(event):
        return said
    if name := decoding.decode(_WHOLE, event.data).name:
        return documents.named(name, field="name")
    return documents.needed_machine_of(event)


def _maintenance(announced: str, identity: Identity) -> Notice:
    kind, severity, doubt = Kind.MAINTENANCE, Severity.WATCH, ""
    if announced == "NONE":
        kind = Kind.RECOVERY
    elif announced in ("TERMINATE_ON_HOST_MAINTENANCE", "SHUTDOWN_ON_HOST_MAINTENANCE"):
        # A minute ahead, an hour for GPUs: not a plan that could wait for a budget.
        kind, severity = Kind.INTERRUPTION, Severity.EVICT
    elif announced != "MIGRATE_ON_HOST_MAINTENANCE":
        doubt = " (a value that is not known)"
    return Notice(
        kind=kind,
        severity=severity,
        cause=Cause.PROVIDER,
        source=SOURCE,
        check="maintenance-event",
        reason=evidence(announced),
        identity=identity,
        evidence=evidence(f"instance/maintenance-event: {announced}{doubt}"),
    )
