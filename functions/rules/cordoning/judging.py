"""Fifth: what becomes of the node: cordoned, raised, released, or left, and its new record."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from events.notice import Severity
from functions.rules import claim, incidents
from functions.rules.cordoning.asking import ask
from functions.rules.cordoning.case import Case, Origin, main_of
from functions.rules.cordoning.facts import Facts, Verdict
from functions.rules.decision import Action
from functions.rules.incidents import Cordon, Record, State
from functions.rules.keys import (
    DISMISSED,
    EXCLUDE_FROM_LOAD_BALANCERS,
    HELD,
    RELEASED,
    RETURNING,
)
from functions.rules.ledger import Ledger
from functions.rules.policy import Policy


def judge(
    case: Case,
    allowed: Mapping[str, str],
    facts: Facts,
    ledgers: Mapping[str, Ledger],
    policy: Policy,
    now: datetime,
) -> Verdict:
    view, record = case.view, case.record
    if case.unreadable:
        return _unreadable(case)
    if view.opted_out:
        return _opted_out(case)
    worst, _ = ask(case, ledgers.get(view.pool), facts, policy, now)
    refused = allowed.get(view.machine, "")
    unschedulable: bool | None = None
    label: bool | None = False if case.loose_label else None
    if worst >= Severity.CORDON and refused:
        case.held["budget"] = refused
        case.due.append(now + policy.budget.reservation)
    elif worst >= Severity.CORDON and record.cordon is None:
        record, unschedulable, label = _cordon(case, record, worst, now)
    elif worst is Severity.EVICT and view.state == Severity.CORDON.value:
        case.say(Action.RAISE, _because(case, Severity.EVICT), main_of(case), severity="evict")
    elif worst < Severity.CORDON and record.cordon:
        record, unschedulable, label = _release(case, record, policy, now)
    record = incidents.tidy(record, policy, now)
    acted = worst if record.cordon else Severity.WATCH
    state = _state(case, record, acted)
    _say_held(case, record, now)
    record = _finished(case, record, now)
    content = _has_content(record)
    changed = (
        unschedulable is not None
        or label is not None
        or state != view.state
        or content != (view.incidents is not None)
        or (content and (record != case.before or case.origin is not Origin.NODE))
    )
    return Verdict(
        view=view,
        record=record,
        state=state,
        changed=changed,
        unschedulable=unschedulable,
        load_balancer_label=label,
        decisions=tuple(case.decisions),
        look_again=min((d for d in case.due if d > now), default=None),
    )


def _cordon(
    case: Case, record: Record, worst: Severity, now: datetime
) -> tuple[Record, bool | None, bool | None]:
    view = case.view
    if view.unschedulable:
        case.say(
            Action.RAISE if worst is Severity.EVICT else Action.HOLD,
            f"{_because(case, worst)}; the node was cordoned by somebody else, which stays theirs",
            main_of(case),
            severity=worst.value,
            blocked_by=() if worst is Severity.EVICT else ("cordoned by somebody else",),
        )
        return msgspec.structs.replace(record, cordon=Cordon(at=now, theirs=True)), None, None
    ours = not view.labels.get(EXCLUDE_FROM_LOAD_BALANCERS)
    case.say(Action.CORDON, _because(case, worst), main_of(case), severity=worst.value)
    cordon = Cordon(at=now, lb=ours)
    return msgspec.structs.replace(record, cordon=cordon), True, (True if ours else None)


def _release(
    case: Case, record: Record, policy: Policy, now: datetime
) -> tuple[Record, bool | None, bool | None]:
    view, cordon = case.view, record.cordon
    assert cordon is not None
    if cordon.theirs:
        case.say(Action.CLOSE, "no incident is left; the cordon is somebody else's and stays")
        return msgspec.structs.replace(record, cordon=None), None, None
    if theirs := claim.on(cordon, view.claim):
        case.say(
            Action.CLOSE,
            f"no incident is left; the node stays cordoned, {theirs.by} took it out of service "
            f"at {theirs.at:%Y-%m-%d %H:%M}Z (groundcrew uncordon {view.name})",
        )
        without = msgspec.structs.replace(record, cordon=None)
        return without, None, (False if cordon.lb else None)
    recent = [at for at in record.releases if now - at < policy.recovery.releases_within]
    if len(recent) >= policy.recovery.releases:
        case.held["releases"] = (
            f"released {len(recent)} times within {policy.recovery.releases_within} and sick "
            "again each time: a human releases it (kubectl uncordon)"
        )
        return record, None, None
    why = next((i.why for i in reversed(record.incidents) if i.ended == now), "no incident is left")
    case.say(Action.UNCORDON, why)
    released = msgspec.structs.replace(record, cordon=None, releases=(*recent, now))
    return released, (False if view.unschedulable else None), (False if cordon.lb else None)


def _unreadable(case: Case) -> Verdict:
    case.say(
        Action.HOLD,
        f"the incidents annotation cannot be read ({case.unreadable}); nothing is done until it "
        f"is put right: kubectl annotate node {case.view.name} groundcrew.dev/incidents-",
        blocked_by=("unreadable annotation",),
    )
    return Verdict(
        case.view, case.record, case.view.state, changed=False, decisions=tuple(case.decisions)
    )


def _opted_out(case: Case) -> Verdict:
    case.decisions = []
    if case.record != case.before:
        case.say(
            Action.HOLD,
            "the node is opted out by its label groundcrew.dev/managed=false",
            blocked_by=("opt-out",),
        )
    return Verdict(
        case.view, case.before, case.view.state, changed=False, decisions=tuple(case.decisions)
    )


def _say_held(case: Case, record: Record, now: datetime) -> None:
    """Told when it begins, not each time that it is looked at again."""
    for category, sentence in case.held.items():
        if category not in case.before.held:
            case.say(
                Action.HOLD,
                sentence,
                main_of(case),
                blocked_by=(category,),
                shadow=category == "shadow",
                look_again=min((d for d in case.due if d > now), default=None),
            )


def _finished(case: Case, record: Record, now: datetime) -> Record:
    record = msgspec.structs.replace(
        record,
        held=tuple(sorted(case.held)),
        machine=case.view.machine,
        gpus=max(record.gpus, case.view.gpus or 0),
    )
    if _has_content(record) and record != case.before:
        return msgspec.structs.replace(record, boot=case.view.boot_id)
    return record


def _has_content(record: Record) -> bool:
    return bool(record.incidents or record.cordon or record.releases or record.extra)


def _state(case: Case, record: Record, acted: Severity) -> str:
    if not _has_content(record):
        return ""
    if acted >= Severity.CORDON:
        return acted.value
    if case.held:
        return HELD
    if record.open:
        return Severity.WATCH.value
    if any(i.state is State.DISMISSED for i in record.incidents):
        return DISMISSED
    return RELEASED if case.view.drain is None else RETURNING


def _because(case: Case, worst: Severity) -> str:
    main = main_of(case)
    if main is None:
        return worst.value
    words = f"{main.check}" + (f" ({main.reason})" if main.reason not in ("", main.check) else "")
    also = len([w for w in case.wishes.values() if w.severity >= Severity.CORDON]) - 1
    if also > 0:
        words += f" and {also} more"
    if main.deadline:
        words += f", due {main.deadline:%Y-%m-%d %H:%M}Z"
    asks = "to be emptied" if worst is Severity.EVICT else "to take no new work"
    return f"{main.source} says {words}: {asks}"
