"""What AWS says in a queue, to what becomes of the nodes that it says it of.

Each of these was seen to go wrong in aws-node-termination-handler v1.25.6: of an event about three
instances one was drained and two were lost; closed notices, and such as were two weeks ahead, were
drained at once, and so was a state change to ""; an ARN was dropped for good; a malformed message,
or one out of a topic, ended the process after a minute.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from functions.edge.context import Settings
from functions.edge.sqs_consumer import Consumer
from functions.edge.sqs_options import Options
from functions.gateways.aws.queue import Queue
from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes import connection
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.rest import RestTransport
from functions.rules import policy
from functions.steps import active
from infra.local.cluster import EmbeddedCluster, builders
from infra.local.cluster.http import serve
from infra.local.in_process import InProcess, functions
from tests.support import aws as cloud
from tests.support.crew import ping
from tests.support.sqs import running
from tests.support.waiting import eventually

NAMESPACE = "groundcrew-system"
ALL_MAY_GO = "version: 1\nbudget: {pool: 100%, cluster: 100%}\nbreaker: {share: 100%}"
MACHINES = [f"i-{n:017x}" for n in range(4)]
MOST_BYTES = 262_144
_NAMES = count()


@pytest.fixture(scope="module", autouse=True)
def _aws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, cloud.mocked(patch):
        yield


class World:
    """Four nodes n0 to n3, each with a pod that ends at once, and a queue with a dead-letter queue
    that has what was received once."""

    def __init__(self, cluster: EmbeddedCluster, url: str) -> None:
        self.cluster = cluster
        for made in (
            {"kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "default"}},
            {
                "kind": "ConfigMap",
                "metadata": {
                    "name": active.POLICY_NAME,
                    "namespace": NAMESPACE,
                    "labels": {"groundcrew.dev/part": "policy"},
                },
                "data": active.policy_data(policy.parse(ALL_MAY_GO), "a test"),
            },
        ):
            cluster.apply({"apiVersion": "v1", **made})
        owner = {"apiVersion": "v1", "kind": "ConfigMap"} | self._get("configmaps", "owner")
        for place, machine in enumerate(MACHINES):
            cluster.apply(builders.node(f"n{place}", provider_id=f"aws:///us-east-1a/{machine}"))
            pod = builders.pod(f"p{place}", node=f"n{place}", owner=owner, stop_seconds=0)
            cluster.apply(pod)
        self.url = cloud.queue(f"nodes{next(_NAMES)}", receives=1)

        api = Cluster(RestTransport(lambda: connection.to(url)))
        # Time enough in a call, whatever else this machine does meanwhile.
        settings = Settings(namespace=NAMESPACE, call_seconds=30.0)
        self.functions = functions(api.fresh, settings, SystemClock())
        self.later()  # as in any cluster that is up for some minutes: labels name the machines

    def _get(self, kind: str, name: str) -> Any:
        return self.cluster.get(kind, "default", name)

    def cordoned(self) -> list[str]:
        names = [f"n{place}" for place in range(len(MACHINES))]
        nodes = [self.cluster.get("nodes", "", name) or {} for name in names]
        return [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]

    def empty(self) -> list[str]:
        places = range(len(MACHINES))
        return [f"n{place}" for place in places if self._get("pods", f"p{place}") is None]

    def drained(self, node: str) -> bool:
        found = self.cluster.get("nodes", "", node) or {"metadata": {"annotations": {}}}
        return "drained" in found["metadata"]["annotations"].get("groundcrew.dev/drain", "")

    def later(self) -> None:
        """All clocks of the functions have come round."""
        for name in ("cordon", "drain"):
            assert self.functions[name]([ping(f"resync-{name}")]).status < 300


@pytest.fixture
def world() -> Iterator[World]:
    cluster = EmbeddedCluster(SystemClock())
    with serve(cluster) as server:
        yield World(cluster, server.url)


@contextmanager
def consuming(world: World, **options: Any) -> Iterator[Consumer]:
    crew = InProcess(world.functions)
    consumer = Consumer(Queue(world.url, wait_seconds=0), crew.act, Options(**options))
    try:
        with running(consumer):
            yield consumer
    finally:
        crew.stop()


def health(*entities: str, ahead: timedelta = timedelta(hours=1), status: str = "upcoming") -> str:
    return cloud.retirement(*entities, starts=datetime.now(UTC) + ahead, status=status)


def filled(body: str) -> str:
    """As large as a message may be."""
    event = json.loads(body)
    description = {"language": "en_US", "latestDescription": ""}
    event["detail"]["eventDescription"] = [description]
    description["latestDescription"] = "x" * (MOST_BYTES - len(json.dumps(event)))
    return json.dumps(event)


def test_one_health_event_about_three_instances_empties_all_three(world: World) -> None:
    cloud.put(world.url, health(*MACHINES[:3]))
    with consuming(world):
        eventually(lambda: world.empty() == ["n0", "n1", "n2"])
        eventually(lambda: cloud.depth(world.url) == (0, 0))
    assert world.cordoned() == ["n0", "n1", "n2"]


def test_a_lone_interruption_costs_eight_requests_beside_its_evictions(world: World) -> None:
    before = len(world.cluster.requests())
    cloud.put(world.url, cloud.spot(MACHINES[0]))
    with consuming(world):
        eventually(lambda: world.drained("n0"))
    asked = Counter(
        f"{r.verb} {r.path.rsplit('/', 1)[-1]}" for r in world.cluster.requests()[before:]
    )
    asked.pop("get n0", None)  # looked at again after a second, where the machine is slow
    assert asked == {
        # What is in force, and which node it is.
        "list configmaps": 1, "list nodes": 1,
        # What outlives the node, and its place in the budgets.
        "patch groundcrew-ledger-gpu": 1,
        # Cordon and drain each mark the node, and tell of it.
        "patch n0": 2, "create events": 2,
        # What is there, and when it goes.
        "watch pods": 1, "create eviction": 1,
    }  # fmt: skip


def test_of_five_hundred_machines_in_one_event_the_three_that_are_ours_are_emptied(
    world: World,
) -> None:
    others = [f"i-{n:017x}" for n in range(1000, 1497)]
    body = filled(health(*others[:200], *MACHINES[:3], *others[200:]))
    assert len(body) == MOST_BYTES
    cloud.put(world.url, body)
    with consuming(world) as consumer:
        eventually(lambda: world.empty() == ["n0", "n1", "n2"])
        eventually(lambda: consumer.counts.left == 1)
    assert world.cordoned() == ["n0", "n1", "n2"]
    assert sum(cloud.depth(world.url)) == 1, "the others' is left to them"


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(health(MACHINES[0], status="closed"), id="a notice that is over"),
        pytest.param(health(MACHINES[0], ahead=timedelta(days=14)), id="two weeks ahead"),
    ],
)
def test_what_is_over_or_weeks_ahead_empties_nothing_today(world: World, said: str) -> None:
    cloud.put(world.url, said)
    with consuming(world) as consumer:
        eventually(lambda: consumer.counts.deleted == 1)
    world.later()
    assert (world.cordoned(), world.empty()) == ([], [])


def test_what_is_two_weeks_ahead_is_remembered_on_its_node(world: World) -> None:
    cloud.put(world.url, health(MACHINES[0], ahead=timedelta(days=14)))
    with consuming(world) as consumer:
        eventually(lambda: consumer.counts.deleted == 1)
    kept = world.cluster.get("nodes", "", "n0")
    assert kept is not None
    assert cloud.RETIREMENT in kept["metadata"]["annotations"]["groundcrew.dev/incidents"]


def test_an_instance_that_is_named_by_its_arn_is_found(world: World) -> None:
    arn = f"arn:aws:ec2:{cloud.REGION}:{cloud.ACCOUNT}:instance/{MACHINES[1]}"
    cloud.put(world.url, health(arn))
    with consuming(world):
        eventually(lambda: world.empty() == ["n1"])
        eventually(lambda: cloud.depth(world.url) == (0, 0))


def test_an_interruption_out_of_a_topic_is_understood(world: World) -> None:
    wrapped = {"Type": "Notification", "MessageId": "m", "Message": cloud.spot(MACHINES[2])}
    cloud.put(world.url, json.dumps(wrapped))
    with consuming(world):
        eventually(lambda: world.empty() == ["n2"])
        eventually(lambda: cloud.depth(world.url) == (0, 0))


def test_a_malformed_message_ends_nothing_and_becomes_a_dead_letter(world: World) -> None:
    unsupported = cloud.bridged("Something New", {"instance-id": MACHINES[0]}, source="aws.new")
    cloud.put(world.url, "{no JSON", unsupported)
    with consuming(world, visibility_seconds=1) as consumer:
        eventually(lambda: cloud.depth(f"{world.url}-dead")[0] == 2)
        cloud.put(world.url, cloud.spot(MACHINES[3]))
        eventually(lambda: world.empty() == ["n3"])
        assert consumer.counts.received == 3, "each was received once, and the bad ones no more"
    assert world.cordoned() == ["n3"]


def test_a_change_to_a_state_that_is_none_empties_nothing(world: World) -> None:
    cloud.put(world.url, cloud.state_change(MACHINES[0], ""), cloud.spot(MACHINES[1]))
    with consuming(world):
        eventually(lambda: world.empty() == ["n1"])
    world.later()
    assert (world.cordoned(), world.empty()) == (["n1"], ["n1"])
    assert sum(cloud.depth(world.url)) == 1, "it is left to the queue's dead-letter policy"
