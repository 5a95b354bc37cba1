"""pods/eviction: the budget first, then the deletion.

The order of the checks is the real server's, and its traps with it: the UID precondition is
checked last, when the budget has been paid already, and metadata.uid of the Eviction is not
looked at.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from infra.local.cluster import refusals
from infra.local.cluster.bodies import decode_object
from infra.local.cluster.call import Answer, Call, answered
from infra.local.cluster.deletion import DeleteOptions, check_preconditions, delete
from infra.local.cluster.objects import (
    Object,
    changed,
    condition_of,
    is_finished,
    is_ready,
    is_terminating,
    labels_of,
    metadata,
    name_of,
    phase_of,
    spec_of,
    status_of,
    with_condition,
)
from infra.local.cluster.resources import PDBS, PODS
from infra.local.cluster.routing import Target
from infra.local.cluster.selectors import selects
from infra.local.cluster.world import World

MAX_DISRUPTED_PODS = 2000
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
MORE_THAN_ONE = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


def evict(world: World, target: Target, call: Call) -> Answer:
    body = decode_object(call, "Eviction", "policy/v1", "policy")
    options = _options(target, call, body)
    pod = world.store.get(PODS, target.namespace, target.name)
    if pod is None:
        raise refusals.not_found(PODS, target.name)
    if not _budget_is_ignored(pod):
        budgets = [
            stored.item
            for stored in world.store.all(PDBS, target.namespace)
            if _covers(stored.item, pod)
        ]
        if len(budgets) > 1:
            # Code 500, and no reason: nothing but the message tells what it is.
            raise refusals.Refusal(500, "", MORE_THAN_ONE)
        if budgets and not _may_go_unhealthy(budgets[0], pod):
            _pay(world, budgets[0], pod, dry_run=options.dry_run)
    # Here, and not before: by now the budget has been paid.
    check_preconditions(PODS, pod, options)
    target_condition = condition_of(pod, "DisruptionTarget") or {}
    if not options.dry_run and target_condition.get("reason") != "EvictionByEvictionAPI":
        pod = world.store.put(
            PODS,
            with_condition(
                pod,
                "DisruptionTarget",
                "True",
                world.now(),
                "EvictionByEvictionAPI",
                "Eviction API: evicting",
            ),
        )
    delete(world, PODS, pod, replace(options, uid=None, resource_version=None))
    return answered(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201},
        201,
    )


def _options(target: Target, call: Call, body: Mapping[str, Any]) -> DeleteOptions:
    meta = body.get("metadata") or {}
    if meta.get("namespace") not in (None, "", target.namespace):
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if meta.get("name") != target.name:
        raise refusals.bad_request("name in URL does not match name in Eviction object")
    options = DeleteOptions.read(body.get("deleteOptions"))
    return replace(options, dry_run=options.dry_run or call.dry_run)


def _budget_is_ignored(pod: Object) -> bool:
    return is_finished(pod) or phase_of(pod) == "Pending" or is_terminating(pod)


def _covers(pdb: Object, pod: Object) -> bool:
    return selects(spec_of(pdb).get("selector"), labels_of(pod))


def _may_go_unhealthy(pdb: Object, pod: Object) -> bool:
    """Whether a pod that is not ready goes without a look at what the budget has left."""
    if is_ready(pod):
        return False
    if spec_of(pdb).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = status_of(pdb)
    desired = int(status.get("desiredHealthy", 0))
    return desired > 0 and int(status.get("currentHealthy", 0)) >= desired


def _pay(world: World, pdb: Object, pod: Object, *, dry_run: bool) -> None:
    status, name = status_of(pdb), name_of(pdb)
    if status.get("observedGeneration", 0) < metadata(pdb).get("generation", 0):
        raise refusals.too_many_requests(
            VIOLATES,
            f"The disruption budget {name} is still being processed by the server.",
            retry_after_seconds=10,
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
        raise _forbidden(
            name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if allowed == 0:
        raise refusals.too_many_requests(VIOLATES, _exhausted(pdb))
    if dry_run:
        return
    disrupted = {**(status.get("disruptedPods") or {}), name_of(pod): world.timestamp()}
    paid = changed(pdb, "status", "disruptedPods", value=disrupted)
    paid = changed(paid, "status", "disruptionsAllowed", value=allowed - 1)
    if allowed == 1:
        paid = with_condition(paid, "DisruptionAllowed", "False", world.now(), "InsufficientPods")
    world.store.put(PDBS, paid)


def _exhausted(pdb: Object) -> str:
    status = status_of(pdb)
    return (
        f"The disruption budget {name_of(pdb)} needs {status.get('desiredHealthy', 0)} healthy "
        f"pods and has {status.get('currentHealthy', 0)} currently"
    )


def _forbidden(name: str, why: str) -> refusals.Refusal:
    return refusals.Refusal(
        403,
        "Forbidden",
        f'poddisruptionbudget.policy "{name}" is forbidden: {why}',
        details={"name": name, "group": "policy", "kind": "poddisruptionbudget"},
    )
