"""EC2 takes back an instance that runs in interruptible reserved capacity, two minutes ahead.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitor-interruptible-cr.html

The document exists in two versions with two detail types; both are heard. Its ``resources`` is a
plain string where every other event has a list: it is not read.
"""

from typing import Literal

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.notice import Cause, Kind, Notice, Reading, Severity
from events.sources import ec2
from events.sources.eventbridge import Envelope


class Detail(msgspec.Struct, frozen=True, rename="kebab"):
    instance_id: str
    instance_action: Literal["terminate", "stop", "hibernate"]
    instance_termination_time: str


_DECODER = msgspec.json.Decoder(Envelope[Detail])


def read(event: CloudEvent) -> Reading:
    """One interruption. Raises `MalformedEvent`."""
    envelope = decoding.decode(_DECODER, event.data)
    detail = envelope.detail
    notice = Notice(
        kind=Kind.INTERRUPTION,
        severity=Severity.EVICT,
        cause=Cause.PROVIDER,
        source=ec2.SOURCE,
        check="capacity-reservation-interruption",
        reason=detail.instance_action,
        dedup=envelope.id,
        identity=ec2.identity(envelope),
        since=decoding.time(envelope.time, field="time"),
        deadline=decoding.time(
            detail.instance_termination_time, field="detail.instance-termination-time"
        ),
        evidence=f"EC2 takes reserved capacity back: {detail.instance_action}",
    )
    return Reading((notice,))
