"""What a NodeClaim shows of its end, and a Deployment of node repair."""

from typing import Any

import pytest

from functions.rules.replacing import nodeclaim

DELETED = "2026-03-02T12:00:00Z"


def claim(
    *, grace: str = "", ends_by: str = "", reason: str = "", **conditions: str
) -> dict[str, Any]:
    annotations = {nodeclaim.ENDS_BY: ends_by} if ends_by else {}
    found = [{"type": kind, "status": status} for kind, status in conditions.items()]
    if reason:
        found.append({"type": "DisruptionReason", "status": "True", "reason": reason})
    return {
        "metadata": {
            "name": "gpu-x",
            "uid": "u",
            "deletionTimestamp": DELETED,
            "annotations": annotations,
        },
        "spec": {"terminationGracePeriod": grace} if grace else {},
        "status": {"providerID": "aws:///a/i-1", "conditions": found},
    }


def test_who_decided_it_is_named() -> None:
    assert "by its disruption of what is empty" in nodeclaim.how_it_ends(claim(reason="Empty"))
    assert "by its node repair" in nodeclaim.how_it_ends(claim(ends_by="2026-03-02T11:59:59Z"))
    by_hand = claim(grace="1h0m0s", ends_by="2026-03-02T13:00:00Z")
    assert ", by" not in nodeclaim.how_it_ends(by_hand)


def test_a_grace_of_nothing_is_no_repair() -> None:
    assert ", by" not in nodeclaim.how_it_ends(claim(grace="0s", ends_by=DELETED))


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (claim(), DELETED),
        (claim(Drained="Unknown"),
         "waits for ever for pods that a budget or karpenter.sh/do-not-disrupt keeps"),
        (claim(Drained="Unknown", grace="1h", ends_by="2026-03-02T13:00:00Z"),
         "drains the node, until 2026-03-02T13:00:00Z at the latest"),
        (claim(Drained="True", VolumesDetached="Unknown"), "waits for volumes to be detached"),
        (claim(Drained="True", InstanceTerminating="True"), "its instance is ending"),
    ],
)  # fmt: skip
def test_what_it_waits_for_is_named(found: dict[str, Any], says: str) -> None:
    assert nodeclaim.how_it_ends(found).endswith(says)


def deployment(**container: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


def gates(text: str) -> list[dict[str, str]]:
    return [{"name": "FEATURE_GATES", "value": text}]


@pytest.mark.parametrize(
    ("container", "on"),
    [
        ({"env": gates("StaticCapacity=false,NodeRepair=true")}, True),
        ({"env": gates("NodeRepair=false,ReservedCapacity=true")}, False),
        ({"env": gates("")}, False),
        ({"env": [{"name": "FEATURE_GATES", "valueFrom": {}}]}, False),
        ({}, False),
        ({"args": ["--feature-gates=NodeRepair=true"]}, True),
        ({"args": ["-feature-gates", "NodeRepair=True"]}, True),
        ({"args": ["--feature-gates"]}, False),
        ({"args": ["--feature-gates=NodeRepair=false"], "env": gates("NodeRepair=true")}, False),
    ],
)
def test_node_repair_is_on_where_the_gate_is(container: dict[str, Any], on: bool) -> None:
    assert nodeclaim.repairs_nodes(deployment(**container)) is on


def test_a_deployment_without_containers_repairs_nothing() -> None:
    assert not nodeclaim.repairs_nodes({})
