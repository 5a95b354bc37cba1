"""What happens to a drain while it waits: W1 to W11, and S42."""

import json
import signal
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from functions.gateways.kubernetes import errors
from tests.controlplane.access import eventually
from tests.controlplane.bed import STOPS
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.conformance.relay import Relay
from tests.controlplane.conformance.rows import shows
from tests.controlplane.conformance.stand import Stand
from tests.controlplane.conformance.webhook import Webhook
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.support.crew import transport_to

SLOW = {STOPS: "4s"}
HANGS = {STOPS: "1h"}
HOLD = ("example.com/hold",)


@shows("W1")
def test_a_pod_that_is_bound_after_the_list_is_evicted_too(stand: Stand) -> None:
    owner = stand.owner("web")
    stand.fill(stand.pod("slow", stand.a, owner=owner, grace=60, annotations=SLOW))
    process = stand.start("drain", stand.a)
    eventually(lambda: "deletionTimestamp" in stand.pods()[0]["metadata"], "the eviction")
    stand.create([stand.pod("late", stand.a, owner=owner)])
    ran = stand.end(process)
    assert ran.code == 0
    assert stand.names(stand.a) == []
    assert "2 pods evicted" in ran.out


@shows("W3")
def test_a_restart_of_the_api_server_is_lived_through(
    stand: Stand, control_plane: ControlPlane
) -> None:
    owner = stand.owner("web")
    stand.fill(*(
        stand.pod(f"web-{n}", stand.a, owner=owner, grace=60, annotations=SLOW) for n in range(6)
    ))  # fmt: skip
    process = stand.start("drain", stand.a)
    eventually(lambda: "deletionTimestamp" in stand.pods()[0]["metadata"], "the evictions")
    control_plane.restart_apiserver()
    ran = stand.end(process)
    assert ran.code == 0, ran.out + ran.err
    assert "6 pods evicted" in ran.out


@shows("S42")
def test_connections_that_are_reset_cost_a_moment_and_ask_nobody_twice(
    stand: Stand, control_plane: ControlPlane, tmp_path: Path
) -> None:
    _drainer(stand)
    owner = stand.owner("web")
    stand.fill(*(
        stand.pod(f"web-{n}", stand.a, owner=owner, grace=60, annotations=SLOW) for n in range(6)
    ))  # fmt: skip
    with Relay(int(control_plane.url.rpartition(":")[2])) as way:
        url = f"https://127.0.0.1:{way.port}"
        kubeconfig = _kubeconfig(control_plane, tmp_path / "relayed", _token(stand), url)
        stand.remember()
        process = stand.start("drain", stand.a, kubeconfig=kubeconfig)
        eventually(
            lambda: all("deletionTimestamp" in p["metadata"] for p in stand.pods()), "the evictions"
        )
        assert way.cut() >= 1
        time.sleep(0.5)
        way.cut()
        ran = stand.end(process)
    assert ran.code == 0, ran.out + ran.err
    assert "6 pods evicted" in ran.out
    assert sorted(stand.evictions()) == [f"web-{n}" for n in range(6)]


@shows("S8")
def test_a_cordon_whose_answer_never_comes_is_looked_at_again(
    stand: Stand, control_plane: ControlPlane, tmp_path: Path
) -> None:
    stand.fill(stand.pod("web", stand.a, owner=stand.owner("web")))
    port = control_plane.url.rpartition(":")[2]
    with Relay(int(port)) as way, Webhook(control_plane, "nodes", stand.a) as hook:
        hook.ready(lambda: stand.api.patch_node(stand.a, [], dry_run=True))
        hook.answer = lambda _: setattr(way, "mute", True)
        relayed = tmp_path / "relayed"
        direct = stand.cluster.kubeconfig("admin").read_text()
        relayed.write_text(direct.replace(f":{port}", f":{way.port}"))
        stand.remember()
        process = stand.start("drain", stand.a, kubeconfig=relayed)
        eventually(lambda: stand.cordoned(stand.a), "the cordon")
        assert stand.evictions() == [], "nobody knows yet that the node is cordoned"
        way.mute = False
        assert way.cut() >= 1
        ran = stand.end(process)
    assert ran.code == 0, ran.out + ran.err
    assert stand.writes() == ["patch nodes/", "create pods/eviction"]
    assert stand.claim(stand.a) is not None


