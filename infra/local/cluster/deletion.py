"""DELETE: preconditions, grace, finalizers, and when an object really goes."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from infra.local.cluster.objects import (
    Object,
    changed,
    is_finished,
    is_terminating,
    metadata,
    moment_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    timestamp,
    uid_of,
)
from infra.local.cluster.refusals import bad_request, failed_precondition
from infra.local.cluster.resources import NAMESPACES, PODS, Resource
from infra.local.cluster.world import World


@dataclass(frozen=True)
class DeleteOptions:
    grace_seconds: int | None = None
    """None: the object's own."""
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    dry_run: bool = False

    @classmethod
    def read(cls, body: Any) -> "DeleteOptions":
        """From a DeleteOptions object as decoded JSON."""
        if body is None:
            return cls()
        if not isinstance(body, dict):
            raise bad_request("DeleteOptions is not an object")
        preconditions = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds")
        if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
            raise bad_request("DeleteOptions.gracePeriodSeconds is not a whole number")
        return cls(
            grace_seconds=grace,
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            propagation=body.get("propagationPolicy") or "",
            dry_run=body.get("dryRun") == ["All"],
        )


def delete(
    world: World, resource: Resource, item: Object, options: DeleteOptions
) -> tuple[Object, bool]:
    """The object as it is now, and whether it is gone. Raises a 409 `Refusal` when a
    precondition does not hold."""
    check_preconditions(resource, item, options)
    grace = _grace(resource, item, options)
    finalizers = list(metadata(item).get("finalizers") or ())
    if options.propagation == "Orphan" and not options.dry_run:
        _orphan(world, item)
    if is_terminating(item):
        before = int(metadata(item).get("deletionGracePeriodSeconds") or 0)
        if grace >= before and not (grace == 0 and not finalizers and resource is PODS):
            return item, False
        if grace == 0 and not finalizers:
            return _remove(world, resource, item, options), True
        asked = moment_of(metadata(item)["deletionTimestamp"]) - timedelta(seconds=before)
        marked = _marked(item, timestamp(asked + timedelta(seconds=grace)), grace)
        return _put(world, resource, marked, options), False
    if grace == 0 and not finalizers and resource is not NAMESPACES:
        return _remove(world, resource, item, options), True
    marked = _marked(item, timestamp(world.now() + timedelta(seconds=grace)), grace)
    if resource is NAMESPACES:
        marked = changed(marked, "metadata", "deletionGracePeriodSeconds", value=None)
        marked = changed(marked, "status", "phase", value="Terminating")
    return _put(world, resource, marked, options), False


def is_through(item: Object) -> bool:
    """Whether nothing keeps a terminating object any more."""
    meta = metadata(item)
    return (
        is_terminating(item)
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and "finalizers" not in spec_of(item)
    )


def check_preconditions(resource: Resource, item: Object, options: DeleteOptions) -> None:
    if options.uid is not None and options.uid != uid_of(item):
        raise failed_precondition(
            resource,
            name_of(item),
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({uid_of(item)}). The object might have been deleted and then recreated",
        )
    version = metadata(item).get("resourceVersion")
    if options.resource_version is not None and options.resource_version != version:
        raise failed_precondition(
            resource,
            name_of(item),
            f"the ResourceVersion in the precondition ({options.resource_version}) does not "
            f"match the ResourceVersion in record ({version}). The object might have been modified",
        )


def _grace(resource: Resource, item: Object, options: DeleteOptions) -> int:
    if resource is not PODS:
        return 0
    grace = options.grace_seconds
    if grace is None:
        grace = spec_of(item).get("terminationGracePeriodSeconds", 30)
    # Nothing runs yet, or any more: there is nothing to wait for.
    if not node_of(item) or is_finished(item):
        return 0
    return 1 if grace < 0 else int(grace)


def _marked(item: Object, when: str, grace: int) -> Object:
    meta = {**metadata(item), "deletionTimestamp": when, "deletionGracePeriodSeconds": grace}
    if meta.get("generation") and not is_terminating(item):
        meta["generation"] += 1
    return {**item, "metadata": meta}


def _put(world: World, resource: Resource, item: Object, options: DeleteOptions) -> Object:
    return item if options.dry_run else world.store.put(resource, item)


def _remove(world: World, resource: Resource, item: Object, options: DeleteOptions) -> Object:
    """The answer shows the object as marked, though nobody ever saw it so."""
    last = item
    if not options.dry_run:
        last = world.store.remove(resource, namespace_of(item), name_of(item))
    marked = _marked(last, world.timestamp(), 0)
    return changed(marked, "metadata", "deletionGracePeriodSeconds", value=0)


def _orphan(world: World, item: Object) -> None:
    uid = uid_of(item)
    for resource, stored in world.store.owned_by(uid):
        owners = [
            owner
            for owner in metadata(stored.item).get("ownerReferences") or ()
            if owner.get("uid") != uid
        ]
        world.store.put(
            resource, changed(stored.item, "metadata", "ownerReferences", value=owners or None)
        )
