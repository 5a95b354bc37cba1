"""``groundcrew record`` as a user and a sender meet it: a real process, real requests."""

import contextlib
import gzip
import hashlib
import http.client
import http.server
import json
import re
import signal
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.exchange import PAGE
from functions.gateways.kubernetes.transport import Request, Response
from functions.rules import keys
from functions.rules import policy as policies
from functions.steps import active
from infra.cli import main
from infra.local import masking_rules, starting_point
from infra.local.cluster import EmbeddedCluster, builders
from infra.local.cluster import http as http_server
from infra.local.cluster.world import Delays
from infra.local.history import History
from infra.local.masking import Masker
from tests.support.recorders import EVENT, PATIENCE, Recorder, recorder


def bodies(folder: Path) -> list[Any]:
    return [json.loads(event.recording.body) for event in History.open(folder).events()]


def record(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["record", *arguments])
    return code, capsys.readouterr().err


def test_what_is_sent_is_kept_masked_and_ends_cleanly(tmp_path: Path) -> None:
    with recorder(tmp_path / "week") as running:
        assert running.post({"user": "jane", "n": 1})[0] == 204
        headers = {"groundcrew-node": "gpu-01", "Authorization": "Bearer abcdefgh"}
        assert running.post({"a": "x@corp.example"}, "/from/imds", headers)[0] == 204
        structured = {"content-type": "application/cloudevents+json"}
        event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "x", "data": {"n": 2}}
        assert running.post(event, "/", structured)[0] == 204
        assert running.post(b"no event at all", "/", {})[0] == 204
        assert running.post(b"", "/healthz", method="GET")[0] == 200
        code, said = running.end()
    assert code == 0
    assert "4 events recorded" in said
    assert "Traceback" not in said
    first, second, third, last = [e.recording for e in History.open(tmp_path / "week").events()]
    assert first.headers == EVENT
    assert json.loads(first.body)["user"].startswith("person-")
    assert (second.path, second.headers) == ("/from/imds", {"groundcrew-node": "gpu-01"})
    assert json.loads(second.body)["a"].endswith("@masked.invalid")
    assert json.loads(third.body) == event
    assert last.body == b"no event at all"


def test_sigterm_is_a_clean_end_too(tmp_path: Path) -> None:
    with recorder(tmp_path, "--gzip") as running:
        running.post({"n": 1})
        code, said = running.end(signal.SIGTERM)
    assert (code, "1 event recorded" in said) == (0, True)
    assert [path.suffix for path in tmp_path.glob("events-*")] == [".gz"]
    assert bodies(tmp_path) == [{"n": 1}]


def test_what_was_answered_survives_a_kill_in_the_middle(tmp_path: Path) -> None:
    answered: list[int] = []
    lock = threading.Lock()

    def send(running: Recorder, first: int) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            for number in range(first, first + 100_000):
                assert running.post({"n": number, "padding": "x" * 4000})[0] == 204
                with lock:
                    answered.append(number)

    with recorder(tmp_path, "--rotate", "1MiB", "--gzip") as running:
        senders = [
            threading.Thread(target=send, args=(running, 1_000_000 * place)) for place in range(4)
        ]
        for sender in senders:
            sender.start()
        deadline = time.monotonic() + PATIENCE
        while len(answered) < 350 and time.monotonic() < deadline:
            time.sleep(0.005)
        running.end(signal.SIGKILL)
        for sender in senders:
            sender.join()
    kept = [body["n"] for body in bodies(tmp_path)]
    assert len(answered) >= 350
    assert set(answered) <= set(kept)
    assert len(kept) == len(set(kept)) <= len(answered) + len(senders)
    with recorder(tmp_path) as again:
        again.post({"n": -1})
        again.end()
    assert bodies(tmp_path)[-1] == {"n": -1}


def test_the_folder_stays_within_its_limit(tmp_path: Path) -> None:
    with recorder(tmp_path, "--max-size", "1MiB", "--rotate", "1MiB") as running:
        for number in range(16):
            running.post({"n": number, "padding": "x " * 50_000})
            assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1 << 20
        _, said = running.end()
    kept = [body["n"] for body in bodies(tmp_path)]
    assert kept == list(range(kept[0], 16))
    assert kept[0] > 0
    assert len(kept) >= 5
    assert "files of events were taken away to stay within the limits" in said


def test_clocks_and_answers_of_our_own_are_left_out(tmp_path: Path) -> None:
    with recorder(tmp_path) as running:
        for kind in (
            "dev.knative.sources.ping",
            "dev.groundcrew.nodes.cordoned",
            "dev.groundcrew.alertmanager",
            "dev.groundcrew.from.imds",
        ):
            running.post({"kind": kind}, "/", {**EVENT, "ce-type": kind})
        batch = {"content-type": "application/cloudevents+json"}
        running.post({"specversion": "1.0", "type": "dev.knative.sources.ping"}, "/", batch)
        _, said = running.end()
    assert [body["kind"] for body in bodies(tmp_path)] == [
        "dev.groundcrew.alertmanager",
        "dev.groundcrew.from.imds",
    ]
    assert "3 clocks and answers of groundcrew's own left out" in said


