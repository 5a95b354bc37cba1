"""The hardware of a machine that we had ended is back, under another machine's name.

Said by our own function replace (``dev.groundcrew.hardware.returned``), which compares the GPU
UUIDs of the nodes that join with those of the machines that it ended. It asks for a cordon: the
cloud has handed the same sick host out again, and whether it was mended in between only a test
says.
"""

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity, evidence

SOURCE = "groundcrew.replace"
CHECK = "same-hardware"


class _Returned(msgspec.Struct, frozen=True):
    node: str
    machine: str
    """Provider ID of the machine that joined."""
    was: str
    """That of the machine that was ended."""
    why: str = ""


class _Data(msgspec.Struct, frozen=True):
    nodes: list[_Returned]


_DECODER = msgspec.json.Decoder(_Data)


def read(event: CloudEvent) -> Reading:
    """A fault of severity cordon for each machine. Raises `MalformedEvent`."""
    data = decoding.decode(_DECODER, event.data)
    for place, one in enumerate(data.nodes):
        if not one.node or not one.machine:
            field = "node" if not one.node else "machine"
            raise MalformedEvent(f"nodes[{place}].{field}", "empty")
    return Reading(
        tuple(
            Notice(
                kind=Kind.FAULT,
                severity=Severity.CORDON,
                cause=Cause.HARDWARE,
                source=SOURCE,
                check=CHECK,
                ref=one.was,
                identity=Identity(node=one.node, provider_id=one.machine),
                latched=True,
                evidence=evidence(one.why or f"it has hardware of {one.was}"),
            )
            for one in data.nodes
        )
    )
