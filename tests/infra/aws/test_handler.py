"""The Lambda function from what Lambda hands it to the nodes: all functions behind one handler,
against the embedded cluster over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from functions.gateways.aws import eks
from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes import connection
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.rest import RestTransport
from functions.rules import keys, policy
from functions.steps import active
from infra.aws import entry
from infra.local.cluster import EmbeddedCluster, builders
from infra.local.cluster.http import serve
from tests.support import aws as cloud
from tests.support.crew import ping

NAMESPACE = "groundcrew-system"
ALL_MAY_GO = "version: 1\nbudget: {pool: 100%, cluster: 100%}\nbreaker: {share: 100%}"
MACHINES = [f"i-{n:017x}" for n in range(3)]


class Left:
    """What Lambda says of the invocation."""

    def __init__(self, seconds: float = 40.0) -> None:
        self._millis = int(seconds * 1000)

    def get_remaining_time_in_millis(self) -> int:
        return self._millis


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedCluster]:
    made = EmbeddedCluster(SystemClock())
    for kind, name in (("Namespace", NAMESPACE), ("ConfigMap", "owner")):
        made.apply({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
    meta = {"name": active.POLICY_NAME, "namespace": NAMESPACE, "labels": {keys.PART: "policy"}}
    data = active.policy_data(policy.parse(ALL_MAY_GO), "a test")
    made.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    found = made.get("configmaps", "default", "owner") or {}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", **found}
    for place, machine in enumerate(MACHINES):
        made.apply(builders.node(f"n{place}", provider_id=f"aws:///us-east-1a/{machine}"))
        pod = builders.pod(f"p{place}", node=f"n{place}", owner=owner, stop_seconds=0)
        made.apply(pod)
    monkeypatch.setenv("GROUNDCREW_CLUSTER", "prod")
    monkeypatch.setenv("AWS_REGION", cloud.REGION)
    monkeypatch.setenv("GROUNDCREW_CALL_SECONDS", "20")
    # Nothing that comes out of Lambda's own queue is signed, and all of it is AWS's word.
    monkeypatch.setenv("GROUNDCREW_SENDER_KEY", "a key")
    asked: list[tuple[str, str]] = []

    with cloud.mocked(monkeypatch), serve(made) as server:

        def connect(region: str, name: str) -> Cluster:
            asked.append((region, name))
            return Cluster(RestTransport(lambda: connection.to(server.url)))

        monkeypatch.setattr(eks, "connect", connect)
        entry._crew.cache_clear()
        crew = entry._crew()
        crew.publish(ping("resync-cordon"))
        yield made
        crew.stop()
        entry._crew.cache_clear()
    assert asked == [(cloud.REGION, "prod")], "a warm process keeps its connection"


def cordoned(cluster: EmbeddedCluster) -> list[str]:
    return [n["metadata"]["name"] for n in cluster.all("nodes") if n["spec"].get("unschedulable")]


def pods(cluster: EmbeddedCluster) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in cluster.all("pods"))


def test_of_a_batch_what_is_read_is_done_to_the_end_and_the_rest_comes_again(
    cluster: EmbeddedCluster,
) -> None:
    bodies = [cloud.spot(MACHINES[0]), "{no JSON", cloud.spot(MACHINES[2])]
    records = [
        {"messageId": f"m{n}", "eventSource": "aws:sqs", "body": body}
        for n, body in enumerate(bodies)
    ]
    answer = entry.handler({"Records": records}, Left())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    assert (cordoned(cluster), pods(cluster)) == (["n0", "n2"], ["p1"])


def test_an_event_without_a_queue_is_done_to_the_end(cluster: EmbeddedCluster) -> None:
    assert entry.handler(json.loads(cloud.spot(MACHINES[1])), Left()) == {}
    assert (cordoned(cluster), pods(cluster)) == (["n1"], ["p0", "p2"])


def test_its_schedule_finds_what_no_event_told(cluster: EmbeddedCluster) -> None:
    """The node says itself that its disk is lost."""
    found: Any = {"apiVersion": "v1", "kind": "Node", **(cluster.get("nodes", "", "n1") or {})}
    found["status"]["conditions"].append(
        {"type": "ReadonlyFilesystem", "status": "True", "reason": "FilesystemIsReadOnly"}
    )
    cluster.apply(found)
    scheduled = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
    cluster.delete("configmaps", NAMESPACE, active.ledger_name(""))  # all nodes are read anew
    assert entry.handler(scheduled, Left(12.0)) == {}
    assert cordoned(cluster) == ["n1"]
