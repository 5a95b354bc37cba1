"""Finding what an operator means by a name: a node, or a machine that the ledger remembers."""

import re
from dataclasses import dataclass

from functions.gateways.kubernetes import errors, types
from functions.rules import keys
from functions.rules.ledger import Machine, Pending
from functions.steps import active, find
from functions.steps.active import CLUSTER, Active
from functions.steps.replacing.crew import books
from infra.cli.connect import Refused, Session


@dataclass(frozen=True)
class Remembered:
    """One machine in the ledger of a pool."""

    provider_id: str
    pool: str
    entry: Machine


@dataclass(frozen=True)
class Found:
    active: Active
    node: types.Node | None
    remembered: tuple[Remembered, ...]
    """Machines of that name or ID in the ledgers, the one seen last first."""
    waiting: tuple[Pending, ...]
    """Notices about it for which no node was there."""


def look_up(session: Session, name: str) -> Found:
    """Raises `Refused` when neither a node nor a machine is meant by ``name``."""
    in_force = active.read(session.cluster, session.namespace)
    node = _node(session, name)
    machines = [
        Remembered(provider_id, pool, entry)
        for pool, led in in_force.pools.items()
        for provider_id, entry in led.machines.items()
        if provider_id == name
        or find.instance_id(provider_id) == name
        or entry.node == (node.name if node else name)
        or (node is not None and provider_id == node.provider_id)
    ]
    known = {m.provider_id for m in machines}
    machines += [
        Remembered(provider_id, pool, Machine(node=entry.node, seen=entry.changed, record=""))
        for pool, book in books(in_force)[0].items()
        for provider_id, entry in book.machines.items()
        if provider_id not in known
        and (
            provider_id == name
            or find.instance_id(provider_id) == name
            or entry.node == (node.name if node else name)
        )
    ]
    machines.sort(key=lambda m: m.entry.seen, reverse=True)
    ids = {f"node:{name}", find.instance_id(name)}
    if node:
        ids |= {f"node:{node.name}", find.instance_id(node.provider_id)}
    own = in_force.ledgers.get(CLUSTER)
    pending = own.pending if own else {}
    waiting = tuple(p for key, p in pending.items() if key.partition("/")[0] in ids)
    if node is None and not machines and not waiting:
        raise Refused(
            f"no node is called {name}, and the ledgers in namespace {session.namespace} know no "
            "machine of that name or ID: `groundcrew status --all` lists what there is"
        )
    return Found(in_force, node, tuple(machines), waiting)


def _node(session: Session, name: str) -> types.Node | None:
    instance = find.instance_id(name)
    if re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", name):
        try:
            return session.cluster.get_node(name)
        except errors.NotFound:
            pass
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", instance):
        return None
    return next(
        (
            node
            for node in session.cluster.list_nodes(f"{keys.INSTANCE}={instance}")
            if name in (instance, node.provider_id)
        ),
        None,
    )
