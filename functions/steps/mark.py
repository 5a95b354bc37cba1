"""Writing a verdict on its node: one JSON Patch that tests what it stands on.

It tests the UID (the Node of that name may be another by now), ``spec.unschedulable`` (somebody
may have cordoned or uncordoned since we read) and our own annotation (another instance may have
been faster). `errors.TestFailed` means: read again and decide again.
"""

from collections.abc import Mapping
from typing import Any

from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import incidents, keys
from functions.rules.cordoning import Verdict
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy

Operation = Mapping[str, Any]


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
    """RFC 6902. In Kubernetes a `test` against null passes where the path is missing."""
    seen = verdict.view
    changes: list[Operation] = [
        _test("/metadata/uid", seen.uid),
        _test("/spec/unschedulable", True if seen.unschedulable else None),
    ]
    if seen.no_annotations:
        changes += [_test("/metadata/annotations", None), _add("/metadata/annotations", {})]
    if seen.no_labels:
        changes += [_test("/metadata/labels", None), _add("/metadata/labels", {})]
    where = "/metadata/annotations/" + _escape(keys.INCIDENTS)
    changes.append(_test(where, seen.incidents))
    if verdict.state:
        changes.append(_add(where, incidents.encode(verdict.record)))
        changes.append(_add("/metadata/labels/" + _escape(keys.STATE), verdict.state))
    else:
        if seen.incidents is not None:
            changes.append(_remove(where))
        if seen.state:
            changes.append(_remove("/metadata/labels/" + _escape(keys.STATE)))
    if verdict.unschedulable is True:
        changes.append(_add("/spec/unschedulable", True))
    elif verdict.unschedulable is False:
        changes.append(_remove("/spec/unschedulable"))
    outside = "/metadata/labels/" + _escape(keys.EXCLUDE_FROM_LOAD_BALANCERS)
    if verdict.load_balancer_label is True:
        changes.append(_add(outside, "true"))
    elif verdict.load_balancer_label is False and keys.EXCLUDE_FROM_LOAD_BALANCERS in seen.labels:
        changes.append(_remove(outside))
    return changes


def _count(resources: Mapping[str, str] | None) -> int | None:
    value = (resources or {}).get(keys.GPU)
    return int(value) if value is not None and value.isdigit() else None


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _test(path: str, value: object) -> Operation:
    return {"op": "test", "path": path, "value": value}


def _add(path: str, value: object) -> Operation:
    return {"op": "add", "path": path, "value": value}


def _remove(path: str) -> Operation:
    return {"op": "remove", "path": path}
