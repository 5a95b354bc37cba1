"""Karpenter's NodeClaim and Cluster API's Machine, against an API server that keeps what we ask."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from functions.gateways.aws.client import Aws
from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request, Response
from functions.rules.replacing import Seen
from functions.steps import terminate
from functions.steps.terminate import Machine
from functions.steps.terminate.cluster_api import ClusterApi
from functions.steps.terminate.ec2 import Ec2
from functions.steps.terminate.handed_over import HandedOver
from functions.steps.terminate.karpenter import Karpenter

ID = "aws:///us-east-1a/i-1"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
DEPLOYMENTS = "/apis/apps/v1/deployments"
MACHINES = "/apis/cluster.x-k8s.io/v1beta1/namespaces/fleet/machines/m-1"


class Server:
    """Answers from a table, and keeps what is deleted with its precondition."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.deleted: list[tuple[str, dict[str, str]]] = []
        self.asked: list[str] = []
        self.refuses = 0
        """The status with which it refuses to delete; 0: it does not."""

    def send(self, request: Request) -> Response:
        if request.method == "DELETE" and self.refuses:
            return Response(status=self.refuses, headers={}, body=b'{"message": "no"}')
        if request.method == "DELETE":
            unchanged = msgspec.json.decode(request.body)["preconditions"]
            self.deleted.append((request.path, unchanged))
            return Response(status=200, headers={}, body=b"{}")
        self.asked.append(request.path)
        found = self.answers.get(request.path)
        status = 200 if found is not None else 404
        return Response(status=status, headers={}, body=msgspec.json.encode(found or {}))

    def stream(self, request: Request) -> Any:
        raise AssertionError


def node(**meta: Any) -> types.Node:
    return types.Node(
        metadata=types.Meta(name="n1", uid="u", **meta), spec=types.NodeSpec(provider_id=ID)
    )


def claim(**more: Any) -> dict[str, Any]:
    told = more.pop("metadata", {})
    meta = {"name": "claim-1", "uid": "claim-uid", "resourceVersion": "7", **told}
    return {"metadata": meta, "status": {"providerID": ID}, **more}


def karpenter(
    *claims: dict[str, Any], wanted: str = "auto", shown: types.Node | None = None, **answers: Any
) -> tuple[Karpenter, Server, Machine]:
    named = {f"{CLAIMS}/{one['metadata']['name']}": one for one in claims}
    none: dict[str, Any] = {"items": []}
    table = {CLAIMS: {"items": list(claims)}, DEPLOYMENTS: answers.get("deployments", none)}
    server = Server(table | named)
    one = Machine(
        provider_id=ID, name="n1", node=shown or node(labels={"karpenter.sh/nodepool": "gpu"})
    )
    way = terminate.choose(one, wanted, _no_aws, Cluster(server))
    assert isinstance(way, Karpenter)
    return way, server, one


def _no_aws() -> Any:
    raise AssertionError("AWS is not asked")


def test_the_claim_of_that_machine_is_deleted_as_it_was_read() -> None:
    other = claim(metadata={"name": "claim-2", "uid": "x"}, status={"providerID": "aws:///a/i-2"})
    way, server, one = karpenter(other, claim())
    assert way.look(one).seen is Seen.RUNNING
    assert way.terminate(one).done
    unchanged = {"uid": "claim-uid", "resourceVersion": "7"}
    assert server.deleted == [(f"{CLAIMS}/claim-1", unchanged)]


def test_a_machine_without_a_claim_of_its_own_is_left_alone() -> None:
    way, server, one = karpenter(claim(status={"providerID": "aws:///a/i-2"}))
    assert way.look(one).seen is Seen.UNKNOWN
    assert not way.terminate(one).done
    assert server.deleted == []