@shows("W4")
def test_a_finalizer_is_named_when_the_time_is_over(stand: Stand) -> None:
    stand.fill(stand.pod("held", stand.a, owner=stand.owner("web"), finalizers=HOLD))
    ran = stand.run("drain", stand.a, "--timeout=7s")
    assert ran.code == 1
    assert f"{stand.namespace}/held: held by finalizer example.com/hold" in ran.out
    assert ran.seconds < 8.5


@shows("W5", "S39")
def test_a_dead_kubelet_is_named_and_its_pods_not_waited_for(
    stand: Stand, control_plane: ControlPlane
) -> None:
    owner = stand.owner("web")
    stand.fill(
        stand.pod("web", stand.a, owner=owner, grace=600),
        stand.pod("held", stand.a, owner=owner, grace=600, finalizers=HOLD),
    )
    lost = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
    control_plane.stop_kwok()
    try:
        stand.cluster.kubectl(
            "patch", "node", stand.a, "--subresource=status", "-p", json.dumps({"status": lost})
        )
        ran = stand.run("drain", stand.a, "--timeout=3s")
        assert ran.code == 1
        assert "fence the machine" in ran.out
        assert "finalizer example.com/hold" in ran.out
        before = time.monotonic()
        ran = stand.run(
            "drain", stand.a, "--timeout=10s", "--skip-wait-for-delete-timeout=1", "-o", "json"
        )
        assert time.monotonic() - before < 8
        assert ran.code == 0
        ignored = ran.nodes[stand.a]["ignored"]
        assert "the kubelet does not answer" in ignored[f"{stand.namespace}/web"]
        assert stand.names(stand.a) == ["held", "web"], "nothing is forced"
    finally:
        control_plane.start_kwok()
        ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}
        stand.cluster.kubectl(
            "patch", "node", stand.a, "--subresource=status", "-p", json.dumps({"status": ready})
        )


@shows("W7")
def test_an_uncordon_in_the_middle_stops_the_drain(stand: Stand) -> None:
    owner = stand.owner("web")
    stand.fill(
        stand.pod("first", stand.a, owner=owner, grace=60, annotations=HANGS),
        stand.pod("system", stand.a, owner=owner, priorityClassName="system-node-critical"),
    )
    process = stand.start("drain", stand.a)
    eventually(lambda: stand.pods()[0]["metadata"].get("deletionTimestamp"), "the eviction")
    stand.remember()
    assert stand.run("uncordon", stand.a).code == 0
    ran = stand.end(process)
    assert ran.code == 1
    assert "stopped: somebody uncordoned the node" in ran.out
    assert "system" in stand.names(stand.a)
    assert not stand.cordoned(stand.a)
    assert stand.evictions() == []


@shows("W8")
def test_a_node_that_is_deleted_in_the_middle_ends_the_drain(stand: Stand) -> None:
    stand.nodes.add("rows-short", labels={"pool": stand.pool})
    owner = stand.owner("web")
    stand.fill(stand.pod("slow", "rows-short", owner=owner, grace=60, annotations=HANGS))
    process = stand.start("drain", "rows-short")
    eventually(lambda: "deletionTimestamp" in stand.pods()[0]["metadata"], "the eviction")
    stand.cluster.kubectl("delete", "node", "rows-short")
    ran = stand.end(process)
    assert ran.code == 1
    assert "the node was deleted" in ran.out
    assert ran.seconds < 12


