"""One real control plane for the whole test session, and what tests usually need in it.

Everything in this folder is marked ``controlplane``: it needs the programs that
``python -m tests.controlplane.build`` makes, or a cluster in GROUNDCREW_TEST_KUBECONFIG.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.access import Cluster
from tests.controlplane.bed import Bed
from tests.controlplane.build import BUILD_COMMAND, cached
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.external import ExternalCluster
from tests.controlplane.nodes import Nodes

EXTERNAL_KUBECONFIG = "GROUNDCREW_TEST_KUBECONFIG"


@pytest.hookimpl(tryfirst=True)  # before -m picks the tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("controlplane")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Any cluster: the one in GROUNDCREW_TEST_KUBECONFIG, else one booted for this session."""
    folder = tmp_path_factory.mktemp("control-plane")
    if given := os.environ.get(EXTERNAL_KUBECONFIG):
        external = ExternalCluster(Path(given), folder)
        yield external
        external.close()
        return
    require_build()
    with ControlPlane(folder) as booted:
        yield booted


@pytest.fixture(scope="session")
def control_plane(cluster: Cluster) -> ControlPlane:
    """The session's own control plane: its audit log can be read, its parts can be stopped."""
    if not isinstance(cluster, ControlPlane):
        pytest.skip(f"needs a control plane of its own, and {EXTERNAL_KUBECONFIG} is set")
    return cluster


@pytest.fixture(scope="session")
def admin_kubeconfig(cluster: Cluster) -> Path:
    return cluster.kubeconfig("admin")


@pytest.fixture
def clean_nodes(cluster: Cluster) -> Iterator[Nodes]:
    """``clean_nodes.add("node-a", labels={...})``: made now, gone after the test."""
    nodes = Nodes(cluster)
    yield nodes
    nodes.remove_all()


@pytest.fixture
def namespace(cluster: Cluster, clean_nodes: Nodes) -> Iterator[str]:
    """A fresh namespace. It ends before the nodes do: without its kubelet a pod never ends."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    # First no new pods can be made in it, then the pods go at once; the rest goes by itself.
    cluster.kubectl("delete", "namespace", name, "--wait=false")
    cluster.kubectl("delete", "pod", "--all", "--force", "--grace-period=0", f"-n={name}")


@pytest.fixture
def bed(cluster: Cluster, clean_nodes: Nodes, namespace: str) -> Iterator[Bed]:
    """Nodes with pods, to be drained."""
    made = Bed.on(cluster, clean_nodes, namespace)
    yield made
    made.transport.close()


def require_build() -> None:
    """Fail if the programs could be built and are not; skip where there is nothing to build with.

    A skip only without Go, so that a machine that could run these tests never skips them unseen.
    """
    if cached() is None:
        if shutil.which("go") is None:
            pytest.skip("no control plane: go is not on the PATH to build it with")
        pytest.fail(f"the control plane is not built: run {BUILD_COMMAND}", pytrace=False)