def test_a_machine_that_two_claims_name_is_left_alone_and_both_are_named() -> None:
    way, server, one = karpenter(claim(), claim(metadata={"name": "claim-2", "uid": "x"}))
    assert way.look(one).seen is Seen.UNKNOWN
    assert "claim-1, claim-2" in way.look(one).says
    assert not way.terminate(one).done
    assert server.deleted == []


def test_a_claim_that_ends_is_not_asked_again() -> None:
    way, server, one = karpenter(claim(metadata={"deletionTimestamp": "2026-03-02T12:00:00Z"}))
    assert way.look(one).seen is Seen.ENDING
    assert way.terminate(one).done
    assert server.deleted == []


@pytest.mark.parametrize(
    ("status", "again", "says"),
    [
        (404, terminate.SOON, "has changed meanwhile"),
        (409, terminate.SOON, "has changed meanwhile"),
        (503, terminate.SOON, "no"),
        (401, terminate.LATER, "no"),
        (403, terminate.LATER, "no"),
    ],
)
def test_a_claim_whose_end_is_refused_has_not_ended(
    status: int, again: timedelta, says: str
) -> None:
    way, server, one = karpenter(claim())
    server.refuses = status
    asked = way.terminate(one)
    assert (asked.done, asked.again) == (False, again)
    assert says in asked.says


def test_the_claim_that_the_node_names_is_read_and_no_other() -> None:
    shown = node(
        labels={"karpenter.sh/nodepool": "gpu"},
        owner_references=[types.OwnerReference(kind="NodeClaim", name="claim-1")],
    )
    way, server, one = karpenter(claim(), shown=shown)
    assert way.terminate(one).done
    assert server.asked == [f"{CLAIMS}/claim-1"]


def test_a_claim_of_that_name_that_is_another_machines_is_not_taken() -> None:
    shown = node(
        labels={"karpenter.sh/nodepool": "gpu"},
        owner_references=[types.OwnerReference(kind="NodeClaim", name="claim-1")],
    )
    way, server, one = karpenter(claim(status={"providerID": "aws:///a/i-2"}), shown=shown)
    assert way.look(one).seen is Seen.UNKNOWN
    assert server.deleted == []


def test_without_its_node_the_claim_tells_whether_the_machine_is_gone() -> None:
    def look(*claims: dict[str, Any]) -> terminate.Look:
        one = Machine(provider_id=ID, name="n1", node=None)
        server = Server({CLAIMS: {"items": list(claims)}})
        return terminate.choose(one, "karpenter", _no_aws, Cluster(server)).look(one)

    assert look(claim(metadata={"deletionTimestamp": "2026-03-02T12:00:00Z"})).seen is Seen.ENDING
    gone = look()
    assert (gone.seen, gone.account) == (Seen.GONE, "karpenter")


REPAIRS = {
    "items": [
        {
            "metadata": {"name": "karpenter", "namespace": "kube-system"},
            "spec": {
                "template": {
                    "spec": {
                        "containers": [
                            {"env": [{"name": "FEATURE_GATES", "value": "NodeRepair=true"}]}
                        ]
                    }
                }
            },
        }
    ]
}


def test_where_karpenter_repairs_nodes_its_machines_are_left_to_it_until_told() -> None:
    way, _, one = karpenter(claim(), deployments=REPAIRS)
    assert "kube-system/karpenter" in way.look(one).others
    told, server, one = karpenter(claim(), deployments=REPAIRS, wanted="karpenter")
    assert told.look(one).others == ""
    assert DEPLOYMENTS not in server.asked


def test_nodes_of_auto_mode_are_left_to_it() -> None:
    labels = {"karpenter.sh/nodepool": "gpu", "eks.amazonaws.com/compute-type": "auto"}
    way, _, one = karpenter(claim(), shown=node(labels=labels))
    assert "EKS Auto Mode" in way.look(one).others


