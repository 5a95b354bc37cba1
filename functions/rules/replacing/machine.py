"""What becomes of one machine: its clock, the rung that is due, and what holds it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from events.notice import Severity
from functions.rules import cordoning, drain_state
from functions.rules.decision import Action, Decision
from functions.rules.incidents import Incident
from functions.rules.policy import Policy
from functions.rules.replacing import clock, guards
from functions.rules.replacing.book import Entry, Intent, Phase
from functions.rules.replacing.facts import (
    FUNCTION,
    Act,
    Closer,
    Facts,
    Guard,
    MachineFacts,
    Seen,
    Step,
    Verdict,
)

TICK = timedelta(minutes=1)
LOOK_AT_PODS = timedelta(hours=1)
"""How often the pods of a node that nobody drains are looked at: the list of one node's pods, for
each node that is cordoned for a fault."""
NOT_YET = frozenset({Guard.TIME, Guard.LADDER, Guard.MEMORY, Guard.LOOKED})
"""Guards that pass by time alone: what they hold is due later, and is told then."""
LOOK_AT_HELD = timedelta(minutes=30)
"""For a simulated clock: the resync looks each minute, whatever holds."""
TAKE_OVER = timedelta(minutes=2)
"""After that long an intent that nobody has followed is another call's: ten times what a call may
take between writing it and asking."""
CLOUDS = ("ec2", "autoscaling", "karpenter")
"""Ways that know whether a machine is there without its Node."""
LOOK_FOR_LOST = timedelta(minutes=10)
"""How often the cloud is asked for a machine that no Node stands for."""
AT_RISK = "dev.groundcrew.sla.at-risk"
REBOOTED = "dev.groundcrew.vm.rebooted"
RESET_WANTED = "dev.groundcrew.gpu.reset-wanted"

Answer = tuple[str, dict[str, object]]


def decide(one: MachineFacts, facts: Facts, policy: Policy, now: datetime) -> Step:
    """For a machine that is not ending, nor gone for us."""
    entry = one.entry
    if one.view is None:
        return _lost(one, entry, policy, now) if entry else Step(facts=one, entry=None)
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
    if entry.phase is Phase.REBOOTING:
        return _rebooting(one, entry, policy, now)
    if entry.phase is Phase.RESETTING:
        return _resetting(one, entry, policy, now)
    if risk := _at_risk(one, entry, found, facts, policy, now):
        return risk
    return _next_rung(one, entry, found, facts, policy, now)


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


def say(one: MachineFacts, action: Action, reason: str, **more: object) -> Decision:
    entry, view = one.entry, one.view
    base = Decision(
        function=FUNCTION,
        action=action,
        node=view.name if view else entry.node if entry else one.machine,
        pool=one.pool,
        reason=reason,
        incident=entry.fault if entry else "",
    )
    return msgspec.structs.replace(base, **more)


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
            host=entry.host if entry else "",
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
        host=(closer.host if closer else "") or entry.host,
        empty=_empty_since(one, entry, found, now),
    )


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
    closed = msgspec.structs.replace(
        entry,
        phase=Phase.CLOSED,
        changed=now,
        intent=None,
        holding=(),
        outcome=f"recovered: {why}",
    )
    return Step(
        facts=one,
        entry=closed,
        decisions=(say(one, Action.CLOCK_STOPPED, f"its clock stops: {why}"),),
    )


def _lost(one: MachineFacts, entry: Entry, policy: Policy, now: datetime) -> Step:
    """No Node stands for it: its clock runs, and nothing is asked but whether it is there."""
    if entry.over:
        return Step(facts=one, entry=entry)
    closer = one.closer
    if closer is not None and _is_gone(closer, entry):
        gone = msgspec.structs.replace(
            entry,
            phase=Phase.CLOSED,
            changed=now,
            intent=None,
            holding=(),
            outcome=f"gone: {closer.says or 'the cloud says so'}, and not by us",
        )
        said = say(one, Action.GONE, "it ended without us, and its Node is gone")
        return Step(facts=one, entry=gone, decisions=(said,))
    since = now - entry.changed
    due = since % LOOK_FOR_LOST < TICK and closer is None
    again = now + LOOK_FOR_LOST - since % LOOK_FOR_LOST
    verdict = Verdict(Guard.NODE, False, "no Node stands for it: nothing ends without one")
    step = Step(
        facts=one,
        entry=entry,
        act=Act.LOOK_AT_CLOUD if due else Act.NONE,
        guards=(verdict,),
        look_again=again,
    )
    risk = warned(one, entry, policy, now, (verdict,))
    return risk or step


def _is_gone(closer: Closer, entry: Entry) -> bool:
    """By the word of who runs it: that a Node is gone says nothing of its machine. EC2 forgets a
    machine an hour after its end; who never knew it is another account."""
    if closer.way not in CLOUDS:
        return False
    forgotten = closer.seen is Seen.UNKNOWN and closer.account and closer.account == entry.account
    return closer.seen in (Seen.ENDING, Seen.GONE) or bool(forgotten)


def _rebooting(one: MachineFacts, entry: Entry, policy: Policy, now: datetime) -> Step:
    intent, view = entry.intent, one.view
    assert view is not None
    if intent is None:
        return Step(facts=one, entry=msgspec.structs.replace(entry, phase=Phase.SICK))
    behind = msgspec.structs.replace(
        entry, phase=Phase.SICK, changed=now, intent=None, tried=_with(entry.tried, intent.rung)
    )
    if view.boot_id and view.boot_id != intent.boot:
        took = now - intent.at
        said = say(one, Action.REBOOTED, f"it has booted anew, {_minutes(took)} after it was asked")
        return Step(
            facts=one, entry=behind, decisions=(said,), answer=_answer(REBOOTED, one, entry)
        )
    over = intent.at + policy.reboots.confirmed_within
    if now < over:
        return Step(facts=one, entry=entry, rung="reboot", look_again=over)
    said = say(
        one,
        Action.HOLD,
        f"asked to reboot, it has the same boot ID after {policy.reboots.confirmed_within}: "
        f"the ladder goes on{'; ' + intent.said if intent.said else ''}",
        blocked_by=("reboot",),
    )
    return Step(facts=one, entry=behind, decisions=(said,), look_again=now + TICK)


def _resetting(one: MachineFacts, entry: Entry, policy: Policy, now: datetime) -> Step:
    """Whether it helped shows as recovery, or as nothing; after its time the ladder goes on."""
    intent = entry.intent
    over = (intent.at if intent else entry.changed) + policy.replace.handed_over_within
    if now < over:
        return Step(facts=one, entry=entry, rung="reset", look_again=over)
    behind = msgspec.structs.replace(
        entry, phase=Phase.SICK, changed=now, intent=None, tried=_with(entry.tried, "reset")
    )
    said = say(
        one,
        Action.HOLD,
        "the reset of its GPUs has not helped in the time it had: the ladder goes on",
        blocked_by=("reset",),
    )
    return Step(facts=one, entry=behind, decisions=(said,), look_again=now + TICK)


def _next_rung(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    facts: Facts,
    policy: Policy,
    now: datetime,
) -> Step:
    shadow = not guards.shadow(one, found, policy).passed
    rung = next_of(one, entry, found, policy, now, shadow=shadow)
    end = guards.for_end(one, entry, found, facts, policy, now)
    limit = guards.at_limit(entry, policy)
    again = _looks(entry, found, policy, now, limit)
    if not rung:
        return Step(facts=one, entry=entry, guards=end, look_again=again)
    checked = end
    if rung != "replace":
        checked = guards.for_reboot(one, entry, found, facts, policy, now)
        if rung == "reset":
            checked = tuple(v for v in checked if v.guard not in (Guard.REBOOTS, Guard.CLOUD))
    holding = [v for v in checked if not v.passed]
    blind = found[0].severity is not Severity.EVICT and one.closer is None and one.state == "cordon"
    if blind and (now - found[0].first) % LOOK_AT_PODS < TICK:
        # Nobody drains it: whether its work has left is seen by looking.
        return Step(
            facts=one, entry=entry, act=Act.LOOK_CLOSER, guards=checked, rung=rung, look_again=again
        )
    turns = [at for at in (again, *guards.turns(one, facts, policy, now)) if at]
    again = min(turns, default=None)
    names = {v.guard for v in holding}
    if names & NOT_YET or (Guard.WORK in names and one.closer is None):
        # Its time has not come, and that is nothing to tell.
        return Step(facts=one, entry=entry, guards=checked, rung=rung, look_again=again)
    others = [v for v in holding if v.guard is not Guard.SHADOW]
    if not others and one.closer is None:
        return Step(
            facts=one,
            entry=entry,
            act=Act.LOOK_CLOSER,
            guards=checked,
            rung=rung,
            look_again=now + TICK,
        )
    if not holding:
        act = {"reset": Act.RESET, "reboot": Act.REBOOT, "replace": Act.TERMINATE}[rung]
        free = msgspec.structs.replace(entry, holding=())
        return Step(
            facts=one, entry=free, act=act, guards=checked, rung=rung, look_again=now + TICK
        )
    if not others:
        return _only_told(one, entry, rung, checked, now, again)
    return _held(one, entry, rung, checked, now, again)


def next_of(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    policy: Policy,
    now: datetime,
    *,
    shadow: bool,
) -> str:
    """The rung that comes next; at the limit the last one, whatever is left of the others. What
    has been told in shadow is behind it as long as nothing else may be done."""
    rungs = guards.rungs_of(found, one.pool, policy)
    told = entry.would if shadow else ()
    limit = guards.at_limit(entry, policy)
    if limit and now >= limit and "replace" in rungs:
        return "" if "replace" in told else "replace"
    recent = [at for at in entry.reboots if now - at < policy.reboots.within]
    # Whoever has rebooted it meanwhile: it was put to the test.
    booted = bool(entry.boots) or any(incident.rebooted for incident in found)
    for rung in rungs:
        if rung in entry.tried or rung in told:
            continue
        if rung == "reboot" and (
            booted or len(recent) >= policy.reboots.most or _boot_is_no_proof(one)
        ):
            continue
        return rung
    return ""


def _boot_is_no_proof(one: MachineFacts) -> bool:
    """Without boot IDs nobody would know that it was rebooted."""
    return one.view is not None and not one.view.boot_id


def _only_told(
    one: MachineFacts,
    entry: Entry,
    rung: str,
    checked: tuple[Verdict, ...],
    now: datetime,
    again: datetime | None,
) -> Step:
    """All but the shadow speaks for it: said once, and the ladder goes on as if it were done."""
    why = next(v.says for v in checked if v.guard is Guard.SHADOW)
    would = msgspec.structs.replace(entry, would=_with(entry.would, rung), changed=now, holding=())
    said = say(
        one,
        Action.HOLD,
        f"it would {_verb(rung)} now ({reason_of(checked)}); {why}",
        blocked_by=("shadow",),
        shadow=True,
    )
    return Step(
        facts=one, entry=would, guards=checked, rung=rung, decisions=(said,), look_again=again
    )


def _held(
    one: MachineFacts,
    entry: Entry,
    rung: str,
    checked: tuple[Verdict, ...],
    now: datetime,
    again: datetime | None,
) -> Step:
    """It is due, and something else holds: told when what holds has changed."""
    names = tuple(v.guard.value for v in checked if not v.passed)
    looks = min(again or now + LOOK_AT_HELD, now + LOOK_AT_HELD)
    if names == entry.holding:
        return Step(facts=one, entry=entry, guards=checked, rung=rung, look_again=looks)
    others = [v for v in checked if not v.passed and v.guard is not Guard.SHADOW]
    says = "; ".join(f"{v.guard.value}: {v.says}" for v in others)
    shadow = len(others) < len(names)
    would = "would" if shadow else "is to"
    said = say(
        one,
        Action.HOLD,
        f"it {would} {_verb(rung)}, and may not: {says}",
        blocked_by=names,
        shadow=shadow,
    )
    kept = msgspec.structs.replace(entry, holding=names)
    return Step(
        facts=one, entry=kept, guards=checked, rung=rung, decisions=(said,), look_again=looks
    )


def _at_risk(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    facts: Facts,
    policy: Policy,
    now: datetime,
) -> Step | None:
    if not _is_warning_due(entry, policy, now):
        return None
    return warned(one, entry, policy, now, guards.for_end(one, entry, found, facts, policy, now))


def _is_warning_due(entry: Entry, policy: Policy, now: datetime) -> bool:
    return entry.began is not None and _passed(entry, policy, now) > entry.warned


def _passed(entry: Entry, policy: Policy, now: datetime) -> int:
    assert entry.began is not None
    times = [*sorted(policy.seven_days.at_risk), policy.seven_days.limit]
    return sum(now - entry.began >= at for at in times)


def warned(
    one: MachineFacts, entry: Entry, policy: Policy, now: datetime, checked: tuple[Verdict, ...]
) -> Step | None:
    """That the seven days are at risk, once at each of the policy's times; None: not due."""
    if not _is_warning_due(entry, policy, now):
        return None
    limit = guards.at_limit(entry, policy)
    assert limit is not None
    names = [v.guard.value for v in checked if not v.passed]
    left = limit - now
    time = (
        f"{_days(left)} left of the seven days"
        if left > timedelta(0)
        else ("the seven days are over")
    )
    says = "; ".join(f"{v.guard.value}: {v.says}" for v in checked if not v.passed)
    said = say(one, Action.AT_RISK, f"{time}; {says or 'it is due'}", blocked_by=tuple(names))
    told = msgspec.structs.replace(entry, warned=_passed(entry, policy, now))
    more: dict[str, object] = {"due": limit, "holding": names}
    return Step(
        facts=one,
        entry=told,
        guards=checked,
        decisions=(said,),
        answer=_answer(AT_RISK, one, entry, **more),
        look_again=now + TICK,
    )


