"""Who else acts on nodes: what shows on a node, and what runs in the cluster."""

from typing import Any

import msgspec
import pytest

from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request, Response
from functions.steps.replacing import beside

POD = {"metadata": {"name": "nth-1"}}


class Server:
    def __init__(self, *pods: dict[str, Any], status: int = 200) -> None:
        self.pods, self.status = pods, status

    def send(self, request: Request) -> Response:
        assert request.query["labelSelector"].endswith("=aws-node-termination-handler")
        body = {"items": list(self.pods), "metadata": {}}
        return Response(status=self.status, headers={}, body=msgspec.json.encode(body))

    def stream(self, request: Request) -> Any:
        raise AssertionError


def node(provider_id: str = "aws:///us-east-1a/i-1", **labels: str) -> types.Node:
    return types.Node(
        metadata=types.Meta(name="n1", labels=labels),
        spec=types.NodeSpec(provider_id=provider_id),
    )


def test_a_node_shows_who_acts_on_it() -> None:
    assert list(beside.of_node(node())) == []
    marked = node(**{"dgxc.nvidia.com/nvsentinel-state": "quarantined"})
    assert list(beside.of_node(marked)) == ["nvsentinel"]


@pytest.mark.parametrize(
    ("server", "where", "who"),
    [
        (Server(POD), "aws:///us-east-1a/i-1", ("aws-node-termination-handler",)),
        (Server(), "aws:///us-east-1a/i-1", ()),
        (Server(POD), "gce://p/z/n", ()),
        # Who may not look sees nobody.
        (Server(status=403), "aws:///us-east-1a/i-1", ()),
    ],
)
def test_the_cluster_shows_who_acts_on_such_nodes(
    server: Server, where: str, who: tuple[str, ...]
) -> None:
    assert beside.of_cluster(Cluster(server), node(where)) == who
