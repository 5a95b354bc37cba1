"""DaemonSets: a pod on every node that takes it, cordoned or not."""

from typing import Any

from infra.local.cluster.controllers.node_lifecycle import UNSCHEDULABLE
from infra.local.cluster.controllers.owners import make_pod, owned, set_status
from infra.local.cluster.controllers.scheduler import accepts
from infra.local.cluster.deletion import DeleteOptions, delete
from infra.local.cluster.objects import (
    Object,
    is_finished,
    is_ready,
    is_terminating,
    labels_of,
    name_of,
    node_of,
    spec_of,
)
from infra.local.cluster.resources import DAEMON_SETS, NODES, PODS
from infra.local.cluster.store import Change
from infra.local.cluster.world import World

TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]


def keep_daemon_set(world: World, item: Object) -> None:
    template = spec_of(item).get("template") or {}
    spec = template.get("spec") or {}
    probe = {
        "spec": {
            **spec,
            "tolerations": [*(spec.get("tolerations") or ()), *TOLERATIONS],
        }
    }
    by_node: dict[str, list[Object]] = {}
    for pod in owned(world, item):
        by_node.setdefault(node_of(pod), []).append(pod)
    nodes = [s.item for s in world.store.all(NODES) if accepts(s.item, probe)]
    names = {name_of(node) for node in nodes}
    for node in names - by_node.keys():
        make_pod(world, DAEMON_SETS, item, node=node, tolerations=TOLERATIONS)
    for node, pods in by_node.items():
        for pod in pods:
            finished = is_finished(pod) and not is_terminating(pod)
            if (node not in names or finished) and not is_terminating(pod):
                delete(world, PODS, pod, DeleteOptions())
    kept = [pod for pods in by_node.values() for pod in pods if not is_terminating(pod)]
    ready = sum(1 for pod in kept if is_ready(pod))
    set_status(
        world,
        DAEMON_SETS,
        item,
        desiredNumberScheduled=len(names),
        currentNumberScheduled=len(kept),
        numberReady=ready,
        numberAvailable=ready,
        updatedNumberScheduled=len(kept),
        numberMisscheduled=0,
    )


def takes_others(change: Change) -> bool:
    """Whether the node may now take daemon pods that it did not, or no longer."""
    if change.old is None or change.new is None:
        return True
    return _seen_by_daemons(change.old.item) != _seen_by_daemons(change.new.item)


def _seen_by_daemons(node: Object) -> tuple[Any, ...]:
    """What decides on daemon pods. A cordon does not: they tolerate it."""
    taints = spec_of(node).get("taints") or ()
    return labels_of(node), [taint for taint in taints if taint.get("key") != UNSCHEDULABLE]
