"""A node that is to be emptied, and what the plan of its pods must know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from functions.gateways.kubernetes import types
from functions.rules import drain_plan
from functions.rules.drain_plan import Around
from functions.steps.drain_call import Call
from functions.steps.node_pods import NodePods

Page = types.Page[types.Pod]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A node, and what is known about its drain."""

    node: str
    uid: str
    kubelet_lost: bool = False
    notice: Mapping[str, datetime] = field(default_factory=dict)
    """See `drain_plan.Around.notice`."""
    returned: Mapping[str, int] = field(default_factory=dict)
    last_resort_at: datetime | None = None
    """From when on blocked pods are deleted."""
    lost_at: datetime | None = None
    """When the machine is gone: no grace lasts longer than that."""
    selector: str = ""
    """Only pods with these labels are looked at."""
    grace_seconds: int | None = None
    """Instead of each pod's own."""
    skip_after: timedelta | None = None
    """See `drain_plan.Around.skip_after`."""
    seen_at: float | None = None
    """When it was seen last that the node is ours to empty, by the monotonic clock. None: now."""
    asks_first: bool = False
    """The disruption budgets are read when a pod was refused, not before. The server keeps them
    either way; to know them saves asking in vain, and mostly there is nothing to be saved."""


def kubelet_lost(node: types.Node) -> bool:
    return node.ready == "Unknown"


def list_pods(call: Call, target: Target) -> Page:
    return call.pods(target.node, target.selector)


def around(call: Call, target: Target, known: NodePods, *, read: bool = True) -> Around:
    """What the plan must know beside the pods; what is not known yet is ``read``."""
    read_budgets = read and (not target.asks_first or known.refused)
    alive = [p for p in known.found.values() if not p.finished and p.gone_by is None]
    owned = any(p.owner and p.owner.kind == "DaemonSet" for p in alive)
    at = target.last_resort_at
    made = Around(
        node=target.node,
        daemon_sets=call.daemon_sets(read=read) if owned else None,
        kubelet_lost=target.kubelet_lost,
        own_namespace=call.own_namespace,
        notice=target.notice,
        returned=known.returned,
        last_resort=at is not None and call.now() >= at,
        skip_after=target.skip_after,
    )
    namespaces = {p.namespace for p in alive if not drain_plan.ignored(p, made)}
    return msgspec.structs.replace(made, budgets=call.budgets(namespaces, read=read_budgets))
