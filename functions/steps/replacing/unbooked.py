"""Sick machines of a pool whose book is missing or cannot be read: nothing is done there, and what
cannot be remembered is told from the nodes alone."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from functions.gateways.kubernetes import types
from functions.rules import cordoning, incidents, keys, replacing
from functions.rules.decision import Action, Decision
from functions.rules.replacing import FUNCTION, MachineFacts, clock
from functions.rules.replacing.words import days
from functions.steps import mark
from functions.steps.active import ledger_name
from functions.steps.replacing.crew import Crew
from functions.steps.replacing.gather import Nodes

WINDOW = timedelta(minutes=2)
"""Two looks of the clock: a time that passed within them is told, perhaps twice, and not never."""


def held(crew: Crew, nodes: Nodes) -> list[Decision]:
    """For each pool with nodes out of service whose book is missing or cannot be read: nothing is
    done there, and no clock can be kept."""
    found: dict[str, list[str]] = {}
    for node in nodes.values():
        pool = crew.policy.pool_of(node.metadata.labels)
        if pool not in crew.books and node.metadata.label(keys.STATE) in cordoning.ACTED:
            found.setdefault(pool, []).append(node.name)
    return [
        Decision(
            function=FUNCTION,
            action=Action.HOLD,
            node=min(names),
            pool=pool,
            reason=f"{len(names)} nodes of pool {pool} are out of service and no clock is kept for "
            "their machines: its book "
            + (
                f"cannot be read ({crew.trouble[pool]}): delete the key `replacements` of "
                f"ConfigMap {ledger_name(pool)}"
                if pool in crew.trouble
                else "is missing: cordon's resync makes it. Is it running?"
            ),
            blocked_by=("memory",),
        )
        for pool, names in sorted(found.items())
    ]


def at_risk(crew: Crew, nodes: Nodes) -> Iterator[tuple[Decision, datetime]]:
    """Machines whose seven days have just come a step nearer to their end, and when that is. No
    book says what has been told, so each is told at its time and not later."""
    rule = crew.policy.seven_days
    for node in nodes.values():
        pool = crew.policy.pool_of(node.metadata.labels)
        began = None if pool in crew.books else _began(crew, node)
        if began is None:
            continue
        gone = crew.now() - began
        if not any(at <= gone < at + WINDOW for at in (*rule.at_risk, rule.limit)):
            continue
        left = rule.limit - gone
        time = f"{days(left)} left of the seven days" if left > timedelta(0) else "they are over"
        one = MachineFacts(machine=node.provider_id, pool=pool, view=mark.view(node, crew.policy))
        says = f"{time}; memory: the book of pool {pool} is missing, and nothing is done"
        said = replacing.say(one, Action.AT_RISK, says, blocked_by=("memory",))
        yield said, began + rule.limit


def _began(crew: Crew, node: types.Node) -> datetime | None:
    if node.metadata.label(keys.STATE) not in cordoning.ACTED:
        return None
    try:
        return clock.began(clock.faults(incidents.read(mark.view(node, crew.policy))), None)
    except incidents.Unreadable:
        return None
