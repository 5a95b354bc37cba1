"""EC2 takes a spot instance back in two minutes.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html

``instance-action`` is terminate, stop or hibernate; for the node they are one: it is gone.
"""

from datetime import timedelta
from typing import Literal

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.notice import Cause, Kind, Notice, Reading, Severity
from events.sources import ec2
from events.sources.eventbridge import Envelope

NOTICE_TIME = timedelta(minutes=2)


class Detail(msgspec.Struct, frozen=True, rename="kebab"):
    instance_id: str
    instance_action: Literal["terminate", "stop", "hibernate"]


_DECODER = msgspec.json.Decoder(Envelope[Detail])


def read(event: CloudEvent) -> Reading:
    """One interruption. Raises `MalformedEvent`, for another ``instance-action`` too."""
    envelope = decoding.decode(_DECODER, event.data)
    told = decoding.time(envelope.time, field="time")
    action = envelope.detail.instance_action
    notice = Notice(
        kind=Kind.INTERRUPTION,
        severity=Severity.EVICT,
        cause=Cause.PROVIDER,
        source=ec2.SOURCE,
        check="spot-interruption",
        reason=action,
        dedup=envelope.id,
        identity=ec2.identity(envelope),
        since=told,
        deadline=told + NOTICE_TIME,
        evidence=f"EC2 Spot Instance Interruption Warning: {action} in two minutes",
    )
    return Reading((notice,))
