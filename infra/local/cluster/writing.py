"""create, update, patch and delete, as the generic registry of the real server does them."""

import dataclasses

from infra.local.cluster import refusals
from infra.local.cluster.bodies import decode_json, decode_resource, patch_in
from infra.local.cluster.call import Answer, Call, answered
from infra.local.cluster.defaults import first_status, with_defaults
from infra.local.cluster.deletion import DeleteOptions, delete, is_through
from infra.local.cluster.objects import Object, is_terminating, metadata, name_of, spec_of, uid_of
from infra.local.cluster.resources import NAMESPACES, NODES, PODS, Resource
from infra.local.cluster.routing import Target
from infra.local.cluster.store import Stored
from infra.local.cluster.validation import check
from infra.local.cluster.world import World

_KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "namespace",
)
"""metadata that the server alone writes."""


def whole(resource: Resource, item: Object, status: int = 200) -> Answer:
    return Answer(status, Stored(item).whole(resource))


def create(world: World, target: Target, call: Call) -> Answer:
    resource = target.resource
    item = decode_resource(call, resource)
    made = new_object(world, target, item)
    if not call.dry_run:
        made = world.store.put(resource, made)
    return whole(resource, made, 201)


def new_object(world: World, target: Target, item: Object) -> Object:
    """``item`` as it would be stored for the first time, without a resourceVersion."""
    resource = target.resource
    meta = dict(metadata(item))
    if meta.get("resourceVersion"):
        # Really 500: the storage says it, where nobody expects it any more.
        raise refusals.Refusal(
            500, "", "resourceVersion should not be set on objects to be created"
        )
    _check_namespace(world, target, meta)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = world.generated_name(meta["generateName"])
    if not meta.get("name"):
        raise refusals.invalid(
            resource,
            "",
            [
                refusals.FieldProblem(
                    "Required", "metadata.name", "Required value: name or generateName is required"
                )
            ],
        )
    for field in _KEPT:
        if field != "generation" or resource.generation:
            meta.pop(field, None)
    if resource.namespaced:
        meta["namespace"] = target.namespace
    meta["uid"] = world.new_uid()
    meta["creationTimestamp"] = world.timestamp()
    if resource.generation:
        meta["generation"] = 1
    made = {**item, "metadata": meta}
    status = first_status(resource)
    if status is not None:
        made["status"] = status
    made = with_defaults(resource, made)
    if resource is NODES:
        made = _tainted_until_ready(made)
    check(resource, made)
    if world.store.find(resource, target.namespace, meta["name"]):
        raise refusals.already_exists(resource, meta["name"])
    return made


def _tainted_until_ready(node: Object) -> Object:
    """The TaintNodesByCondition admission plugin: no pod lands before the node is ready."""
    taints = list(spec_of(node).get("taints") or ())
    if not any(t.get("key") == "node.kubernetes.io/not-ready" for t in taints):
        taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    return {**node, "spec": {**spec_of(node), "taints": taints}}


def _check_namespace(world: World, target: Target, meta: Object) -> None:
    if not target.resource.namespaced:
        return
    if meta.get("namespace") not in (None, "", target.namespace):
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    namespace = world.store.get(NAMESPACES, "", target.namespace)
    if namespace is None:
        raise refusals.not_found(NAMESPACES, target.namespace)
    if is_terminating(namespace):
        name = meta.get("name") or meta.get("generateName") or ""
        raise refusals.Refusal(
            403,
            "Forbidden",
            f'{target.resource.qualified} "{name}" is forbidden: unable to create new content in '
            f"namespace {target.namespace} because it is being terminated",
            details={
                **refusals.named(target.resource, name),
                "causes": [
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {target.namespace} is being terminated",
                        "field": "metadata.namespace",
                    }
                ],
            },
        )


