"""What an incident asks for: how much, whether it is our own choice, and when for more."""

from datetime import datetime, timedelta
from typing import NamedTuple

from events.notice import Kind, Severity
from functions.rules import windows
from functions.rules.incidents import Cordon, Incident
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy

LONG_PAST = timedelta(days=1)
"""A maintenance that is first heard of so long after its time is a leftover (a label that nobody
took off), and no plan."""


class Wish(NamedTuple):
    """What one incident asks for now."""

    severity: Severity
    voluntary: bool
    """False: the machine goes, or its cloud deadline falls due, whatever we do."""
    due: datetime | None
    """When it will ask for more."""
    shadow: bool


def wish_of(
    incident: Incident, view: NodeView, policy: Policy, now: datetime, cordon: Cordon | None = None
) -> Wish:
    """What the incident asks for at ``now``, and when it asks for more.

    ``cordon`` is the node's, if it has one: whoever wrote it may be some seconds ahead of us, and
    what was due by that clock is not undone by ours.
    """
    now = max(now, incident.first, cordon.at if cordon else now)
    words = (incident.source, incident.check, incident.reason, incident.cause.value)
    shadow = policy.shadows(*words, view.pool)
    severity, voluntary, due = incident.severity, True, None
    if incident.kind in (Kind.INTERRUPTION, Kind.TERMINATION):
        voluntary = False
    elif incident.kind is Kind.MAINTENANCE and incident.deadline:
        cordon_before, drain_before = policy.lead_of(*words, view.pool)
        latest = incident.deadline - drain_before
        drain_at = windows.best(policy.windows_of(view.pool), latest, incident.first)
        cordon_at = drain_at - (cordon_before - drain_before)
        if incident.first - incident.deadline > LONG_PAST:
            severity = Severity.WATCH
        elif now < cordon_at:
            severity, due = Severity.WATCH, cordon_at
        elif now < drain_at:
            due = drain_at if severity is Severity.EVICT else None
            severity = min(severity, Severity.CORDON, key=lambda s: s.rank)
        else:
            voluntary = now < latest
    else:
        acts_at = incident.first + policy.wait_of(*words)
        taken_back = None if incident.latched else incident.claimed
        if taken_back and max(taken_back, incident.first) < acts_at:
            severity = Severity.WATCH  # it did not last
        elif now < acts_at:
            severity, due = Severity.WATCH, acts_at
    if incident.severity is Severity.WATCH:
        severity, due = Severity.WATCH, None
    return Wish(severity, voluntary, due, shadow)
