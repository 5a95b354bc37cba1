"""Third: what is over is closed, and what is open says what it asks for."""

from collections.abc import Mapping
from datetime import datetime

from events.notice import Severity
from functions.rules import recovery
from functions.rules.cordoning.case import Case
from functions.rules.cordoning.doubts import in_doubt
from functions.rules.cordoning.wishes import Wish, wish_of
from functions.rules.decision import Action
from functions.rules.incidents import Incident, State
from functions.rules.ledger import Ledger
from functions.rules.policy import Policy


def settle(case: Case, ledgers: Mapping[str, Ledger], policy: Policy, now: datetime) -> Case:
    if case.unreadable:
        return case
    found = ledgers.get(case.view.pool)

    record, due = recovery.settle(
        case.record,
        case.view,
        policy,
        now,
        lambda incident: in_doubt(incident, found, policy),
        case.said,
    )
    if due:
        case.due.append(due)
    known = {(i.key, i.first) for i in case.before.incidents}
    closed = {(i.key, i.first) for i in case.record.incidents if i.state is State.CLOSED}
    for incident in record.incidents:
        if incident.open:
            wish = wish_of(incident, case.view, policy, now, record.cordon)
            case.wishes[incident.key] = wish
            if wish.due:
                case.due.append(wish.due)
            if (incident.key, incident.first) not in known:
                case.say(Action.OPEN, _opened(incident, wish, now), incident, shadow=wish.shadow)
        elif incident.state is State.CLOSED and (incident.key, incident.first) not in closed:
            case.say(Action.CLOSE, f"{incident.check}: {incident.why}", incident)
        if incident.state is State.DISMISSED:
            case.due.append((incident.ended or incident.last) + policy.dismissed.override)
    case.record = record
    return case


def _opened(incident: Incident, wish: Wish, now: datetime) -> str:
    words = f"{incident.source} says {incident.check}"
    if incident.reason and incident.reason != incident.check:
        words += f" ({incident.reason})"
    if incident.deadline:
        words += f", due {incident.deadline:%Y-%m-%d %H:%M}Z"
    if wish.severity is Severity.WATCH and incident.severity is not Severity.WATCH and wish.due:
        words += f"; acted on from {wish.due:%Y-%m-%d %H:%M}Z if it lasts"
    return words
