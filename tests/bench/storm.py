"""Half of a fleet accused at once: how long until the last node is out of service, and empty.

    python -m tests.bench.storm [--nodes 1500] [--cases cordon-free,cordon-ledger]

A real API server with its scheduler and controllers, and kwok for kubelets. A node problem
detector says on every second node that its GPU fell off the bus; a watch makes events of it, as
Knative's ApiServerSource does, and the real functions hear them, with their resync beside. Told
are the seconds from the condition to the cordon and to the drained node, the requests by verb,
whether any node was lost, whether the budget was ever exceeded, and what the same events write
when they come once more (nothing).

``cordon-free`` lifts budget and circuit breaker by policy; ``cordon-ledger`` keeps a budget of
60 %, so that every cordon is reserved in the ledgers first.
"""

import argparse
import contextlib
import itertools
import json
import math
import queue
import resource
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from events.cloudevent import CloudEvent
from functions import cordon, drain
from functions.edge.call import Function
from functions.edge.context import Settings
from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster as Api
from functions.gateways.kubernetes.transport import STRATEGIC_PATCH, Request
from functions.rules import drain_state, keys, policy
from functions.rules.drain_state import State
from functions.steps import active
from tests.controlplane.access import eventually
from tests.controlplane.cluster import ControlPlane
from tests.support.crew import node_update, ping, transport_to

NAMESPACE = "groundcrew-system"
USER = "crew"
WORKERS = Settings.max_in_flight
"""Events that a function works on at once, as one of its pods does; the broker holds back the
rest."""
RETRY_SECONDS = 0.5
"""The broker's first delay before it sends again what was answered with 503; it then doubles."""
RESYNC_SECONDS = {"cordon": 60.0, "drain": 5.0}
GIVE_UP_SECONDS = 400.0
XID = {
    "type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error",
    "message": "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus",
}  # fmt: skip
LIFTED = """version: 1
breaker: {share: 100%, day_share: 100%, more_than: 100000}
budget: {pool: BUDGET, cluster: BUDGET}
"""
CASES = {"cordon-free": (100, 15.0), "cordon-ledger": (60, 20.0)}
"""Budget in per cent, and the seconds that 90 % of the cordons may take."""


_Queue = queue.SimpleQueue[tuple[CloudEvent, int] | None]
"""Events, with how often they were sent before."""


@dataclass
class Times:
    accused: dict[str, float] = field(default_factory=dict)
    cordoned: dict[str, float] = field(default_factory=dict)
    drained: dict[str, float] = field(default_factory=dict)
    most_out: int = 0


