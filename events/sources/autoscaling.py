"""EC2 Auto Scaling holds an instance at a lifecycle hook, before it goes or before it serves.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-event-reference.html

The hook tells by EventBridge, or straight into a queue or topic, in a message of its own form that
says the same. A hook that tells both ways names one incident, since its token is the same.

- ``Origin`` and ``Destination`` are EC2, AutoScalingGroup or WarmPool. An instance that goes to
  the warm pool is stopped or put to sleep, and comes back: what runs on it must move, and the
  machine has not ended. When it leaves the pool again, that is over.
- When the hook runs out is a setting of the hook; the message does not carry it, so there is no
  deadline. What must be named to complete the hook is carried in ``ref`` (`lifecycle_of`).
- A hook that is set up sends a test notification, which is acknowledged and nothing else.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity, evidence
from events.sources.ec2 import INSTANCE_ID
from events.sources.eventbridge import Envelope

SOURCE = "aws.autoscaling"
SERVICE = "AWS Auto Scaling"
TERMINATION = "lifecycle-termination"
TO_WARM_POOL = "lifecycle-to-warm-pool"
LAUNCH = "lifecycle-launch"

TEST = "autoscaling:TEST_NOTIFICATION"
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
Transition = Literal["autoscaling:EC2_INSTANCE_TERMINATING", "autoscaling:EC2_INSTANCE_LAUNCHING"]


class Lifecycle(NamedTuple):
    """What names a lifecycle action to Auto Scaling (CompleteLifecycleAction and heartbeats)."""

    token: str
    hook: str
    group: str


class Detail(msgspec.Struct, frozen=True):
    """Both forms have these."""

    token: str = msgspec.field(name="LifecycleActionToken")
    group: str = msgspec.field(name="AutoScalingGroupName")
    hook: str = msgspec.field(name="LifecycleHookName")
    instance_id: str = msgspec.field(name="EC2InstanceId")
    transition: Transition = msgspec.field(name="LifecycleTransition")
    origin: str | None = msgspec.field(default=None, name="Origin")
    destination: str | None = msgspec.field(default=None, name="Destination")


class Message(msgspec.Struct, frozen=True, rename="pascal"):
    """What is read of Auto Scaling's own form before its kind is known."""

    service: str
    account_id: str
    time: str
    request_id: str = ""
    event: str = ""
    lifecycle_transition: str = ""


_ENVELOPE = msgspec.json.Decoder(Envelope[Detail])
_DETAIL = msgspec.json.Decoder(Detail)
_MESSAGE = msgspec.json.Decoder(Message)
_DIRECT = "aws.autoscaling.autoscaling:"


def event_of(body: bytes) -> CloudEvent:
    """The event of a message in Auto Scaling's own form. Raises `MalformedEvent`."""
    message = decoding.decode(_MESSAGE, body, field="body")
    if message.service != SERVICE:
        raise MalformedEvent("Service", f"{message.service!r} is not {SERVICE!r}")
    said = message.lifecycle_transition or message.event
    if not said.startswith("autoscaling:"):
        raise MalformedEvent("LifecycleTransition", f"{said!r}: neither this nor Event says what")
    if not message.request_id:
        raise MalformedEvent("RequestId", "missing or empty")
    return CloudEvent(
        id=message.request_id,
        source=f"/aws/{message.account_id}/{SOURCE}",
        type=f"{SOURCE}.{said}",
        time=decoding.time(message.time, field="Time"),
        data=body,
    )


def read(event: CloudEvent) -> Reading:
    """What a lifecycle action says about its instance. Raises `MalformedEvent`."""
    if not event.type.startswith(_DIRECT):
        envelope = decoding.decode(_ENVELOPE, event.data)
        identity = Identity(account=envelope.account, region=envelope.region)
        return _reading(envelope.detail, identity, envelope.time, "detail.")
    message = decoding.decode(_MESSAGE, event.data)
    if message.lifecycle_transition:
        detail = decoding.decode(_DETAIL, event.data)
        return _reading(detail, Identity(account=message.account_id), message.time, "")
    if message.event == TEST:
        return Reading(declined="Auto Scaling tries out a hook: a test notification")
    return Reading(declined=f"Auto Scaling tells of what it has done: {evidence(message.event)}")


def lifecycle_of(ref: str) -> Lifecycle | None:
    """The lifecycle action that the ``ref`` of one of our notices names; None for another's."""
    # The token and the hook hold no colon, and neither does the name of a group.
    parts = ref.split(":")
    return Lifecycle(*parts) if len(parts) == 3 and all(parts) else None


_TOKEN = re.compile(r"[A-Za-z0-9-]{1,64}")
_HOOK = re.compile(r"[A-Za-z0-9_/-]{1,255}")
_GROUP = re.compile(r"[^:]{1,255}")


def _reading(detail: Detail, whose: Identity, time: str, within: str) -> Reading:
    for name, text, form in (
        ("EC2InstanceId", detail.instance_id, INSTANCE_ID),
        ("LifecycleActionToken", detail.token, _TOKEN),
        ("LifecycleHookName", detail.hook, _HOOK),
        ("AutoScalingGroupName", detail.group, _GROUP),
    ):
        if not (form.fullmatch(text) and text.isprintable()):
            raise MalformedEvent(within + name, f"{text[:80]!r} is not of its form")
    told = decoding.time(time, field="time" if within else "Time")
    way = f" from {detail.origin} to {detail.destination}" if detail.destination else ""
    notices = []
    for kind, severity, check, says in _meanings(detail):
        notice = Notice(
            kind=kind,
            severity=severity,
            cause=Cause.PROVIDER,
            source=SOURCE,
            check=check,
            reason=evidence(detail.destination or ""),
            # A machine that left the warm pool is not in it, whatever hook put it there.
            ref="" if kind is Kind.RECOVERY else f"{detail.token}:{detail.hook}:{detail.group}",
            dedup=f"{detail.token}/{detail.hook}",
            identity=msgspec.structs.replace(whose, instance_id=detail.instance_id),
            since=told,
            evidence=evidence(f"hook {detail.hook} of group {detail.group}{way}: {says}"),
        )
        notices.append(notice)
    return Reading(tuple(notices))


def _meanings(detail: Detail) -> Iterator[tuple[Kind, Severity, str, str]]:
    held = "held until the hook is completed"
    if detail.transition == TERMINATING:
        if detail.destination == "WarmPool":
            yield Kind.INTERRUPTION, Severity.EVICT, TO_WARM_POOL, f"{held}; put aside, not ended"
        else:
            yield Kind.TERMINATION, Severity.EVICT, TERMINATION, held
        return
    yield Kind.INFORMATIONAL, Severity.WATCH, LAUNCH, held
    if detail.origin == "WarmPool" and detail.destination == "AutoScalingGroup":
        yield Kind.RECOVERY, Severity.WATCH, TO_WARM_POOL, "back from the warm pool"
