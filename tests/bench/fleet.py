"""Days of a fleet of 288 GPU nodes as a recorder would have written them, made up.

Almost all of the 190,000 events of a day need nothing: heartbeats of Nodes of 9 KB, Events about
pods and about nodes that are well, AWS Health about other services, alerts about nothing of ours.
The rest are faults. Each begins, is said again with every heartbeat while it stands, and ends;
and a program that crashes says XID 31 again and again. (On a real fleet of that size 99.1 % of
190,000 health events a day needed nothing, and some 70 a day something.)

Streamed and seeded: nothing is stored, and the same days come out each time.
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any, NamedTuple

NODES = 288
EVENTS = 190_000
"""A day's."""
NEEDED = 1_710
"""Of those, a day's that need something."""
START = datetime(2026, 3, 2, tzinfo=UTC)
DAY = timedelta(days=1)
POOLS = {"h100": 144, "a100": 96, "l40s": 48}
TYPES = {"h100": "p5.48xlarge", "a100": "p4d.24xlarge", "l40s": "g6e.12xlarge"}
STAMP = "2001-02-03T04:05:06Z"
"""Stands in the templates where the time goes."""


class Fault(NamedTuple):
    """A kind of fault, how often a day it comes, and how it ends."""

    per_day: int
    hours: float
    condition: str
    status: str
    reason: str
    message: str = ""
    reboots: bool = False
    replaced: bool = False


FAULTS = (
    Fault(8, 0.05, "Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting."),
    Fault(4, 1, "DiskPressure", "True", "KubeletHasDiskPressure"),
    Fault(1, 0.5, "NetworkUnavailable", "True", "NoRouteCreated"),
    Fault(
        2, 5, "AcceleratedHardwareReady", "False", "NvidiaXID79Error",
        "NVRM: Xid (PCI:0000:9b:00): 79, pid=1911, GPU has fallen off the bus.", replaced=True,
    ),
    Fault(
        1, 4, "AcceleratedHardwareReady", "False", "NvidiaDoubleBitError",
        "Uncorrectable ECC error on GPU 5", replaced=True,
    ),
    Fault(
        2, 3, "AcceleratedHardwareReady", "False", "NvidiaXID74Error",
        "NVRM: Xid (PCI:0000:18:00): 74, pid=3120, NVLink: fatal error detected on link 7",
        replaced=True,
    ),
    Fault(1, 3, "KernelDeadlock", "True", "DockerHung", "task docker: blocked.", reboots=True),
)  # fmt: skip


class Node:
    """One name, and the machine behind it."""

    def __init__(self, name: str, pool: str, zone: str) -> None:
        self.name, self.pool, self.zone = name, pool, zone
        self.machine = self.boot = 0
        self.bad: Fault | None = None
        self.note = 0
        self._template = b""

    @property
    def instance(self) -> str:
        return "i-" + _hex(f"{self.name} {self.machine}", 17)

    @property
    def uid(self) -> str:
        return _uuid(f"node {self.name} {self.machine}")

    def object(self) -> dict[str, Any]:
        node: dict[str, Any] = json.loads(json.dumps(_HEALTHY))
        meta, status = node["metadata"], node["status"]
        meta |= {"name": self.name, "uid": self.uid, "resourceVersion": "81234"}
        meta["labels"] |= {
            "kubernetes.io/hostname": self.name,
            "eks.amazonaws.com/nodegroup": self.pool,
            "node.kubernetes.io/instance-type": TYPES[self.pool],
            "topology.kubernetes.io/zone": self.zone,
        }
        meta["annotations"]["example.com/note"] = str(self.note)
        node["spec"]["providerID"] = f"aws:///{self.zone}/{self.instance}"
        status["nodeInfo"]["bootID"] = _uuid(f"boot {self.name} {self.machine} {self.boot}")
        by_type = {c["type"]: c for c in (*status["conditions"], *_MORE)}
        for kind, condition in by_type.items():
            by_type[kind] = {**condition, "lastHeartbeatTime": STAMP}
        if self.bad:
            old = by_type.get(self.bad.condition, {})
            by_type[self.bad.condition] = {
                **old,
                "type": self.bad.condition,
                "status": self.bad.status,
                "reason": self.bad.reason,
                "message": self.bad.message,
                "lastHeartbeatTime": STAMP,
            }
        status["conditions"] = list(by_type.values())
        return node

    def changed(self) -> None:
        self._template = b""

    def line(self, at: datetime, number: int, verb: str = "update") -> bytes:
        if not self._template:
            self._template = _watched("Node", self.name, "", self.object(), "VERB")
        stamp = _stamp(at).encode()
        return (
            self._template.replace(STAMP.encode(), stamp)
            .replace(b"NUMBER", b"%d" % number)
            .replace(b"VERB", verb.encode())
        )


