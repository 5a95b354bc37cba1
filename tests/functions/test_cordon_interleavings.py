"""Drawn interleavings: instances that run into each other and die between any two requests.

Whatever comes: no budget is exceeded at any moment, and what is well is back in service in the end.
The draws are the same in every run.
"""

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from events.cloudevent import CloudEvent
from functions import cordon
from functions.edge.context import Context, Settings
from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request, Response
from functions.rules import keys
from functions.steps import active
from infra.local.cluster import EmbeddedTransport
from infra.local.cluster.builders import node as build_node
from tests.functions.test_cordon import NAMESPACE, NOW, Fleet
from tests.support.crew import ping
from tests.support.ending_world import Died

STEPS = 60
POLICY = """
version: 1
budget: {pool: 20%, cluster: 15%}
breaker: {share: 100%, day_share: 100%}
recovery: {releases: 100}
"""
MOST = {"n": 4, "m": 2, "": 4}
"""Nodes that may be out of service by that policy: of each pool, by the first letter of their
names, and of all."""


class World:
    """Twenty nodes of one pool and ten of another, and whoever acts on them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fleet = Fleet(size=20)
        self.fleet.policy(POLICY)
        self.names = [f"n{n}" for n in range(20)] + [f"m{n}" for n in range(10)]
        for name in self.names[20:]:
            self.fleet.cluster.apply(build_node(name, pool="other", now=NOW))
        self.fleet.resync()
        self.instances = 0
        """That are in the middle of a call."""
        self.boots = 0
        self.story: list[str] = []

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
            length = self.random.choice([0.1, 0.5, 1, 3, 6, 16])
            self.fleet.pass_time(timedelta(minutes=length))

    def step(self) -> None:
        acts: list[tuple[float, Callable[[str], None]]] = [
            (0.50, self._falls_sick), (0.20, self._gets_well), (0.15, self._resync),
            (0.05, self._is_uncordoned), (0.05, self._ledger_is_lost), (0.05, self._is_made_anew),
        ]  # fmt: skip
        (act,) = self.random.choices([a for _, a in acts], [weight for weight, _ in acts])
        name = self.random.choice(self.names)
        self.story.append(f"{self.instances * '  '}{act.__name__} {name}")
        act(name)

    def out(self) -> list[str]:
        return [name for name in self.names if self.fleet.node(name)["spec"].get("unschedulable")]

    def send(self, request: Request) -> Response:
        """One request of an instance of ours, and what may happen around it."""
        self._may_die(0.03)
        if self.instances < 3 and self.random.random() < 0.2:
            self.step()
        answer = EmbeddedTransport(self.fleet.cluster, self.fleet.clock.waited).send(request)
        if request.method == "PATCH":
            out = self.out()
            for letter, most in MOST.items():
                assert len([n for n in out if n.startswith(letter)]) <= most, self.story
        self._may_die(0.03)
        return answer

    def stream(self, request: Request) -> Any:
        raise NotImplementedError

    def _may_die(self, share: float) -> None:
        if self.random.random() < share:
            self.story.append("died")
            if self.random.random() < 0.5:
                raise Died
            raise errors.Unreachable("lost on the way")

    def _call(self, event: CloudEvent) -> None:
        """By an instance of its own."""
        settings = Settings(namespace=NAMESPACE, parallel=1)
        self.instances += 1
        try:
            cordon.handle(event, Context(lambda: Cluster(self), self.fleet.clock, settings))
        except (Died, errors.KubernetesError):
            pass
        finally:
            self.instances -= 1

    def _falls_sick(self, name: str) -> None:
        node = self.fleet.condition(name, "KernelDeadlock", "True", "DockerHung")
        self._call(self.fleet.update(node))

    def _gets_well(self, name: str) -> None:
        self.make_well(self.random.choice(self.out() or [name]))
        self._call(self.fleet.update(self.fleet.node(name)))

    def make_well(self, name: str) -> None:
        node = self.fleet.condition(name, "KernelDeadlock", "False", "KernelHasNoDeadlock")
        self.boots += 1
        node["status"]["nodeInfo"]["bootID"] = f"boot {self.boots}"
        self.fleet.cluster.apply({"apiVersion": "v1", "kind": "Node"} | node)

    def _resync(self, _: str) -> None:
        self._call(ping())

    def _is_uncordoned(self, name: str) -> None:
        self.fleet.set_cordon(name, False)

    def _is_made_anew(self, name: str) -> None:
        """As the same machine or as another."""
        provider_id = self.fleet.node(name)["spec"]["providerID"]
        if self.random.random() < 0.5:
            provider_id = f"aws:///us-east-1a/i-{self.random.getrandbits(60):017x}"
        pool = "gpu" if name.startswith("n") else "other"
        self.fleet.cluster.delete("Node", "", name)
        self.fleet.cluster.apply(build_node(name, pool=pool, provider_id=provider_id, now=NOW))

    def _ledger_is_lost(self, _: str) -> None:
        """Between two calls: its reservations are lost with it."""
        pool = self.random.choice(["gpu", "other"])
        name = active.ledger_name(pool)
        known = {c["metadata"]["name"] for c in self.fleet.cluster.all("ConfigMap", NAMESPACE)}
        if self.instances or name not in known:
            return
        if self.random.random() < 0.5:
            self.fleet.cluster.delete("ConfigMap", NAMESPACE, name)
        else:
            self.fleet.config_map(name, {"pool": pool, "ledger": "{"}, "ledger")


@pytest.mark.parametrize("seed", [1, 2])
def test_no_budget_is_exceeded_and_who_is_well_is_back_in_the_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functions.steps.carry_out.random.uniform", lambda low, high: low)
    world = World(seed)
    world.run()
    for name in world.names:
        world.make_well(name)
    for _ in range(4):
        world.fleet.pass_time(timedelta(minutes=20))
        world.fleet.resync()
    assert world.out() == [], world.story
    states = {world.fleet.node(n)["metadata"]["labels"].get(keys.STATE, "") for n in world.names}
    assert states <= {"", "released"}
