"""Last: the ledger's copy of what must outlive the node, and of who else keeps it out."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from events.notice import Severity
from functions.rules import incidents
from functions.rules.cordoning.facts import ACTED, Verdict, is_out
from functions.rules.incidents import State
from functions.rules.ledger import Ledger, Machine, live


def keep_others(verdicts: Iterable[Verdict], ledgers: dict[str, Ledger]) -> None:
    """Nodes that stay out of service when no incident of ours asks for it any more: somebody else
    cordoned them. Else they would be counted by nobody until all nodes are read again."""
    for verdict in verdicts:
        view = verdict.view
        found = ledgers.get(view.pool)
        stays = view.unschedulable and verdict.unschedulable is None
        if found and stays and verdict.state not in ACTED and view.machine not in found.others:
            others = {**found.others, view.machine: view.name}
            ledgers[view.pool] = msgspec.structs.replace(found, others=others)


def keep_machines(verdicts: Iterable[Verdict], ledgers: dict[str, Ledger], now: datetime) -> None:
    """The ledgers' copies of what must outlive the nodes, each in its node's pool alone."""
    kept = {pool: dict(found.machines) for pool, found in ledgers.items()}
    reserved = {machine for found in ledgers.values() for machine in live(found, now)}
    for verdict in verdicts:
        view, record = verdict.view, verdict.record
        if not verdict.changed and record.cordon is None and view.machine in reserved:
            # Somebody may have cordoned it since we read it, and wrote it down here. With nothing
            # to patch nobody would find that out, and the node would be counted by nobody.
            continue
        # What a mad monitor says of thousands, and is not acted on, would push out the rest.
        outlives = bool(record.cordon or record.releases) or (
            "breaker" not in record.held
            and any(
                i.severity > Severity.WATCH for i in record.incidents if i.state is not State.CLOSED
            )
        )
        for pool, machines in kept.items():
            known = machines.get(view.machine)
            if pool == view.pool and outlives:
                text = incidents.encode(record)
                leaving = is_out(view) and record.cordon is None
                if known is None or (known.record, known.leaving) != (text, leaving):
                    machines[view.machine] = Machine(view.name, now, text, view.uid, leaving)
            elif known is not None and (not outlives or view.pool in kept):
                # Over; or the node is of another pool now, and remembered there.
                del machines[view.machine]
    for pool, machines in kept.items():
        if machines != ledgers[pool].machines:
            ledgers[pool] = msgspec.structs.replace(ledgers[pool], machines=machines)