class Fleet:
    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self.nodes = [
            Node(f"{pool}-{number:03}", pool, f"us-east-1{'ab'[number % 2]}")
            for pool, count in POOLS.items()
            for number in range(1, count + 1)
        ]
        self._pod_event = _watched("Event", "pod.1", "research", _event("Pod", "Scheduled"), "add")
        self._node_event = _watched(
            "Event", "node.1", "default", _event("Node", "NodeReady"), "add"
        )
        self._health = _posted("aws_health/other_service_ebs")
        self._alert = _posted("alertmanager/prometheus_clusteristired_firing")

    def objects(self) -> Iterator[dict[str, Any]]:
        """The starting point: the nodes, a job in each half pool, and their budgets."""
        stamp = _stamp(START)
        for node in self.nodes:
            yield json.loads(json.dumps(node.object()).replace(STAMP, stamp))
        for pool, count in POOLS.items():
            owner = {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": f"train-{pool}",
                "uid": _uuid(f"set {pool}"),
                "controller": True,
            }
            labels = {"app": f"train-{pool}"}
            yield {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"train-{pool}", "namespace": "research"},
                "spec": {"maxUnavailable": 4, "selector": {"matchLabels": labels}},
            }
            for number in range(int(count * 0.9)):
                yield {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"train-{pool}-{number}",
                        "namespace": "research",
                        "uid": _uuid(f"pod {pool} {number}"),
                        "creationTimestamp": stamp,
                        "labels": labels,
                        "ownerReferences": [owner],
                    },
                    "spec": {
                        "nodeName": f"{pool}-{number + 1:03}",
                        "nodeSelector": {"eks.amazonaws.com/nodegroup": pool},
                        "terminationGracePeriodSeconds": 30,
                        "containers": [
                            {
                                "name": "main",
                                "image": "registry.example/train:1",
                                "resources": {
                                    "requests": {"nvidia.com/gpu": "8"},
                                    "limits": {"nvidia.com/gpu": "8"},
                                },
                            }
                        ],
                    },
                    "status": {
                        "phase": "Running",
                        "startTime": stamp,
                        "conditions": [
                            {"type": "Ready", "status": "True", "lastTransitionTime": stamp}
                        ],
                    },
                }

    def lines(self, days: int = 1, events: int = EVENTS) -> Iterator[bytes]:
        """So many events a day, a line each, in order of time."""
        for day in range(days):
            yield from self._day(day, events)

    def _day(self, day: int, events: int) -> Iterator[bytes]:
        chance, turn = self._random, 0
        plan = self._plan(events)
        for slot in range(events):
            at = START + day * DAY + slot * DAY / events
            number = day * events + slot
            if todo := plan.get(slot):
                yield todo(at, number)
                continue
            kind = chance.random()
            if kind < 0.79:
                node = self.nodes[turn % NODES]
                turn += 1
                if chance.random() < 0.005 and not node.bad:
                    node.note += 1
                    node.changed()
                yield node.line(at, number)
            elif kind < 0.96:
                yield _dated(self._pod_event, at, number)
            elif kind < 0.985:
                yield _dated(self._node_event, at, number)
            elif kind < 0.992:
                yield _dated(self._health, at, number)
            else:
                yield _dated(self._alert, at, number)

    def _plan(self, events: int) -> dict[int, Callable[[datetime, int], bytes]]:
        """What happens in which slot of the day: faults begin and end, programs crash."""
        scale = events / EVENTS
        plan: dict[int, Callable[[datetime, int], bytes]] = {}
        chosen = self._random.sample(self.nodes, 60)
        needed = 0.0

        def put(slot: int, todo: Callable[[datetime, int], bytes]) -> None:
            while slot in plan:
                slot += 1
            plan[min(slot, events - 1)] = todo

        for fault in FAULTS:
            length = int(fault.hours / 24 * events)
            for _ in range(fault.per_day):
                begins = self._random.randrange(events - length - 10)
                node = chosen.pop()
                put(begins, _begins(node, fault))
                put(begins + length, _ends(node, fault))
                needed += 3 + length * 0.79 / NODES
        crashing = [chosen.pop() for _ in range(12)]
        left = int(NEEDED * scale - needed)
        begins = self._random.randrange(events // 2)
        for place in range(max(0, left)):
            put(begins + place * 7, _crashes(crashing[place % 12]))
        return plan


def _begins(node: Node, fault: Fault) -> Callable[[datetime, int], bytes]:
    def begin(at: datetime, number: int) -> bytes:
        node.bad = fault
        node.changed()
        return node.line(at, number)

    return begin


def _ends(node: Node, fault: Fault) -> Callable[[datetime, int], bytes]:
    def end(at: datetime, number: int) -> bytes:
        node.bad = None
        node.boot += fault.reboots
        node.machine += fault.replaced
        node.changed()
        return node.line(at, number, "add" if fault.replaced else "update")

    return end


def _crashes(node: Node) -> Callable[[datetime, int], bytes]:
    event = _event("Node", "XIDError")
    event["message"] = "NVRM: Xid (PCI:0000:01:00): 31, pid=4711, name=python, Ch 00000008"
    event["involvedObject"] = {"kind": "Node", "name": node.name, "uid": node.name}
    template = _watched("Event", f"{node.name}.1", "default", event, "add")
    return lambda at, number: _dated(template, at, number)


def _event(about: str, reason: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "it.1", "namespace": "research", "uid": "NUMBER"},
        "involvedObject": {"kind": about, "name": "h100-001", "uid": "h100-001"},
        "reason": reason,
        "message": "Successfully assigned research/train-h100-1 to h100-001",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": STAMP,
        "lastTimestamp": STAMP,
        "count": 1,
        "type": "Normal",
    }


