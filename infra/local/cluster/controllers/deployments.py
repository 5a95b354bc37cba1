"""Deployments and their ReplicaSets: an evicted pod comes back under a new name, anywhere."""

import hashlib

import msgspec

from infra.local.cluster.controllers.owners import make_pod, owned, reference, set_status
from infra.local.cluster.deletion import DeleteOptions, delete
from infra.local.cluster.objects import (
    Object,
    is_finished,
    is_ready,
    is_terminating,
    labels_of,
    metadata,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    status_of,
)
from infra.local.cluster.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from infra.local.cluster.world import World


def keep_deployment(world: World, item: Object) -> None:
    spec = spec_of(item)
    template = spec.get("template") or {}
    digest = _digest(template)
    sets = owned(world, item, REPLICA_SETS)
    current = next((s for s in sets if labels_of(s).get("pod-template-hash") == digest), None)
    wanted = int(spec.get("replicas", 1))
    if current is None:
        _make_replica_set(world, item, template, digest, wanted)
        return
    for one in sets:
        replicas = wanted if one is current else 0
        if spec_of(one).get("replicas") != replicas:
            meta = {**metadata(one), "generation": metadata(one).get("generation", 1) + 1}
            spec_of_set = {**spec_of(one), "replicas": replicas}
            world.store.put(REPLICA_SETS, {**one, "metadata": meta, "spec": spec_of_set})
    status = status_of(current)
    set_status(
        world,
        DEPLOYMENTS,
        item,
        replicas=int(status.get("replicas", 0)),
        updatedReplicas=int(status.get("replicas", 0)),
        readyReplicas=int(status.get("readyReplicas", 0)),
        availableReplicas=int(status.get("availableReplicas", 0)),
        unavailableReplicas=max(0, wanted - int(status.get("availableReplicas", 0))),
    )


def _make_replica_set(
    world: World, item: Object, template: Object, digest: str, replicas: int
) -> None:
    own = {"pod-template-hash": digest}
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), **own}
    selector = dict(spec_of(item).get("selector") or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **own}
    world.add(
        REPLICA_SETS,
        {
            "metadata": {
                "name": f"{name_of(item)}-{digest}",
                "namespace": namespace_of(item),
                "labels": labels,
                "ownerReferences": [reference(DEPLOYMENTS, item)],
            },
            "spec": {
                "replicas": replicas,
                "selector": selector,
                "template": {**template, "metadata": {**meta, "labels": labels}},
            },
            "status": {"replicas": 0},
        },
    )


def keep_replica_set(world: World, item: Object) -> None:
    pods = owned(world, item)
    # A terminating pod is no longer counted: its replacement comes while it still stops.
    active = [pod for pod in pods if not is_finished(pod) and not is_terminating(pod)]
    wanted = int(spec_of(item).get("replicas", 1))
    for _ in range(wanted - len(active)):
        make_pod(world, REPLICA_SETS, item)
    for pod in sorted(active, key=_least_missed)[: max(0, len(active) - wanted)]:
        delete(world, PODS, pod, DeleteOptions())
    ready = sum(1 for pod in active if is_ready(pod))
    set_status(
        world,
        REPLICA_SETS,
        item,
        replicas=len(active),
        fullyLabeledReplicas=len(active),
        readyReplicas=ready,
        availableReplicas=ready,
    )


def _digest(template: Object) -> str:
    raw = msgspec.json.encode(template, order="sorted")
    return hashlib.sha256(raw).hexdigest()[:10]


def _least_missed(pod: Object) -> tuple[bool, bool, str]:
    """Unbound before bound, not ready before ready, then by name."""
    return bool(node_of(pod)), is_ready(pod), name_of(pod)