def cluster_api(machine: dict[str, Any] | None) -> tuple[ClusterApi, Server, Machine]:
    server = Server({MACHINES: machine} if machine else {})
    shown = node(
        annotations={
            "cluster.x-k8s.io/machine": "m-1",
            "cluster.x-k8s.io/cluster-namespace": "fleet",
        }
    )
    one = Machine(provider_id=ID, name="n1", node=shown)
    way = terminate.choose(one, "auto", _no_aws, Cluster(server))
    assert isinstance(way, ClusterApi)
    return way, server, one


def owned(**more: Any) -> dict[str, Any]:
    meta = {"name": "m-1", "uid": "m-uid", "ownerReferences": [{"kind": "MachineSet"}]}
    return {"metadata": meta, "spec": {"providerID": ID}, **more}


def test_a_machine_that_a_set_owns_is_deleted_by_uid() -> None:
    way, server, one = cluster_api(owned())
    assert (way.look(one).seen, way.look(one).protected) == (Seen.RUNNING, "")
    assert way.terminate(one).done
    assert server.deleted == [(MACHINES, {"uid": "m-uid"})]


def test_a_machine_that_nothing_would_replace_is_protected() -> None:
    alone = owned(metadata={"name": "m-1", "uid": "m-uid"})
    way, _, one = cluster_api(alone)
    assert "nothing would replace it" in way.look(one).protected


@pytest.mark.parametrize("found", [None, owned(spec={"providerID": "aws:///a/i-9"})])
def test_a_machine_that_is_not_this_one_is_left_alone(found: dict[str, Any] | None) -> None:
    way, server, one = cluster_api(found)
    assert way.look(one).seen is Seen.UNKNOWN
    assert not way.terminate(one).done
    assert server.deleted == []


def test_a_machine_whose_node_is_gone_is_found_by_its_provider_id() -> None:
    way, server, _ = cluster_api(owned())
    lost = Machine(provider_id=ID, name="n1", node=None)
    everywhere = "/apis/cluster.x-k8s.io/v1beta1/machines"
    # Cluster API is not there, or may not be read: that is no word about the machine.
    assert way.look(lost).seen is Seen.UNKNOWN
    server.answers[everywhere] = {"items": [owned(spec={"providerID": "x"}), owned()]}
    assert way.look(lost).seen is Seen.RUNNING
    server.answers[everywhere] = {"items": [owned(spec={"providerID": "x"})]}
    assert way.look(lost).seen is Seen.GONE


@pytest.mark.parametrize(
    ("provider_id", "way", "by_event"),
    [
        (ID, "karpenter", False),
        (ID, "event", True),
        ("kwok://n1", "karpenter", True),
        ("metal://7", "cluster-api", True),
    ],
)
def test_a_reboot_is_asked_of_ec2_or_handed_over(
    provider_id: str, way: str, by_event: bool
) -> None:
    one = Machine(provider_id=provider_id, name="n1", node=node())
    chosen = terminate.choose(one, way, _no_aws, Cluster(Server({})))
    asked = terminate.to_reboot(one, chosen, Aws)
    assert type(asked) is (HandedOver if by_event else Ec2)
    assert terminate.is_reboot_handed_over(provider_id, chosen.name) is by_event


def test_a_machine_of_no_cloud_that_we_know_is_handed_over() -> None:
    shown = types.Node(metadata=types.Meta(name="n1"), spec=types.NodeSpec(provider_id="metal://7"))
    one = Machine(provider_id="metal://7", name="n1", node=shown, token="t")
    way = terminate.choose(one, "auto", _no_aws, Cluster(Server({})))
    assert isinstance(way, HandedOver)
    assert way.look(one).seen is Seen.RUNNING
    taken = types.Meta(name="n1", annotations={"groundcrew.dev/handed-over": "t"})
    acknowledged = Machine(
        provider_id="metal://7", name="n1", node=types.Node(metadata=taken), token="t"
    )
    assert way.look(acknowledged).seen is Seen.ENDING
    assert way.look(Machine(provider_id="metal://7", name="n1", node=None)).seen is Seen.GONE
