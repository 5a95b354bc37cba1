"""Writing a verdict on its node: one JSON Patch that tests what it stands on.

It tests the UID (the Node of that name may be another by now), ``spec.unschedulable`` (somebody
may have cordoned or uncordoned since we read) and our own annotation (another instance may have
been faster). `errors.TestFailed` means: read again and decide again.
"""

from collections.abc import Mapping

from functions.gateways.kubernetes import json_patch, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.json_patch import Operation
from functions.rules import incidents, keys
from functions.rules.cordoning import RELEASED, Verdict
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy

UNSETTLED = f"{keys.STATE},{keys.STATE} notin ({RELEASED})"
"""Selects the marked nodes of which something may come. What is over stays on its node for days: of
a fleet of hundreds soon on every third node, and no tick may become dearer with that."""


def view(node: types.Node, policy: Policy) -> NodeView:
    """The node as the rules see it."""
    labels = node.metadata.labels or {}
    return NodeView(
        name=node.name,
        uid=node.metadata.uid,
        provider_id=node.provider_id,
        boot_id=node.boot_id,
        pool=policy.pool_of(labels),
        labels=labels,
        incidents=node.metadata.annotation(keys.INCIDENTS),
        state=node.metadata.label(keys.STATE),
        claim=node.metadata.annotation(keys.CORDONED_BY),
        lifecycle=node.metadata.annotation(keys.LIFECYCLE),
        drain=node.metadata.annotation(keys.DRAIN),
        unschedulable=node.unschedulable,
        gpus=_count(node.status.capacity),
        gpus_allocatable=_count(node.status.allocatable),
        sliced=not _count(node.status.capacity)
        and any(key.startswith(keys.GPU_PARTS) for key in node.status.capacity or ()),
        no_annotations=node.metadata.annotations is None,
        no_labels=node.metadata.labels is None,
    )


def write(cluster: Cluster, verdict: Verdict) -> types.Node:
    """Put the verdict on the node. Raises `errors.TestFailed` and `errors.NotFound`."""
    return cluster.patch_node(verdict.view.name, operations(verdict))


def operations(verdict: Verdict) -> list[Operation]:
    seen = verdict.view
    changes: list[Operation] = [
        json_patch.test("/metadata/uid", seen.uid),
        json_patch.test("/spec/unschedulable", True if seen.unschedulable else None),
    ]
    if seen.no_annotations:
        changes += json_patch.begin(json_patch.ANNOTATIONS)
    if seen.no_labels:
        changes += json_patch.begin(json_patch.LABELS)
    where = json_patch.annotation(keys.INCIDENTS)
    changes.append(json_patch.test(where, seen.incidents))
    if verdict.state == RELEASED and seen.state != RELEASED:
        # No tick reads the node from here on: a drain that began meanwhile would not be stopped.
        changes.append(json_patch.test(json_patch.annotation(keys.DRAIN), seen.drain))
    if verdict.state:
        changes.append(json_patch.add(where, incidents.encode(verdict.record)))
        changes.append(json_patch.add(json_patch.label(keys.STATE), verdict.state))
    else:
        if seen.incidents is not None:
            changes.append(json_patch.remove(where))
        if seen.state:
            changes.append(json_patch.remove(json_patch.label(keys.STATE)))
    if verdict.unschedulable is True:
        changes.append(json_patch.add("/spec/unschedulable", True))
    elif verdict.unschedulable is False:
        changes.append(json_patch.remove("/spec/unschedulable"))
    outside = json_patch.label(keys.EXCLUDE_FROM_LOAD_BALANCERS)
    if verdict.load_balancer_label is True:
        changes.append(json_patch.add(outside, "true"))
    elif verdict.load_balancer_label is False and keys.EXCLUDE_FROM_LOAD_BALANCERS in seen.labels:
        changes.append(json_patch.remove(outside))
    return changes


def _count(resources: Mapping[str, str] | None) -> int | None:
    value = (resources or {}).get(keys.GPU)
    return int(value) if value is not None and value.isdigit() else None
