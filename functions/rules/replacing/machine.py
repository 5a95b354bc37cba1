"""What becomes of one machine: its clock, what was seen of it, and whose turn it is to decide."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from events.notice import Severity
from functions.rules import cordoning, drain_state
from functions.rules.decision import Action
from functions.rules.incidents import Incident
from functions.rules.policy import Policy
from functions.rules.replacing import clock, guards, lost, under_way
from functions.rules.replacing.book import Entry, Phase
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import TICK, Facts, Guard, MachineFacts, Seen, Step, Verdict
from functions.rules.replacing.lost import ON_DEMAND
from functions.rules.replacing.risk import is_due, warned
from functions.rules.replacing.rungs import LOOK_AT_HELD, next_rung
from functions.rules.replacing.words import say

LEAVING = ("leaving",)
"""What holds a machine that somebody else is ending."""


def decide(one: MachineFacts, facts: Facts, policy: Policy, now: datetime) -> Step:
    """For a machine that is not ending, nor gone for us."""
    entry = one.entry
    if one.view is None:
        return lost.decide(one, entry, policy, now) if entry else Step(facts=one, entry=None)
    if one.record is None:
        # Whatever it says cannot be read: what is known stays, and nothing is done.
        unread = Verdict(Guard.FAULT, False, "its incidents cannot be read: see groundcrew explain")
        if entry and not entry.over and (risk := warned(one, entry, policy, now, (unread,))):
            return risk
        return Step(facts=one, entry=entry, look_again=now + TICK if entry else None)
    found = clock.faults(one.record)
    began = clock.began(found, entry.began if entry and not entry.over else None)
    if began is None:
        return _kept_out(one, entry, policy, now) or _stopped(one, entry, now)
    if (entry is None or entry.over) and not _is_out(one):
        return Step(facts=one, entry=entry)
    entry = _kept(one, entry, found, began, now)
    case = Case(one, entry, found, facts, policy, now)
    if is_due(entry, policy, now) and (
        risk := warned(one, entry, policy, now, guards.for_end(case))
    ):
        return risk
    if entry.phase is Phase.REBOOTING:
        return under_way.rebooting(case)
    if entry.phase is Phase.RESETTING:
        return under_way.resetting(case)
    if one.leaving:
        return _stand_aside(one, entry, now)
    return next_rung(case)


def _stand_aside(one: MachineFacts, entry: Entry, now: datetime) -> Step:
    """Somebody else is ending it: told once. Should they give it up, the ladder goes on."""
    verdict = Verdict(Guard.CLOUD, False, one.leaving)
    step = Step(facts=one, entry=entry, guards=(verdict,), look_again=now + TICK)
    if entry.holding == LEAVING:
        return step
    kept = msgspec.structs.replace(entry, holding=LEAVING)
    reason = f"{one.leaving}: groundcrew leaves it to them"
    said = say(one, Action.HOLD, reason, blocked_by=LEAVING)
    return replace(step, entry=kept, decisions=(said,))


def _is_out(one: MachineFacts) -> bool:
    """Whether it is out of service, or would be if it were let. Its clock runs from before, but is
    not written down while a waiting time may make it nothing, or for a check that nobody believes:
    thousands of nodes that miss a heartbeat together would not fit in the book."""
    assert one.record is not None
    if one.record.cordon is not None or one.state in cordoning.ACTED:
        return True
    return one.state == cordoning.HELD and not {"breaker", "stale"} & set(one.record.held)


def _kept_out(one: MachineFacts, entry: Entry | None, policy: Policy, now: datetime) -> Step | None:
    """One that recovered once too often stays out of service until a person comes: its clock runs
    until then, and nothing is done."""
    record = one.record
    if entry is None or entry.over or record is None:
        return None
    if not record.cordoned_by_us or "releases" not in record.held:
        return None
    again = Verdict(Guard.FAULT, False, "it was sick again too often: a person releases it")
    still = Step(facts=one, entry=entry, guards=(again,), look_again=now + LOOK_AT_HELD)
    return warned(one, entry, policy, now, (again,)) or still


def _kept(
    one: MachineFacts,
    entry: Entry | None,
    found: Sequence[Incident],
    began: datetime,
    now: datetime,
) -> Entry:
    """The entry as it is while the clock runs: what was seen of the machine since."""
    view = one.view
    assert view is not None
    worst = found[0].key
    if entry is None or entry.over:
        entry = Entry(
            node=view.name,
            uid=view.uid,
            changed=now,
            noted=now,
            began=began,
            fault=worst,
            first_boot=view.boot_id,
            seen_boot=view.boot_id,
            # What was asked of the same machine before counts on.
            reboots=entry.reboots if entry else (),
            account=entry.account if entry else "",
            host=one.host or (entry.host if entry else ""),
            gpus=one.gpus or (entry.gpus if entry else ()),
        )
    closer = one.closer if one.closer and one.closer.seen is Seen.RUNNING else None
    boots, seen_boot = entry.boots, entry.seen_boot
    if view.boot_id and view.boot_id != seen_boot:
        boots = (*boots, now)[-5:] if seen_boot else boots
        seen_boot = view.boot_id
    return msgspec.structs.replace(
        entry,
        node=view.name,
        uid=view.uid,
        began=began,
        fault=worst,
        first_boot=entry.first_boot or view.boot_id,
        seen_boot=seen_boot,
        boots=boots,
        gpus=one.gpus or entry.gpus,
        account=(closer.account if closer else "") or entry.account,
        host=one.host or (closer.host if closer else "") or entry.host,
        beside=one.closer.beside if one.closer else entry.beside,
        others=one.closer.others if one.closer else entry.others,
        reserved=closer.reserved if closer else entry.reserved,
        owner=one.owner,
        drained_from=_drained_from(one, entry),
        empty=_empty_since(one, entry, found, now),
    )


def _drained_from(one: MachineFacts, entry: Entry) -> datetime | None:
    """Where that matters: see `ON_DEMAND`."""
    if one.owner not in ON_DEMAND:
        return None
    return one.drain.started if one.drain else entry.drained_from


def _empty_since(
    one: MachineFacts, entry: Entry, found: Sequence[Incident], now: datetime
) -> datetime | None:
    if one.closer is not None and one.closer.pods:
        return None
    if found[0].severity is Severity.EVICT:
        drained = one.drain is not None and one.drain.state is drain_state.State.DRAINED
        return one.drain.changed if drained and one.drain else None
    return entry.empty or now if one.closer is not None else entry.empty


def _stopped(one: MachineFacts, entry: Entry | None, now: datetime) -> Step:
    """Nothing is open that its clock would run for."""
    if entry is None or entry.over:
        return Step(facts=one, entry=entry)
    why = clock.how_it_stopped(one.record)
    closed = entry.close(f"recovered: {why}", now)
    return Step(
        facts=one,
        entry=closed,
        decisions=(say(one, Action.CLOCK_STOPPED, f"its clock stops: {why}"),),
    )
