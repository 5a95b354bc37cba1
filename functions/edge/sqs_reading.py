"""A message of a queue, read: the events in it, how urgent they are, and whose they are."""

import logging
from typing import Any

from events import envelopes, registry
from events.cloudevent import CloudEvent
from events.errors import EventError
from events.notice import Kind, Notice, Severity
from functions.edge import log
from functions.edge.held import NOTHING, NOTICES, URGENT, Held
from functions.gateways.aws.queue import Message

_ENDING = (Kind.INTERRUPTION, Kind.TERMINATION)


def read(message: Message, *, keep_body: bool = False) -> Held:
    """``message`` with the events in it, and how urgent they are. Nothing is raised: what cannot
    be read is said in the log, by the ID of the message."""
    events: list[CloudEvent] = []
    trouble = ""
    notices: list[Notice] = []
    # JSON can say half of a character; what reads on refuses the question mark in its place.
    body = message.body.encode(errors="replace")
    try:
        parts = envelopes.parts(body)
    except EventError as problem:
        parts, trouble = [], str(problem)
    for part in parts:
        trouble = str(part.refused) if part.refused else trouble
        for event in part.events:
            try:
                notices += registry.read(event).notices
            except EventError as problem:
                trouble = str(problem)
                continue
            events.append(event)
    if trouble:
        refused(message.message_id, trouble, receives=message.receives)
    ending = [n for n in notices if n.kind in _ENDING and n.severity > Severity.WATCH]
    return Held(
        message_id=message.message_id,
        handle=message.handle,
        events=tuple(events),
        rank=URGENT if ending else NOTICES if notices else NOTHING,
        deadline=min((n.deadline.timestamp() for n in ending if n.deadline), default=float("inf")),
        machines=frozenset().union(*(notice.identity.names for notice in notices)),
        refused=bool(trouble),
        body=message.body if keep_body else "",
        forwarded=message.forwarded,
        receives=message.receives,
        size=len(body),
    )


def refused(message_id: str, why: str, **fields: Any) -> None:
    """Say in the log that a message cannot be read, by its ID: its body may hold anything."""
    log.write(
        logging.WARNING,
        f"cannot be read, and is left to the queue's dead-letter policy: {why}",
        message_id=message_id,
        **fields,
    )
