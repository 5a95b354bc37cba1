"""From a request to its answer."""

from infra.local.cluster import discovery, refusals
from infra.local.cluster.bodies import decode_object
from infra.local.cluster.call import Answer, Call, answered, refused
from infra.local.cluster.eviction import evict
from infra.local.cluster.objects import changed, node_of, with_condition
from infra.local.cluster.reading import get, list_
from infra.local.cluster.refusals import Refusal
from infra.local.cluster.resources import PODS, RESOURCES
from infra.local.cluster.routing import Target, target_of, verb_of
from infra.local.cluster.watch import WatchStream
from infra.local.cluster.world import World
from infra.local.cluster.writing import create, patch, remove, replace


def verb(call: Call) -> str:
    """The API's verb for the request; empty if nothing is served there."""
    target = target_of(call.path)
    return verb_of(call.method, target, watch=call.is_watch) if target else ""


def handle(world: World, call: Call) -> Answer:
    """Any request but a watch. Never raises for a request, however odd."""
    try:
        return _handle(world, call)
    except Refusal as refusal:
        return refused(refusal)


def watch(world: World, call: Call) -> WatchStream | Answer:
    """A watch, or why there is none."""
    try:
        target = target_of(call.path)
        if target is None or verb_of(call.method, target, watch=True) != "watch":
            # Of one object there is no watch: the server overlooks the parameter.
            return _handle(world, call)
        return WatchStream(world, target, call)
    except Refusal as refusal:
        return refused(refusal)


def _handle(world: World, call: Call) -> Answer:
    target = target_of(call.path)
    if target is None:
        return _no_resource(call)
    if call.query.get("dryRun", "All") != "All":
        raise _unknown_dry_run(call)
    match verb_of(call.method, target, watch=False):
        case "get":
            return get(world, target, call)
        case "list":
            return list_(world, target, call)
        case "create" if target.subresource == "eviction":
            return evict(world, target, call)
        case "create" if target.subresource == "binding":
            return _bind(world, target, call)
        case "create" if not target.resource.stored:
            return _review(world, call)
        case "create":
            return create(world, target, call)
        case "update":
            return replace(world, target, call)
        case "patch":
            return patch(world, target, call)
        case "delete":
            return remove(world, target, call)
    raise refusals.method_not_allowed()


def _no_resource(call: Call) -> Answer:
    if call.path in ("/healthz", "/livez", "/readyz"):
        return Answer(200, b"ok", "text/plain; charset=utf-8")
    if found := discovery.document(call.path):
        if call.method != "GET":
            raise refusals.method_not_allowed()
        return answered(found)
    parts = call.path.strip("/").split("/")
    if parts[0] not in ("api", "apis") or (parts[0] == "apis" and parts[1:2] not in _GROUPS):
        return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
    raise refusals.no_such_resource()


_GROUPS = [[one.group] for one in RESOURCES]


def _unknown_dry_run(call: Call) -> Refusal:
    value = call.query["dryRun"]
    problem = refusals.FieldProblem(
        "NotSupported", "dryRun", f'Unsupported value: ["{value}"]: supported values: "All"'
    )
    kinds = {"POST": "Create", "PUT": "Update", "PATCH": "Patch", "DELETE": "Delete"}
    kind = f"{kinds.get(call.method, 'List')}Options"
    return Refusal(
        422,
        "Invalid",
        f'{kind}.meta.k8s.io "" is invalid: {problem.text}',
        details={"group": "meta.k8s.io", "kind": kind, "causes": [problem.cause]},
    )


def _bind(world: World, target: Target, call: Call) -> Answer:
    body = decode_object(call, "Binding", "v1")
    node = (body.get("target") or {}).get("name")
    pod = world.store.get(PODS, target.namespace, target.name)
    if pod is None:
        raise refusals.not_found(PODS, target.name)
    if not node:
        raise refusals.bad_request("target.name is required: the node to bind to")
    if node_of(pod):
        raise refusals.Refusal(
            409,
            "Conflict",
            f'Operation cannot be fulfilled on pods/binding "{target.name}": pod {target.name} '
            f'is already assigned to node "{node_of(pod)}"',
            details={"name": target.name, "kind": "pods/binding"},
        )
    if not call.dry_run:
        bound = changed(pod, "spec", "nodeName", value=node)
        world.store.put(PODS, with_condition(bound, "PodScheduled", "True", world.now()))
    return answered(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201},
        201,
    )


def _review(world: World, call: Call) -> Answer:
    group = "authorization.k8s.io"
    review = decode_object(call, "SelfSubjectAccessReview", f"{group}/v1", group)
    attributes = (review.get("spec") or {}).get("resourceAttributes") or {}
    reason = world.denied(attributes)
    status = {"allowed": not reason, **({"reason": reason} if reason else {})}
    return answered(
        {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": review.get("spec") or {},
            "status": status,
        },
        201,
    )
