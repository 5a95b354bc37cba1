"""Which nodes nothing can come of: their incidents are over, and nobody says anything new.

What is over stays on its node for days. On a fleet of hundreds that becomes every third node, and
each reading of the fleet would decide about all of them anew, only to find nothing.
"""

from collections.abc import Mapping
from datetime import datetime

from events.notice import Kind
from functions.rules import incidents
from functions.rules.cordoning.facts import NodeFacts
from functions.rules.incidents import Record, State
from functions.rules.keys import RELEASED
from functions.rules.ledger import Ledger
from functions.rules.policy import Policy

_QUIET = (Kind.RECOVERY, Kind.INFORMATIONAL)
"""Kinds of notices that begin nothing."""


def is_at_rest(
    facts: NodeFacts, ledgers: Mapping[str, Ledger], policy: Policy, now: datetime
) -> bool:
    """Whether `decide` would leave the node and the ledgers of the pools as they are, and say
    nothing. False where that is not plain."""
    view = facts.view
    if view.state != RELEASED or view.incidents is None or view.drain is not None:
        return False
    if any(n.kind not in _QUIET for n in (*facts.notices, *(facts.live or ()))):
        return False
    try:
        record = incidents.decode(view.incidents)
    except incidents.Unreadable:
        return False
    return (
        record.machine == view.machine
        and not (record.cordon or record.held)
        and all(incident.state is State.CLOSED for incident in record.incidents)
        and record.gpus >= (view.gpus or 0)
        and incidents.tidy(record, policy, now) == record
        and _is_remembered(record, facts, ledgers)
    )


def _is_remembered(record: Record, facts: NodeFacts, ledgers: Mapping[str, Ledger]) -> bool:
    """Whether the ledgers know of the machine what they are to know, and no more."""
    view = facts.view
    known = {
        p: led.machines[view.machine] for p, led in ledgers.items() if view.machine in led.machines
    }
    if not record.releases:
        return not known
    if known.keys() != {view.pool}:
        return False
    mine = known[view.pool]
    return mine.record == view.incidents and not mine.leaving
