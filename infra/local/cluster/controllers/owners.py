"""What all controllers of pods do: see what is theirs, make a pod, write a status."""

from collections.abc import Sequence

from infra.local.cluster.defaults import first_status, with_defaults
from infra.local.cluster.objects import (
    Object,
    metadata,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from infra.local.cluster.resources import PODS, STATEFUL_SETS, Resource
from infra.local.cluster.world import World


def owned(world: World, item: Object, resource: Resource = PODS) -> list[Object]:
    """What the object controls, oldest first."""
    found = [
        stored.item for kind, stored in world.store.owned_by(uid_of(item))
        if kind is resource
    ]  # fmt: skip
    return sorted(found, key=lambda one: (metadata(one)["creationTimestamp"], name_of(one)))


def set_status(world: World, resource: Resource, item: Object, **fields: int) -> None:
    """Write the counters, if they are other than before."""
    status = {**status_of(item), **fields}
    status["observedGeneration"] = metadata(item).get("generation", 1)
    if status != status_of(item):
        world.store.put(resource, {**item, "status": status})


def make_pod(
    world: World,
    resource: Resource,
    owner: Object,
    *,
    name: str = "",
    labels: Object | None = None,
    node: str = "",
    tolerations: Sequence[Object] = (),
    annotations: Object | None = None,
) -> None:
    """A pod from the owner's template; named after the owner unless ``name`` is given, and bound
    to ``node`` if that is."""
    template = spec_of(owner).get("template") or {}
    meta = dict(template.get("metadata") or {})
    meta["namespace"] = namespace_of(owner)
    meta["labels"] = {**(meta.get("labels") or {}), **(labels or {})}
    if annotations:
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    meta["ownerReferences"] = [reference(resource, owner)]
    meta["generateName"] = f"{name_of(owner)}-"
    if name:
        meta["name"] = name
    spec = dict(template.get("spec") or {})
    if node:
        spec["nodeName"] = node
    if tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *tolerations]
    if name and resource is STATEFUL_SETS:
        spec["hostname"] = name
    pod = {"metadata": meta, "spec": spec, "status": first_status(PODS)}
    world.add(PODS, with_defaults(PODS, pod))


def reference(resource: Resource, owner: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }
