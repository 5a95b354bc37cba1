"""What is said of one machine: decisions, answers, and lengths of time in words."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from functions.rules.decision import Action, Decision
from functions.rules.replacing.book import Entry
from functions.rules.replacing.facts import FUNCTION, Guard, MachineFacts, Verdict

Answer = tuple[str, dict[str, object]]


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


def answer(kind: str, one: MachineFacts, entry: Entry, **more: object) -> Answer:
    node = one.view.name if one.view else entry.node
    return kind, {"node": node, "machine": one.machine, "began": entry.began, **more}


def reason_of(checked: Sequence[Verdict]) -> str:
    """Why it is done, of the guards that speak for it."""
    telling = (Guard.EVIDENCE, Guard.TIME, Guard.WORK)
    return "; ".join(v.says for v in checked if v.guard in telling and v.passed)


def verb(rung: str) -> str:
    return {
        "reset": "have its GPUs reset",
        "reboot": "be rebooted",
        "replace": "be ended and replaced",
    }[rung]


def minutes(length: timedelta) -> str:
    return f"{max(1, round(length.total_seconds() / 60))} min"


def days(length: timedelta) -> str:
    hours = int(length.total_seconds() // 3600)
    whole, hours = divmod(hours, 24)
    return " ".join([f"{whole} d"] * bool(whole) + [f"{hours} h"] * bool(hours)) or "less than 1 h"
