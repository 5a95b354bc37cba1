"""Events that EC2 has scheduled for an instance, as its metadata and DescribeInstanceStatus list
them. What a code asks for is `ec2_scheduled.csv`, the first line that matches.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-instances-status-check_sched.html

Both ways name the event by the same ID, so that it is one incident whoever tells of it. AWS
Health tells of it under its own name (``aws.health``), often weeks ahead.
"""

import csv
import fnmatch
import functools
import re
from datetime import UTC, datetime
from importlib import resources
from typing import NamedTuple

from events.notice import Cause, Identity, Kind, Notice, Severity, evidence
from events.sources import ec2


class Scheduled(NamedTuple):
    code: str
    event_id: str
    description: str
    starts: datetime | None
    over: str
    """How it ended (``completed``, ``canceled``); empty while it is to come."""
    doubt: str = ""
    """What about it is not understood."""
    movable: datetime | None = None
    """Until when it can be moved to (ModifyInstanceEventStartTime); None where it cannot."""


def notice(event: Scheduled, identity: Identity) -> Notice:
    """A maintenance, or the recovery when it is over."""
    severity, why = _meaning(event.code, event.description.lower())
    said = f"{event.code}: {event.description}"
    if event.over:
        kind, severity, why = Kind.RECOVERY, Severity.WATCH, event.over
    else:
        kind = Kind.MAINTENANCE
        doubt = event.doubt or ("it does not say when" if event.starts is None else "")
        if doubt:
            severity, why = Severity.WATCH, f"{why}; {doubt}"
        if event.movable:
            why += (
                f"; can be moved, to {event.movable.astimezone(UTC):%Y-%m-%d %H:%MZ} at the latest"
            )
    return Notice(
        kind=kind,
        severity=severity,
        cause=Cause.PROVIDER,
        source=ec2.SOURCE,
        check=event.code,
        reason=event.over,
        ref=event.event_id,
        dedup=f"{event.event_id}/{event.over or 'active'}" if event.event_id else "",
        identity=identity,
        deadline=None if event.over else event.starts,
        evidence=evidence(f"{said} ({why})"),
    )


def over(description: str) -> str:
    """How an event ended, by the mark that EC2 puts before its description."""
    mark = _MARK.match(description)
    return mark[1].lower() if mark else ""


_MARK = re.compile(r"\s*\[(completed|cancell?ed)\]", re.IGNORECASE)


@functools.lru_cache(maxsize=256)
def _meaning(code: str, description: str) -> tuple[Severity, str]:
    return next(
        (Severity(line["severity"]), line["why"])
        for line in _table()
        if fnmatch.fnmatchcase(code, line["code"])
        and fnmatch.fnmatchcase(description, line["description"])
    )


@functools.cache
def _table() -> tuple[dict[str, str], ...]:
    text = resources.files("events.sources").joinpath("ec2_scheduled.csv").read_text()
    return tuple(csv.DictReader(text.splitlines()))