def _looks(
    entry: Entry, found: Sequence[Incident], policy: Policy, now: datetime, limit: datetime | None
) -> datetime | None:
    """When time alone changes something next."""
    times: list[datetime] = [limit] if limit else []
    if entry.began:
        times += (entry.began + at for at in policy.seven_days.at_risk)
    if entry.empty:
        times += (
            entry.empty + policy.reboots.settle,
            entry.empty + guards.settle_of(found, policy),
        )
    if entry.boots:
        times.append(entry.boots[-1] + policy.reboots.watched)
    if found and found[0].severity is not Severity.EVICT:
        times.append(now + LOOK_AT_PODS - (now - found[0].first) % LOOK_AT_PODS)
    return min((at for at in times if at > now), default=None)


def reason_of(checked: Sequence[Verdict]) -> str:
    """Why it is done, of the guards that speak for it."""
    telling = (Guard.EVIDENCE, Guard.TIME, Guard.WORK)
    return "; ".join(v.says for v in checked if v.guard in telling and v.passed)


def _answer(kind: str, one: MachineFacts, entry: Entry, **more: object) -> Answer:
    node = one.view.name if one.view else entry.node
    return kind, {"node": node, "machine": one.machine, "began": entry.began, **more}


def intend(
    one: MachineFacts, entry: Entry, rung: str, token: str, why: str, now: datetime
) -> Entry:
    """``entry`` with the intent to take ``rung``, to be written before anything is asked."""
    phase = {"reset": Phase.RESETTING, "reboot": Phase.REBOOTING, "replace": Phase.ENDING}[rung]
    closer = one.closer
    intent = Intent(
        rung=rung,
        token=token,
        at=now,
        boot=one.view.boot_id if one.view else "",
        way=closer.way if closer else "",
        why=why,
    )
    return msgspec.structs.replace(
        entry,
        phase=phase,
        changed=now,
        intent=intent,
        holding=(),
        reboots=(*entry.reboots, now)[-5:] if rung == "reboot" else entry.reboots,
        host=(closer.host if closer else "") or entry.host,
        account=(closer.account if closer else "") or entry.account,
    )


def _with(rungs: tuple[str, ...], rung: str) -> tuple[str, ...]:
    return rungs if rung in rungs else (*rungs, rung)


def _verb(rung: str) -> str:
    return {
        "reset": "have its GPUs reset",
        "reboot": "be rebooted",
        "replace": "be ended and replaced",
    }[rung]


def _minutes(length: timedelta) -> str:
    return f"{max(1, round(length.total_seconds() / 60))} min"


def _days(length: timedelta) -> str:
    hours = int(length.total_seconds() // 3600)
    days, hours = divmod(hours, 24)
    return " ".join([f"{days} d"] * bool(days) + [f"{hours} h"] * bool(hours)) or "less than 1 h"
