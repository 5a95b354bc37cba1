"""What the rules do with one incident, in words."""

from datetime import datetime

from events.notice import Notice, Severity
from functions.rules.cordoning import wish_of
from functions.rules.incidents import Incident, State
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy
from functions.rules.recovery import PROVIDERS_WORD
from infra.cli.screen import ahead, moment


def severity_from(incident: Incident, said: Notice | None, policy: Policy) -> str:
    """Who gave the incident its severity: its source, or a rule of the policy."""
    words = (incident.source, incident.check, incident.reason, incident.cause.value)
    number = next((n for n, r in enumerate(policy.severity) if r.matches(*words)), None)
    if incident.jobs and incident.severity > Severity.WATCH:
        return f"it followed one GPU through {policy.application_faults.jobs} jobs or more"
    if number is None:
        ours = f"as {incident.source} says; no rule of the policy is about it"
    else:
        ours = f"by the policy, severity[{number}] ({policy.severity[number].severity})"
    if said and said.severity != incident.severity:
        ours += f"; {incident.source} itself says {said.severity} now"
    return ours


def asks_for(incident: Incident, view: NodeView, policy: Policy, now: datetime) -> str:
    """What the incident asks for now, and when it asks for more."""
    if not incident.open:
        return "nothing"
    wish = wish_of(incident, view, policy, now)
    words, later = wish.severity.value, wish
    if wish.due:
        words += " now"
    while later.due:
        due = later.due
        later = wish_of(incident, view, policy, due)
        words += f"; {later.severity} from {ahead(due, now)}"
    if wish.due:
        window = incident.kind in PROVIDERS_WORD
        words += " (maintenance window)" if window else " if it lasts (waiting time)"
    if wish.shadow:
        words += "; in shadow mode: told, not done"
    if not wish.voluntary and wish.severity > Severity.WATCH:
        words += "; needs no budget: the machine goes whatever we do"
    return words


def ends(incident: Incident, policy: Policy, *, doubted: bool, node: str) -> str:
    """How it may be over (`functions.rules.recovery`)."""
    source, quiet = incident.source, policy.recovery.quiet
    if incident.state is State.CLOSED:
        return f"over: {incident.why}"
    if incident.state is State.DISMISSED:
        return (
            f"forgotten when {source} no longer says it or the machine boots anew; opened again by "
            "a higher severity"
        )
    if incident.kind in PROVIDERS_WORD:
        after = f" after {moment(incident.deadline)}" if incident.deadline else ""
        words = (
            f"when the provider withdraws it, or the machine boots anew{after} and is quiet for "
            f"{quiet} with all its GPUs"
        )
    elif doubted:
        words = (
            f"when {source} no longer says it: so many nodes were accused at once that the check "
            "is doubted rather than the node"
        )
    elif incident.severity is Severity.WATCH:
        latched = " and the machine has booted anew (its source cannot clear by itself)"
        words = f"when {source} no longer says it{latched if incident.latched else ''}"
    elif incident.severity is Severity.EVICT:
        words = (
            "never by itself: when an active test passes, or a human decides so "
            f"(kubectl uncordon {node} dismisses it)"
        )
    elif incident.latched:
        words = (
            f"with a new boot ID, then {quiet} of quiet with all its GPUs; that {source} says it "
            "is good proves nothing (latched)"
        )
    else:
        words = (
            f"when {source} no longer says it or the machine boots anew, then {quiet} of quiet "
            "with all its GPUs"
        )
    if incident.claimed:
        words += f"; said no more since {moment(incident.claimed)}"
    if incident.rebooted:
        words += f"; booted anew by {moment(incident.rebooted)}"
    return words