def _watched(kind: str, name: str, namespace: str, item: dict[str, Any], verb: str) -> bytes:
    """The line of a watch event, with NUMBER, the time and the verb still to be filled in."""
    headers = {
        "Ce-Specversion": "1.0",
        "Ce-Id": "NUMBER",
        "Ce-Source": "https://10.100.0.1:443",
        "Ce-Type": f"dev.knative.apiserver.resource.{verb}",
        "Ce-Subject": f"/apis/v1/namespaces/{namespace}/{kind.lower()}s/{name}",
        "Ce-Time": STAMP,
        "Ce-Kind": kind,
        "Ce-Apiversion": "v1",
        "Ce-Name": name,
        "Ce-Namespace": namespace,
        "Content-Type": "application/json",
    }
    return _line("/", headers, item)


def _posted(recorded: str) -> bytes:
    text = (resources.files("events") / "recorded" / f"{recorded}.json").read_text()
    found = json.loads(text)
    return _line(found["path"], found["headers"], found["body"])


def _line(path: str, headers: dict[str, str], body: Any) -> bytes:
    line = {"at": STAMP, "method": "POST", "path": path, "headers": headers, "body": body}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _dated(template: bytes, at: datetime, number: int) -> bytes:
    stamp = _stamp(at).encode()
    return template.replace(STAMP.encode(), stamp).replace(b"NUMBER", b"%d" % number)


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _hex(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _uuid(text: str) -> str:
    digest = _hex(text, 32)
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))


_HEALTHY = json.loads(
    (resources.files("events") / "recorded/kubernetes_node/healthy_9_kb.json").read_text()
)["body"]
_MORE = [
    {"type": kind, "status": "False", "reason": reason, "message": ""}
    for kind, reason in (
        ("NetworkUnavailable", "RouteCreated"),
        ("KernelDeadlock", "KernelHasNoDeadlock"),
    )
]
"""Conditions that faults of ours are of, and that the recorded Node lacks."""
