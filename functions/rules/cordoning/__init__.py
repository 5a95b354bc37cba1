"""From what is known of nodes to what is done about them: the decisions of `functions.cordon`.

Pure. `decide` takes nodes with what was said about them, the ledgers as read and the places out
of service; it returns, per node, the new record and what to change, and the ledgers to write
before any node is patched. Called again with fresh facts when a write lost a race.
"""

from datetime import datetime

from functions.rules.cordoning.doubts import doubts_of, in_doubt, look_at_breakers, tell_breakers
from functions.rules.cordoning.facts import (
    ACTED,
    FUNCTION,
    Facts,
    NodeFacts,
    Plan,
    Verdict,
    domains_of,
    is_out,
    remembered,
)
from functions.rules.cordoning.hearing import hear
from functions.rules.cordoning.judging import judge
from functions.rules.cordoning.remembering import keep_machines, keep_others
from functions.rules.cordoning.reserving import reserve
from functions.rules.cordoning.resting import is_at_rest
from functions.rules.cordoning.settling import settle
from functions.rules.cordoning.wishes import Wish, wish_of
from functions.rules.decision import Action
from functions.rules.keys import HELD, RELEASED, RETURNING
from functions.rules.policy import Policy

__all__ = [
    "ACTED",
    "FUNCTION",
    "HELD",
    "RELEASED",
    "RETURNING",
    "Facts",
    "NodeFacts",
    "Plan",
    "Verdict",
    "Wish",
    "decide",
    "domains_of",
    "in_doubt",
    "is_at_rest",
    "is_out",
    "look_at_breakers",
    "remembered",
    "wish_of",
]


def decide(facts: Facts, policy: Policy, now: datetime) -> Plan:
    ledgers = {pool: look_at_breakers(led, policy, now) for pool, led in facts.ledgers.items()}
    heard = [hear(node, ledgers, policy, now) for node in facts.nodes]
    tell_breakers(heard, ledgers, policy, now)
    settled = [settle(case, ledgers, policy, now) for case in heard]
    over = [case for case in settled if any(d.action is Action.CLOSE for d in case.decisions)]
    tell_breakers(over, ledgers, policy, now)
    doubts = {pool: doubts_of(found, policy, now) for pool, found in ledgers.items()}
    for case in settled:
        case.doubts = doubts.get(case.view.pool, {})
    allowed, cluster, asked = reserve(settled, facts, ledgers, policy, now)
    verdicts = tuple(judge(one, allowed, facts, ledgers, policy, now) for one in settled)
    keep_machines(verdicts, ledgers, now)
    keep_others(verdicts, ledgers)
    return Plan(
        verdicts=verdicts,
        ledgers={p: led for p, led in ledgers.items() if led is not facts.ledgers.get(p)},
        cluster=cluster if cluster is not facts.cluster else None,
        asked=asked,
    )
