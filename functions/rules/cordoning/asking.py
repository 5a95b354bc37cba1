"""The worst that a node's incidents may have now, and what keeps us from more."""

from datetime import datetime

from events.notice import Severity
from functions.rules.cordoning.case import Case
from functions.rules.cordoning.doubts import counts
from functions.rules.cordoning.facts import Facts
from functions.rules.cordoning.wishes import Wish
from functions.rules.incidents import Incident
from functions.rules.ledger import Ledger
from functions.rules.policy import Policy


def ask(
    case: Case, found: Ledger | None, facts: Facts, policy: Policy, now: datetime
) -> tuple[Severity, bool]:
    """The worst that the node's incidents may have now, and whether it is our own choice.

    Fills `Case.held` with what keeps us from more.
    """
    worst, voluntary = Severity.WATCH, True
    case.held = {}
    for incident in case.record.open:
        wish = case.wishes.get(incident.key)
        if wish is None or wish.severity is Severity.WATCH:
            continue
        hold = _hold(case, incident, wish, found, facts, policy, now)
        if hold:
            case.held[hold[0]] = hold[1]
            if case.record.cordon:
                # Not being allowed to act is no reason to undo. A pause leaves all as it is; with
                # a check in doubt, or only watched from now on, the eviction stops.
                stands = Severity.CORDON
                if hold[0] == "pause" and case.view.state == Severity.EVICT.value:
                    stands = Severity.EVICT
                worst = max(worst, stands, key=lambda s: s.rank)
            continue
        voluntary = voluntary and wish.voluntary
        worst = max(worst, wish.severity, key=lambda s: s.rank)
    return worst, voluntary


def _hold(
    case: Case,
    incident: Incident,
    wish: Wish,
    found: Ledger | None,
    facts: Facts,
    policy: Policy,
    now: datetime,
) -> tuple[str, str] | None:
    """What keeps us from acting on that incident, as category and sentence."""
    if paused := facts.paused(case.view.pool):
        return "pause", paused
    if wish.shadow:
        return "shadow", f"shadow mode for {incident.check}: would {wish.severity.value}"
    if found is None or not counts(incident):
        return None  # what the provider takes anyway is no fault, and passes every breaker
    if doubt := case.doubts.get(incident.check):
        case.due.append(doubt.look_again)
        return "breaker", doubt.sentence
    check = found.check(incident.check)
    stale = check.closed is not None and incident.first <= check.closed
    if stale and incident.key not in case.accused and not case.record.cordon:
        return "stale", f"{incident.check} was said while its breaker was open: not seen since"
    return None
