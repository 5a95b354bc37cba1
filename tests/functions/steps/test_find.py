"""Which nodes a notice is about."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from events.notice import Cause, Identity, Kind, Notice, Severity
from functions.gateways.kubernetes.client import Cluster
from functions.rules import keys
from functions.steps import find
from infra.local.clock import SimulatedClock
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport
from infra.local.cluster.builders import node as build_node

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SCALE_SET = (
    "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/"
    "virtualMachineScaleSets/aks-{0}-vmss/virtualMachines/{1}"
)


def _cluster(*nodes: tuple[str, str, dict[str, str]]) -> Cluster:
    clock = SimulatedClock(NOW)
    cluster = EmbeddedCluster(clock)
    for name, provider_id, labels in nodes:
        node: dict[str, Any] = build_node(name, now=NOW)
        node["spec"]["providerID"] = provider_id
        node["metadata"]["labels"] = {**node["metadata"].get("labels", {}), **labels}
        cluster.apply(node)
    return Cluster(EmbeddedTransport(cluster, clock.waited))


def _notice(**identity: str) -> Notice:
    return Notice(
        kind=Kind.INTERRUPTION,
        severity=Severity.EVICT,
        cause=Cause.PROVIDER,
        source="a",
        check="b",
        identity=Identity(**identity),
    )


@pytest.mark.parametrize(
    ("provider_id", "machine"),
    [
        ("aws:///us-east-1a/i-0123", "i-0123"),
        ("gce://my-project/us-central1-a/gke-pool-wxyz", "gke-pool-wxyz"),
        (SCALE_SET.format("a", 0), "aks-a-vmss_0"),
        (SCALE_SET.format("a", 12).replace("virtualMachineS", "virtualmachines"), "aks-a-vmss_12"),
        ("azure:///subscriptions/s/x/virtualMachines/lone-vm", "lone-vm"),
        ("", ""),
    ],
)
def test_a_machine_is_called_what_its_cloud_calls_it(provider_id: str, machine: str) -> None:
    assert find.instance_id(provider_id) == machine


def test_the_same_number_in_two_scale_sets_is_two_machines() -> None:
    cluster = _cluster(("n0", SCALE_SET.format("a", 0), {}), ("n1", SCALE_SET.format("b", 0), {}))
    found = find.find(cluster, [_notice(instance_id="aks-b-vmss_0")])
    assert set(found.nodes) == {"n1"}


def test_what_is_over_is_found_on_a_marked_node_that_no_label_names_yet() -> None:
    over = msgspec.structs.replace(_notice(instance_id="i-1"), kind=Kind.RECOVERY)
    marked = ("n1", "aws:///z/i-1", {keys.STATE: "evict"})
    found = find.find(_cluster(("n0", "aws:///z/i-0", {}), marked), [over], full=False)
    assert set(found.nodes) == {"n1"}
    assert found.nobodys == []


def test_what_is_over_is_not_looked_for_where_only_history_is_left() -> None:
    """Of those there are many, and such words are said of all the machines of an account."""
    over = msgspec.structs.replace(_notice(instance_id="i-1"), kind=Kind.RECOVERY)
    cluster = _cluster(("n1", "aws:///z/i-1", {keys.STATE: "released"}))
    assert find.find(cluster, [over], full=False).nobodys == [over]


def test_what_is_over_of_a_machine_that_nobody_knows_is_no_reason_to_read_all_nodes() -> None:
    over = msgspec.structs.replace(_notice(instance_id="i-1"), kind=Kind.RECOVERY)
    cluster = _cluster(("n0", "aws:///z/i-0", {}))
    found = find.find(cluster, [over])
    assert (found.searched, found.nobodys) == (False, [over])
    assert cluster.requests == {"list nodes": 2}


@pytest.mark.parametrize("label", find.RESERVATION)
def test_a_capacity_reservation_is_all_the_nodes_that_say_they_run_in_it(label: str) -> None:
    held = {label: "cr-1"}
    cluster = _cluster(
        ("n0", "aws:///z/i-0", held), ("n1", "aws:///z/i-1", {label: "cr-2"}),
        ("n2", "aws:///z/i-2", held),
    )  # fmt: skip
    found = find.find(cluster, [_notice(capacity_reservation="cr-1")])
    assert set(found.nodes) == {"n0", "n2"}
    assert [len(told) for told in found.notices.values()] == [1, 1]


def test_a_capacity_reservation_that_no_label_can_name_spoils_no_others() -> None:
    cluster = _cluster(("n0", "aws:///z/i-0", {find.RESERVATION[0]: "cr-1"}))
    told = [_notice(capacity_reservation=name) for name in ("cr-1", "a (b")]
    found = find.find(cluster, told)
    assert found.notices == {"n0": told[:1]}
    assert [notice for notice, _ in found.foreign] == told[1:]


def test_a_capacity_reservation_that_no_node_names_is_said_so() -> None:
    found = find.find(_cluster(("n0", "aws:///z/i-0", {})), [_notice(capacity_reservation="cr-1")])
    ((_, why),) = found.foreign
    assert "karpenter.k8s.aws/capacity-reservation-id" in why
    assert not found.unknown


def test_an_id_that_no_label_can_say_does_not_spoil_the_search_for_the_others() -> None:
    cluster = _cluster(("n0", "aws:///z/i-0", {keys.INSTANCE: "i-0"}))
    bad = _notice(instance_id="a b,c)" + "x" * 70)
    found = find.find(cluster, [_notice(instance_id="i-0"), bad], full=False)
    assert set(found.nodes) == {"n0"}
    assert found.unknown == [bad]


class TestByName:
    CLUSTER = _cluster(("n0", "aws:///a/i-0", {}), ("n1", "", {}))

    def found(self, **identity: str) -> find.Found:
        return find.find(self.CLUSTER, [_notice(**identity)])

    def test_the_node_of_that_name_is_found_when_it_is_that_machine(self) -> None:
        assert list(self.found(node="n0").nodes) == ["n0"]
        assert list(self.found(node="n0", provider_id="aws:///a/i-0").nodes) == ["n0"]
        uid = self.CLUSTER.get_node("n1").metadata.uid
        assert list(self.found(node="n1", node_uid=uid).nodes) == ["n1"]

    def test_the_same_machine_under_another_uid_is_the_same_machine(self) -> None:
        said = {"node": "n0", "provider_id": "aws:///a/i-0", "node_uid": "of-before"}
        assert list(self.found(**said).nodes) == ["n0"]

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            ({"node": "gone"}, "no node is called gone"),
            ({"node": "n0", "provider_id": "aws:///a/i-9"}, "n0 is another machine now"),
            ({"node": "n0", "node_uid": "of-before"}, "n0 was made anew"),
            ({"node": "n1", "provider_id": "aws:///a/i-9", "node_uid": "b"}, "n1 was made anew"),
            ({}, "names neither a node nor a machine"),
        ],
        ids=str,
    )
    def test_any_other_is_declined_with_the_reason(self, said: dict[str, str], why: str) -> None:
        found = self.found(**said)
        assert not found.nodes
        assert not found.unknown
        assert why in found.foreign[0][1]

    def test_many_notices_about_one_node_read_it_once(self) -> None:
        cluster = self.CLUSTER.fresh()
        found = find.find(cluster, [_notice(node="n0")] * 5)
        assert len(found.notices["n0"]) == 5
        assert cluster.requests == {"get nodes": 1}


class TestByMachine:
    CLUSTER = _cluster(
        ("stamped", "aws:///a/i-1", {keys.INSTANCE: "i-1"}), ("fresh", "aws:///a/i-2", {})
    )

    def test_a_stamp_is_enough_and_costs_one_small_read(self) -> None:
        cluster = self.CLUSTER.fresh()
        assert list(find.find(cluster, [_notice(instance_id="i-1")]).nodes) == ["stamped"]
        assert cluster.requests == {"list nodes": 1}

    def test_one_without_a_stamp_is_found_by_one_full_read_for_all(self) -> None:
        cluster = self.CLUSTER.fresh()
        said = [_notice(instance_id="i-2"), _notice(instance_id="i-9"), _notice(instance_id="i-8")]
        found = find.find(cluster, said)
        assert list(found.nodes) == ["fresh"]
        assert [n.identity.instance_id for n in found.unknown] == ["i-9", "i-8"]
        assert cluster.requests == {"list nodes": 2}

    def test_without_a_full_read_it_is_unknown(self) -> None:
        found = find.find(self.CLUSTER, [_notice(instance_id="i-2")], full=False)
        assert len(found.unknown) == 1

    def test_an_instance_id_under_another_provider_id_is_not_that_machine(self) -> None:
        found = find.find(self.CLUSTER, [_notice(provider_id="aws:///b/i-1")])
        assert not found.nodes
        assert len(found.unknown) == 1

    def test_hundreds_of_machines_are_asked_for_in_selectors_that_fit_a_url(self) -> None:
        cluster = self.CLUSTER.fresh()
        said = [_notice(instance_id=f"i-{n}") for n in range(250)]
        found = find.find(cluster, said, full=False)
        assert list(found.nodes) == ["stamped"]
        assert cluster.requests == {"list nodes": 3}


@pytest.mark.parametrize("first", [0, 1])
def test_what_is_said_of_another_machine_of_that_id_keeps_nobodys_word_from_its_node(
    first: int,
) -> None:
    """Both came at once: a provider ID that is not the node's, and the machine's own ID."""
    cluster = _cluster(("n0", "aws:///z/i-0", {}))
    wrong, right = _notice(provider_id="aws:///elsewhere/i-0"), _notice(instance_id="i-0")
    found = find.find(cluster, [wrong, right] if first == 0 else [right, wrong])
    assert found.notices == {"n0": [right]}
    assert found.unknown == [wrong]
