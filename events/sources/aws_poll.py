"""What groundcrew's own poll (`functions.poll`) has learned from AWS's APIs: the same notices as
the events, of which one may have been lost.

The document has a list ``Answers``, one for each region that was asked:

    Region, Account
    InstanceStatuses       of DescribeInstanceStatus (`events.sources.ec2_instance_status`)
    SpotInstanceRequests   of DescribeSpotInstanceRequests: instances that are marked to end
    Held                   of DescribeAutoScalingGroups: instances in Terminating:Wait
    Over                   scheduled events that we know of and that AWS lists no more

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html
"""

from collections.abc import Iterator

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.documents import TAKEN
from events.errors import MalformedEvent
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity
from events.sources import autoscaling, ec2, ec2_instance_status, ec2_scheduled, ec2_spot
from events.sources.ec2_scheduled import Scheduled

TYPE = f"{TAKEN}aws-poll"
MARKED = ("marked-for-termination", "marked-for-stop")
"""Status codes of a spot request whose instance goes within two minutes."""
HELD = "Terminating:Wait"


class SpotStatus(msgspec.Struct, frozen=True, rename="pascal"):
    code: str
    update_time: str


class SpotRequest(msgspec.Struct, frozen=True, rename="pascal"):
    instance_id: str
    spot_instance_request_id: str
    status: SpotStatus


class Held(msgspec.Struct, frozen=True, rename="pascal"):
    instance_id: str
    auto_scaling_group_name: str


class Over(msgspec.Struct, frozen=True, rename="pascal"):
    instance_id: str
    code: str
    instance_event_id: str


class Answer(msgspec.Struct, frozen=True, rename="pascal"):
    region: str
    account: str = ""
    instance_statuses: list[msgspec.Raw] = []
    spot_instance_requests: list[SpotRequest] = []
    held: list[Held] = []
    over: list[Over] = []


class Document(msgspec.Struct, frozen=True, rename="pascal"):
    answers: list[Answer]


_DOCUMENT = msgspec.json.Decoder(Document)


def read(event: CloudEvent) -> Reading:
    """Raises `MalformedEvent`."""
    document = decoding.decode(_DOCUMENT, event.data)
    notices = tuple(
        msgspec.structs.replace(notice, identity=_at(notice.identity, answer))
        for number, answer in enumerate(document.answers)
        for notice in _of(answer, f"Answers[{number}]")
    )
    if not notices:
        return Reading(declined="AWS says nothing new of any machine")
    return Reading(notices)


def _at(identity: Identity, answer: Answer) -> Identity:
    return msgspec.structs.replace(identity, region=answer.region, account=answer.account)


def _of(answer: Answer, where: str) -> Iterator[Notice]:
    if answer.instance_statuses:
        body = msgspec.json.encode({"InstanceStatuses": answer.instance_statuses})
        told = CloudEvent(id="", source="", type="", data=body)
        yield from ec2_instance_status.read(told).notices
    for number, request in enumerate(answer.spot_instance_requests):
        yield _spot(request, f"{where}.SpotInstanceRequests[{number}]")
    for number, held in enumerate(answer.held):
        yield _held(held, f"{where}.Held[{number}]")
    for number, over in enumerate(answer.over):
        identity = _instance(over.instance_id, f"{where}.Over[{number}]")
        told_over = Scheduled(over.code, over.instance_event_id, "no longer listed", None, "gone")
        yield ec2_scheduled.notice(told_over, identity)


def _spot(request: SpotRequest, where: str) -> Notice:
    code = request.status.code
    if code not in MARKED:
        raise MalformedEvent(f"{where}.Status.Code", f"{code[:40]!r} is not of {MARKED}")
    marked = decoding.time(request.status.update_time, field=f"{where}.Status.UpdateTime")
    action = code.removeprefix("marked-for-")
    return Notice(
        kind=Kind.INTERRUPTION,
        severity=Severity.EVICT,
        cause=Cause.PROVIDER,
        source=ec2.SOURCE,
        check="spot-interruption",
        reason="terminate" if action == "termination" else action,
        dedup=f"{request.spot_instance_request_id}/{code}",
        identity=_instance(request.instance_id, where),
        since=marked,
        deadline=marked + ec2_spot.NOTICE_TIME,
        evidence=f"DescribeSpotInstanceRequests: {code}",
    )


def _held(held: Held, where: str) -> Notice:
    group = held.auto_scaling_group_name
    return Notice(
        kind=Kind.TERMINATION,
        severity=Severity.EVICT,
        cause=Cause.PROVIDER,
        source=autoscaling.SOURCE,
        check=autoscaling.TERMINATION,
        identity=_instance(held.instance_id, where),
        evidence=f"DescribeAutoScalingGroups: {HELD} in group {group[:80]}",
    )


def _instance(instance_id: str, where: str) -> Identity:
    if not ec2.INSTANCE_ID.fullmatch(instance_id):
        raise MalformedEvent(f"{where}.InstanceId", f"{instance_id[:40]!r} is no instance ID")
    return Identity(instance_id=instance_id)
