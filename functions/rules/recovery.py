"""When an incident is over. Quiet is not recovery, and a source's word is a claim.

| incident | over when |
|---|---|
| maintenance, interruption, termination | the provider withdrew it, or the machine booted anew after the announced time |
| severity watch | its source no longer says it (a latched source: and the machine booted anew) |
| an application's fault, watched | the same; or nobody has said it for as long as its jobs are counted: nothing is left of it then, a kernel log takes nothing back, and soon every node of a fleet would be watched |
| severity cordon | a source that tests all the time no longer says it; or a new boot ID; then the policy's quiet time, with all GPUs there |
| severity evict | never by itself: an active test or a human (an uncordon dismisses it) |
| dismissed by a human | the machine booted anew; or its source has not said it for the quiet time (a latched source: and the policy's override is over) |
| opened while the circuit breaker was open on its check | its source no longer says it: the check was wrong, not the node |

What the node itself still says, read just now, is not over, whatever else speaks for it.
Latched sources cannot clear, or clear by a restart of their agent without a test: NPD's permanent
conditions, the EKS node monitoring agent, device plugins.
"""  # noqa: E501

from collections.abc import Callable
from datetime import datetime

import msgspec

from events.notice import Kind, Severity
from functions.rules import keys
from functions.rules.incidents import APPLICATION_XIDS, REFRESH, Incident, Record, State
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy

PROVIDERS_WORD = frozenset({Kind.MAINTENANCE, Kind.INTERRUPTION, Kind.TERMINATION})


def settle(
    record: Record,
    view: NodeView,
    policy: Policy,
    now: datetime,
    in_doubt: Callable[[Incident], bool],
    said: frozenset[str] = frozenset(),
) -> tuple[Record, datetime | None]:
    """``record`` with what is over closed, and when the next incident may be over.

    ``said`` are the keys of the incidents that the node itself, as read just now, still speaks of.
    """
    due: list[datetime] = []
    full = has_all_gpus(record, view, policy)
    for incident in record.incidents:
        if incident.state is State.CLOSED:
            continue
        seen = _note_reboot(incident, view, now)
        if seen.open and seen.key in said:
            why, when = "", None  # whatever else may prove: it is not over
        else:
            why, when = _over(seen, policy, now, full=full, in_doubt=in_doubt(seen))
        if why:
            seen = msgspec.structs.replace(seen, state=State.CLOSED, ended=now, why=why)
        elif when:
            due.append(when)
        if seen is not incident:
            record = record.with_incident(seen, incident)
    return record, min(due, default=None)


def has_all_gpus(record: Record, view: NodeView, policy: Policy) -> bool:
    """Whether the node offers as many GPUs as its type has, or as it once showed."""
    expected = policy.recovery.gpus.get(view.labels.get(keys.INSTANCE_TYPE, ""), record.gpus)
    if not expected or view.sliced:
        return True
    return (view.gpus or 0) >= expected and (view.gpus_allocatable or 0) >= expected


def _note_reboot(incident: Incident, view: NodeView, now: datetime) -> Incident:
    booted_anew = bool(view.boot_id and incident.boot and view.boot_id != incident.boot)
    if booted_anew and incident.rebooted is None:
        return msgspec.structs.replace(incident, rebooted=now)
    return incident


def _over(
    incident: Incident, policy: Policy, now: datetime, *, full: bool, in_doubt: bool
) -> tuple[str, datetime | None]:
    """Why it is over (empty: it is not), and when it may be if nothing else happens."""
    claimed, rebooted, quiet = incident.claimed, incident.rebooted, policy.recovery.quiet
    if incident.state is State.DISMISSED:
        return _dismissal_over(incident, policy, now)
    if incident.kind in PROVIDERS_WORD:
        if claimed:
            return "withdrawn or completed by the provider", None
        if rebooted and (incident.deadline is None or rebooted >= incident.deadline):
            if now - rebooted >= quiet and full:
                return "the machine booted anew after the announced time", None
            return "", rebooted + quiet
        return "", None
    if in_doubt:
        return ("its check accused too many nodes at once" if claimed else ""), None
    if incident.severity is Severity.WATCH:
        if claimed and (rebooted or not incident.latched):
            return f"{incident.source} no longer says it", None
        return _count_over(incident, policy, now)
    if incident.severity is Severity.EVICT:
        return "", None
    since = claimed if not incident.latched else None
    if rebooted:
        # Old conditions outlast the boot until their agents have started: quiet counts from when
        # the last of them was taken back.
        since = max(claimed, rebooted) if claimed and incident.latched else claimed or rebooted
    if since is None:
        return "", None
    if now - since < quiet:
        return "", since + quiet
    if not full:
        return "", None
    how = "a new boot ID" if rebooted else f"{incident.source} no longer says it"
    return f"{how}, quiet for {quiet}, all GPUs there", None


def _count_over(incident: Incident, policy: Policy, now: datetime) -> tuple[str, datetime | None]:
    """When none of an application's faults counts any more: the last word may be later than what
    is written by `REFRESH`."""
    if incident.check not in APPLICATION_XIDS:
        return "", None
    counted = policy.application_faults.within
    forgotten = incident.last + counted + REFRESH
    if now < forgotten:
        return "", forgotten
    return f"not said for {counted}: none of the jobs that it hit counts any more", None


def _dismissal_over(
    incident: Incident, policy: Policy, now: datetime
) -> tuple[str, datetime | None]:
    """When the check may speak again. A person judged it: a source that flaps, or clears by a
    restart of its agent, does not undo that."""
    if incident.rebooted:
        return "the machine booted anew", None
    if incident.claimed is None:
        return "", None
    if incident.kind in PROVIDERS_WORD:
        proven = incident.claimed
    elif incident.latched:
        proven = max(
            incident.claimed, (incident.ended or incident.last) + policy.dismissed.override
        )
    else:
        proven = incident.claimed + policy.recovery.quiet
    return (f"{incident.source} no longer says it" if now >= proven else ""), proven
