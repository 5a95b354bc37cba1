"""replace's Karpenter way against a real Karpenter: what it does with the machines of ours."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from events.notice import Cause, Kind, Severity
from functions import drain, replace
from functions.edge.context import Outcome
from functions.gateways.kubernetes.client import Cluster as Api
from functions.rules import drain_state, incidents, keys
from functions.rules import policy as policies
from functions.rules.incidents import Cordon, Incident, Record
from functions.rules.ledger import Ledger
from functions.rules.ledger import encode as encode_ledger
from functions.rules.replacing import Seen, book
from functions.rules.replacing.book import Book, Entry, Phase
from functions.steps import active
from functions.steps.terminate import Machine
from functions.steps.terminate.karpenter import Karpenter
from tests.controlplane.access import eventually
from tests.controlplane.audit import AuditEntry
from tests.controlplane.bed import is_ready
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.karpenter.stand import NodePool, karpenter
from tests.controlplane.process import Process
from tests.support.crew import context, ping, transport_to

ROLES = Path(__file__).parents[3] / "infra" / "rbac" / "replace.yaml"
POLICY = """version: 1
replace: {act_in: ['*'], joined_within: 1s}
ladder: [{rungs: [replace]}]
terminate: {settle: 0s, after_silence: 0s, per_hour: 100, per_day: 100, pool_per_day: 100%}
"""
HOLD = "example.com/hold"
TWO_HOURS = timedelta(hours=2)


class Crew:
    """Ours, in a cluster with one NodePool: a sick node, and the calls of drain and replace."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.pool = NodePool(cluster, namespace)
        self.transport = transport_to(cluster.kubeconfig("admin"))
        self.replaces = transport_to(cluster.kubeconfig("groundcrew"))
        self.api = Api(self.transport)
        self.answers: list[str] = []
        self.said: list[str] = []
        now = datetime.now(UTC)
        self.config_map(
            active.POLICY_NAME, "policy", active.policy_data(policies.parse(POLICY), "a test")
        )
        kept = Book(began=now - TWO_HOURS, seen=now, awake=now - TWO_HOURS)
        for pool in ("", self.pool.name):
            led = Ledger(pool=pool, size=3 if pool else 0, rebuilt=now)
            data = {"pool": pool, "ledger": encode_ledger(led), book.KEY: book.encode(kept)}
            self.config_map(active.ledger_name(pool), "ledger", data)

    def config_map(self, name: str, part: str, data: dict[str, str]) -> None:
        meta = {"name": name, "namespace": self.namespace, "labels": {keys.PART: part}}
        self.cluster.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        )

    def sick(self, name: str) -> str:
        """As cordon leaves a machine whose GPU fell off the bus; its provider ID."""
        node, ago = self.api.get_node(name), datetime.now(UTC) - TWO_HOURS
        incident = Incident(
            source="kubernetes.event", check="xid-79", kind=Kind.FAULT, severity=Severity.EVICT,
            cause=Cause.HARDWARE, first=ago, last=ago, boot=node.boot_id, in_log=True, latched=True,
        )  # fmt: skip
        record = Record(machine=node.provider_id, cordon=Cordon(at=ago), incidents=(incident,))
        patch = {
            "metadata": {
                "annotations": {keys.INCIDENTS: incidents.encode(record)},
                "labels": {keys.STATE: "evict"},
            },
            "spec": {"unschedulable": True},
        }
        self.cluster.kubectl("patch", "node", name, "-p", json.dumps(patch))
        return node.provider_id

    def call_drain(self) -> None:
        drain.handle(ping("resync-drain"), context(self.transport, namespace=self.namespace))

    def drain(self, name: str) -> None:
        def drained() -> bool:
            self.call_drain()
            text = self.api.get_node(name).metadata.annotation(keys.DRAIN)
            state = drain_state.decode(text).state if text else None
            return state is drain_state.State.DRAINED

        eventually(drained, f"{name} is drained", 120)

    def replace(self) -> Outcome:
        outcome = replace.handle(
            ping("resync-replace"), context(self.replaces, namespace=self.namespace)
        )
        if outcome.answer:
            self.answers.append(outcome.answer.type.removeprefix("dev.groundcrew."))
        self.said += [f"{d.action.value}: {d.reason}" for d in outcome.decisions]
        return outcome

    def entry(self, machine: str) -> Entry | None:
        name = active.ledger_name(self.pool.name)
        found = self.api.get_config_map(self.namespace, name)
        return book.decode((found.data or {}).get(book.KEY)).machines.get(machine)

    def deletes(self, mark: int, resource: str, name: str) -> list[AuditEntry]:
        """Who asked for its end since ``mark``, in order."""
        return [
            e
            for e in self.cluster.audit_since(mark)
            if (e.verb, e.resource, e.name) == ("delete", resource, name)
        ]

    @contextmanager
    def kept_in_sight(self, node: str) -> Iterator[None]:
        """The NodeClaim of ``node`` is not gone, whoever ends it, until this is over."""
        claim = self.pool.claim_of(node)
        assert claim is not None
        finalizers = claim["metadata"]["finalizers"]
        self._set_finalizers(claim, [*finalizers, HOLD])
        try:
            yield
        finally:
            self._set_finalizers(claim, None)

    def _set_finalizers(self, claim: dict[str, Any], finalizers: list[str] | None) -> None:
        patch = json.dumps({"metadata": {"finalizers": finalizers}})
        name = claim["metadata"]["name"]
        self.cluster.kubectl("patch", "nodeclaim", name, "--type=merge", "-p", patch)

    def is_not_ready_since(self, name: str, since: datetime) -> None:
        condition = {
            "type": "Ready", "status": "False", "reason": "KubeletNotReady",
            "lastTransitionTime": since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }  # fmt: skip
        self.cluster.kubectl(
            "patch", "node", name, "--subresource=status",
            "-p", json.dumps({"status": {"conditions": [condition]}}),
        )  # fmt: skip

    def until(self, machine: str, phase: Phase, timeout_seconds: float = 120) -> Entry:
        def reached() -> Entry | None:
            self.replace()
            found = self.entry(machine)
            return found if found and found.phase is phase else None

        found = eventually(reached, f"{machine} is {phase}: {self.said}", timeout_seconds)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def real(control_plane: ControlPlane) -> Iterator[Process]:
    """Karpenter, and ours with the rights of its role."""
    with (
        karpenter(control_plane) as process,
        control_plane.allowed("groundcrew", *rules_of("ClusterRole")),
        control_plane.allowed("groundcrew", *rules_of("Role", "default"), namespace="default"),
    ):
        yield process


