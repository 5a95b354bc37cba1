"""Finding the node that a notice is about, in the cluster as it is now.

By name, with the provider ID checked (names are reused); by the label that the resync stamps; by
one full read for all that is left. What a Node says of itself now stands beside what the event
said: the event is a hint, and may be late.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from events.notice import Identity, Kind, Notice
from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import keys
from functions.steps import mark

RESERVATION = ("karpenter.k8s.aws/capacity-reservation-id", "groundcrew.dev/capacity-reservation")
"""Labels that say in which capacity reservation a node runs: Karpenter's, and one for the rest."""

MOST_IN_SELECTOR = 100
"""Instance IDs in one label selector: it travels in the URL."""


WORTH_WAITING = frozenset({Kind.FAULT, Kind.MAINTENANCE, Kind.INTERRUPTION, Kind.TERMINATION})
"""What is worth a read of all nodes, and worth waiting for a machine that may register yet. That a
machine which nobody knows is well, or was launched, is neither."""


@dataclass
class Found:
    """Notices by the node that they are about."""

    nodes: dict[str, types.Node] = field(default_factory=dict)
    notices: dict[str, list[Notice]] = field(default_factory=dict)
    """By node name."""
    unknown: list[Notice] = field(default_factory=list)
    """No such machine is registered; it may be yet."""
    foreign: list[tuple[Notice, str]] = field(default_factory=list)
    """Not about any machine of ours now, and why."""
    searched: bool = False
    """All nodes were read."""
    unstamped: list[types.Node] = field(default_factory=list)
    """Of those, the ones whose label does not name their machine yet."""

    @property
    def nobodys(self) -> list[Notice]:
        """Those about machines that no node stands for: perhaps another cluster's. What is told of
        a node that was replaced was told to the right cluster."""
        foreign = (notice for notice, _ in self.foreign if not notice.identity.node)
        return [*self.unknown, *foreign]

    def add(self, node: types.Node, notice: Notice) -> None:
        self.nodes[node.name] = node
        self.notices.setdefault(node.name, []).append(notice)


def find(
    cluster: Cluster,
    notices: Sequence[Notice],
    named: Mapping[str, types.Node | None] | None = None,
    *,
    full: bool = True,
) -> Found:
    """The nodes of ``notices``; those that are called by their names may have been read before
    (`read_named`). Without ``full`` no read of all nodes is made: what is not found by name or
    stamp is unknown."""
    found = Found()
    by_machine: list[Notice] = []
    if named is None:
        named = read_named(cluster, notices)
    for notice in notices:
        if notice.identity.capacity_reservation:
            _find_reserved(cluster, notice, found)
            continue
        if not notice.identity.node:
            by_machine.append(notice)
            continue
        node = named[notice.identity.node]
        if node is None:
            found.foreign.append((notice, f"no node is called {notice.identity.node}"))
        elif wrong := another(node, notice.identity):
            found.foreign.append((notice, wrong))
        else:
            found.add(node, notice)
    if by_machine:
        _find_machines(cluster, by_machine, found, full=full)
    return found


def read_named(
    cluster: Cluster, notices: Iterable[Notice], parallel: int = 1
) -> dict[str, types.Node | None]:
    """Every node that ``notices`` call by its name, each read once, ``parallel`` at a time; None
    where there is no such node."""
    named = (n.identity for n in notices if not n.identity.capacity_reservation)
    names = list(dict.fromkeys(said.node for said in named if said.node))
    if parallel == 1 or len(names) < 2:
        return {name: _get(cluster, name) for name in names}
    with ThreadPoolExecutor(parallel) as pool:
        return dict(zip(names, pool.map(lambda name: _get(cluster, name), names), strict=True))


def instance_id(provider_id: str) -> str:
    """The cloud's own ID of the VM, the last part of a provider ID: ``i-0123`` of
    ``aws:///us-east-1a/i-0123``.

    In an Azure scale set the last part is a bare number, the same in each of them, and the VM is
    called ``<scale set>_<number>``.
    """
    if match := _SCALE_SET.search(provider_id):
        return f"{match[1]}_{match[2]}"
    return provider_id.rpartition("/")[2]


