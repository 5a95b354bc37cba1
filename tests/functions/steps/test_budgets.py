"""The budgets that the nodes of one call share: what is used up, and what a watch says."""

from typing import Any

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.steps.budgets import Budgets
from infra.local.cluster import EmbeddedTransport, builders
from tests.support.simulated import DrainWorld

KEY = "default/web"


class Ears:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def said(allowed: int, kind: str = "MODIFIED") -> types.WatchEvent[types.PodDisruptionBudget]:
    status = types.PodDisruptionBudgetStatus(disruptions_allowed=allowed)
    meta = types.Meta(name="web", namespace="default", resource_version="9")
    return types.WatchEvent(kind, types.PodDisruptionBudget(metadata=meta, status=status))


def budgets(allowed: int = 2) -> Budgets:
    world = DrainWorld()
    world.server.held.add("disruption")
    made: dict[str, Any] = world.server.apply(
        builders.pdb("web", labels={"app": "web"}, max_unavailable=1)
    )
    made["status"] = {"disruptionsAllowed": allowed}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    world.server.apply({**kind, **made})
    cluster = Cluster(EmbeddedTransport(world.server))
    found = Budgets(cluster, cluster.list_pdbs, lambda: 10.0)
    found.of({"default"})
    return found


def allowed(found: Budgets) -> list[int]:
    return [b.allowed for b in found.of({"default"})]


def test_what_is_used_up_is_not_given_out_twice() -> None:
    found = budgets(allowed=1)
    assert found.take([KEY])
    assert not found.take([KEY])
    found.settle([KEY])
    assert allowed(found) == [0]


def test_what_is_put_back_is_there_for_others() -> None:
    found = budgets(allowed=1)
    assert found.take([KEY])
    found.put_back([KEY])
    assert not found.unsettled(["default"])
    assert found.take([KEY])
    assert not found.take([KEY])


def test_a_server_that_says_no_leaves_nothing() -> None:
    found = budgets(allowed=2)
    assert found.take([KEY])
    found.settle([KEY], exhausted=True)
    assert allowed(found) == [0]


def test_what_a_watch_says_holds_once_all_of_ours_is_counted_in_it() -> None:
    found, ears = budgets(allowed=2), Ears()
    found.listen(ears)
    found.take([KEY])
    found.heard("default", said(2))
    assert ears.woken == 1
    assert allowed(found) == [1], "our eviction may not be counted yet"
    found.settle([KEY])
    assert allowed(found) == [2]


def test_a_budget_that_is_deleted_no_longer_holds() -> None:
    found = budgets()
    found.heard("default", said(0, "DELETED"))
    assert found.of({"default"}) == ()


def test_where_budgets_may_not_be_listed_none_is_known_and_nobody_asks_again() -> None:
    asked: list[str] = []

    def forbidden(namespace: str) -> types.Page[types.PodDisruptionBudget]:
        asked.append(namespace)
        raise errors.Forbidden("GET", errors.Status(403))

    world = DrainWorld()
    found = Budgets(Cluster(EmbeddedTransport(world.server)), forbidden, lambda: 10.0)
    assert found.of({"default", "shop"}) == ()
    assert not found.read("default")
    assert asked == ["default"]