def test_what_is_no_event_is_refused_and_not_kept(tmp_path: Path) -> None:
    with recorder(tmp_path) as running:
        assert running.post({}, "/elsewhere")[0] == 404
        assert running.post({}, "/from/a/b")[0] == 404
        status, _, said_ = running.post({}, "/from/alertmanger")
        assert (status, b"known are alertmanager, " in said_) == (404, True), "a week of nothing"
        status, headers, _ = running.post(b"", method="GET")
        assert (status, headers["allow"]) == (405, "POST")
        assert running.post(b"x" * ((1 << 20) + 1))[0] == 413
        with contextlib.suppress(OSError):  # cut off while it sends
            assert running.post(b"x" * (20 << 20))[0] == 413
        assert running.post(b"x" * (1 << 20))[0] == 204
        _, said = running.end()
    assert "1 event recorded" in said


class Upstream(http.server.BaseHTTPRequestHandler):
    heard: list[tuple[str, dict[str, str], bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.heard.append((self.path, dict(self.headers.items()), body))
        self.send_response(429)
        self.send_header("Retry-After", "7")
        self.send_header("Ce-Id", "answer")
        self.send_header("Server-Secret", "x")
        self.end_headers()
        self.wfile.write(b"busy")

    def log_message(self, *_: object) -> None: ...


def test_what_is_forwarded_is_recorded_first_and_answered_from_there(tmp_path: Path) -> None:
    handler = type("Handler", (Upstream,), {"heard": []})
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{upstream.server_port}/base/"
    with recorder(tmp_path, "--forward", url) as running:
        headers = {**EVENT, "Authorization": "Bearer abcdefgh"}
        status, answered, body = running.post({"user": "jane"}, "/from/imds", headers)
        assert (status, body, answered["retry-after"]) == (429, b"busy", "7")
        assert answered["ce-id"] == "answer"
        assert "server-secret" not in answered
        ((path, sent, raw),) = handler.heard  # type: ignore[attr-defined]
        assert (path, raw) == ("/base/from/imds", b'{"user": "jane"}')
        assert sent["authorization"] == "Bearer abcdefgh"
        upstream.shutdown()
        upstream.server_close()
        status, _, body = running.post({"user": "john"})
        assert status == 502
        assert b"not forwarded" in body
        running.end()
    assert [body["user"][:7] for body in bodies(tmp_path)] == ["person-", "person-"]


def test_what_is_forwarded_may_be_of_a_source_that_only_its_receiver_knows(tmp_path: Path) -> None:
    handler = type("Handler", (Upstream,), {"heard": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        with recorder(tmp_path, "--forward", f"http://127.0.0.1:{upstream.server_port}") as running:
            assert running.post({}, "/from/newer")[0] == 429
            running.end()
        upstream.shutdown()
    assert [path for path, _, _ in handler.heard] == ["/from/newer"]  # type: ignore[attr-defined]


def test_with_a_key_two_recordings_have_the_same_pseudonyms(tmp_path: Path) -> None:
    key = tmp_path / "key"
    for folder in ("a", "b"):
        with recorder(tmp_path / folder, "--key", str(key)) as running:
            running.post({"user": "jane"})
            running.end()
    with recorder(tmp_path / "c") as running:
        running.post({"user": "jane"})
        running.end()
    one, same, other = (bodies(tmp_path / folder) for folder in "abc")
    assert one == same != other
    assert key.stat().st_mode & 0o777 == 0o600
    everything = b"".join(p.read_bytes() for p in (tmp_path / "a").iterdir())
    assert key.read_bytes().strip() not in everything


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--key", "{to}/key"], "would be given away with it"),
        (["--key", "{bad}"], "64 hexadecimal digits"),
        (["--masking", "{bad}"], "no rules for masking"),
        (["--bind", "203.0.113.1"], "cannot be listened on"),
        (["--to", "{bad}"], "File exists"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(
    options: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    bad.write_text("nothing")
    places = {"to": str(tmp_path / "week"), "bad": str(bad)}
    filled = [option.format(**places) for option in options]
    code, said = record(capsys, "--to", str(tmp_path / "week"), "--port", "0", *filled)
    assert (code, said.count("\n")) == (2, 1)
    assert problem in said


def test_a_folder_and_a_port_that_are_taken_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with recorder(tmp_path) as running:
        code, said = record(capsys, "--to", str(tmp_path), "--port", "0")
        assert (code, "another recorder writes there" in said) == (2, True)
        port = str(running.port)
        code, said = record(capsys, "--to", str(tmp_path / "x"), "--port", port)
        assert (code, f"127.0.0.1:{port} cannot be listened on" in said) == (2, True)


@pytest.mark.parametrize(
    "options",
    [
        ["--port", "99999"],
        ["--max-size", "1GB"],
        ["--max-size", "1KiB"],
        ["--keep", "soon"],
        ["--keep", "1s"],
        ["--rotate", "1h,2h"],
        ["--rotate", ""],
        ["--forward", "cordon:8080"],
    ],
)
def test_options_that_make_no_sense_are_refused(options: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["record", *options])
    assert refused.value.code == 2


def test_a_slow_sender_holds_nobody_up(tmp_path: Path) -> None:
    with recorder(tmp_path) as running:
        slow = socket.create_connection(("127.0.0.1", running.port))
        slow.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        assert running.post({"n": 1})[0] == 204
        slow.close()
        running.end()
    assert bodies(tmp_path) == [{"n": 1}]


def test_packed_files_are_read_by_others(tmp_path: Path) -> None:
    with recorder(tmp_path, "--gzip") as running:
        running.post({"n": 1})
        running.end()
    (packed,) = tmp_path.glob("*.jsonl.gz")
    assert json.loads(gzip.decompress(packed.read_bytes()))["body"] == {"n": 1}


# the starting point

POLICY = """\
version: 1
budget: {pool: 30%}
shadow: [{check: tried by jane@corp.example}]
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[EmbeddedCluster, str]]:
    """A small cluster behind a kubeconfig."""
    cluster = EmbeddedCluster(SystemClock(), delays=Delays(start=timedelta(milliseconds=50)))
    for number in range(3):
        cluster.apply(builders.node(f"gpu-{number}", annotations={"notes": "by jane"}))
    cluster.apply(
        builders.workload(
            "Deployment", "web", namespace="research", replicas=2, annotations={"a": "jane"}
        )
    )
    labels = {"app": "web"}
    cluster.apply(builders.pdb("web", namespace="research", labels=labels, min_available=1))
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "other", "namespace": "groundcrew-system"},
            "data": {"a": "hunter2"},
        }
    )
    policy = policies.parse(POLICY)
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": active.POLICY_NAME,
                "namespace": "groundcrew-system",
                "labels": {keys.PART: "policy"},
            },
            "data": active.policy_data(policy, "jane@corp.example"),
        }
    )
    with http_server.serve(cluster) as server:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if all(p["status"].get("phase") == "Running" for p in cluster.all("pods")):
                break
            time.sleep(0.05)
        yield cluster, str(server.kubeconfig(tmp_path / "kubeconfig"))


@pytest.mark.parametrize("packed", [False, True])
def test_the_cluster_is_taken_as_it_stands(
    packed: bool,
    served: tuple[EmbeddedCluster, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, kubeconfig = served
    folder = tmp_path / "week"
    options = ["--gzip"] if packed else []
    code, said = record(
        capsys, "--from-cluster", "--to", str(folder), "--kubeconfig", kubeconfig, *options
    )
    assert code == 0, said
    assert re.search(r"^ +3 nodes$", said, re.MULTILINE)
    assert re.search(r"^ +2 pods$", said, re.MULTILINE)
    (path,) = [file for file in folder.iterdir() if file.name.startswith("cluster")]
    assert path.stat().st_mode & 0o007 == 0, "not for all users of the machine"
    text = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    for gone in (b"jane", b"hunter2", b"managedFields", b"registry.example"):
        assert gone not in text
    document = json.loads(text)  # it is one JSON document, too
    (folder / "events-20260302T080000Z.jsonl").write_text("")
    found = list(History.open(folder).objects())
    assert found == document["objects"]
    kinds = [item["kind"] for item in found]
    assert kinds.count("Node") == 3
    assert {"Deployment", "ReplicaSet", "PodDisruptionBudget"} <= set(kinds)
    (config,) = [item for item in found if item["kind"] == "ConfigMap"]
    data = config["data"]
    assert data["sha256"] == hashlib.sha256(data["policy.json"].encode()).hexdigest()
    assert policies.parse(data["policy.json"]).budget == policies.parse(POLICY).budget


def test_a_starting_point_that_breaks_off_leaves_the_old_one(
    served: tuple[EmbeddedCluster, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, kubeconfig = served
    folder = tmp_path / "week"
    folder.mkdir()
    (folder / "cluster.json").write_text("old")
    cluster.faults.fail("list", "/api/v1/pods", 500)
    code, said = record(capsys, "--from-cluster", "--to", str(folder), "--kubeconfig", kubeconfig)
    assert code == 2
    assert "Traceback" not in said
    assert [file.name for file in folder.iterdir()] == ["cluster.json"]
    assert (folder / "cluster.json").read_text() == "old"


def test_a_large_cluster_is_taken_in_the_memory_of_a_page(tmp_path: Path) -> None:
    node = builders.node("gpu-0")
    item = {key: node[key] for key in ("metadata", "spec", "status")}
    page = msgspec.json.encode([item] * PAGE)

    class Server:
        """Four pages of nodes, and nothing else."""

        def send(self, request: Request) -> Response:
            number = int(request.query.get("continue", "0"))
            if request.path != "/api/v1/nodes":
                return Response(status=200, body=b'{"items":[],"metadata":{}}')
            more = f'"{number + 1}"' if number < 3 else '""'
            body = b'{"items":%s,"metadata":{"continue":%s}}' % (page, more.encode())
            return Response(status=200, body=body)

    mask = Masker(masking_rules.load(), b"k" * 32)
    tracemalloc.start()
    taken = starting_point.take(
        Cluster(cast("Any", Server())), tmp_path, mask, datetime.now(UTC), namespace="x"
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken.counts["nodes"] == 4 * PAGE
    assert taken.path.stat().st_size > 2_000_000
    assert peak < 20_000_000


def test_what_was_recorded_is_replayed(
    served: tuple[EmbeddedCluster, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, kubeconfig = served
    folder = tmp_path / "week"
    assert record(capsys, "--from-cluster", "--to", str(folder), "--kubeconfig", kubeconfig)[0] == 0
    node = {"apiVersion": "v1", "kind": "Node", **(cluster.get("node", "", "gpu-1") or {})}
    lost = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error"}
    node["status"]["conditions"].append(lost)
    headers = {**EVENT, "ce-type": "dev.knative.apiserver.resource.update", "ce-kind": "Node",
               "ce-name": "gpu-1"}  # fmt: skip
    with recorder(folder) as running:
        assert running.post(node, "/", headers)[0] == 204
        assert running.post({"no": "event"})[0] == 204
        running.end()

    assert main(["replay", str(folder), "--json"]) == 0
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    acts = [(line["action"], line["node"]) for line in lines[:-1]]
    assert ("cordon", "gpu-1") in acts
    assert ("drained", "gpu-1") in acts
    assert lines[-1]["nodes"]["gpu-1"]["schedulable"] is False
    assert lines[-1]["failed"] == []

    assert main(["replay", str(folder)]) == 0
    said = capsys.readouterr()
    assert "week: played to its end; nothing was expected of it" in said.out
    assert "Recorded history. 3 nodes (3 gpu)" in said.out


def test_what_nodes_say_is_watched_where_nobody_sends_it(
    served: tuple[EmbeddedCluster, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, kubeconfig = served
    folder = tmp_path / "week"
    assert record(capsys, "--from-cluster", "--to", str(folder), "--kubeconfig", kubeconfig)[0] == 0
    with recorder(folder, "--watch", "--kubeconfig", kubeconfig) as running:
        assert "  watches   Nodes, and Events about them\n" in running.said
        node = json.loads(json.dumps(cluster.get("nodes", "", "gpu-1")))
        lost = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error"}
        node["status"]["conditions"].append(lost)
        cluster.apply({"apiVersion": "v1", "kind": "Node", **node})
        assert running.post({"no": "event"})[0] == 204
        deadline = time.monotonic() + PATIENCE
        while not any(b"XID79" in file.read_bytes() for file in folder.glob("events-*")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        code, said = running.end()
    assert code == 0
    assert "Traceback" not in said
    kinds = [event.recording.headers.get("ce-type") for event in History.open(folder).events()]
    assert "dev.knative.apiserver.resource.update" in kinds
    assert main(["replay", str(folder), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ("cordon", "gpu-1") in [(line["action"], line["node"]) for line in lines[:-1]]


def test_a_watch_that_is_refused_is_said_and_nothing_begins(
    served: tuple[EmbeddedCluster, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, kubeconfig = served
    cluster.faults.fail("list", "/api/v1/nodes", 403)
    options = ["--to", str(tmp_path / "week"), "--port", "0", "--kubeconfig", kubeconfig]
    code, said = record(capsys, "--watch", *options)
    assert code == 2
    assert "not allowed" in said
    assert "recording what comes" not in said
    code, said = record(capsys, "--watch", "--from-cluster", *options)
    assert (code, said.count("\n")) == (2, 1)


def test_replay_tells_what_is_wrong_with_a_history_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "`groundcrew record` writes them" in said
    assert said.count("\n") == 1
    page = tmp_path / "x.html"
    assert main(["replay", str(tmp_path), "--report", str(page)]) == 2
    assert not page.exists()
