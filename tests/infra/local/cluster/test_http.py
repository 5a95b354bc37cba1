"""The embedded cluster over HTTP: streams, broken connections, kubectl."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from functions.gateways.clock import SystemClock
from infra.local.cluster import EmbeddedCluster
from infra.local.cluster.builders import node, pdb, pod, workload
from infra.local.cluster.http import Server, serve
from infra.local.cluster.world import Delays

QUICK = Delays(
    schedule=timedelta(milliseconds=20),
    start=timedelta(milliseconds=50),
    stop=timedelta(milliseconds=100),
)


@pytest.fixture
def live() -> EmbeddedCluster:
    return EmbeddedCluster(SystemClock(), delays=QUICK)


@pytest.fixture
def server(live: EmbeddedCluster) -> Iterator[Server]:
    with serve(live) as running:
        yield running


@contextlib.contextmanager
def ask(server: Server, method: str, path: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path)
        yield connection.getresponse()


def test_a_list_and_a_refusal_come_as_they_do_in_process(
    live: EmbeddedCluster, server: Server
) -> None:
    live.apply(node("n1"))
    with ask(server, "GET", "/api/v1/nodes") as answer:
        assert [n["metadata"]["name"] for n in json.load(answer)["items"]] == ["n1"]
    with ask(server, "GET", "/api/v1/nodes/n2") as answer:
        assert (answer.status, json.load(answer)["reason"]) == (404, "NotFound")


def test_a_watch_tells_what_happens_while_it_is_open_and_ends_in_time(
    live: EmbeddedCluster, server: Server
) -> None:
    live.apply(node("n1"))
    with ask(server, "GET", "/api/v1/nodes") as answer:
        version = json.load(answer)["metadata"]["resourceVersion"]
    query = f"watch=true&resourceVersion={version}&timeoutSeconds=1&allowWatchBookmarks=true"
    with ask(server, "GET", f"/api/v1/nodes?{query}") as answer:
        live.set_condition("n1", "Ready", "False")
        first = json.loads(answer.readline())
        assert (first["type"], first["object"]["metadata"]["name"]) == ("MODIFIED", "n1")
        rest = [json.loads(line) for line in answer.readlines()]
    assert rest[-1]["type"] == "BOOKMARK"


def test_simulated_kubelets_run_on_the_system_clock(live: EmbeddedCluster, server: Server) -> None:
    live.apply(node("n1"))
    changed = threading.Event()
    live.subscribe(changed.set)
    live.apply(pod("p", node="n1"))
    live.delete("pod", "default", "p")
    for _ in range(50):
        if live.all("pods") == []:
            break
        changed.wait(0.1)
        changed.clear()
    assert live.all("pods") == []


def test_a_watch_does_not_wait_where_time_is_simulated(cluster: EmbeddedCluster) -> None:
    waited: list[float] = []
    with (
        serve(cluster, on_wait=waited.append) as server,
        ask(server, "GET", "/api/v1/pods?watch=true&timeoutSeconds=240") as answer,
    ):
        assert answer.read() == b""
    assert waited == [240.0]


def test_a_dropped_connection_is_no_answer(live: EmbeddedCluster, server: Server) -> None:
    live.faults.drop("list", "/nodes$")
    with pytest.raises(http.client.HTTPException), ask(server, "GET", "/api/v1/nodes") as answer:
        answer.read()
    with ask(server, "GET", "/api/v1/nodes") as answer:
        assert answer.status == 200


def test_a_cut_watch_breaks_off_without_an_end(live: EmbeddedCluster, server: Server) -> None:
    live.apply(node("n1"))
    live.faults.cut("/nodes$", after_lines=1)
    query = "watch=true&timeoutSeconds=30"
    with ask(server, "GET", f"/api/v1/nodes?{query}") as answer:
        assert json.loads(answer.readline())["type"] == "ADDED"
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


def kubectl_binary() -> str:
    from tests.controlplane.build import cached

    built = cached()
    return str(built["kubectl"]) if built else shutil.which("kubectl") or ""


@pytest.mark.skipif(not kubectl_binary(), reason="there is no kubectl on this machine")
def test_kubectl_gets_describes_cordons_and_drains(
    live: EmbeddedCluster, server: Server, tmp_path: Path
) -> None:
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")

    def kubectl(*arguments: str) -> str:
        done = subprocess.run(
            [kubectl_binary(), f"--kubeconfig={kubeconfig}", f"--cache-dir={tmp_path}", *arguments],
            env=os.environ | {"KUBERC": "off"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    live.apply(node("n1"))
    live.apply(workload("Deployment", "web", replicas=2))
    live.apply(workload("DaemonSet", "agent"))
    live.apply(pdb("web", labels={"app": "web"}, max_unavailable=2))
    kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=10s")
    live.apply(node("n2"))

    assert kubectl("get", "nodes", "--no-headers").splitlines()[0].split()[:2] == ["n1", "Ready"]
    assert "8" in kubectl("describe", "node", "n1").partition("nvidia.com/gpu:")[2][:20]
    kubectl("drain", "n1", "--ignore-daemonsets", "--timeout=50s")
    listed = kubectl("get", "pods", "-A", "-o", "wide", "--no-headers").splitlines()
    assert sorted(line.split()[1][:5] for line in listed if "n1" in line.split()) == ["agent"]
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", "n1")
    kubectl("uncordon", "n1")
    assert "SchedulingDisabled" not in kubectl("get", "node", "n1")
