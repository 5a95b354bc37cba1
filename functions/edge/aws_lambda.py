"""What AWS Lambda hands to a function, and what it is to be answered.

    from SQS          {"Records": [...]}, in batches. Answered with the messages that are to come
                      again (``batchItemFailures``, ReportBatchItemFailures); the others are deleted
    from EventBridge  the event itself, or one of its schedule, which is a tick. An invocation that
                      raises is made again by Lambda, twice, and then goes to its dead-letter queue

https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html

A message that cannot be read is answered as one that is to come again: the queue's dead-letter
policy has it after some receptions. It must not be answered as done, and not hold up the others.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from events import envelopes
from events.errors import EventError
from functions.edge.sqs_options import Act
from functions.edge.sqs_reading import refused

SCHEDULED = "Scheduled Event"


class NotHandled(Exception):
    """The event was not handled: Lambda is to invoke the function with it again."""


def handle(event: Mapping[str, Any], act: Act, tick: Callable[[], None]) -> dict[str, Any]:
    """Have what is in ``event`` handled. Raises `NotHandled` for what is no batch of SQS.

    Lambda hands over what it has decoded; it is read from its bytes as everywhere else.
    """
    if event.get("detail-type") == SCHEDULED and event.get("source") == "aws.events":
        tick()
        return {}
    body = msgspec.json.encode(event)
    if isinstance(event.get("Records"), list):
        failed = _batch(body, act)
        if "" in failed:
            raise NotHandled("a record without the ID of a message: it is not from SQS")
        return {"batchItemFailures": [{"itemIdentifier": one} for one in failed]}
    try:
        events = envelopes.from_raw({}, body)
    except EventError as problem:
        raise NotHandled(f"cannot be read: {problem}") from problem
    for result in act(events):
        if not result.done:
            raise NotHandled(f"{result.status}: {result.problem}")
    return {}


def _batch(body: bytes, act: Act) -> list[str]:
    """IDs of the messages that are to come again."""
    parts = envelopes.parts(body)
    failed = []
    for part in parts:
        if part.refused:
            refused(part.message_id, str(part.refused))
            failed.append(part.message_id)
    readable = [part for part in parts if not part.refused]
    results = act([event for part in readable for event in part.events])
    if any(result.status in (400, 500) for result in results) and len(readable) > 1:
        # Which of them it was is not said: each by itself.
        results = [result for part in readable for result in act(part.events)]
    following = iter(results)
    for part in readable:
        mine = [next(following) for _ in part.events]
        if not all(result.done for result in mine):
            failed.append(part.message_id)
    return failed
