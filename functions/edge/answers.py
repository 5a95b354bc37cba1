"""What a call answers with: at most one CloudEvent, whatever the number of nodes.

The answer goes back to the broker, which offers it to the functions that wait for it. It is a
hint like every event: what it does not say, the resync of the next function finds by label.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from events.cloudevent import CloudEvent
from functions.edge.context import Answer

NODES_NAMED = 50
"""More nodes than this are told as a count and these first ones (an event stays far below the
64 KiB that every broker takes)."""
_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


class AnswerMatchesTrigger(Exception):
    """A function answered with the type of the event that woke it: the broker would hand the
    answer to it again, and again. A mistake in the function."""


def compose(
    function: str, answered: Sequence[tuple[CloudEvent, Answer]], now: datetime
) -> CloudEvent | None:
    """The one event that answers a request, from the answers to the events in it.

    Answers of the first type are merged: their ``nodes`` are joined (a count and a sample above
    `NODES_NAMED`), and of their other fields the last one said holds. The ID follows from what
    is answered, so that an event delivered again is answered with the same ID again. Answers of
    other types are left to the resync: a binary response holds one event.
    """
    if not answered:
        return None
    kind = answered[0][1].type
    merged: dict[str, Any] = {}
    nodes: list[Any] = []
    causes = []
    for event, answer in answered:
        if answer.type == event.type:
            raise AnswerMatchesTrigger(f"{function} answers {event.type} with {answer.type}")
        if answer.type != kind:
            continue
        causes.append((event.source, event.id))
        nodes.extend(answer.data.get("nodes", ()))
        merged |= answer.data
    if "nodes" in merged:
        merged["nodes"] = nodes[:NODES_NAMED]
        if len(nodes) > NODES_NAMED:
            merged["count"] = len(nodes)
    return CloudEvent(
        id=hashlib.sha256(msgspec.json.encode([kind, *causes])).hexdigest()[:32],
        source=f"/groundcrew/{function}",
        type=kind,
        time=now.astimezone(UTC),
        extensions={"causationid": causes[0][1]},
        data=msgspec.json.encode(merged),
    )


def to_http(event: CloudEvent) -> tuple[Mapping[str, str], bytes]:
    """``event`` as headers and body in binary mode, written by the cloudevents package."""
    from cloudevents.conversion import to_binary
    from cloudevents.http import CloudEvent as Package

    attributes = {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "datacontenttype": event.datacontenttype,
        **event.extensions,
    }
    if event.subject:
        attributes["subject"] = event.subject
    if event.time:
        attributes["time"] = event.time.isoformat().replace("+00:00", "Z")
    headers, body = to_binary(Package(attributes, event.data), data_marshaller=lambda data: data)
    # The package writes values as they are; the HTTP binding wants them percent-encoded, without
    # which an ID from outside could carry a line break into our headers.
    return {
        name: quote(value, safe=_PRINTABLE) if name.startswith("ce-") else value
        for name, value in headers.items()
    }, body
