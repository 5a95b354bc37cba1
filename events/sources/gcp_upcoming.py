"""``upcomingMaintenance`` of a Compute Engine VM: what Google will do to its host, and why.

https://cloud.google.com/compute/docs/instances/monitor-plan-host-maintenance-event

    type                SCHEDULED, or UNSCHEDULED: something has failed
    maintenanceStatus   PENDING, then ONGOING
    windowStartTime     when it begins; it may be moved while canReschedule
    maintenanceReasons  FAILURE_GPU_XID, FAILURE_NVLINK, FAILURE_DISK, ..., PLANNED_UPDATE, ...

A reason that begins with FAILURE is two things: the host will be repaired at a known time, and
the machine is faulty until then, so that it takes no new work. The failure is over, like any that
is only cordoned for, when the machine has booted anew on another host.
"""

import msgspec

from events import decoding
from events.notice import Cause, Identity, Kind, Notice, Severity, evidence

SOURCE = "gcp.compute"
MAINTENANCE = "upcoming-maintenance"
FAILURE = "host-failure"


class Upcoming(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    maintenance_status: str = ""
    window_start_time: str | None = None
    can_reschedule: bool | None = None
    maintenance_reasons: list[str] | None = None


def notices(
    upcoming: Upcoming | None, identity: Identity, *, migrates: bool, where: str
) -> list[Notice]:
    """What is to come, or the recovery of what is not to come any more.

    ``migrates``: the VM is moved while it runs (never one with GPUs). Raises `MalformedEvent`.
    """
    if upcoming is None:
        return [_over(MAINTENANCE, identity), _over(FAILURE, identity)]
    failures = [one for one in upcoming.maintenance_reasons or () if one.startswith("FAILURE")]
    unplanned = upcoming.type == "UNSCHEDULED"
    starts = None
    if upcoming.window_start_time:
        starts = decoding.time(upcoming.window_start_time, field=f"{where}windowStartTime")
    under_way = starts is None and upcoming.maintenance_status == "ONGOING"
    severity, doubt = Severity.EVICT, ""
    if upcoming.type not in ("SCHEDULED", "UNSCHEDULED"):
        severity, doubt = Severity.WATCH, "of a type that is not known"
    elif starts is None and not under_way:
        severity, doubt = Severity.WATCH, "it does not say when"
    elif migrates:
        severity, doubt = Severity.WATCH, "the VM is moved while it runs"
    said = " ".join(filter(None, (upcoming.type, upcoming.maintenance_status)))
    for field, text in (
        ("type", upcoming.type),
        ("maintenanceStatus", upcoming.maintenance_status),
    ):
        if text:
            decoding.name(text, field=where + field, most=64)
    reasons = ", ".join(upcoming.maintenance_reasons or ())
    words = f"{said}: {reasons}" if reasons else said
    window = f", {upcoming.window_start_time}" if starts else ""
    if upcoming.can_reschedule and not under_way:
        window += ", can be moved"
    found = [
        Notice(
            # What is under way is not a plan any more, and waits for no budget.
            kind=Kind.INTERRUPTION if under_way else Kind.MAINTENANCE,
            severity=severity,
            cause=Cause.HARDWARE if failures else Cause.PROVIDER,
            source=SOURCE,
            check=MAINTENANCE,
            reason=said,
            identity=identity,
            deadline=starts,
            evidence=evidence(words + window + (f" ({doubt})" if doubt else "")),
        )
    ]
    if not (unplanned and failures):
        return [*found, _over(FAILURE, identity)]
    failure = Notice(
        kind=Kind.FAULT,
        severity=Severity.CORDON,
        cause=Cause.HARDWARE,
        source=SOURCE,
        check=FAILURE,
        reason=evidence(failures[0]),
        identity=identity,
        evidence=evidence(words),
    )
    return [*found, failure]


def _over(check: str, identity: Identity) -> Notice:
    return Notice(
        kind=Kind.RECOVERY,
        severity=Severity.WATCH,
        cause=Cause.PROVIDER,
        source=SOURCE,
        check=check,
        identity=identity,
        evidence=f"no {check} is told of any more",
    )
