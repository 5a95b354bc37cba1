"""A starting point taken from a real API server, with the rights of infra/rbac/record.yaml."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions.rules import policy as policies
from functions.steps import active
from infra.cli import main
from infra.local import recorded_play
from infra.local.history import History
from infra.local.past.course import Course
from infra.local.stage import Nobody
from tests.controlplane.access import Cluster, eventually
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.nodes import Nodes
from tests.support.recorders import recorder

ROLES = Path(__file__).parents[2] / "infra" / "rbac" / "record.yaml"
USER = "groundcrew"
SECRETS = ("hunter2", "jane@corp.example", "registry.corp.example")


@pytest.fixture
def allowed(cluster: Cluster, namespace: str) -> Iterator[None]:
    """The rights that the file gives; those of the Role in the test's own namespace."""
    with ExitStack() as stack:
        for role in yaml.safe_load_all(ROLES.read_text()):
            where = role["metadata"].get("namespace")
            where = namespace if where == "groundcrew-system" else where
            stack.enter_context(cluster.allowed(USER, *role["rules"], namespace=where))
        yield


def work(namespace: str) -> list[dict[str, Any]]:
    labels = {"app": "web"}
    container = {
        "name": "c",
        "image": "registry.corp.example/web",
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": {"cpu": "100m"}},
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "namespace": namespace,
                "annotations": {"owner": "jane@corp.example"},
            },
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": labels}},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "somebody-elses", "namespace": namespace},
            "data": {"password": "hunter2"},
        },
    ]


def test_a_cluster_is_taken_with_lists_alone_and_stands_again_in_a_replay(
    cluster: Cluster,
    control_plane: ControlPlane,
    clean_nodes: Nodes,
    namespace: str,
    allowed: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = [f"node-{number}-{namespace}" for number in range(3)]
    for name in names:
        clean_nodes.add(name, labels={"groundcrew.dev/pool": "gpu"}, provider_id=f"aws:///z/{name}")
    cluster.create(*work(namespace))
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nbudget: {pool: 7%}\n")
    admin = str(cluster.kubeconfig("admin"))
    where = ["--namespace", namespace]
    assert main(["policy", "apply", str(policy), "--kubeconfig", admin, *where]) == 0
    eventually(lambda: len(_running(cluster, namespace)) == 3, "three pods run")
    capsys.readouterr()

    mark = control_plane.audit_mark()
    kubeconfig = str(cluster.kubeconfig(USER))
    folder = tmp_path / "week"
    options = ["--to", str(folder), "--kubeconfig", kubeconfig, *where]
    code = main(["record", "--from-cluster", *options])
    said = capsys.readouterr().err
    assert code == 0, said
    ours = [e for e in control_plane.audit_since(mark) if e.user == cluster.username(USER)]
    assert {(entry.verb, entry.code) for entry in ours} == {("list", 200)}
    assert len(ours) < 15

    text = (folder / "cluster.json").read_text()
    assert not [secret for secret in (*SECRETS, "managedFields") if secret in text]
    (folder / "events-20260101T000000Z.jsonl").write_text("")
    found = list(History.open(folder).objects())
    here = [i for i in found if i["metadata"].get("namespace") == namespace]
    kinds = sorted(item["kind"] for item in here)
    assert kinds == ["ConfigMap", "Deployment", "Pod", "Pod", "Pod", "PodDisruptionBudget",
                     "ReplicaSet"]  # fmt: skip
    (config,) = [item for item in here if item["kind"] == "ConfigMap"]
    assert config["metadata"]["name"] == active.POLICY_NAME

    node = {"apiVersion": "v1", "kind": "Node", **cluster.get("node", names[0])}
    event = {"at": _later(folder), "path": "/from/kubernetes", "headers": {}, "body": node}
    (folder / "events-20260101T000000Z.jsonl").write_text(json.dumps(event) + "\n")
    scenario, _, _ = recorded_play.load(folder)
    assert set(names) <= set(scenario.nodes)
    assert policies.parse(scenario.policy) == policies.parse(policy.read_text())
    course = Course(policies.default(), scenario.start, scenario.objects, Nobody())
    again = course.world.cluster
    pods = {
        pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in again.all("pods", namespace)
    }
    assert pods == _running(cluster, namespace)
    (budget,) = again.all("pdb", namespace)
    assert budget["status"]["disruptionsAllowed"] == 1


def test_what_nodes_say_is_watched_with_the_rights_that_the_file_gives(
    cluster: Cluster, clean_nodes: Nodes, namespace: str, allowed: None, tmp_path: Path
) -> None:
    name = f"node-{namespace}"
    clean_nodes.add(name, labels={"groundcrew.dev/pool": "gpu"}, provider_id=f"aws:///z/{name}")
    folder = tmp_path / "week"
    kubeconfig = str(cluster.kubeconfig(USER))
    with recorder(folder, "--watch", "--kubeconfig", kubeconfig) as running:
        cluster.kubectl("cordon", name)
        about = {"apiVersion": "v1", "kind": "Node", "name": name}
        cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{name}.1", "namespace": "default"},
                "involvedObject": about,
                "reason": "XIDError",
                "message": "Xid 79",
                "type": "Warning",
            }
        )
        eventually(lambda: {"Node", "Event"} <= _kinds(folder, name), "both are written down")
        code, said = running.end()
    assert code == 0, said
    assert "not heard of" not in said