def stamp(node: types.Node) -> str:
    """What the node's `keys.INSTANCE` label should say; empty where a label cannot say it."""
    value = instance_id(node.provider_id)
    return value if _LABEL_VALUE.fullmatch(value) else ""


def stamped(cluster: Cluster, machines: list[str]) -> set[str]:
    """Those of ``machines`` that a node stands for, by its label."""
    return set(nodes_stamped(cluster, machines))


def nodes_stamped(cluster: Cluster, machines: Iterable[str]) -> dict[str, types.Node]:
    """By machine (the cloud's own ID), the nodes that stand for one of ``machines`` by their label.
    What no label can say is on none, and would spoil the selector for the others."""
    found = {}
    fit = [machine for machine in machines if _LABEL_VALUE.fullmatch(machine)]
    for start in range(0, len(fit), MOST_IN_SELECTOR):
        chunk = ",".join(fit[start : start + MOST_IN_SELECTOR])
        for node in cluster.list_nodes(f"{keys.INSTANCE} in ({chunk})"):
            found[instance_id(node.provider_id)] = node
    return found


def is_unstamped(node: types.Node) -> bool:
    return stamp(node) not in ("", node.metadata.label(keys.INSTANCE))


_SCALE_SET = re.compile(r"(?i)/virtualMachineScaleSets/([^/]+)/virtualMachines/(\d+)$")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def _get(cluster: Cluster, name: str) -> types.Node | None:
    try:
        return cluster.get_node(name)
    except errors.NotFound:
        return None


def another(node: types.Node, said: Identity) -> str:
    """Why the node of that name is not the machine that was meant; empty when it is."""
    if said.provider_id and node.provider_id:
        if said.provider_id == node.provider_id:
            return ""
        return (
            f"node {node.name} is another machine now: {node.provider_id}, "
            f"the event is about {said.provider_id}"
        )
    # A new Node has no provider ID until the cloud controller fills it in: its UID tells.
    if not said.node_uid or said.node_uid == node.metadata.uid:
        return ""
    return f"node {node.name} was made anew: its UID is not the one of the event"


def _find_reserved(cluster: Cluster, notice: Notice, found: Found) -> None:
    """All nodes that run in a capacity reservation."""
    reservation = notice.identity.capacity_reservation
    fits = _LABEL_VALUE.fullmatch(reservation)  # else the server refuses to read the selector
    nodes = {
        node.name: node
        for label in RESERVATION
        for node in (cluster.list_nodes(f"{label}={reservation}") if fits else ())
    }
    for node in nodes.values():
        found.add(node, notice)
    if not nodes:
        why = f"no node has the label {' or '.join(RESERVATION)} with {reservation}"
        found.foreign.append((notice, why))


def _find_machines(cluster: Cluster, notices: list[Notice], found: Found, *, full: bool) -> None:
    wanted: dict[str, list[Notice]] = {}
    for notice in notices:
        machine = instance_id(notice.identity.provider_id) or notice.identity.instance_id
        if machine:
            wanted.setdefault(machine, []).append(notice)
        else:
            found.foreign.append((notice, "the event names neither a node nor a machine"))
    for node in nodes_stamped(cluster, wanted).values():
        _take(node, wanted, found)
    if any(n.kind is Kind.RECOVERY for left in wanted.values() for n in left):
        # What it closes is on a marked node, which may have lost the label, or not got it yet.
        for node in cluster.list_nodes(mark.UNSETTLED):
            _take(node, wanted, found)
    if full and any(n.kind in WORTH_WAITING for left in wanted.values() for n in left):
        # Not stamped yet (new since the last resync), or not ours: one full read settles all.
        found.searched = True
        for node in cluster.list_nodes():
            _take(node, wanted, found)
            if is_unstamped(node):
                found.unstamped.append(node)
    for notice in (notice for left in wanted.values() for notice in left):
        if notice.kind in WORTH_WAITING:
            found.unknown.append(notice)
        else:
            found.foreign.append((notice, "no such machine is known, and nothing to do about it"))


def _take(node: types.Node, wanted: dict[str, list[Notice]], found: Found) -> None:
    others = []
    for notice in wanted.pop(machine := instance_id(node.provider_id), ()):
        if notice.identity.provider_id in ("", node.provider_id):
            found.add(node, notice)
        else:
            others.append(notice)
    if others:
        wanted[machine] = others
