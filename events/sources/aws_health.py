"""AWS Health: what AWS says about machines of ours, often two weeks ahead.

https://docs.aws.amazon.com/health/latest/ug/aws-health-events-eventbridge-schema.html

- Delivered at least once; a large event comes in pages, in any order, and each page speaks for
  its own entities. One event can name hundreds of instances.
- The same event comes again from a backup region and, in an organisation view, to the
  administrator's account. ``region`` and ``account`` of the envelope say where it was delivered,
  so ``detail.eventRegion`` and ``detail.affectedAccount`` say whose machine it is. The key
  of the message is (communicationId, account): repeats are recognised by it. ``eventArn`` is not
  unique to an account; with the event type code it names the incident across its updates.
- ``page``, ``totalPages`` and ``backupEvent`` are strings.
- Times are written ``Thu, 3 Sep 2026 13:19:03 GMT``; AWS's own samples carry wrong weekdays.

What a code asks for is ``aws_health.csv``. Two fields are younger than the format; without them
nothing is guessed. No ``statusCode``: the event may be the one that says that all is over, so
nothing more than watching follows. No ``startTime``: it is not known when, so the same.
"""

import re
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from events import decoding
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Identity, Kind, Notice, Reading, Severity, evidence
from events.sources.aws_health_codes import meaning
from events.sources.ec2 import INSTANCE_ID
from events.sources.eventbridge import Envelope

SOURCE = "aws.health"


class Entity(msgspec.Struct, frozen=True, rename="camel"):
    entity_value: str
    status: str | None = None
    """IMPAIRED, UNIMPAIRED, PENDING, RESOLVED, UNKNOWN; absent in many events."""


class Detail(msgspec.Struct, frozen=True, rename="camel"):
    event_arn: str
    service: str
    event_type_code: str
    event_type_category: str
    status_code: Literal["open", "closed", "upcoming"] | None = None
    communication_id: str | None = None
    start_time: str | None = None
    event_region: str | None = None
    affected_account: str | None = None
    affected_entities: list[Entity] | None = None
    page: str | None = None
    total_pages: str | None = None
    backup_event: Literal["true", "false"] | None = None


_DECODER = msgspec.json.Decoder(Envelope[Detail])
_OVER = ("RESOLVED", "UNIMPAIRED")


def read(event: CloudEvent) -> Reading:
    """A notice for each EC2 instance that is named. Raises `MalformedEvent`."""
    envelope = decoding.decode(_DECODER, event.data)
    detail = envelope.detail
    _check(detail)
    told = decoding.time(envelope.time, field="time")
    start = decoding.gmt(detail.start_time, field="detail.startTime") if detail.start_time else None
    if detail.service != "EC2":
        return Reading(declined=f"about {detail.service}, not about EC2 instances")
    if not detail.affected_entities:
        return Reading(declined=f"{detail.event_type_code} names no machine: nothing to do for one")
    owner = _owner(envelope)
    says = _says(detail, told, start, owner.account, envelope.id)
    notices, skipped = [], []
    for entity in detail.affected_entities:
        identity = _identity(entity.entity_value, owner)
        if identity is None:
            skipped.append(f"{entity.entity_value or 'an empty entity'}: no EC2 instance")
        elif detail.status_code == "closed":
            notices.append(says.over(identity, "closed"))
        elif entity.status in _OVER:
            notices.append(says.over(identity, entity.status))
        else:
            notices.append(says.holds(identity))
    if not notices:
        return Reading(declined="; ".join(skipped[:10]))
    return Reading(tuple(notices), skipped=tuple(skipped))


_ARN = re.compile(r"arn:aws[a-z-]*:ec2:([^:]*):(\d*):instance/(.+)")
_CODE = re.compile(r"[A-Za-z0-9_-]+")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")
"""A region. A zone, which ends in a letter, is none."""


