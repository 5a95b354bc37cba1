"""The operator's commands against a real API server, over its kubeconfig, with real rights."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from functions import cordon
from infra.cli import main
from tests.controlplane.access import Cluster
from tests.controlplane.nodes import Nodes
from tests.support.crew import context, ping, transport_to

Run = Callable[..., tuple[int, str, str]]

OPERATOR_READS = {"apiGroups": [""], "resources": ["nodes", "configmaps"], "verbs": ["get", "list"]}


@pytest.fixture
def run(cluster: Cluster, namespace: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """``run("status")`` as the administrator, in a fresh namespace."""

    def call(*argv: str, identity: str = "admin", where: str = namespace) -> tuple[int, str, str]:
        kubeconfig = str(cluster.kubeconfig(identity))
        code = main([*argv, "--kubeconfig", kubeconfig, "--namespace", where])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def resync(kubeconfig: Path, namespace: str) -> None:
    cordon.handle(ping(), context(transport_to(kubeconfig), namespace=namespace))


@pytest.fixture
def marked(cluster: Cluster, clean_nodes: Nodes, admin_kubeconfig: Path, namespace: str) -> str:
    """A node that cordon took out of service for a deadlocked kernel."""
    name = f"sick-{namespace}"
    labels = {"groundcrew.dev/pool": "cli"}
    clean_nodes.add(name, labels=labels, provider_id=f"aws:///us-east-1a/i-{namespace}")
    condition = {"type": "KernelDeadlock", "status": "True", "reason": "DockerHung"}
    patch = json.dumps({"status": {"conditions": [condition]}})
    cluster.kubectl("patch", "node", name, "--subresource=status", "-p", patch)
    resync(admin_kubeconfig, namespace)
    return name


def test_kubectl_finds_its_plugin_and_gives_it_what_it_was_told(
    cluster: Cluster, admin_kubeconfig: Path, namespace: str
) -> None:
    here = str(Path(sys.executable).parent)
    done = subprocess.run(
        [cluster.kubectl_binary, "groundcrew", "status", "-o", "json",
         "--kubeconfig", str(admin_kubeconfig), "--namespace", namespace],
        env=os.environ | {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "KUBERC": "off"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    assert "nodes" in json.loads(done.stdout)
    assert done.returncode == 1, "as it ends: nothing of groundcrew is in that namespace"


def test_status_and_explain_show_a_node_that_is_out_of_service(run: Run, marked: str) -> None:
    code, out, err = run("status", "-o", "json")
    assert (code, err) == (0, "")
    shown = next(node for node in json.loads(out)["nodes"] if node["name"] == marked)
    assert (shown["pool"], shown["state"]) == ("cli", "cordon")

    code, out, err = run("explain", marked, "-o", "json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["incidents"][0]["check"] == "KernelDeadlock"
    assert {event["reason"] for event in told["events"]} == {"NodeCordoned"}


def test_explain_tells_of_a_machine_whose_node_is_gone(
    run: Run, cluster: Cluster, marked: str, namespace: str
) -> None:
    cluster.kubectl("delete", "node", marked)
    code, out, _ = run("explain", f"i-{namespace}", "-o", "json")
    assert code == 0
    assert (json.loads(out)["state"], json.loads(out)["name"]) == ("gone", marked)


def test_a_pause_holds_and_ends(run: Run, admin_kubeconfig: Path, namespace: str) -> None:
    assert run("pause", "--for", "1h", "--reason", "first")[0] == 0
    assert run("pause", "--for", "2h", "--reason", "second", "--pool", "cli")[0] == 0
    resync(admin_kubeconfig, namespace)
    paused = json.loads(run("status", "-o", "json")[1])["pauses"]
    assert [(p["what"], p["reason"]) for p in paused] == [
        ("the whole cluster", "first"),
        ("pool cli", "second"),
    ]
    assert run("resume", "--all")[0] == 0
    assert json.loads(run("status", "-o", "json")[1])["pauses"] == []


def test_a_policy_is_applied_replaced_and_shown(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    for share in ("5%", "4%"):
        path.write_text(f"version: 1\nbudget: {{pool: {share}}}\n")
        assert run("policy", "apply", str(path), "--author", "ci")[0] == 0
        code, out, _ = run("policy", "show")
        assert code == 0
        assert "applied by ci" in out
        assert f"pool: {share}" in out
    path.write_text("version: 1\nbudget: {pool: 40%}\n")
    assert run("policy", "apply", str(path))[0] == 1


def test_a_missing_namespace_is_named(run: Run) -> None:
    code, _, err = run("pause", "--for", "1h", "--reason", "x", where="no-such-namespace")
    assert code == 2
    assert "kubectl create namespace no-such-namespace" in err


def test_whoever_has_no_rights_is_told_which_one_is_missing(
    run: Run, cluster: Cluster, marked: str
) -> None:
    code, out, err = run("status", identity="groundcrew")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert 'cannot list resource "configmaps"' in err

    with cluster.allowed("groundcrew", OPERATOR_READS):
        assert run("status", identity="groundcrew")[0] == 0
        assert "you may not list Events" in run("explain", marked, identity="groundcrew")[1]
        code, _, err = run("pause", "--for", "1h", "--reason", "x", identity="groundcrew")
        assert code == 2
        assert 'cannot create resource "configmaps"' in err
