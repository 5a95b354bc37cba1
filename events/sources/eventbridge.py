"""The envelope in which Amazon EventBridge delivers every event.

https://docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html

Becomes a CloudEvent as follows, so that Triggers can filter on it:

    id      the event's own ``id``, kept by EventBridge across its deliveries
    source  /aws/<account>/<region>/<source>, e.g. /aws/111122223333/us-east-1/aws.ec2
    type    <source>.<detail-type>, e.g. aws.ec2.EC2 Spot Instance Interruption Warning
    time    ``time``
    data    the whole envelope

``subject`` stays empty: ``resources`` is absent in some events, and in a spot interruption its
ARN has no account and a zone where the region belongs.
"""

from typing import Generic, TypeVar

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent

D = TypeVar("D")


class Envelope(msgspec.Struct, Generic[D], frozen=True):
    """What a source reads of the envelope, with the ``detail`` that is its own."""

    id: str
    detail: D
    time: str
    region: str
    """The region in which the event was delivered: not always the one that it is about."""
    account: str = ""
    """The account that received the event: not always the one that it is about. Emulations of
    EventBridge leave it out."""


class _Body(msgspec.Struct, frozen=True):
    id: str = ""
    detail_type: str = msgspec.field(default="", name="detail-type")
    source: str = ""
    account: str = ""
    region: str = ""
    time: str = ""
    detail: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_BODY = msgspec.json.Decoder(_Body)


def event_of(body: bytes) -> CloudEvent:
    """The event in ``body``. Raises `MalformedEvent` with the field of the envelope."""
    found = decoding.decode(_BODY, body, field="body")
    for field in ("id", "source", "detail-type", "region", "time"):
        if not getattr(found, field.replace("-", "_")):
            raise MalformedEvent(field, "missing or empty: an EventBridge event has it")
    if found.detail is msgspec.UNSET:
        raise MalformedEvent("detail", "missing: an EventBridge event has it")
    return CloudEvent(
        id=found.id,
        source=f"/aws/{found.account}/{found.region}/{found.source}",
        type=f"{found.source}.{found.detail_type}",
        time=decoding.time(found.time, field="time"),
        data=body,
    )
