"""A real control plane as the world of a scenario.

The functions and the people live in simulated time; the cluster in its own. So after every step
it is waited for until the cluster has come to rest: no pod is on its way in or out, and every
controller has written what it knows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from functions.gateways.kubernetes.connect import transport
from functions.gateways.kubernetes.transport import Request, Response, Transport
from infra.local import player
from infra.local.clock import SimulatedClock
from infra.local.player import Played
from infra.local.scenario import Scenario, Workload
from infra.local.world import Api, Change
from tests.controlplane.cluster import ControlPlane

REST_SECONDS = 60
NOT_READY = "node.kubernetes.io/not-ready"
WORKLOADS = {
    "/apis/apps/v1/deployments": "replicas",
    "/apis/apps/v1/statefulsets": "replicas",
    "/apis/apps/v1/replicasets": "replicas",
}


def play_on_control_plane(scenario: Scenario, cluster: ControlPlane, embedded: Played) -> Played:
    """``embedded``: the play in process, whose ticks are made here, too."""
    world = RealWorld(SimulatedClock(scenario.start - player.WARM_UP), cluster)
    return player.play(
        scenario, world, settle=world.settle, ticks=embedded.ticks, habits=kwok_habits
    )


def kwok_habits(workload: Workload) -> dict[str, str]:
    """Pods that take their time in the scenario outlive the call of a drain, as they do there;
    those of jobs never end by themselves."""
    slow = workload.stop_seconds is not None
    return {
        "pod-delete.stage.kwok.x-k8s.io/delay": "4s" if slow else "100ms",
        # kwok takes the shorter of the two.
        "pod-complete.stage.kwok.x-k8s.io/delay": "1000h",
        "pod-complete.stage.kwok.x-k8s.io/jitter-delay": "1000h",
    }


class RealWorld:
    def __init__(self, clock: SimulatedClock, cluster: ControlPlane) -> None:
        self.clock = clock
        self._inner = transport(str(cluster.kubeconfig()))
        self._api = Api(self._inner)
        self.transport: Transport = _Noting(self._inner, self)
        self.unsettled = False
        self.noted: list[Change] = []
        self._known: dict[str, Any] = {}
        """Nodes as last told of, but for their heartbeats."""

    @property
    def version(self) -> int:
        return 0

    def advance(self, to: datetime) -> None: ...

    def next_due(self) -> datetime | None:
        return None

    def close(self) -> None: ...

    def changes(self) -> list[Change]:
        noted, self.noted = self.noted, []
        for change in noted:
            if change.verb == "delete":
                self._known.pop(change.name, None)
            elif change.kind == "Node":
                self._known[change.name] = _without_heartbeats(msgspec.json.decode(change.body))
        if noted:
            noted += self._others()
        return noted

    def settle(self) -> None:
        """Wait until the cluster has come to rest after what was written last."""
        if not self.unsettled:
            return
        before: Any = None
        deadline = time.monotonic() + REST_SECONDS
        while True:
            snapshot, restless = self._look()
            if not restless and snapshot == before:
                break
            if time.monotonic() > deadline:
                raise AssertionError(f"no rest within {REST_SECONDS} s: {restless}")
            before = snapshot
            time.sleep(0.1)
        self.unsettled = False

    def _others(self) -> list[Change]:
        """What controllers have changed about nodes: taints above all."""
        found = []
        for node in self._api.list("/api/v1/nodes"):
            name, fresh = node["metadata"]["name"], _without_heartbeats(node)
            if self._known.get(name) != fresh:
                self._known[name] = fresh
                body = {"kind": "Node", "apiVersion": "v1", **node}
                found.append(Change("update", "Node", msgspec.json.encode(body)))
        return found

    def _look(self) -> tuple[Any, list[str]]:
        nodes = self._api.list("/api/v1/nodes")
        pods = self._api.list("/api/v1/pods")
        restless = [f"node {n['metadata']['name']}" for n in nodes if not _node_rests(n)]
        restless += [f"pod {p['metadata']['name']}" for p in pods if not _pod_rests(p)]
        for path, field in WORKLOADS.items():
            restless += [
                f"{path} {w['metadata']['name']}"
                for w in self._api.list(path)
                if w["status"].get(field, 0) != w["spec"].get("replicas", 1)
                or w["status"].get("observedGeneration") != w["metadata"].get("generation")
            ]
        for job in self._api.list("/apis/batch/v1/jobs"):
            if job["status"].get("active", 0) != job["spec"].get("parallelism"):
                restless.append(f"job {job['metadata']['name']}")
        for one in self._api.list("/apis/apps/v1/daemonsets"):
            status = one["status"]
            if not len(nodes) == status["desiredNumberScheduled"] == status.get("numberReady"):
                restless.append(f"daemonset {one['metadata']['name']}")
        restless += self._restless_budgets(pods)
        seen = [(p["metadata"]["uid"], p["spec"].get("nodeName")) for p in pods]
        return sorted(seen, key=str), restless

    def _restless_budgets(self, pods: list[dict[str, Any]]) -> list[str]:
        """Of two budgets over one pod the controller looks at one only."""
        by_app: dict[tuple[str, str], list[bool]] = {}
        for budget in self._api.list("/apis/policy/v1/poddisruptionbudgets"):
            app = budget["spec"]["selector"]["matchLabels"]["app"]
            rests = _budget_rests(budget, app, pods)
            by_app.setdefault((budget["metadata"]["namespace"], app), []).append(rests)
        return [f"budget of {app}" for (_, app), rest in by_app.items() if not any(rest)]


class _Noting:
    """A transport that notes what is written on its way, and by which Nodes are as old as they are
    in the scenario: the server stamps them by a clock that knows nothing of its time."""

    def __init__(self, inner: Transport, world: RealWorld) -> None:
        self._inner = inner
        self._world = world
        self._made: dict[str, str] = {}
        """By the UID of a Node, when it was made in the scenario."""

    def send(self, request: Request) -> Response:
        answer = self._inner.send(request)
        if request.path.startswith("/api/v1/nodes") and 200 <= answer.status < 300:
            answer = msgspec.structs.replace(answer, body=self._dated(request, answer.body))
        if request.method != "GET" and 200 <= answer.status < 300:
            self._note(request, answer)
        return answer

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        return self._inner.stream(request)

    def _dated(self, request: Request, body: bytes) -> bytes:
        read = msgspec.json.decode(body)
        for node in [read] if "items" not in read else read["items"] or ():
            meta = node.get("metadata", {})
            if request.method == "POST":
                self._made[meta["uid"]] = f"{self._world.clock.now():%Y-%m-%dT%H:%M:%SZ}"
            if meta.get("uid") in self._made:
                meta["creationTimestamp"] = self._made[meta["uid"]]
        return msgspec.json.encode(read)

    def _note(self, request: Request, answer: Response) -> None:
        parts = request.path.split("/")
        verb = {"POST": "add", "DELETE": "delete"}.get(request.method, "update")
        if parts[3] == "nodes":
            body = answer.body
            if verb == "delete":
                body = msgspec.json.encode({"metadata": {"name": parts[4]}})
            self._world.noted.append(Change(verb, "Node", body))
        if parts[-1] == "events":
            self._world.noted.append(Change(verb, "Event", answer.body))
        elif "configmaps" not in parts:
            self._world.unsettled = True


def _node_rests(node: dict[str, Any]) -> bool:
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    cordoned = "node.kubernetes.io/unschedulable" in taints
    return NOT_READY not in taints and cordoned == bool(node["spec"].get("unschedulable"))


def _pod_rests(pod: dict[str, Any]) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = {c["type"]: c for c in pod["status"].get("conditions") or ()}
    if pod["status"]["phase"] == "Pending":
        # A pod without a place waits for one for ever.
        return conditions.get("PodScheduled", {}).get("reason") == "Unschedulable"
    return conditions.get("Ready", {}).get("status") == "True"


def _budget_rests(budget: dict[str, Any], app: str, pods: list[dict[str, Any]]) -> bool:
    status, meta = budget.get("status") or {}, budget["metadata"]
    healthy = sum(
        pod["metadata"]["namespace"] == meta["namespace"]
        and pod["metadata"].get("labels", {}).get("app") == app
        and pod["status"]["phase"] == "Running"
        for pod in pods
    )
    return (
        status.get("observedGeneration") == meta["generation"]
        and status.get("currentHealthy") == healthy
        and not status.get("disruptedPods")
    )


def _without_heartbeats(node: dict[str, Any]) -> Any:
    meta = {k: v for k, v in node["metadata"].items() if k not in ("resourceVersion",
            "managedFields")}  # fmt: skip
    conditions = [
        {k: v for k, v in condition.items() if k != "lastHeartbeatTime"}
        for condition in node["status"].get("conditions") or ()
    ]
    return {"metadata": meta, "spec": node["spec"], "conditions": conditions,
            "info": node["status"].get("nodeInfo"),
            "gpus": node["status"].get("allocatable")}  # fmt: skip