class Storm:
    def __init__(self, cluster: ControlPlane, nodes: int) -> None:
        self.cluster = cluster
        self.admin = transport_to(cluster.kubeconfig("admin"))
        self.api = Api(self.admin)
        self.names = [f"storm-{number:04}" for number in range(nodes)]
        self.sick = self.names[::2]
        self.times = Times()
        self.events = {name: _Queue() for name in RESYNC_SECONDS}
        self.functions = {
            name: Function(
                name, handle, self._connect, SystemClock(), Settings(namespace=NAMESPACE)
            )
            for name, handle in (("cordon", cordon.handle), ("drain", drain.handle))
        }
        self.wrote = 0
        self.counting = threading.Lock()
        self.heard: list[CloudEvent] = []
        self.over = threading.Event()
        self.problems: Counter[str] = Counter()
        self.transport = transport_to(cluster.kubeconfig(USER))

    def prepare(self, budget: int) -> None:
        self.cluster.kubectl(
            "create", "clusterrolebinding", USER, "--clusterrole=cluster-admin",
            f"--user={self.cluster.username(USER)}",
        )  # fmt: skip
        self._post("/api/v1/namespaces", [_object("Namespace", NAMESPACE)])
        made = policy.parse(LIFTED.replace("BUDGET", f"{budget}%"))
        self.api.create_config_map(
            NAMESPACE, active.POLICY_NAME, active.policy_data(made, "the bench"),
            {keys.PART: "policy"},
        )  # fmt: skip
        self._post("/api/v1/nodes", [_node(name) for name in self.names])
        eventually(self._all_ready, "all nodes are ready", 300)
        owner = self._owner()
        self._post("/api/v1/namespaces/default/pods", [_pod(name, owner) for name in self.sick])
        self.call("cordon", ping("cordon-resync"))  # the ledgers
        eventually(self._at_rest, "the controllers have told of each new node", 300)

    def run(self) -> None:
        version = self._version()
        threads = [
            threading.Thread(target=self._watch, args=(version,), daemon=True),
            threading.Thread(target=self._look, args=(version,), daemon=True),
            *(
                threading.Thread(target=self._work, args=(name,), daemon=True)
                for name in RESYNC_SECONDS
                for _ in range(WORKERS)
            ),
            *(
                threading.Thread(target=self._clock, args=(name,), daemon=True)
                for name in RESYNC_SECONDS
            ),
        ]
        for thread in threads:
            thread.start()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._accuse, self.sick))
        ends = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < ends and len(self.times.drained) < len(self.sick):
            time.sleep(0.5)
        self.over.set()
        for waiting in self.events.values():
            for _ in range(WORKERS):
                waiting.put(None)
        for thread in threads[2:]:
            thread.join(timeout=30)

    def again(self) -> int:
        """The same events once more: how much they write."""
        before = self.wrote
        for event in self.heard:
            self.call("cordon", event)
        return self.wrote - before

    def call(self, function: str, event: CloudEvent) -> int:
        """The status that the function answers with; what it answers goes to who hears it."""
        reply = self.functions[function]([event])
        with self.counting:
            self.wrote += sum(
                count
                for outcome in reply.outcomes
                for request, count in outcome.requests.items()
                if request.split()[0] not in ("get", "list", "watch")
            )
        if reply.event and reply.event.type == cordon.CORDONED:
            self.events["drain"].put((reply.event, 0))
        return reply.status

    def _connect(self) -> Api:
        return Api(self.transport)

    # who does what meanwhile

    def _accuse(self, name: str) -> None:
        body = msgspec.json.encode({"status": {"conditions": [XID]}})
        self.admin.send(
            Request(
                method="PATCH", path=f"/api/v1/nodes/{name}/status", body=body,
                content_type=STRATEGIC_PATCH, timeout_seconds=30,
            )
        )  # fmt: skip
        self.times.accused[name] = time.monotonic()

    def _work(self, function: str) -> None:
        waiting = self.events[function]
        while (given := waiting.get()) is not None:
            event, tries = given
            status = self.call(function, event)
            if status not in (200, 204):
                self.problems[f"{function} {status}"] += 1
            if status in (429, 500, 503) and not self.over.is_set():
                again = threading.Timer(
                    RETRY_SECONDS * 2**tries, waiting.put, args=((event, tries + 1),)
                )
                again.daemon = True
                again.start()

    def _clock(self, function: str) -> None:
        """As a PingSource: the next tick does not wait for the last one's answer. Calls of ours end
        before it, so one thread will do."""
        began = time.monotonic()
        for tick in itertools.count(1):
            at = began + tick * RESYNC_SECONDS[function]
            if self.over.wait(max(0.0, at - time.monotonic())):
                return
            status = self.call(function, ping(f"{function}-resync"))
            if status not in (200, 204):
                self.problems[f"{function}-resync {status}"] += 1

    def _watch(self, version: str) -> None:
        """Events of accused nodes, as the source sends them: each change of the Node."""
        for kind, node in self._changes(version):
            conditions = node.get("status", {}).get("conditions", ())
            if kind == "MODIFIED" and any(c["type"] == XID["type"] for c in conditions):
                event = node_update(node)
                self.heard.append(event)
                self.events["cordon"].put((event, 0))

    def _look(self, version: str) -> None:
        out: set[str] = set()
        for _, node in self._changes(version):
            name, now = node["metadata"]["name"], time.monotonic()
            if node["spec"].get("unschedulable"):
                self.times.cordoned.setdefault(name, now)
                out.add(name)
            else:
                out.discard(name)
            self.times.most_out = max(self.times.most_out, len(out))
            text = node["metadata"].get("annotations", {}).get(keys.DRAIN)
            if text and drain_state.decode(text).state is State.DRAINED:
                self.times.drained.setdefault(name, now)

    def _changes(self, version: str) -> Iterator[tuple[str, Any]]:
        transport = transport_to(self.cluster.kubeconfig("admin"))
        request = Request(
            method="GET", path="/api/v1/nodes", timeout_seconds=GIVE_UP_SECONDS,
            query={"watch": "true", "resourceVersion": version,
                   "timeoutSeconds": str(int(GIVE_UP_SECONDS))},
        )  # fmt: skip
        _, lines = transport.stream(request)
        with contextlib.suppress(errors.Unreachable):  # the control plane ends before we do
            for line in lines:
                if self.over.is_set():
                    return
                event = json.loads(line)
                yield event["type"], event["object"]

    # preparing

    def _post(self, path: str, bodies: Sequence[Any]) -> None:
        def one(body: Any) -> None:
            answer = self.admin.send(
                Request(method="POST", path=path, body=msgspec.json.encode(body),
                        timeout_seconds=30)
            )  # fmt: skip
            if answer.status not in (201, 409):
                raise SystemExit(f"POST {path}: {answer.status} {answer.body!r}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, bodies))

    def _all_ready(self) -> bool:
        ready = sum(node.ready == "True" and not node.spec.taints for node in self.api.list_nodes())
        return ready >= len(self.names)

    def _at_rest(self) -> bool:
        """That a node registered is an Event, and they are written slowly: else they would come in
        the middle of the storm."""
        return self.api.count("events") >= len(self.names)

    def _owner(self) -> dict[str, Any]:
        made = self.api.create_config_map("default", "owner", {})
        return {
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
            "uid": made.metadata.uid, "controller": True,
        }  # fmt: skip

    def _version(self) -> str:
        answer = self.admin.send(Request(method="GET", path="/api/v1/nodes", query={"limit": "1"}))
        page: types.Page[types.Node] = msgspec.json.decode(answer.body, type=types.Page[types.Node])
        return page.metadata.resource_version


def _object(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def _node(name: str) -> dict[str, Any]:
    made = _object("Node", name)
    made["metadata"]["labels"] = {"groundcrew.dev/pool": "storm"}
    return {**made, "spec": {"providerID": f"aws:///us-east-1a/i-{name}"}}


def _pod(node: str, owner: dict[str, Any]) -> dict[str, Any]:
    made = _object("Pod", f"work-{node}")
    made["metadata"]["ownerReferences"] = [owner]
    container = {"name": "main", "image": "registry.example/work:1"}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {**made, "spec": spec}


def measure(case: str, nodes: int) -> dict[str, Any]:
    budget, _ = CASES[case]
    with ControlPlane(extra_users=(USER,)) as cluster:
        storm = Storm(cluster, nodes)
        storm.prepare(budget)
        mark = cluster.audit_mark()
        storm.run()
        user = cluster.username(USER)
        asked = Counter(e.verb for e in cluster.audit_since(mark) if e.user == user)
        times = storm.times
        again = storm.again()
        return {
            "nodes": nodes,
            "accused": len(storm.sick),
            "to_cordoned_s": _spread(times.accused, times.cordoned),
            "to_drained_s": _spread(times.accused, times.drained),
            "requests": dict(asked),
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "lost": sum(name not in times.drained for name in storm.sick),
            "most_out": times.most_out,
            "budget": nodes * budget // 100,
            "problems": dict(storm.problems),
            "written_again": again,
        }


def _spread(since: dict[str, float], until: dict[str, float]) -> dict[str, float]:
    took = sorted(until[name] - at for name, at in since.items() if name in until)
    if len(took) < 2:
        return {}
    tenths = statistics.quantiles(took, n=10)
    return {"p50": round(tenths[4], 1), "p90": round(tenths[8], 1), "max": round(took[-1], 1)}


def verdict(case: str, found: dict[str, Any]) -> str:
    """What is not as wanted; empty when all is."""
    wanted = {
        f"90 % cordoned after more than {CASES[case][1]} s":
            found["to_cordoned_s"].get("p90", math.inf) > CASES[case][1],
        f"{found['lost']} lost": found["lost"] > 0,
        f"{found['most_out']} out under a budget of {found['budget']}":
            found["most_out"] > found["budget"],
        f"{found['written_again']} writes for the same events again": found["written_again"] > 0,
    }  # fmt: skip
    return ", ".join(what for what, is_so in wanted.items() if is_so)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1500)
    parser.add_argument("--cases", default=",".join(CASES))
    args = parser.parse_args()
    measured = {case: measure(case, args.nodes) for case in args.cases.split(",")}
    for case, found in measured.items():
        print(f"{case}: {found['accused']} of {found['nodes']} nodes accused at once")
        for key, value in found.items():
            print(f"  {key:16}{value}")
        print(f"  {'wanted':16}{verdict(case, found) or 'holds'}")
    print(json.dumps({"bench": "storm", "cases": measured}))


if __name__ == "__main__":
    main()
