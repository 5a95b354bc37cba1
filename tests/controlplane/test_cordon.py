"""cordon against a real API server: races, crashes and lost events."""

import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from functions import cordon
from functions.edge.context import Context, Outcome
from functions.gateways.kubernetes.transport import Request, Transport
from functions.rules import keys
from functions.steps import mark
from tests.controlplane.access import Cluster
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.nodes import Nodes
from tests.support.crew import Between, context, node_update, ping, transport_to
from tests.support.ending_world import Died

XID_79 = {
    "type": "AcceleratedHardwareReady",
    "status": "False",
    "reason": "NvidiaXID79Error",
    "message": "GPU has fallen off the bus",
}


@dataclass
class Bed:
    """A pool of its own in a real cluster, and a namespace for our own ConfigMaps."""

    cluster: Cluster
    nodes: Nodes
    transport: Transport
    namespace: str
    pool: str

    def add(self, count: int) -> list[str]:
        names = [f"{self.pool}-{n:02}" for n in range(count)]
        for name in names:
            self.nodes.add(
                name,
                labels={"groundcrew.dev/pool": self.pool},
                provider_id=f"aws:///us-east-1a/i-{uuid.uuid5(uuid.NAMESPACE_DNS, name).hex[:17]}",
            )
        return names

    def policy(self, text: str) -> None:
        from functions.rules import policy
        from functions.steps import active

        self.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": active.POLICY_NAME,
                    "namespace": self.namespace,
                    "labels": {keys.PART: "policy"},
                },
                "data": active.policy_data(policy.parse(text), "a test"),
            }
        )

    def node(self, name: str) -> Any:
        return self.cluster.get("node", name)

    def sick(self, name: str, condition: dict[str, str] = XID_79) -> Any:
        """The node with a condition that only this event shows."""
        node = self.node(name)
        node["status"]["conditions"].append(condition)
        return node_update(node)

    def break_node(self, name: str) -> None:
        """The condition stands on the node itself, where a resync finds it."""
        patch = {"status": {"conditions": [XID_79]}}
        self.cluster.kubectl(
            "patch", "node", name, "--subresource=status", "--type=strategic", "-p",
            json.dumps(patch),
        )  # fmt: skip

    def context(self, transport: Transport | None = None) -> Context:
        return context(transport or self.transport, namespace=self.namespace)

    def handle(self, event: Any, transport: Transport | None = None) -> Outcome:
        return cordon.handle(event, self.context(transport))

    def cordoned(self) -> list[str]:
        items = self.cluster.get("node", "-l", f"groundcrew.dev/pool={self.pool}")["items"]
        return [n["metadata"]["name"] for n in items if n["spec"].get("unschedulable")]


@pytest.fixture
def bed(cluster: Cluster, clean_nodes: Nodes, namespace: str) -> Bed:
    transport = transport_to(cluster.kubeconfig("admin"))
    return Bed(cluster, clean_nodes, transport, namespace, f"pool-{uuid.uuid4().hex[:6]}")


def test_an_event_cordons_and_an_uncordon_by_a_human_dismisses(bed: Bed) -> None:
    (name,) = bed.add(1)
    bed.handle(ping())
    outcome = bed.handle(bed.sick(name))
    assert outcome.answer is not None
    assert outcome.answer.data == {"nodes": [{"node": name, "severity": "evict"}]}
    node = bed.node(name)
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["labels"][keys.STATE] == "evict"
    assert keys.EXCLUDE_FROM_LOAD_BALANCERS in node["metadata"]["labels"]
    described = bed.cluster.kubectl("describe", "node", name)
    assert "NodeCordoned" in described

    bed.cluster.kubectl("uncordon", name)
    bed.handle(ping())
    node = bed.node(name)
    assert node["metadata"]["labels"][keys.STATE] == "dismissed"
    assert keys.EXCLUDE_FROM_LOAD_BALANCERS not in node["metadata"]["labels"]
    bed.handle(bed.sick(name))
    assert not bed.cordoned()


def test_a_lone_event_costs_few_requests_and_its_repeat_writes_nothing(
    bed: Bed, control_plane: ControlPlane
) -> None:
    (name,) = bed.add(1)
    bed.handle(ping())
    event = bed.sick(name)
    first = bed.handle(event)
    assert sum(first.requests.values()) <= 6, first.requests
    mark = control_plane.audit_mark()
    again = bed.handle(event)
    assert not again.decisions
    assert again.answer is None
    assert set(again.requests) == {"get nodes", "list configmaps"}
    writes = [
        entry
        for entry in control_plane.audit_since(mark)
        if entry.user == control_plane.username("admin")
        and entry.verb in ("create", "patch", "update", "delete")
    ]
    assert not writes