def replace(world: World, target: Target, call: Call) -> Answer:
    resource = target.resource
    item = decode_resource(call, resource)
    name = name_of(item)
    if name != target.name:
        raise refusals.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    if metadata(item).get("namespace") not in (None, "", target.namespace):
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    old = world.store.get(resource, target.namespace, target.name)
    if old is None:
        if resource.create_on_update and not target.subresource:
            return create(world, target, call)
        raise refusals.not_found(resource, target.name)
    if not resource.unconditional_update and not metadata(item).get("resourceVersion"):
        raise refusals.must_name_version(resource, name)
    uid = metadata(item).get("uid")
    if uid not in (None, "", uid_of(old)):
        raise refusals.precondition_uid(resource, target.namespace, name, uid, uid_of(old))
    return whole(resource, _update(world, target, old, item, dry_run=call.dry_run))


def patch(world: World, target: Target, call: Call) -> Answer:
    resource = target.resource
    # An unknown kind of patch is refused even for an object that is not there.
    apply = patch_in(call)
    old = world.store.get(resource, target.namespace, target.name)
    if old is None:
        raise refusals.not_found(resource, target.name)
    patched = apply(resource, old)
    if name_of(patched) != target.name:
        raise refusals.bad_request(
            f"the name of the object ({name_of(patched)}) does not match the name on the URL "
            f"({target.name})"
        )
    return whole(resource, _update(world, target, old, patched, dry_run=call.dry_run))


def _update(world: World, target: Target, old: Object, item: Object, *, dry_run: bool) -> Object:
    resource = target.resource
    before, meta = metadata(old), dict(metadata(item))
    name = target.name
    if meta.get("uid") not in (None, "", before["uid"]):
        raise refusals.immutable_uid(resource, name, str(meta["uid"]))
    if meta.get("resourceVersion") not in (None, "", before["resourceVersion"]):
        raise refusals.conflict(resource, name, refusals.MODIFIED)
    for field in _KEPT:
        meta.pop(field, None)
        if field in before:
            meta[field] = before[field]
    meta["resourceVersion"] = before["resourceVersion"]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in meta and not meta[field]:
            del meta[field]
    fresh = {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
    fresh["metadata"] = meta
    if target.subresource == "status":
        fresh = {**fresh, "spec": old.get("spec")}
        if "spec" not in old:
            fresh.pop("spec")
        if resource is PODS:
            for field in ("deletionTimestamp", "ownerReferences"):
                if field in before:
                    meta[field] = before[field]
    elif "status" in resource.subresources:
        fresh.pop("status", None)
        if "status" in old:
            fresh["status"] = old["status"]
        fresh = with_defaults(resource, fresh) if resource is not NAMESPACES else fresh
    _drop_empty_spec_fields(resource, fresh)
    old_bare = {k: v for k, v in old.items() if k not in ("kind", "apiVersion")}
    if resource.generation and fresh.get("spec") != old_bare.get("spec"):
        meta["generation"] = int(before.get("generation") or 0) + 1
    check(resource, fresh, old)
    if fresh == old_bare:
        return old
    if dry_run:
        return fresh
    if is_through(fresh):
        # The last finalizer is off: the object goes, and this change was never stored.
        world.store.remove(resource, target.namespace, name)
        return fresh
    return world.store.put(resource, fresh)


def _drop_empty_spec_fields(resource: Resource, item: Object) -> None:
    """Go's omitempty: false and empty lists are written as nothing."""
    if resource is NODES:
        spec = {k: v for k, v in spec_of(item).items() if v not in (None, False, [], "")}
        item["spec"] = spec


def remove(world: World, target: Target, call: Call) -> Answer:
    resource = target.resource
    item = world.store.get(resource, target.namespace, target.name)
    if item is None:
        raise refusals.not_found(resource, target.name)
    body = decode_json(call)
    options = DeleteOptions.read(body) if body is not None else _options_in(call)
    if call.dry_run:
        options = dataclasses.replace(options, dry_run=True)
    last, gone = delete(world, resource, item, options)
    if gone and not resource.answers_deleted:
        details = {**refusals.named(resource, target.name), "uid": uid_of(item)}
        return answered(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": details,
            }
        )
    return whole(resource, last)


def _options_in(call: Call) -> DeleteOptions:
    grace = call.query.get("gracePeriodSeconds")
    if grace is not None and not grace.lstrip("-").isdigit():
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax')
    return DeleteOptions(
        grace_seconds=int(grace) if grace else None,
        propagation=call.query.get("propagationPolicy", ""),
    )
