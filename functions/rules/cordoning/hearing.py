"""First: what the node's record says, what was just said about it, and whose word is newer."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from events.notice import Kind, Notice, Severity
from functions.rules import incidents
from functions.rules.cordoning.case import Case, Origin
from functions.rules.cordoning.facts import SELF, NodeFacts
from functions.rules.cordoning.wishes import wish_of
from functions.rules.decision import Action
from functions.rules.incidents import Record, State
from functions.rules.ledger import Ledger
from functions.rules.policy import Policy


def hear(facts: NodeFacts, ledgers: Mapping[str, Ledger], policy: Policy, now: datetime) -> Case:
    view = facts.view
    try:
        record, origin = _record_of(facts)
    except incidents.Unreadable as problem:
        empty = Record(machine=view.machine)
        return Case(facts, empty, empty, unreadable=str(problem))
    before = Record(machine=view.machine) if origin is Origin.LEDGER else record
    case = Case(facts, before, record, origin=origin)
    if origin is Origin.LEDGER and facts.inherited and facts.inherited.uid != view.uid:
        case.say(Action.OPEN, "the machine registered again; its incidents are inherited")
    cordon = record.cordon
    if cordon is not None and not view.unschedulable:
        case.loose_label = cordon.lb
        record = _dismiss(case, record, policy, now)
    told = [incidents.bounded(n) for n in facts.notices if not _overtaken(case, n)]
    live = [incidents.bounded(n) for n in facts.live or ()]
    record = incidents.hear(record, view, told, policy, now)
    record = incidents.hear(record, view, live, policy, now, live=True)
    case.said = _keys(record, live)
    case.accused = case.said | _keys(record, told)
    case.record = record
    return case


def _overtaken(case: Case, notice: Notice) -> bool:
    """Whether the node, as read just now, knows better than an event that it once made. A fault
    that a latched source no longer shows was there all the same, and its recovery is not proven."""
    live = case.facts.live
    if live is None or notice.source != SELF:
        return False
    if notice.kind in (Kind.RECOVERY, Kind.INFORMATIONAL):
        return True
    if any(n.check == notice.check and n.kind is notice.kind for n in live):
        return True
    if not notice.latched:
        case.say(
            Action.NOTHING,
            f"late: the node, as read just now, no longer says {notice.check}",
            incident=f"{notice.source}/{notice.check}",
            evidence=notice.evidence,
        )
    return not notice.latched


def _keys(record: Record, notices: Iterable[Notice]) -> frozenset[str]:
    """Keys of the incidents that ``notices`` accuse."""
    about = (
        incidents.about(record, n)
        for n in notices
        if n.kind not in (Kind.RECOVERY, Kind.INFORMATIONAL)
    )
    return frozenset(incident.key for incident in about if incident is not None)


def _record_of(facts: NodeFacts) -> tuple[Record, Origin]:
    view = facts.view
    trouble: incidents.Unreadable | None = None
    try:
        record = incidents.read(view)
    except incidents.Unreadable as problem:
        trouble, record = problem, Record(machine=view.machine)
    if facts.inherited and (trouble or view.incidents is None):
        kept = incidents.decode(facts.inherited.record)
        if trouble:  # merely damaged: our cordon is still ours, and still on the node
            return kept, Origin.REPAIRED
        # A Node made anew is schedulable because it is new, and one that our patch never reached
        # was not cordoned by us: the incidents are inherited, the mark is not.
        return msgspec.structs.replace(kept, cordon=None, held=()), Origin.LEDGER
    if trouble:
        raise trouble
    return record, Origin.NODE


def _dismiss(case: Case, record: Record, policy: Policy, now: datetime) -> Record:
    for incident in record.open:
        wish = wish_of(incident, case.view, policy, now, record.cordon)
        if wish.severity < Severity.CORDON:
            continue
        dismissed = msgspec.structs.replace(
            incident,
            state=State.DISMISSED,
            ended=now,
            why="uncordoned by somebody else",
            boot=case.view.boot_id or incident.boot,
            rebooted=None,  # only a boot after this one lets the check speak again
        )
        record = record.with_incident(dismissed, incident)
        case.say(
            Action.DISMISS,
            f"somebody else uncordoned the node; {incident.check} keeps quiet until proven "
            f"recovery, a new boot ID, a higher severity or {policy.dismissed.override}",
            incident,
        )
    return msgspec.structs.replace(record, cordon=None)
