"""What the events of EC2 itself have in common.

The machine is ``detail.instance-id``, never ``resources[0]``: in a spot interruption that ARN
has no account and a zone where the region belongs (``arn:aws:ec2:us-east-1a:instance/...``).
"""

import re
from typing import Any

from events.errors import MalformedEvent
from events.notice import Identity
from events.sources.eventbridge import Envelope

SOURCE = "aws.ec2"

INSTANCE_ID = re.compile(r"i-[0-9a-f]+")


def identity(envelope: Envelope[Any]) -> Identity:
    """The instance that the event is about. Raises `MalformedEvent`."""
    instance_id = envelope.detail.instance_id
    if not INSTANCE_ID.fullmatch(instance_id):
        raise MalformedEvent("detail.instance-id", f"{instance_id!r} is no instance ID")
    return Identity(instance_id=instance_id, account=envelope.account, region=envelope.region)
