"""A reset or a reboot that was asked for, or was about to be: whether it came, and what follows if
it did not.

A rung is behind a machine when it was taken, or can never be. One that may not have been asked for
at all (its process died), or was refused in a way that passes by itself, is not: the next rung may
be the end of the machine.
"""

from dataclasses import replace
from datetime import datetime

import msgspec

from functions.rules.decision import Action
from functions.rules.replacing.book import Entry, Intent, Phase
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import TICK, Act, MachineFacts, Step
from functions.rules.replacing.rungs import next_rung
from functions.rules.replacing.words import answer, minutes, say

REBOOTED = "dev.groundcrew.vm.rebooted"
MOST_TOKENS = 3
"""Of earlier askings that are remembered: whoever is handed a machine is asked twice."""
RESETS = 2
"""How often a reset is asked for."""


def rebooting(case: Case) -> Step:
    one, entry, now = case.one, case.entry, case.now
    intent, view = entry.intent, one.view
    assert view is not None
    if intent is None:
        return Step(facts=one, entry=msgspec.structs.replace(entry, phase=Phase.SICK))
    if view.boot_id and view.boot_id != intent.boot:
        took = minutes(now - intent.at)
        said = say(one, Action.REBOOTED, f"it has booted anew, {took} after it was asked")
        return Step(
            facts=one,
            entry=_behind(entry, "reboot", now),
            decisions=(said,),
            answer=answer(REBOOTED, one, entry),
        )
    if intent.again is not None:
        return _refused(case, intent.again)
    within = case.policy.reboots.confirmed_within
    if now < intent.at + within:
        return Step(facts=one, entry=entry, rung="reboot", look_again=intent.at + within)
    if intent.asked is None:
        after = msgspec.structs.replace(entry, phase=Phase.SICK, changed=now, intent=None)
        says = "it was to be rebooted, nobody knows whether it was asked, and it has not booted"
    else:
        after = _behind(entry, "reboot", now)
        says = f"asked to reboot, it has the same boot ID after {within}: the ladder goes on"
    said = say(one, Action.HOLD, _with(says, intent.said), blocked_by=("reboot",))
    return Step(facts=one, entry=after, decisions=(said,), look_again=now + TICK)


def _refused(case: Case, again: datetime) -> Step:
    """It was not asked, and is to be once more at ``again``, if it still may."""
    if case.now < again:
        return Step(facts=case.one, entry=case.entry, rung="reboot", look_again=again)
    return _once_more(case, Act.REBOOT)


def _once_more(case: Case, act: Act) -> Step:
    """``act``, if it still may be done; else its intent is over."""
    entry = case.entry
    step = next_rung(replace(case, entry=msgspec.structs.replace(entry, phase=Phase.SICK)))
    if step.act is Act.LOOK_CLOSER:
        return replace(step, entry=entry)
    if step.act is act or step.entry is None:
        return step
    return replace(step, entry=msgspec.structs.replace(step.entry, intent=None, changed=case.now))


def resetting(case: Case) -> Step:
    """Whether it helped shows as recovery, or as nothing. After its time it is asked for once more,
    if it still may be: nobody says that it was heard. Then the ladder goes on."""
    one, entry, now = case.one, case.entry, case.now
    intent = entry.intent
    over = (intent.at if intent else entry.changed) + case.policy.replace.handed_over_within
    if now < over:
        return Step(facts=one, entry=entry, rung="reset", look_again=over)
    if intent and intent.tries + 1 < RESETS:
        return _once_more(case, Act.RESET)
    said = say(
        one,
        Action.HOLD,
        "the reset of its GPUs has not helped in the time it had: the ladder goes on",
        blocked_by=("reset",),
    )
    after = _behind(entry, "reset", now)
    return Step(facts=one, entry=after, decisions=(said,), look_again=now + TICK)


def intend(
    one: MachineFacts, entry: Entry, rung: str, token: str, why: str, now: datetime
) -> Entry:
    """``entry`` with the intent to take ``rung``, to be written before anything is asked. If that
    was asked before, it is one more try of it."""
    phase = {"reset": Phase.RESETTING, "reboot": Phase.REBOOTING, "replace": Phase.ENDING}[rung]
    closer = one.closer
    known = one.entry.intent if one.entry else None
    before = known if known and known.rung == rung else None
    intent = Intent(
        rung=rung,
        token=token,
        at=now,
        boot=one.view.boot_id if one.view else "",
        way=closer.way if closer else "",
        why=why,
        tries=before.tries + 1 if before else 0,
        earlier=(*before.earlier, before.token)[-MOST_TOKENS:] if before else (),
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


def refused(entry: Entry, intent: Intent, *, perhaps: bool, now: datetime) -> Entry:
    """``entry`` after a reboot was refused, with the refusal in ``intent``. Not asked for, it does
    not count as one of the few that a machine gets; ``perhaps`` it was, and then it does. Where
    there is no time to ask again it can never be, and the rung is behind it."""
    reboots = entry.reboots if perhaps else tuple(at for at in entry.reboots if at != intent.at)
    after = msgspec.structs.replace(entry, intent=intent, changed=now, reboots=reboots)
    return after if perhaps or intent.again else _behind(after, "reboot", now)


def _behind(entry: Entry, rung: str, now: datetime) -> Entry:
    return msgspec.structs.replace(
        entry,
        phase=Phase.SICK,
        changed=now,
        intent=None,
        tried=tuple(dict.fromkeys((*entry.tried, rung))),
    )


def _with(says: str, refusal: str) -> str:
    return f"{says}; {refusal}" if refusal else says
