"""StatefulSets: an evicted pod comes back under its name, once the old one is gone."""

from infra.local.cluster.controllers.owners import make_pod, owned, set_status
from infra.local.cluster.deletion import DeleteOptions, delete
from infra.local.cluster.objects import (
    Object,
    is_finished,
    is_ready,
    is_terminating,
    name_of,
    namespace_of,
    spec_of,
)
from infra.local.cluster.resources import PODS, STATEFUL_SETS
from infra.local.cluster.world import World


def keep_stateful_set(world: World, item: Object) -> None:
    wanted = int(spec_of(item).get("replicas", 1))
    in_order = spec_of(item).get("podManagementPolicy") != "Parallel"
    pods = {name_of(pod): pod for pod in owned(world, item)}
    for ordinal in range(wanted):
        name = f"{name_of(item)}-{ordinal}"
        pod = pods.get(name)
        if pod is None:
            # Whoever has the name now must be gone first: there is at most one of each.
            if world.store.find(PODS, namespace_of(item), name) is None:
                labels = {
                    "statefulset.kubernetes.io/pod-name": name,
                    "apps.kubernetes.io/pod-index": str(ordinal),
                }
                make_pod(world, STATEFUL_SETS, item, name=name, labels=labels)
        elif is_finished(pod) and not is_terminating(pod):
            delete(world, PODS, pod, DeleteOptions())
        if in_order and (pod is None or is_terminating(pod) or not is_ready(pod)):
            break
    surplus = [pod for pod in pods.values() if _ordinal(pod) >= wanted]
    for pod in sorted(surplus, key=_ordinal, reverse=True)[: 1 if in_order else None]:
        if not is_terminating(pod):
            delete(world, PODS, pod, DeleteOptions())
    ready = sum(1 for pod in pods.values() if is_ready(pod) and not is_terminating(pod))
    set_status(
        world,
        STATEFUL_SETS,
        item,
        replicas=len(pods),
        readyReplicas=ready,
        availableReplicas=ready,
        currentReplicas=len(pods),
        updatedReplicas=len(pods),
    )


def _ordinal(pod: Object) -> int:
    tail = name_of(pod).rpartition("-")[2]
    return int(tail) if tail.isdigit() else 0