@pytest.fixture
def crew(real: Process, control_plane: ControlPlane, namespace: str) -> Iterator[Crew]:
    books = rules_of("Role", "groundcrew-system")
    with control_plane.allowed("groundcrew", *books, namespace=namespace):
        made = Crew(control_plane, namespace)
        yield made
        made.transport.close()
        made.replaces.close()
    control_plane.kubectl("delete", "nodepool", made.pool.name, "--wait=false")


def rules_of(kind: str, namespace: str = "") -> list[dict[str, list[str]]]:
    """Of replace's own roles, as they are installed."""
    return [
        rule
        for item in yaml.safe_load_all(ROLES.read_text())
        if item["kind"] == kind and item["metadata"].get("namespace", "") == namespace
        for rule in item["rules"]
    ]


def test_a_sick_machine_ends_through_its_nodeclaim_and_what_its_work_called_for_replaces_it(
    crew: Crew, control_plane: ControlPlane
) -> None:
    crew.pool.make()
    crew.pool.work(2)
    before = set(crew.pool.serving())
    name = min(before)
    machine = crew.sick(name)
    crew.drain(name)
    crew.pool.until(lambda: len(crew.pool.serving()) == 2, "its work serves elsewhere")
    claim = crew.pool.claim_of(name)
    assert claim is not None
    mark = control_plane.audit_mark()
    gone = crew.until(machine, Phase.ENDED)
    assert gone.intent is not None
    assert gone.intent.way == "karpenter"
    closed = crew.until(machine, Phase.CLOSED)
    (new,) = set(crew.pool.serving()) - before
    assert closed.outcome == f"replaced by {new} (kwok://{new})"
    assert crew.answers == ["vm.terminated", "vm.replaced"]
    assert crew.pool.claim_of(name) is None
    # Ours is the one that asked, for the NodeClaim as it was read; kwok's provider asks once more.
    ours, *theirs = crew.deletes(mark, "nodeclaims", claim["metadata"]["name"])
    assert ours.user == "groundcrew"
    assert ours.body["preconditions"]["uid"] == claim["metadata"]["uid"]
    assert ours.body["preconditions"]["resourceVersion"]
    assert {e.user for e in theirs} <= {"karpenter"}
    assert {e.user for e in crew.deletes(mark, "nodes", name)} == {"karpenter"}


