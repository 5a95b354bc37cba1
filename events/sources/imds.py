"""What an EC2 instance hears from its own metadata service, posted on by whoever asked it.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html

    spot/instance-action                 {"action", "time"}
    events/recommendations/rebalance     {"noticeTime"}
    events/maintenance/scheduled         [{"Code", "EventId", "NotBefore", "State", ...}]
    events/maintenance/history           the same, of what is over

None of them names the instance: the sender does (`events.documents`). Each answers 404 while
there is nothing to say, which is nothing to post. ``NotAfter`` is absent for some codes, and not
needed. Checks are those of the same news by EventBridge, so that it is one incident.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from events import decoding, documents
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity
from events.sources import ec2, ec2_scheduled
from events.sources.ec2_scheduled import Scheduled

RAW = "imds"


class Item(msgspec.Struct, frozen=True, rename="pascal"):
    """One scheduled event."""

    code: str
    state: str
    """active, canceled, completed."""
    event_id: str = ""
    description: str = ""
    not_before: str | None = None


class News(msgspec.Struct, frozen=True, rename="camel"):
    """A spot instance's action, or a rebalance recommendation."""

    action: Literal["terminate", "stop", "hibernate"] | None = None
    time: str | None = None
    notice_time: str | None = None


_NEWS = msgspec.json.Decoder(News)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_ITEM = msgspec.json.Decoder(Item)
_OVER = ("canceled", "completed")


def from_raw(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The document as an event of the machine that the headers name. Raises `MalformedEvent`."""
    event = documents.event_of(RAW, headers, body)
    documents.needed_machine_of(event)
    return [event]


def read(event: CloudEvent) -> Reading:
    """What the document says of the machine that the sender named. Raises `MalformedEvent`."""
    machine = documents.needed_machine_of(event)
    if event.data.lstrip()[:1] == b"[":
        return _scheduled(event.data, machine)
    news = decoding.decode(_NEWS, event.data)
    who = machine.node or machine.instance_id or machine.provider_id
    if news.action is not None:
        if not news.time:
            raise MalformedEvent("time", "missing or empty: when the instance goes")
        until = decoding.time(news.time, field="time")
        notice = Notice(
            kind=Kind.INTERRUPTION,
            severity=Severity.EVICT,
            cause=Cause.PROVIDER,
            source=ec2.SOURCE,
            check="spot-interruption",
            reason=news.action,
            dedup=f"{who}/{news.action}/{news.time}",
            identity=machine,
            deadline=until,
            evidence=f"spot/instance-action: {news.action}",
        )
    elif news.notice_time:
        notice = Notice(
            kind=Kind.INTERRUPTION,
            severity=Severity.WATCH,
            cause=Cause.PROVIDER,
            source=ec2.SOURCE,
            check="rebalance-recommendation",
            dedup=f"{who}/{news.notice_time}",
            identity=machine,
            since=decoding.time(news.notice_time, field="noticeTime"),
            evidence="rebalance recommendation: at elevated risk of interruption",
        )
    else:
        raise MalformedEvent(
            "body", "no action, no noticeTime and no list of events: not of those that are read"
        )
    return Reading((notice,))


def _scheduled(data: bytes, machine: Identity) -> Reading:
    listed = decoding.decode(_LIST, data)
    notices = []
    for index, raw in enumerate(listed):
        where = f"events[{index}]"
        item = decoding.decode(_ITEM, bytes(raw), field=where, within=f"{where}.")
        decoding.name(item.code, field=f"{where}.Code", most=64)
        if item.event_id:
            decoding.name(item.event_id, field=f"{where}.EventId", most=128)
        starts = None
        if item.not_before:
            starts = decoding.gmt(item.not_before, field=f"{where}.NotBefore")
        over = item.state if item.state in _OVER else ""
        known = over or item.state == "active"
        doubt = "" if known else f"its state {item.state[:20]!r} is not known"
        told = Scheduled(item.code, item.event_id, item.description, starts, over, doubt)
        notices.append(ec2_scheduled.notice(told, machine))
    if not notices:
        return Reading(declined="no events are scheduled")
    return Reading(tuple(notices))