def test_twenty_instances_twenty_nodes_budget_three_never_a_fourth(bed: Bed) -> None:
    names = bed.add(20)
    bed.policy(
        "version: 1\nbudget: {pool: 15%, cluster: 100%}\nbreaker: {share: 100%, day_share: 100%}\n"
    )
    bed.handle(ping())
    events = [bed.sick(name) for name in names]
    most, over = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.wait(0.05):
            most = max(most, len(bed.cordoned()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    transports = [transport_to(bed.cluster.kubeconfig("admin")) for _ in names]
    with ThreadPoolExecutor(len(names)) as pool:
        outcomes = list(pool.map(bed.handle, events, transports))
    over.set()
    watcher.join()
    assert len(bed.cordoned()) == 3
    assert most <= 3
    told = [d.node for o in outcomes for d in o.decisions if d.action == "cordon"]
    assert sorted(told) == sorted(bed.cordoned())
    assert sum(1 for o in outcomes for d in o.decisions if "budget" in d.blocked_by) >= 10


def die(_: Request) -> None:
    raise Died


def test_a_crash_between_reservation_and_patch_holds_a_place_until_it_runs_out(bed: Bed) -> None:
    first, second = bed.add(2)
    bed.policy(
        "version: 1\nbudget: {pool: 50%, cluster: 100%, reservation: 3s}\n"
        "breaker: {share: 100%, day_share: 100%}\n"
    )
    bed.handle(ping())
    with pytest.raises(Died):
        bed.handle(bed.sick(first), Between(bed.transport, "PATCH", f"/api/v1/nodes/{first}", die))
    assert not bed.cordoned()
    blocked = bed.handle(bed.sick(second))
    assert any("budget" in d.blocked_by for d in blocked.decisions)
    assert not bed.cordoned()
    threading.Event().wait(3.2)
    bed.handle(bed.sick(second))
    assert bed.cordoned() == [second]


def test_a_crash_between_patch_and_answer_is_made_good_by_the_label(bed: Bed) -> None:
    (name,) = bed.add(1)
    bed.handle(ping())
    with pytest.raises(Died):
        bed.handle(bed.sick(name), Between(bed.transport, "POST", "/events", die))
    assert bed.cordoned() == [name]
    again = bed.handle(bed.sick(name))
    assert not any(d.action == "cordon" for d in again.decisions)
    # Whoever drains finds it by this label, answer or not.
    assert bed.node(name)["metadata"]["labels"][keys.STATE] == "evict"


def test_a_humans_cordon_between_our_read_and_our_patch_stays_theirs(bed: Bed) -> None:
    (name,) = bed.add(1)
    bed.handle(ping())

    def human(_: Request) -> None:
        if between.times == 1:
            bed.cluster.kubectl("cordon", name)

    between = Between(bed.transport, "PATCH", f"/api/v1/nodes/{name}", human)
    bed.handle(bed.sick(name), between)
    record = json.loads(bed.node(name)["metadata"]["annotations"][keys.INCIDENTS])
    assert record["cordon"]["theirs"] is True


def test_what_no_event_told_is_found_by_the_resync(bed: Bed) -> None:
    (name,) = bed.add(1)
    bed.break_node(name)
    bed.handle(ping())
    assert bed.cordoned() == [name]
    node = bed.node(name)
    assert node["metadata"]["labels"][keys.INSTANCE].startswith("i-")


def test_a_node_that_was_given_back_is_selected_by_no_tick_once_drain_is_done_with_it(
    bed: Bed,
) -> None:
    maintenance = "cloud.google.com/active-node-maintenance"

    def ticked() -> bool:
        """Whether a tick reads it, after cordon has heard of it as it is now."""
        bed.handle(node_update(bed.node(name)))
        return name in [n.name for n in bed.context().cluster.list_nodes(mark.UNSETTLED)]

    (name,) = bed.add(1)
    bed.handle(ping())
    assert not ticked()
    bed.cluster.kubectl("label", "node", name, f"{maintenance}=ONGOING")
    bed.cluster.kubectl("annotate", "node", name, f"{keys.DRAIN}={{}}")
    assert ticked()
    assert bed.cordoned() == [name]
    bed.cluster.kubectl("label", "node", name, f"{maintenance}-")
    assert ticked()
    assert bed.cordoned() == []
    assert bed.node(name)["metadata"]["labels"][keys.STATE] == keys.RETURNING
    bed.cluster.kubectl("annotate", "node", name, f"{keys.DRAIN}-")
    assert not ticked()
    assert bed.node(name)["metadata"]["labels"][keys.STATE] == keys.RELEASED


def test_a_node_deleted_and_registered_again_as_the_same_machine_inherits(bed: Bed) -> None:
    (name,) = bed.add(1)
    bed.handle(ping())
    bed.handle(bed.sick(name))
    provider_id = bed.node(name)["spec"]["providerID"]
    bed.cluster.kubectl("delete", "node", name)
    bed.nodes.add(name, labels={"groundcrew.dev/pool": bed.pool}, provider_id=provider_id)
    assert not bed.cordoned()
    bed.handle(node_update(bed.node(name), "add"))
    assert bed.cordoned() == [name]


def test_another_machine_under_the_old_name_does_not(bed: Bed) -> None:
    (name,) = bed.add(1)
    bed.handle(ping())
    event = bed.sick(name)
    bed.cluster.kubectl("delete", "node", name)
    bed.nodes.add(
        name, labels={"groundcrew.dev/pool": bed.pool}, provider_id="aws:///us-east-1a/i-0ther"
    )
    outcome = bed.handle(event)
    assert "another machine" in outcome.decisions[0].reason
    assert not bed.cordoned()


def test_an_apiserver_that_restarts_in_the_middle_costs_a_retry_and_no_more(
    bed: Bed, control_plane: ControlPlane
) -> None:
    from functions.gateways.kubernetes import errors

    (name,) = bed.add(1)
    bed.handle(ping())
    event = bed.sick(name)

    def restart(_: Request) -> None:
        if between.times == 1:
            control_plane.restart_apiserver(kill=True)
            raise errors.Unreachable("connection reset")

    between = Between(bed.transport, "PATCH", f"/api/v1/nodes/{name}", restart)
    with pytest.raises(errors.Unreachable):
        bed.handle(event, between)
    bed.handle(event)
    assert bed.cordoned() == [name]


def test_a_namespace_that_is_missing_is_named_with_the_next_step(bed: Bed) -> None:
    from functions.gateways.kubernetes import errors

    bed.namespace = "no-such-namespace"
    with pytest.raises(errors.KubernetesError, match="kubectl create namespace no-such-namespace"):
        bed.handle(ping())