class _Says(NamedTuple):
    """What the event says about any machine that it names."""

    holding: Notice
    ended: Notice

    def holds(self, identity: Identity) -> Notice:
        return msgspec.structs.replace(self.holding, identity=identity)

    def over(self, identity: Identity, status: str | None) -> Notice:
        return msgspec.structs.replace(self.ended, identity=identity, reason=status or "")


def _says(
    detail: Detail, told: datetime, start: datetime | None, account: str, event_id: str
) -> _Says:
    means = meaning(detail.event_type_code, detail.event_type_category)
    severity, unsaid = means.severity, ""
    planned = means.kind is Kind.MAINTENANCE
    if detail.status_code is None:
        severity, unsaid = Severity.WATCH, "; the event does not say whether it is over"
    elif planned and start is None:
        severity, unsaid = Severity.WATCH, "; the event does not say when"
    many = detail.total_pages not in (None, "1")
    pages = f", page {detail.page} of {detail.total_pages}" if many else ""
    summary = f"{detail.event_type_code} {detail.status_code or '(no status)'}"
    begins = f" at {detail.start_time}" if detail.start_time else ""
    holding = Notice(
        kind=means.kind,
        severity=severity,
        cause=means.cause,
        source=SOURCE,
        check=detail.event_type_code,
        reason=detail.status_code or "",
        ref=detail.event_arn,
        dedup=f"{detail.communication_id or event_id}/{account}",
        identity=Identity(),
        since=told if planned or start is None else min(start, told),
        deadline=start if planned else None,
        evidence=evidence(f"{summary}{begins}{pages}: {means.why}{unsaid}"),
    )
    ended = msgspec.structs.replace(
        holding,
        kind=Kind.RECOVERY,
        severity=Severity.WATCH,
        since=told,
        deadline=None,
        evidence=evidence(f"{summary}: over for this machine{pages}"),
    )
    return _Says(holding, ended)


def _check(detail: Detail) -> None:
    """What types cannot say."""
    for name in ("event_arn", "service", "event_type_code", "event_type_category"):
        first, *rest = name.split("_")
        field = "detail." + first + "".join(map(str.title, rest))
        decoding.name(getattr(detail, name), field=field, most=512)
    if not _CODE.fullmatch(detail.event_type_code):
        raise MalformedEvent("detail.eventTypeCode", f"{detail.event_type_code!r} is no such code")
    for field, text in (("page", detail.page), ("totalPages", detail.total_pages)):
        if text is not None and not re.fullmatch(r"[1-9]\d*", text):
            raise MalformedEvent(f"detail.{field}", f"{text!r} is no number of a page")
    if detail.page and detail.total_pages and int(detail.page) > int(detail.total_pages):
        raise MalformedEvent("detail.page", f"{detail.page} of {detail.total_pages} pages")


class _Owner(NamedTuple):
    account: str
    region: str


def _owner(envelope: Envelope[Detail]) -> _Owner:
    """Whose machines these are and where, unless an entity says so itself.

    Older events have no eventRegion; then it is the region in ``eventArn``, and the one of the
    delivery only where that is not a backup's.
    """
    detail = envelope.detail
    in_arn = (detail.event_arn.split(":") + [""] * 4)[3]
    delivered = envelope.region if detail.backup_event != "true" else ""
    regions = (detail.event_region or "", in_arn, delivered)
    return _Owner(
        account=detail.affected_account or envelope.account,
        region=next(filter(_REGION.fullmatch, regions), ""),
    )


def _identity(value: str, owner: _Owner) -> Identity | None:
    """The instance in ``value``: an ID, or an ARN, whose account and region come first."""
    account, region = owner
    if match := _ARN.fullmatch(value):
        in_region, in_account, value = match.groups()
        account = in_account or account
        region = in_region if _REGION.fullmatch(in_region) else region
    if not INSTANCE_ID.fullmatch(value):
        return None
    return Identity(instance_id=value, account=account, region=region)
