"""A Capacity Block for ML ends: all instances in it are ended, from half an hour before its end.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-monitor.html (the warning comes
40 minutes before the end, and says that instances begin to be ended in 10). The document exists in
two versions with two detail types each for the warning and for the delivery; all are heard.

The event names the reservation and no instance. Which nodes are in it is said by their labels.
"""

import re
from datetime import timedelta

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity
from events.sources import ec2
from events.sources.eventbridge import Envelope

ENDED_BEFORE = timedelta(minutes=30)

_RESERVATION = re.compile(r"cr-[0-9a-f]{1,32}")


class Detail(msgspec.Struct, frozen=True, rename="kebab"):
    capacity_reservation_id: str
    end_date: str


_DECODER = msgspec.json.Decoder(Envelope[Detail])


def read(event: CloudEvent) -> Reading:
    """One interruption of every machine in the block. Raises `MalformedEvent`."""
    envelope = decoding.decode(_DECODER, event.data)
    reservation = envelope.detail.capacity_reservation_id
    if not _RESERVATION.fullmatch(reservation):
        raise MalformedEvent(
            "detail.capacity-reservation-id", f"{reservation[:80]!r} is no capacity reservation"
        )
    ends = decoding.time(envelope.detail.end_date, field="detail.end-date")
    if event.type.endswith("Delivered"):
        return Reading(declined=f"{reservation} begins: its nodes say for themselves when they do")
    notice = Notice(
        kind=Kind.INTERRUPTION,
        severity=Severity.EVICT,
        cause=Cause.PROVIDER,
        source=ec2.SOURCE,
        check="capacity-block-expiration",
        ref=reservation,
        dedup=envelope.id,
        identity=Identity(
            capacity_reservation=reservation, account=envelope.account, region=envelope.region
        ),
        since=decoding.time(envelope.time, field="time"),
        deadline=ends - ENDED_BEFORE,
        evidence=f"Capacity Block {reservation} ends at {ends:%Y-%m-%d %H:%M}Z",
    )
    return Reading((notice,))