SICK = {
    "type": "AcceleratedHardwareReady",
    "status": "False",
    "reason": "NvidiaXID79Error",
    "message": "GPU has fallen off the bus",
}
UNLIMITED = """\
version: 1
budget: {pool: 100%, cluster: 100%}
breaker: {share: 100%, day_share: 100%, more_than: 1000}
"""


def test_what_a_cluster_said_tells_how_many_nodes_a_policy_would_have_spared(
    cluster: Cluster,
    clean_nodes: Nodes,
    namespace: str,
    allowed: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The way of the README: the starting point, what it says from then on, and two policies."""
    names = [f"mad-{number:02}-{namespace}" for number in range(12)]
    clean_nodes.add(*names, labels={"groundcrew.dev/pool": "gpu"})
    folder, unlimited = tmp_path / "week", tmp_path / "unlimited.yaml"
    unlimited.write_text(UNLIMITED)
    options = ["--to", str(folder), "--key", str(tmp_path / "recording.key")]
    where = ["--kubeconfig", str(cluster.kubeconfig(USER)), "--namespace", namespace]
    assert main(["record", "--from-cluster", *options, *where]) == 0
    with recorder(folder, *options[2:], "--watch", *where) as running:
        change = json.dumps({"status": {"conditions": [SICK]}})
        cluster.kubectl("patch", "node", *names[:8], "--subresource=status", "-p", change)
        eventually(lambda: _kinds(folder, names[7]), "what the last one says is written down")
        assert running.end()[0] == 0
    capsys.readouterr()
    policies_ = ["--policy", str(unlimited), "--policy", "default"]
    assert main(["backtest", *policies_, str(folder)]) == 0
    assert capsys.readouterr().out.startswith("default would have taken out 1 node instead of 8, ")


def _kinds(folder: Path, name: str) -> set[str]:
    """Kinds of what was recorded of the node."""
    found = set()
    for event in History.open(folder).events() if list(folder.glob("events-*")) else ():
        headers = event.recording.headers
        if name in headers.get("ce-name", ""):
            found.add(headers["ce-kind"])
    return found


def test_a_missing_right_is_named(
    cluster: Cluster, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = str(cluster.kubeconfig(USER))
    folder = tmp_path / "week"
    code = main(["record", "--from-cluster", "--to", str(folder), "--kubeconfig", kubeconfig])
    said = capsys.readouterr().err
    assert code == 2
    assert 'cannot list resource "nodes"' in said
    assert list(folder.iterdir()) == []


def _running(cluster: Cluster, namespace: str) -> dict[str, str]:
    pods = cluster.get("pods", "-n", namespace)["items"]
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in pods
        if pod["status"].get("phase") == "Running"
    }


def _later(folder: Path) -> str:
    return str(json.loads((folder / "cluster.json").read_text())["at"])
