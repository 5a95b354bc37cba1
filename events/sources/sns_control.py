"""What an SNS topic says for itself: that a subscription is to be confirmed, or has ended.

https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html

Declined, and said so. The address in it is never fetched: whoever can POST here would choose what
we connect to. A person confirms, and reads the topic's name before doing so.
"""

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Reading, evidence

_TYPE = "aws.sns."


class Request(msgspec.Struct, frozen=True, rename="pascal"):
    type: str
    message_id: str
    topic_arn: str
    timestamp: str


_DECODER = msgspec.json.Decoder(Request)


def event_of(body: bytes) -> CloudEvent:
    """The event of a topic's request. Raises `MalformedEvent`."""
    request = decoding.decode(_DECODER, body, field="body")
    for field, text in (("MessageId", request.message_id), ("TopicArn", request.topic_arn)):
        if not text:
            raise MalformedEvent(field, "empty")
    return CloudEvent(
        id=request.message_id,
        source=request.topic_arn,
        type=_TYPE + request.type,
        time=decoding.time(request.timestamp, field="Timestamp"),
        data=body,
    )


def read(event: CloudEvent) -> Reading:
    """Nothing to do for any node. Raises `MalformedEvent`."""
    request = decoding.decode(_DECODER, event.data)
    topic = evidence(request.topic_arn)
    if request.type == "UnsubscribeConfirmation":
        return Reading(declined=f"SNS: the subscription to {topic} has ended: nothing more comes")
    return Reading(
        declined=f"SNS: {topic} asks to be confirmed, which is not done from here; if the topic "
        "is yours: aws sns confirm-subscription --topic-arn ARN --token TOKEN"
    )
