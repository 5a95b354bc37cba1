"""Many events as one: what `groundcrew consume` found in its queue at the same time.

A broker takes one event at a time and hands each to a function by itself, so that a hundred spot
interruptions would be a hundred calls that get into each other's way. As one event they are one
call: one read of the cluster, one reservation of places, one answer.

The data is ``{"events": [...]}``, each in the JSON format of CloudEvents and of a type that is read
here. It is read whole or refused: whoever made it had read every one before.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from events import cloudevent, decoding, registry
from events.cloudevent import CloudEvent
from events.documents import TAKEN
from events.errors import MalformedEvent
from events.notice import Notice, Reading

TYPE = f"{TAKEN}queue"
SOURCE = "/groundcrew/consume"
MOST_BYTES = 256 * 1024
"""Of the data of those in one: brokers take a mebibyte at most."""


class Document(msgspec.Struct, frozen=True):
    events: list[msgspec.Raw]


_DOCUMENT = msgspec.json.Decoder(Document)


def of(events: Sequence[CloudEvent]) -> CloudEvent:
    """``events`` as one. The same ones give the same ID."""
    names = [(event.source, event.id) for event in events]
    made: list[dict[str, Any]] = [cloudevent.structured(event) for event in events]
    return CloudEvent(
        id=hashlib.sha256(msgspec.json.encode(names)).hexdigest()[:32],
        source=SOURCE,
        type=TYPE,
        data=msgspec.json.encode({"events": made}),
    )


def shares(events: Sequence[CloudEvent]) -> Iterator[list[CloudEvent]]:
    """``events`` in their order, in parts that are small enough to be one; one that is too large
    is a part by itself."""
    part: list[CloudEvent] = []
    size = 0
    for event in events:
        if part and size + len(event.data) > MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(event)
        size += len(event.data)
    if part:
        yield part


def read(event: CloudEvent) -> Reading:
    """Raises `MalformedEvent` with the place of the first that is bad, and `UnknownSource`."""
    document = decoding.decode(_DOCUMENT, event.data)
    notices: list[Notice] = []
    skipped: list[str] = []
    for number, raw in enumerate(document.events):
        where = f"events[{number}]"
        try:
            (one,) = cloudevent.parse({"content-type": cloudevent.STRUCTURED}, bytes(raw))
            if one.type == TYPE:
                raise MalformedEvent("type", f"{TYPE} within {TYPE}")
            reading = registry.read(one)
        except MalformedEvent as problem:
            raise MalformedEvent(f"{where}.{problem.field}", problem.problem) from problem
        notices += reading.notices
        skipped += (f"{where}: {why}" for why in reading.skipped)
    if not notices:
        return Reading(declined="none of its events says anything that needs something done")
    return Reading(tuple(notices), skipped=tuple(skipped))
