"""``groundcrew consume`` as a process, with a queue in an emulation and a cluster over HTTP."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from events import registry
from functions.edge.http_sink import HttpSink
from functions.edge.sqs_options import Result
from functions.gateways.clock import SystemClock
from functions.rules import policy as policies
from functions.steps import active
from infra.cli import main
from infra.local.cluster import EmbeddedCluster, builders
from infra.local.cluster import http as http_server
from tests.support import aws as cloud
from tests.support.processes import running
from tests.support.waiting import eventually

NAMESPACE = "groundcrew-system"
NODES = 20
URL = "https://sqs.us-east-1.amazonaws.com/111122223333/groundcrew"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--queue", "groundcrew", "--in-process"), "is no URL of a queue"),
        (("--queue", "http://127.0.0.1/1/q", "--in-process"), "names no region"),
        (("--queue", URL), "give --sink URL"),
        (("--queue", URL, "--sink", "broker"), "--sink 'broker' is no URL"),
        (("--queue", URL, "--in-process", "--foreign", "drop"), "leave, delete, or forward"),
        (("--queue", URL, "--in-process", "--foreign", "forward"), "only forward takes a URL"),
        (("--queue", URL, "--in-process", "--foreign", "leave", URL), "only forward takes a URL"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    options: tuple[str, ...],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("AWS_REGION", "K_SINK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("infra.cli.consume._check", lambda queue: None)
    assert main(["consume", *options]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "posts", "together", "failures"),
    [((), 1, 100, 10), (("--batch",), 1, 100, 3), (("--each",), 3, 1, 10)],
)
def test_what_is_there_at_once_goes_to_a_sink_as_one_unless_it_is_told_otherwise(
    options: tuple[str, ...],
    posts: int,
    together: int,
    failures: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    posted: list[bytes] = []
    monkeypatch.setattr("infra.cli.consume._check", lambda queue: None)
    monkeypatch.setattr("infra.cli.consume._until_signalled", lambda *given: made.append(given[0]))

    def post(sink: HttpSink, headers: Any, body: bytes) -> Result:
        posted.append(body)
        return Result(202)

    monkeypatch.setattr(HttpSink, "_post", post)
    assert main(["consume", "--queue", URL, "--sink", "http://broker/", *options]) == 0
    (consumer,) = made
    events = registry.from_raw("eventbridge", {}, cloud.spot(machine(1)).encode()) * 3
    assert consumer.act(events) == [Result(202)] * 3
    assert (len(posted), consumer.options.together) == (posts, together)
    assert consumer.options.failures == failures


class Stand:
    """An emulation of SQS over HTTP, and a cluster of nodes with provider IDs."""

    def __init__(self, endpoint: str, cluster: EmbeddedCluster, kubeconfig: str) -> None:
        self.sqs = boto3.client(
            "sqs", cloud.REGION, endpoint_url=endpoint,
            aws_access_key_id="testing", aws_secret_access_key="testing",
        )  # fmt: skip
        self.cluster, self.kubeconfig = cluster, kubeconfig
        self.url = self.sqs.create_queue(QueueName="groundcrew")["QueueUrl"]

    def put(self, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def depth(self) -> int:
        said = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        kinds = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        return sum(int(said["Attributes"][kind]) for kind in kinds)

    def cordoned(self) -> list[str]:
        nodes = (self.cluster.get("Node", "", f"n{n}") for n in range(NODES))
        return [n["metadata"]["name"] for n in nodes if n and n["spec"].get("unschedulable")]


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    cluster = EmbeddedCluster(SystemClock())
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for number in range(NODES):
        node: Any = builders.node(f"n{number}")
        node["spec"]["providerID"] = f"aws:///us-east-1a/{machine(number)}"
        cluster.apply(node)
    text = "version: 1\nbudget: {pool: 100%, cluster: 100%}"
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": active.POLICY_NAME,
                "namespace": NAMESPACE,
                "labels": {"groundcrew.dev/part": "policy"},
            },
            "data": active.policy_data(policies.parse(text), "a test"),
        }
    )
    emulation = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    emulation.start()
    host, port = emulation.get_host_and_port()
    with http_server.serve(cluster) as server:
        yield Stand(f"http://{host}:{port}", cluster, str(server.kubeconfig(tmp_path / "kube")))
    emulation.stop()


def machine(number: int) -> str:
    return f"i-{number:017x}"


def test_interruptions_in_the_queue_cordon_their_nodes_and_sigterm_ends_it(stand: Stand) -> None:
    stand.put("no JSON", *(cloud.spot(machine(n)) for n in range(NODES)))
    command = [
        sys.executable, "-m", "infra.cli", "consume", "--queue", stand.url, "--in-process",
        "--kubeconfig", stand.kubeconfig, "--region", cloud.REGION, "--wait", "0",
    ]  # fmt: skip
    with running(command, stdout=subprocess.PIPE, text=True) as process:
        eventually(lambda: len(stand.cordoned()) == NODES)
        eventually(lambda: stand.depth() == 1)
        megabytes = resident(process.pid)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60.0)
    assert process.returncode == 0
    assert "cannot be read, and is left" in said
    assert "has no dead-letter queue" in said
    assert re.search(rf'"ended".*"deleted":{NODES},"unreadable":[1-9]', said)
    assert stand.depth() == 1
    assert megabytes < 130, "the process that acts was to stay below this"


def test_no_such_queue_is_said_and_ends_it(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--queue", f"{stand.url}-gone", "--in-process", "--region", cloud.REGION]
    assert main(["consume", *options, "--kubeconfig", stand.kubeconfig]) == 2
    assert "there is no queue" in capsys.readouterr().err


def resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match
    return int(match[1]) / 1024
