"""Writing how far a drain is on its node, and taking it off: a compare-and-set of our own
annotation.

`errors.TestFailed` means that another instance was faster, or that the node is another by now:
nothing is written, and the next look finds what is true.
"""

from functions.gateways.kubernetes import json_patch, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.json_patch import Operation
from functions.rules import drain_state, keys
from functions.rules.drain_state import DrainState

_PATH = json_patch.annotation(keys.DRAIN)


def write(
    cluster: Cluster, node: types.Node, state: DrainState, *, begins: bool = False
) -> types.Node:
    """Put ``state`` on ``node`` as it was read. A drain that ``begins`` also tests that the node
    is still cordoned, so that it never begins after somebody's uncordon."""
    meta = node.metadata
    operations: list[Operation] = [json_patch.test("/metadata/uid", meta.uid)]
    if begins:
        operations.append(json_patch.test("/spec/unschedulable", True))
    if meta.annotations is None:
        operations += json_patch.begin(json_patch.ANNOTATIONS)
    operations.append(json_patch.test(_PATH, meta.annotation(keys.DRAIN)))
    operations.append(json_patch.add(_PATH, drain_state.encode(state)))
    return cluster.patch_node(node.name, operations)


def remove(cluster: Cluster, node: types.Node) -> None:
    """Take our annotation off ``node``, which as it was read is in service. Nothing is done when it
    was cordoned meanwhile, whether its next drain was begun or not."""
    operations = [
        json_patch.test("/metadata/uid", node.metadata.uid),
        json_patch.test("/spec/unschedulable", node.spec.unschedulable),
        json_patch.test(_PATH, node.metadata.annotation(keys.DRAIN)),
        json_patch.remove(_PATH),
    ]
    cluster.patch_node(node.name, operations)
