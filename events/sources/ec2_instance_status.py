"""The answer of EC2's DescribeInstanceStatus: failed status checks, and events that are scheduled.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceStatus.html

It is what stands behind the events of EC2 and AWS Health where one of them is lost. What is over
stays in the list for a week, with ``[Completed]`` or ``[Canceled]`` before its description.

A status check that is passed is a recovery, since AWS runs it all the time: whoever asks about
thousands of instances sends on those that have changed. ``initializing`` and ``insufficient-data``
say nothing, and neither does an instance that is not running (EC2's state-change events do).
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from events import decoding, documents
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity
from events.sources import ec2, ec2_scheduled
from events.sources.ec2_scheduled import Scheduled

RAW = "ec2-instance-status"
CHECK = "status-check"


class State(msgspec.Struct, frozen=True, rename="pascal"):
    name: str = ""


class Detail(msgspec.Struct, frozen=True, rename="pascal"):
    status: str = ""
    impaired_since: str | None = None


class Check(msgspec.Struct, frozen=True, rename="pascal"):
    status: str = ""
    """ok, impaired, initializing, insufficient-data, not-applicable."""
    details: list[Detail] | None = None


class Event(msgspec.Struct, frozen=True, rename="pascal"):
    code: str
    instance_event_id: str = ""
    description: str = ""
    not_before: str | None = None
    not_before_deadline: str | None = None
    """Until when whoever owns the instance may move it to."""


class Status(msgspec.Struct, frozen=True, rename="pascal"):
    instance_id: str
    instance_state: State = State(name="running")
    instance_status: Check | None = None
    system_status: Check | None = None
    attached_ebs_status: Check | None = None
    events: list[Event] | None = None


class Answer(msgspec.Struct, frozen=True, rename="pascal"):
    instance_statuses: list[msgspec.Raw]
    next_token: str | None = None


_ANSWER = msgspec.json.Decoder(Answer)
_STATUS = msgspec.json.Decoder(Status)


def from_raw(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The answer, or one page of it, as an event. Raises `MalformedEvent`."""
    decoding.decode(_ANSWER, body, field="body")
    return [documents.event_of(RAW, {}, body)]


def read(event: CloudEvent) -> Reading:
    """What is said of each instance. Raises `MalformedEvent`."""
    answer = decoding.decode(_ANSWER, event.data)
    notices: list[Notice] = []
    skipped: list[str] = []
    for index, raw in enumerate(answer.instance_statuses):
        where = f"InstanceStatuses[{index}]"
        status = decoding.decode(_STATUS, bytes(raw), field=where, within=f"{where}.")
        if not ec2.INSTANCE_ID.fullmatch(status.instance_id):
            raise MalformedEvent(f"{where}.InstanceId", f"{status.instance_id!r} is no instance ID")
        identity = Identity(instance_id=status.instance_id)
        if status.instance_state.name != "running":
            skipped.append(f"{status.instance_id} is {status.instance_state.name}: not judged")
            continue
        if found := _checks(status, identity, where):
            notices.append(found)
        for number, scheduled in enumerate(status.events or ()):
            notices.append(_scheduled(scheduled, identity, f"{where}.Events[{number}]"))
    if answer.next_token:
        skipped.append("NextToken: there are more pages, each to be sent on as well")
    if notices:
        return Reading(tuple(notices), skipped=tuple(skipped))
    return Reading(declined="; ".join(skipped[:10]) or "nothing is said of any instance")


def _checks(status: Status, identity: Identity, where: str) -> Notice | None:
    """One notice for the three checks: a fault while one fails, a recovery when all are passed."""
    by_name = {
        "system": ("SystemStatus", status.system_status, Cause.HARDWARE),
        "instance": ("InstanceStatus", status.instance_status, Cause.UNKNOWN),
        "EBS": ("AttachedEbsStatus", status.attached_ebs_status, Cause.PROVIDER),
    }
    failed = [
        name for name, (_, check, _) in by_name.items() if check and check.status == "impaired"
    ]
    if failed:
        since = [
            found
            for name in failed
            for found in _since(by_name[name][1], f"{where}.{by_name[name][0]}")
        ]
        return Notice(
            kind=Kind.FAULT,
            severity=Severity.CORDON,
            cause=by_name[failed[0]][2],
            source=ec2.SOURCE,
            check=CHECK,
            reason=", ".join(failed),
            identity=identity,
            since=min(since, default=None),
            evidence=f"DescribeInstanceStatus: impaired: {', '.join(failed)}",
        )
    said = [check.status for _, check, _ in by_name.values() if check]
    passed = "ok" in said and all(one in ("ok", "not-applicable") for one in said)
    if not passed:
        return None
    return Notice(
        kind=Kind.RECOVERY,
        severity=Severity.WATCH,
        cause=Cause.UNKNOWN,
        source=ec2.SOURCE,
        check=CHECK,
        identity=identity,
        evidence="DescribeInstanceStatus: all checks are passed",
    )


def _since(check: Check | None, where: str) -> list[datetime]:
    return [
        decoding.time(detail.impaired_since, field=f"{where}.Details[{number}].ImpairedSince")
        for number, detail in enumerate((check.details if check else None) or ())
        if detail.impaired_since
    ]


def _scheduled(event: Event, identity: Identity, where: str) -> Notice:
    decoding.name(event.code, field=f"{where}.Code", most=64)
    if event.instance_event_id:
        decoding.name(event.instance_event_id, field=f"{where}.InstanceEventId", most=128)
    starts = None
    if event.not_before:
        starts = decoding.time(event.not_before, field=f"{where}.NotBefore")
    over = ec2_scheduled.over(event.description)
    movable = None
    if event.not_before_deadline:
        movable = decoding.time(event.not_before_deadline, field=f"{where}.NotBeforeDeadline")
    told = Scheduled(
        event.code, event.instance_event_id, event.description, starts, over, movable=movable
    )
    return ec2_scheduled.notice(told, identity)
