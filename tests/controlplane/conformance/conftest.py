"""The nodes that the rows of a file share: made once, since a node takes seconds to be ready."""

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.conformance.stand import Stand, stand_on
from tests.controlplane.nodes import Nodes

POOL = "conformance"


@pytest.fixture(scope="module")  # gone with the last row of a file: other tests count nodes, too
def rows_nodes(control_plane: ControlPlane) -> Iterator[tuple[str, ...]]:
    nodes = Nodes(control_plane)
    names = ("rows-a", "rows-b")
    nodes.add(*names, labels={"pool": POOL})
    yield names
    nodes.remove_all()


@pytest.fixture
def stand(
    control_plane: ControlPlane, rows_nodes: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> Iterator[Stand]:
    with stand_on(control_plane, rows_nodes, POOL, capsys) as made:
        yield made
