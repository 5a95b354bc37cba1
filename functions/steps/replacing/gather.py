"""What is known of sick machines: their nodes as read now, cordon's rules on them, the books."""

from collections.abc import Iterable
from datetime import UTC, datetime

from events.sources import kubernetes_node
from functions.gateways.kubernetes import errors, types
from functions.rules import cordoning, drain_state, hold, incidents, keys
from functions.rules.cordoning import NodeFacts
from functions.rules.drain_state import DrainState
from functions.rules.incidents import Record
from functions.rules.node_view import NodeView
from functions.rules.replacing import Facts, Joined, MachineFacts, clock
from functions.rules.replacing.book import Phase
from functions.steps import find, mark, terminate
from functions.steps.active import CLUSTER
from functions.steps.replacing import beside
from functions.steps.replacing.crew import Crew

RESERVED = {
    ("karpenter.sh/capacity-type", "reserved"): "it runs in a capacity reservation",
    ("eks.amazonaws.com/capacityType", "CAPACITY_BLOCK"): "it runs in a capacity block",
}
"""Labels by which a node's capacity is known to be reserved."""
DISRUPTED, UNREGISTERED = "karpenter.sh/disrupted", "karpenter.sh/unregistered"
"""Taints of Karpenter's: on a node that it is about to end; on one that it has not taken in yet."""
HOSTS = (keys.HOST, "cloud.google.com/gce-topology-host")
"""Labels that name the physical host of a node."""
_NEVER = datetime.min.replace(tzinfo=UTC)

Nodes = dict[str, types.Node]
"""By provider ID, or ``uid:...`` where a Node has none."""


def facts(crew: Crew) -> tuple[Facts, Nodes]:
    """All machines that are sick or remembered as not over, in pools whose book can be read."""
    nodes: Nodes = {_machine(node): node for node in crew.cluster.list_nodes(mark.UNSETTLED)}
    joined = None
    open_entries = {
        (pool, machine): entry
        for pool, book in crew.books.items()
        for machine, entry in book.machines.items()
        if not entry.over
    }
    # Of one that is known to be missing every ten minutes will do.
    often = crew.now().minute % 10 == 0
    awaited = any(
        e.phase is Phase.ENDED and (often or not e.missing) for e in open_entries.values()
    )
    if awaited or (often and _may_come_back(crew)):
        every = list(crew.cluster.list_nodes())
        nodes = {_machine(node): node for node in every}
        joined = tuple(_joined(node, crew) for node in every)
    else:
        for (_, machine), entry in open_entries.items():
            if machine not in nodes and (found := _look_up(crew, machine, entry.node)):
                nodes[machine] = found
    remembered = {machine for _, machine in open_entries}
    made = []
    seen = set()
    for machine, node in nodes.items():
        if machine not in remembered and not _may_be_sick(node):
            continue
        view = mark.view(node, crew.policy)
        if view.pool not in crew.books:
            continue
        seen.add(machine)
        made.append(machine_facts(crew, machine, node, view))
    by_uid = {f"uid:{node.metadata.uid}": node.provider_id for node in nodes.values()}
    for (pool, machine), entry in open_entries.items():
        if machine not in seen:
            made.append(
                MachineFacts(
                    machine=machine,
                    pool=pool,
                    entry=entry,
                    known_as=by_uid.get(machine, ""),
                    hold=hold.why(crew.active.holds, machine, crew.now()),
                )
            )
    return of(crew, made, joined), nodes


def _may_come_back(crew: Crew) -> bool:
    """Whether hardware is known by which a machine that ended would be told when it comes back."""
    entries = (entry for book in crew.books.values() for entry in book.machines.values())
    return any(entry.ended and (entry.gpus or entry.host) for entry in entries)


def of(crew: Crew, made: Iterable[MachineFacts], joined: tuple[Joined, ...] | None = None) -> Facts:
    now = crew.now()
    return Facts(
        machines=tuple(made),
        books=dict(crew.books),
        ledgers=crew.active.pools,
        cluster=crew.active.ledgers.get(CLUSTER),
        joined=joined,
        paused=lambda pool: crew.active.paused(pool, now),
        collects=bool(crew.active.evidence),
        trouble=dict(crew.trouble),
    )


