"""Writing how far a drain is on its node, and taking it off: a compare-and-set of our own
annotation.

`errors.TestFailed` means that another instance was faster, or that the node is another by now:
nothing is written, and the next look finds what is true.
"""

from collections.abc import Mapping
from typing import Any

from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import drain_state, keys
from functions.rules.drain_state import DrainState

_PATH = "/metadata/annotations/" + keys.DRAIN.replace("~", "~0").replace("/", "~1")


def write(
    cluster: Cluster, node: types.Node, state: DrainState, *, begins: bool = False
) -> types.Node:
    """Put ``state`` on ``node`` as it was read. A drain that ``begins`` also tests that the node
    is still cordoned, so that it never begins after somebody's uncordon."""
    meta = node.metadata
    operations: list[Mapping[str, Any]] = [_test("/metadata/uid", meta.uid)]
    if begins:
        operations.append(_test("/spec/unschedulable", True))
    if meta.annotations is None:
        operations.append(_test("/metadata/annotations", None))
        operations.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    operations.append(_test(_PATH, meta.annotation(keys.DRAIN)))
    operations.append({"op": "add", "path": _PATH, "value": drain_state.encode(state)})
    return cluster.patch_node(node.name, operations)


def remove(cluster: Cluster, node: types.Node) -> None:
    """Take our annotation off ``node``, which as it was read is in service. Nothing is done when it
    was cordoned meanwhile, whether its next drain was begun or not."""
    operations = [
        _test("/metadata/uid", node.metadata.uid),
        _test("/spec/unschedulable", node.spec.unschedulable),
        _test(_PATH, node.metadata.annotation(keys.DRAIN)),
        {"op": "remove", "path": _PATH},
    ]
    cluster.patch_node(node.name, operations)


def _test(path: str, value: object) -> Mapping[str, Any]:
    return {"op": "test", "path": path, "value": value}
