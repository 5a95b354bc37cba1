"""What ``explain`` and ``status`` say of a machine's clock, its ladder and the guards before its
end, as data: from the books, and from the same rules that replace decides by. Nothing is written,
and the cloud is not asked."""

from datetime import datetime

import msgspec

from functions.gateways.aws.client import connect as connect_aws
from functions.gateways.kubernetes import types
from functions.rules.policy import Policy
from functions.rules.replacing import clock, guards
from functions.rules.replacing.book import Entry
from functions.rules.replacing.case import Case
from functions.rules.replacing.rungs import next_of
from functions.steps import mark
from functions.steps.active import Active
from functions.steps.replacing import gather
from functions.steps.replacing.crew import Crew, books
from infra.cli.connect import Session


class Guard(msgspec.Struct, frozen=True):
    name: str
    passed: bool
    says: str


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    machine: str
    phase: str
    began: datetime | None = None
    """Our first sight of its fault: when its clock began."""
    due: datetime | None = None
    """When the seven days are over."""
    rung: str = ""
    """That comes next."""
    tried: tuple[str, ...] = ()
    would: tuple[str, ...] = ()
    """Rungs that would have been taken, where it is only told."""
    reboots: tuple[datetime, ...] = ()
    holding: tuple[str, ...] = ()
    """Guards that held when it was wanted last."""
    intent: str = ""
    """What is being asked, and what came of it."""
    beside: tuple[str, ...] = ()
    """Who else repairs nodes here."""
    host: str = ""
    gpus: tuple[str, ...] = ()
    collected: str = ""
    """What came of the evidence that was to be collected before its end."""
    ended: datetime | None = None
    replacement: str = ""
    outcome: str = ""
    guards: tuple[Guard, ...] = ()
    """Before its end, as they are now."""


def of_entry(machine: str, entry: Entry, policy: Policy) -> Replacement:
    """What the book alone says: of a machine that is gone, or for a list."""
    intent = entry.intent
    words = ""
    if intent:
        asked = f"asked at {intent.asked:%Y-%m-%d %H:%M}Z" if intent.asked else "not answered yet"
        words = f"{intent.rung}, since {intent.at:%Y-%m-%d %H:%M}Z, {asked}"
        words += f": {intent.said}" if intent.said else ""
        words += f" ({intent.why})" if intent.why else ""
    return Replacement(
        machine=machine,
        phase=entry.phase.value,
        began=entry.began,
        due=entry.began + policy.seven_days.limit if entry.began and not entry.over else None,
        tried=entry.tried,
        would=entry.would,
        reboots=entry.reboots,
        holding=entry.holding,
        intent=words,
        beside=entry.beside,
        host=entry.host,
        gpus=entry.gpus,
        collected=entry.collected,
        ended=entry.ended,
        replacement=entry.replacement,
        outcome=entry.outcome,
    )


def find(active: Active, machine: str) -> tuple[str, Entry] | None:
    """The pool in whose book it is, and its entry."""
    for pool, book in books(active)[0].items():
        if machine in book.machines:
            return pool, book.machines[machine]
    return None


def of_node(session: Session, node: types.Node) -> Replacement | None:
    """Of a Node's machine, with every guard; None when no clock runs for it, nor ever did."""
    crew = Crew(
        cluster=session.cluster,
        clock=session.clock,
        namespace=session.namespace,
        seconds=30.0,
        aws=connect_aws,
    )
    view = mark.view(node, crew.policy)
    machine = node.provider_id or f"uid:{node.metadata.uid}"
    one = gather.machine_facts(crew, machine, node, view)
    found = clock.faults(one.record)
    entry = one.entry
    if entry is None and not found:
        return None
    if entry is None or (entry.over and found):
        entry = Entry(node=node.name, changed=crew.now(), began=clock.began(found, None))
    report = of_entry(machine, entry, crew.policy)
    if entry.over:
        return report
    case = Case(one, entry, found, gather.of(crew, (one,)), crew.policy, crew.now())
    checked = guards.for_end(case)
    return msgspec.structs.replace(
        report,
        rung=next_of(case, shadow=not guards.shadow(case).passed),
        guards=tuple(Guard(v.guard.value, v.passed, v.says) for v in checked),
    )
