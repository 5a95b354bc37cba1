"""The fleet as it is now, and what would be decided about it, without writing anything."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from events.sources import kubernetes_node
from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import cordoning, incidents, keys, ledger, rebuild
from functions.rules.cordoning import Facts, NodeFacts, Plan
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy
from functions.steps import active, mark
from functions.steps.active import CLUSTER, Active
from functions.steps.carry_out import place


@dataclass(frozen=True)
class Fleet:
    active: Active
    nodes: Sequence[types.Node]
    now: datetime

    @functools.cached_property
    def out_by_us(self) -> list[NodeView]:
        views = (mark.view(node, self.active.policy) for node in self.nodes)
        return [view for view in views if view.state in cordoning.ACTED]


def read_marked(cluster: Cluster, namespace: str, now: datetime) -> Fleet:
    """The nodes that carry our marks. Two LISTs."""
    return Fleet(active.read(cluster, namespace), tuple(cluster.list_nodes(keys.STATE)), now)


def read_all(cluster: Cluster, namespace: str, now: datetime) -> Fleet:
    """All nodes. The ledgers count them as they are now, and keep the time of their own last
    full read (``rebuilt``)."""
    in_force = active.read(cluster, namespace)
    nodes = tuple(cluster.list_nodes())
    census = rebuild.Census()
    for node in nodes:
        view = mark.view(node, in_force.policy)
        census.count(view, cordoning.domains_of(view, in_force.policy))
    counted = rebuild.rebuild(in_force.pools, census, now)
    ledgers = {
        pool: msgspec.structs.replace(
            found, rebuilt=in_force.pools[pool].rebuilt if pool in in_force.pools else None
        )
        for pool, found in counted.items()
    }
    return Fleet(replace(in_force, ledgers={**in_force.ledgers, **ledgers}), nodes, now)


def decide(fleet: Fleet, nodes: Iterable[types.Node]) -> Plan:
    """What cordon would decide about ``nodes`` if it looked now. What holds a node back is told
    each time here, not only when it begins."""
    in_force = fleet.active
    return cordoning.decide(
        Facts(
            nodes=tuple(
                NodeFacts(_telling_all(facts.view), facts.notices, facts.inherited)
                for facts in facts_of(nodes, in_force.policy, in_force.pools)
            ),
            ledgers=in_force.pools,
            cluster=in_force.ledgers.get(CLUSTER),
            out=tuple(place(view, in_force.policy) for view in fleet.out_by_us),
            paused=lambda pool: in_force.paused(pool, fleet.now),
        ),
        in_force.policy,
        fleet.now,
    )


def facts_of(
    nodes: Iterable[types.Node], policy: Policy, ledgers: Mapping[str, ledger.Ledger]
) -> list[NodeFacts]:
    """What cordon's resync would hand to the rules: the nodes, what they say of themselves, and
    what the ledgers remember of their machines."""
    remembered = {m: entry for led in ledgers.values() for m, entry in led.machines.items()}
    made = []
    for node in nodes:
        view = mark.view(node, policy)
        said = tuple(kubernetes_node.notices_of(node))
        made.append(NodeFacts(view, said, remembered.get(view.machine)))
    return made


def _telling_all(view: NodeView) -> NodeView:
    if view.incidents is None:
        return view
    try:
        record = incidents.decode(view.incidents)
    except incidents.Unreadable:
        return view
    untold = incidents.encode(msgspec.structs.replace(record, held=()))
    return msgspec.structs.replace(view, incidents=untold)


@dataclass(frozen=True)
class Use:
    """How much of a budget is used up."""

    size: int
    ours: int
    others: int
    reserved: int
    """Places taken for nodes that are not patched yet."""
    limit: int

    @property
    def used(self) -> int:
        return self.ours + self.others + self.reserved


def use(fleet: Fleet, pool: str = "") -> Use:
    """Of ``pool``; of the cluster when it is empty."""
    in_force = fleet.active
    ours = {v.machine for v in fleet.out_by_us if pool in ("", v.pool)}
    counted = [led for name, led in in_force.pools.items() if pool in ("", name)]
    others = {machine for led in counted for machine in led.others} - ours
    reserved = {m for led in counted for m in ledger.live(led, fleet.now)} - ours - others
    size = sum(led.size for led in counted)
    share = in_force.policy.budget.pool if pool else in_force.policy.budget.cluster
    return Use(size, len(ours), len(others), len(reserved), share.of(size, at_least=1))
