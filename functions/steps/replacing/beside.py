"""Who else repairs or empties nodes here. Two that act on one machine do what neither decided:
until the policy's ``replace.beside`` names who is meant to be there, we only tell.

What shows: NVSentinel's label, and pods of aws-node-termination-handler. Whether Karpenter, EKS
Auto Mode or EKS' node repair replaces the nodes of its own, the ways to end a machine ask
(`steps.terminate`).
"""

from collections.abc import Iterator

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster

NVSENTINEL = "nvsentinel"
NTH = "aws-node-termination-handler"
_LABELS = {"dgxc.nvidia.com/nvsentinel-state": NVSENTINEL}
_PODS = "/api/v1/pods"
_NAMED = f"app.kubernetes.io/name={NTH}"


def of_node(node: types.Node) -> Iterator[str]:
    """Who acts on this node, by what it shows."""
    for label, who in _LABELS.items():
        if label in (node.metadata.labels or {}):
            yield who


def of_cluster(cluster: Cluster, node: types.Node) -> tuple[str, ...]:
    """Who acts on nodes such as this one, by the pods that run here. One request: of a DaemonSet
    on each node the first page will do."""
    if not node.provider_id.startswith("aws://"):
        return ()
    try:
        found = next(iter(cluster.list_objects(_PODS, _NAMED)), None)
    except errors.Forbidden:
        return ()
    return (NTH,) if found else ()
