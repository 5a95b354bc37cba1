"""EC2 reckons that a spot instance is more likely than others to be interrupted.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html

An advice without a time, and often nothing follows: it is only watched unless the policy says
otherwise (rule on source ``aws.ec2``, check ``rebalance-recommendation``).
"""

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.notice import Cause, Kind, Notice, Reading, Severity
from events.sources import ec2
from events.sources.eventbridge import Envelope


class Detail(msgspec.Struct, frozen=True, rename="kebab"):
    instance_id: str


_DECODER = msgspec.json.Decoder(Envelope[Detail])


def read(event: CloudEvent) -> Reading:
    """One interruption of severity watch, without a deadline. Raises `MalformedEvent`."""
    envelope = decoding.decode(_DECODER, event.data)
    notice = Notice(
        kind=Kind.INTERRUPTION,
        severity=Severity.WATCH,
        cause=Cause.PROVIDER,
        source=ec2.SOURCE,
        check="rebalance-recommendation",
        dedup=envelope.id,
        identity=ec2.identity(envelope),
        since=decoding.time(envelope.time, field="time"),
        evidence="EC2 Instance Rebalance Recommendation: at elevated risk of interruption",
    )
    return Reading((notice,))