@shows("W9")
def test_a_token_that_expires_in_the_middle_is_read_anew_or_said_so(
    stand: Stand, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The API server believes a token for ten seconds more; then two drains are refused."""
    _drainer(stand)
    old = _token(stand, bound_to="old")
    renewed, stale = (
        _kubeconfig(control_plane, tmp_path / name, old) for name in ("renewed", "stale")
    )
    owner = stand.owner("web")
    stand.fill(
        stand.pod("web-a", stand.a, owner=owner, grace=60, annotations={STOPS: "20s"}),
        stand.pod("web-b", stand.b, owner=owner, grace=60, annotations=HANGS),
    )
    goes_on = stand.start("drain", stand.a, kubeconfig=renewed)
    ends = stand.start("drain", stand.b, kubeconfig=stale)
    eventually(
        lambda: all("deletionTimestamp" in p["metadata"] for p in stand.pods()), "the evictions"
    )
    new = _token(stand)
    _kubeconfig(control_plane, renewed, new)
    stand.cluster.kubectl("delete", "secret", "old", "-n", stand.namespace)
    ran = stand.end(goes_on)
    assert ran.code == 0, ran.out + ran.err
    assert stand.names(stand.a) == []
    ran = stand.end(ends)
    assert ran.code == 1
    assert "does not know us any more: log in anew" in ran.out

    _kubeconfig(control_plane, stale, old)
    stand.mark(stand.b)
    transport = transport_to(stale)
    with pytest.raises(errors.Unauthorized):
        stand.call(transport)
    _kubeconfig(control_plane, stale, new)
    assert [d.node for d in stand.call(transport).decisions] == [stand.b] * 2
    transport.close()


@shows("W10")
def test_another_node_of_its_name_ends_the_drain_and_is_not_touched(stand: Stand) -> None:
    stand.nodes.add("rows-short", labels={"pool": stand.pool})
    owner = stand.owner("web")
    stand.fill(stand.pod("slow", "rows-short", owner=owner, grace=60, annotations=HANGS))
    process = stand.start("drain", "rows-short")
    eventually(lambda: "deletionTimestamp" in stand.pods()[0]["metadata"], "the eviction")
    process.send_signal(signal.SIGSTOP)
    stand.cluster.kubectl("delete", "node", "rows-short")
    stand.nodes.add("rows-short", labels={"pool": stand.pool})
    stand.create([stand.pod("new", "rows-short", owner=owner)])
    stand.remember()
    process.send_signal(signal.SIGCONT)
    ran = stand.end(process)
    assert (ran.code, "another node has its name" in ran.out) == (1, True)
    assert stand.writes() == []
    assert not stand.cordoned("rows-short")
    assert "new" in stand.names("rows-short")


@shows("W11")
def test_a_clock_of_ours_that_is_ahead_gives_up_on_no_pod(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(minutes=5)

    for module in ("clock", "kubernetes.exchange"):
        monkeypatch.setattr(f"functions.gateways.{module}.datetime", Ahead)
    owner = stand.owner("web")
    stand.fill(stand.pod("slow", stand.a, owner=owner, grace=5, annotations=SLOW))
    ran = stand.run("drain", stand.a, "--skip-wait-for-delete-timeout=60")
    assert ran.code == 0
    assert stand.names(stand.a) == []


def _drainer(stand: Stand) -> None:
    namespace = stand.send("GET", f"/api/v1/namespaces/{stand.namespace}")
    stand.cluster.create(
        {
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "drainer", "namespace": stand.namespace},
        },
        {
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "old", "namespace": stand.namespace},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            # Goes with its namespace.
            "metadata": {"name": stand.namespace, "ownerReferences": [{
                "apiVersion": "v1", "kind": "Namespace", "name": stand.namespace,
                "uid": namespace["metadata"]["uid"],
            }]},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "drainer", "namespace": stand.namespace}
            ],
        },
    )  # fmt: skip


def _token(stand: Stand, bound_to: str = "") -> str:
    """Good as long as the secret is there that it is bound to."""
    binding = ["--bound-object-kind=Secret", f"--bound-object-name={bound_to}"] if bound_to else []
    said = stand.cluster.kubectl("create", "token", "drainer", "-n", stand.namespace, *binding)
    return said.strip()


def _kubeconfig(control_plane: ControlPlane, file: Path, token: str, url: str = "") -> Path:
    ca_certificate = control_plane.certificate_files[0].read_bytes()
    return write_kubeconfig(
        file,
        url=url or control_plane.url,
        ca_certificate=ca_certificate,
        user="drainer",
        token=token,
    )
