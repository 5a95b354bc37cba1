"""Which nodes a notice is about."""

from datetime import UTC, datetime
from typing import Any

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
