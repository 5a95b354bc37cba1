"""A Compute Engine VM as its API describes it (``instances.get``, ``instances.list``).

https://cloud.google.com/compute/docs/reference/rest/v1/instances; what is read of it is
``resourceStatus.upcomingMaintenance`` (`events.sources.gcp_upcoming`). The machine's provider ID
is made of its project, zone and name, as the cloud provider of Kubernetes makes it.
"""

import re
from collections.abc import Mapping

import msgspec

from events import decoding, documents
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Identity, Notice, Reading
from events.sources import gcp_upcoming
from events.sources.gcp_upcoming import Upcoming

RAW = "gcp-instance"


class Scheduling(msgspec.Struct, frozen=True, rename="camel"):
    on_host_maintenance: str = ""


class ResourceStatus(msgspec.Struct, frozen=True, rename="camel"):
    upcoming_maintenance: Upcoming | None = None


class Instance(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    zone: str
    status: str = "RUNNING"
    scheduling: Scheduling | None = None
    resource_status: ResourceStatus | None = None


class Document(msgspec.Struct, frozen=True):
    kind: str
    items: list[msgspec.Raw] | None = None


_DOCUMENT = msgspec.json.Decoder(Document)
_INSTANCE = msgspec.json.Decoder(Instance)
_KINDS = ("compute#instance", "compute#instanceList")
_ZONE = re.compile(r"(?:https://[^/]+/compute/\w+/)?projects/([a-z0-9.:-]+)/zones/([a-z0-9-]+)")
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


def from_raw(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The VM, or one page of a list of them, as an event. Raises `MalformedEvent`."""
    document = decoding.decode(_DOCUMENT, body, field="body")
    if document.kind not in _KINDS:
        raise MalformedEvent("kind", f"{document.kind[:80]!r} is not {' or '.join(_KINDS)}")
    return [documents.event_of(RAW, {}, body)]


def read(event: CloudEvent) -> Reading:
    """What is to be done to each VM that runs. Raises `MalformedEvent`."""
    document = decoding.decode(_DOCUMENT, event.data)
    notices: list[Notice] = []
    skipped: list[str] = []
    if document.kind == "compute#instance":
        members = [("", event.data)]
    else:
        listed = enumerate(document.items or ())
        members = [(f"items[{index}].", bytes(raw)) for index, raw in listed]
    for within, data in members:
        vm = decoding.decode(_INSTANCE, data, field=within.rstrip(".") or "data", within=within)
        identity = _identity(vm, within)
        if vm.status != "RUNNING":
            skipped.append(f"{vm.name} is {vm.status}: not judged")
            continue
        upcoming = vm.resource_status.upcoming_maintenance if vm.resource_status else None
        migrates = vm.scheduling is not None and vm.scheduling.on_host_maintenance == "MIGRATE"
        where = f"{within}resourceStatus.upcomingMaintenance."
        notices += gcp_upcoming.notices(upcoming, identity, migrates=migrates, where=where)
    if notices:
        return Reading(tuple(notices), skipped=tuple(skipped))
    return Reading(declined="; ".join(skipped[:10]) or "nothing is said of any VM")


def _identity(vm: Instance, within: str) -> Identity:
    zone = _ZONE.fullmatch(vm.zone)
    if not zone:
        raise MalformedEvent(f"{within}zone", f"{vm.zone[:80]!r} names no project and zone")
    if not _NAME.fullmatch(vm.name):
        raise MalformedEvent(f"{within}name", f"{vm.name[:80]!r} is no name of a VM")
    if zone[1].isdigit():
        # The number of a project, where the provider ID has its name.
        return Identity(instance_id=vm.name)
    return Identity(provider_id=f"gce://{zone[1]}/{zone[2]}/{vm.name}")