def test_where_no_pod_wants_another_machine_its_absence_is_said_with_the_reason(
    crew: Crew,
) -> None:
    crew.pool.make()
    crew.pool.work(2)
    (name, _) = crew.pool.serving()
    machine = crew.sick(name)
    crew.cluster.kubectl("scale", "deployment", "work", "--replicas=0", "-n", crew.namespace)
    crew.drain(name)
    crew.until(machine, Phase.ENDED)
    crew.pool.until(lambda: crew.replace() and crew.answers[-1:] == ["replacement.missing"], "told")
    assert "Karpenter starts one where pods want one" in crew.said[-1]


def test_a_machine_that_karpenter_ends_already_is_left_to_it(
    crew: Crew, control_plane: ControlPlane
) -> None:
    crew.pool.make()
    crew.pool.work(1, {"karpenter.sh/do-not-disrupt": "true"})
    (name,) = crew.pool.serving()
    machine = crew.sick(name)
    claim = crew.pool.claim_of(name)
    assert claim is not None
    crew.replace()
    crew.cluster.kubectl("delete", "nodeclaim", claim["metadata"]["name"], "--wait=false")
    mark = control_plane.audit_mark()
    crew.pool.until(
        lambda: crew.api.get_node(name).metadata.deletion_timestamp, "its Node is deleted"
    )
    before = len(crew.said)
    for _ in range(3):
        crew.replace()
    (said,) = crew.said[before:]
    assert "Karpenter ends it" in said
    assert "leaves it to them" in said
    # The pod may not be disrupted, and Karpenter waits for it; our drain evicts it.
    (pod,) = crew.cluster.get("pods", "-n", crew.namespace)["items"]
    assert "deletionTimestamp" not in pod["metadata"]
    crew.call_drain()
    crew.pool.until(lambda: crew.pool.claim_of(name) is None, "Karpenter has ended it")
    closed = crew.until(machine, Phase.CLOSED)
    assert closed.outcome.startswith("gone: ")
    assert closed.outcome.endswith("and not by us")
    deletes = crew.deletes(mark, "nodeclaims", claim["metadata"]["name"])
    assert {e.user for e in deletes} <= {"karpenter"}


def test_a_drained_machine_that_karpenter_consolidates_is_gone_and_not_by_us(crew: Crew) -> None:
    crew.pool.make(consolidate_after="1s")
    crew.pool.work(2)
    name = min(crew.pool.serving())
    machine = crew.sick(name)
    crew.replace()
    crew.call_drain()
    crew.pool.until(lambda: crew.pool.claim_of(name) is None, "Karpenter has ended it")
    closed = crew.until(machine, Phase.CLOSED)
    assert closed.outcome == "gone: its NodeClaim is gone, and not by us"


def test_a_machine_that_node_repair_ends_is_left_to_it_by_name(
    crew: Crew, control_plane: ControlPlane
) -> None:
    crew.pool.make()
    crew.pool.work(1)
    (name,) = crew.pool.serving()
    machine = crew.sick(name)
    way = Karpenter(crew.api)
    subject = Machine(provider_id=machine, name=name, node=crew.api.get_node(name))
    assert way.look(subject).seen is Seen.RUNNING
    control_plane.stop_kwok()
    try:
        with crew.kept_in_sight(name):
            crew.is_not_ready_since(name, datetime.now(UTC) - timedelta(minutes=11))
            crew.pool.until(lambda: way.look(subject).seen is Seen.ENDING, "it is repaired")
            assert "by its node repair" in way.look(subject).says
            assert way.terminate(subject).done  # and not once more
    finally:
        control_plane.start_kwok()


def test_two_drains_at_once_break_no_budget(crew: Crew) -> None:
    crew.pool.make()
    crew.pool.work(4)
    crew.cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "work", "namespace": crew.namespace},
            "spec": {"selector": {"matchLabels": {"app": "work"}}, "maxUnavailable": 1},
        }
    )
    ours, theirs, *_ = crew.pool.serving()
    claim = crew.pool.claim_of(theirs)
    assert claim is not None
    healthy: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            pods = crew.cluster.get("pods", "-n", crew.namespace)["items"]
            healthy.append(
                sum(is_ready(p) for p in pods if "deletionTimestamp" not in p["metadata"])
            )

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for name in (ours, theirs):
            crew.sick(name)
        crew.cluster.kubectl("delete", "nodeclaim", claim["metadata"]["name"], "--wait=false")
        crew.drain(ours)
        crew.pool.until(lambda: crew.pool.claim_of(theirs) is None, "Karpenter has ended the other")
        crew.pool.until(lambda: len(crew.pool.serving()) == 4, "its work serves elsewhere")
    finally:
        over.set()
        watcher.join()
    assert min(healthy) >= 3
