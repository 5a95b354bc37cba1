"""An EC2 instance changed its state.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-instance-state-changes.html

There are six states. A state that is none of them is refused: a tool that took any other word
for the end of the instance drained nodes on ``stop`` and on an empty string.
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
    state: Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"]


_DECODER = msgspec.json.Decoder(Envelope[Detail])


def read(event: CloudEvent) -> Reading:
    """A termination whose deadline is now, or nothing while the instance comes up.

    Who ended it is not said (a person, a scaling group, EC2), so the cause is unknown.
    Raises `MalformedEvent`.
    """
    envelope = decoding.decode(_DECODER, event.data)
    identity = ec2.identity(envelope)
    told = decoding.time(envelope.time, field="time")
    state = envelope.detail.state
    if state in ("pending", "running"):
        return Reading(
            declined=f"{identity.instance_id} is {state}: its node says for itself when it is there"
        )
    notice = Notice(
        kind=Kind.TERMINATION,
        severity=Severity.EVICT,
        cause=Cause.UNKNOWN,
        source=ec2.SOURCE,
        check="state-change",
        reason=state,
        dedup=envelope.id,
        identity=identity,
        since=told,
        deadline=told,
        evidence=f"EC2 Instance State-change Notification: {state}",
    )
    return Reading((notice,))
