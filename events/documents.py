"""Documents that somebody fetched and posts on: metadata of a machine, answers of a cloud's API.

What a metadata service tells a machine about itself does not name the machine. Whoever fetched it
names it, by headers of the POST, or by the attributes of a CloudEvent that is posted to ``/``:

    Groundcrew-Node         node         ip-10-0-0-1.ec2.internal    the Node object
    Groundcrew-Instance-Id  instanceid   i-0123456789abcdef0         the cloud's ID of the VM
    Groundcrew-Provider-Id  providerid   aws:///us-east-1a/i-0123..  as in spec.providerID

A document without any of them is refused where it names no machine itself: it is never guessed
from the address that it came from. Where a document may speak for several machines, the instance
ID is a list of them with commas between.
"""

import hashlib
from collections.abc import Mapping

from events import names
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Identity

TAKEN = "dev.groundcrew.from."
"""Types of the events that are made of such documents: this and the name in ``/from/<name>``."""

_NAMES = {
    "groundcrew-node": "node",
    "groundcrew-instance-id": "instanceid",
    "groundcrew-provider-id": "providerid",
}
_FORMS = {"node": names.NODE, "instanceid": names.INSTANCE, "providerid": names.PROVIDER}


def event_of(name: str, headers: Mapping[str, str], body: bytes) -> CloudEvent:
    """``body`` as an event that says whose it is, as far as the headers do.

    The same document about the same machine gives the same ID. Raises `MalformedEvent` for a
    header whose value cannot be such a name.
    """
    given = {header.lower(): value for header, value in headers.items()}
    machine = {}
    for header, attribute in _NAMES.items():
        if value := given.get(header):
            for one in value.split(",") if attribute == "instanceid" else (value,):
                _checked(one.strip(), attribute, header)
            machine[attribute] = value
    who = next(iter(machine.values()), "")
    return CloudEvent(
        id=hashlib.sha256(who.encode() + b"\n" + body).hexdigest()[:32],
        source=f"/{name}/{who}",
        type=TAKEN + name,
        extensions=machine,
        data=body,
    )


def machine_of(event: CloudEvent) -> Identity | None:
    """The one machine that the sender named; None when he named none. Raises `MalformedEvent`."""
    said = event.extensions
    node, instance_id, provider_id = (
        _checked(said.get(attribute, ""), attribute, attribute) for attribute in _FORMS
    )
    if not (node or instance_id or provider_id):
        return None
    return Identity(node=node, instance_id=instance_id, provider_id=provider_id)


def named(instance_id: str, *, field: str) -> Identity:
    """A machine that the document itself names. Raises `MalformedEvent`."""
    return Identity(instance_id=_checked(instance_id, "instanceid", field))


def machines_of(event: CloudEvent) -> tuple[str, ...]:
    """The instance IDs of all machines that the sender speaks for. Raises `MalformedEvent`."""
    said = event.extensions.get("instanceid", "")
    listed = (one.strip() for one in said.split(","))
    return tuple(dict.fromkeys(_checked(one, "instanceid", "instanceid") for one in listed if one))


def needed_machine_of(event: CloudEvent) -> Identity:
    """The machine that the sender named. Raises `MalformedEvent` when he named none."""
    machine = machine_of(event)
    if machine is None:
        raise MalformedEvent(
            "groundcrew-node",
            "missing: the document does not say whose it is; name the machine with the header "
            f"{' or '.join(_NAMES)} (of a CloudEvent: the attribute {' or '.join(_FORMS)})",
        )
    return machine


def _checked(value: str, attribute: str, field: str) -> str:
    if value and not _FORMS[attribute].fullmatch(value):
        raise MalformedEvent(field, f"{value[:80]!r} is not of its form")
    return value