def machine_facts(crew: Crew, machine: str, node: types.Node, view: NodeView) -> MachineFacts:
    now = crew.now()
    record, state = _as_cordon_sees(crew, node, view)
    # A machine whose node moved to another pool is remembered where it was.
    pool = next((p for p, b in crew.books.items() if machine in b.machines), view.pool)
    entry = crew.books[pool].machines.get(machine) if pool in crew.books else None
    labels = node.metadata.labels or {}
    return MachineFacts(
        machine=machine,
        pool=pool,
        view=view,
        record=record,
        state=state,
        drain=_drain(node),
        entry=entry,
        ready=node.ready == "True",
        hold=hold.why(crew.active.holds, machine, now),
        approved=node.metadata.annotation(keys.APPROVED) == machine,
        reserved=next((w for (k, v), w in RESERVED.items() if labels.get(k) == v), ""),
        others=tuple(beside.of_node(node)),
        owner=terminate.owner(node),
        leaving=_leaving(node),
        gpus=_gpus(node),
        host=_host(node),
    )


def _leaving(node: types.Node) -> str:
    """By whom the machine of ``node`` is being ended, if its Node shows that."""
    if node.metadata.deletion_timestamp is not None:
        who = "Karpenter" if terminate.owner(node) == "karpenter" else "somebody"
        return f"{who} ends it: its Node is deleted since {node.metadata.deletion_timestamp:%H:%M}Z"
    if any(taint.key == DISRUPTED for taint in node.spec.taints or ()):
        return f"Karpenter is about to end it (taint {DISRUPTED})"
    return ""


def _as_cordon_sees(crew: Crew, node: types.Node, view: NodeView) -> tuple[Record | None, str]:
    """Its incidents and state as cordon would leave them if it looked now: what recovered since
    cordon's last look counts as recovered."""
    try:
        read = incidents.read(view)
    except incidents.Unreadable:
        return None, ""
    pools = crew.active.pools
    inherited = cordoning.remembered(pools, view.machine)
    if not clock.faults(read) and inherited is None:
        return read, view.state
    plan = cordoning.decide(
        cordoning.Facts(
            nodes=(NodeFacts(view, (), inherited, kubernetes_node.notices_of(node)),),
            ledgers=pools,
            cluster=crew.active.ledgers.get(CLUSTER),
            paused=lambda pool: crew.active.paused(pool, crew.now()),
        ),
        crew.policy,
        crew.now(),
    )
    (verdict,) = plan.verdicts
    return verdict.record, verdict.state


def _may_be_sick(node: types.Node) -> bool:
    """Whether it carries our mark, and more than history."""
    state = node.metadata.label(keys.STATE)
    marked = bool(state) or node.metadata.annotation(keys.INCIDENTS) is not None
    return marked and state != cordoning.RELEASED


def _look_up(crew: Crew, machine: str, name: str) -> types.Node | None:
    """The Node of ``machine`` that carries no mark of ours: by its name, or by its stamp."""
    try:
        node = crew.cluster.get_node(name)
        if _machine(node) == machine:
            return node
    except errors.NotFound:
        pass
    stamp = find.instance_id(machine)
    if not stamp or machine.startswith("uid:"):
        return None
    found = crew.cluster.list_nodes(f"{keys.INSTANCE}={stamp}")
    return next((node for node in found if _machine(node) == machine), None)


def serves(crew: Crew, node: types.Node, pool: str) -> bool:
    """Whether it is a node of ``pool`` that takes work."""
    found = _joined(node, crew)
    return found.pool == pool and not found.waits_for and not found.marked


def _joined(node: types.Node, crew: Crew) -> Joined:
    taints = {taint.key for taint in node.spec.taints or ()}
    startup = crew.policy.replace.startup_taint
    waits = ""
    if node.metadata.deletion_timestamp is not None or DISRUPTED in taints:
        waits = "is on its way out itself"
    elif startup in taints:
        waits = f"has its startup taint {startup}"
    elif UNREGISTERED in taints:
        waits = "is not registered with Karpenter"
    elif node.unschedulable:
        waits = "is cordoned"
    elif node.ready != "True":
        waits = "is not ready"
    return Joined(
        node=node.name,
        machine=node.provider_id,
        pool=crew.policy.pool_of(node.metadata.labels),
        created=node.metadata.creation_timestamp or _NEVER,
        waits_for=waits,
        gpus=_gpus(node),
        host=_host(node),
        marked=bool(node.metadata.label(keys.STATE)),
    )


def _machine(node: types.Node) -> str:
    return node.provider_id or f"uid:{node.metadata.uid}"


def _gpus(node: types.Node) -> tuple[str, ...]:
    text = node.metadata.annotation(keys.GPU_UUIDS) or ""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _host(node: types.Node) -> str:
    return next(filter(None, map(node.metadata.label, HOSTS)), "")


def _drain(node: types.Node) -> DrainState | None:
    text = node.metadata.annotation(keys.DRAIN)
    if text is None:
        return None
    try:
        found = drain_state.decode(text)
    except drain_state.Unreadable:
        return None
    mine = found.belongs_to(provider_id=node.provider_id, uid=node.metadata.uid, boot=node.boot_id)
    return found if mine else None
