"""A clock that only moves for those who wait, and an embedded cluster on it to drain nodes of."""

from datetime import UTC, datetime, timedelta
from typing import Any

from events.notice import Cause, Kind, Severity
from functions.gateways.kubernetes.client import Cluster
from functions.rules import incidents, keys
from functions.rules.incidents import Cordon, Incident, Record
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport, builders

START = datetime(2026, 3, 2, 12, tzinfo=UTC)


class SimClock:
    def __init__(self) -> None:
        self._passed = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return self._passed

    def sleep(self, seconds: float) -> None:
        self._passed += seconds


class DrainWorld:
    """Nodes ``n1`` (cordoned) and ``n2``, which takes what leaves it."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.server = EmbeddedCluster(self.clock)
        self.cluster = Cluster(EmbeddedTransport(self.server, self.clock.sleep))
        self.uid = self.add_node("n1", unschedulable=True)
        self.add_node("n2")

    def add_node(self, name: str, *, unschedulable: bool = False) -> str:
        made = builders.node(name)
        if unschedulable:
            made["spec"]["unschedulable"] = True
        stored: str = self.server.apply(made)["metadata"]["uid"]
        return stored

    def mark(
        self,
        name: str = "n1",
        *,
        kind: Kind = Kind.FAULT,
        deadline: datetime | None = None,
        severity: str = "evict",
        cordoned: bool = True,
        ago: timedelta = timedelta(0),
        **fields: Any,
    ) -> None:
        """What cordon left, so long ago, on a node that is to be emptied."""
        now = self.clock.now() - ago
        found = self.node(name)
        incident = Incident(
            source="kubernetes.node",
            check="xid-79",
            kind=kind,
            severity=Severity.EVICT,
            cause=Cause.HARDWARE,
            first=now,
            last=now,
            deadline=deadline,
        )
        record = Record(
            machine=found["spec"]["providerID"], cordon=Cordon(at=now), incidents=(incident,)
        )
        found["metadata"]["annotations"][keys.INCIDENTS] = incidents.encode(record)
        found["metadata"]["labels"][keys.STATE] = severity
        found["metadata"]["labels"] |= fields.get("labels", {})
        found["spec"]["unschedulable"] = cordoned
        self.server.apply(found)

    def node(self, name: str = "n1") -> Any:
        found = self.server.get("nodes", "", name)
        assert found is not None
        return {"apiVersion": "v1", "kind": "Node", **found}

    def annotation(self, name: str = "n1") -> str | None:
        found: str | None = self.node(name)["metadata"]["annotations"].get(keys.DRAIN)
        return found

    def pod(self, name: str, *, app: str = "", on: str = "n1", **more: Any) -> Any:
        """A pod on the node, of a controller that makes no new ones (or of none)."""
        owner = None
        if app:
            owner = {
                "apiVersion": "example.com/v1",
                "kind": "Service",
                "metadata": {"name": app, "uid": f"uid-of-{app}"},
            }
            more.setdefault("labels", {"app": app})
        return self.server.apply(builders.pod(name, node=on, owner=owner, **more))

    def replicas(self, app: str, count: int, on: str = "n1", **more: Any) -> None:
        """A ReplicaSet that makes its pods anew, with all of them on the node."""
        self.server.held.add("workloads")
        made = builders.workload("ReplicaSet", app, replicas=count, **more)
        owner = {**self.server.apply(made), "apiVersion": "apps/v1", "kind": "ReplicaSet"}
        for number in range(count):
            self.server.apply(
                builders.pod(f"{app}-{number}", node=on, owner=owner, labels={"app": app}, **more)
            )
        self.server.held.discard("workloads")
        self.clock.sleep(1)

    def pods_on(self, node: str = "n1") -> list[str]:
        found = self.server.all("pods")
        return sorted(p["metadata"]["name"] for p in found if p["spec"].get("nodeName") == node)

    def evictions(self) -> list[Any]:
        return self.server.requests("create", "/eviction$")

    def events(self) -> list[tuple[str, str]]:
        return [(e["reason"], e["involvedObject"]["name"]) for e in self.server.all("events")]
