"""Taints that follow a node's spec and conditions, and what a lost node does to its pods.

As the node lifecycle controller: NoSchedule taints from spec.unschedulable and the conditions;
NoExecute taints while Ready is False or Unknown; pods that do not tolerate those for ever are
DELETED, past every budget (the taint eviction controller), and pods of a Node object that is gone
are collected after a quarantine.
"""

from datetime import timedelta

from infra.local.cluster.deletion import DeleteOptions, delete
from infra.local.cluster.objects import (
    Object,
    changed,
    condition_of,
    is_ready,
    is_terminating,
    moment_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    with_condition,
)
from infra.local.cluster.resources import NODES, PODS
from infra.local.cluster.store import Change
from infra.local.cluster.tolerations import tolerates
from infra.local.cluster.world import World

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_OURS = {UNSCHEDULABLE, *_BY_CONDITION.values()}


class NodeLifecycle:
    def __init__(self, world: World) -> None:
        self._world = world
        world.store.subscribe(self._noticed)

    def kubelet_stopped(self, node: str) -> None:
        key = ("node-lifecycle", "lost", node)
        self._world.after(self._world.delays.node_lost, key, lambda: self._lost(node))

    def _noticed(self, change: Change) -> None:
        world = self._world
        if change.resource is NODES:
            item = (change.new or change.old).item  # type: ignore[union-attr]
            name = name_of(item)
            if change.new is None:
                key = ("pod-gc", name)
                world.after(world.delays.orphan, key, lambda: self._collect(name))
            else:
                world.soon(("node-lifecycle", name), lambda: self._taint(name))
        elif change.resource is PODS and change.new and not change.old:
            node = node_of(change.new.item)
            if node and world.store.find(NODES, "", node) is None:
                key = ("pod-gc", node)
                world.after(world.delays.orphan, key, lambda: self._collect(node))

    def _taint(self, name: str) -> None:
        node = self._world.store.get(NODES, "", name)
        if node is None:
            return
        wanted = self._wanted(node)
        taints = list(spec_of(node).get("taints") or ())
        kept = [t for t in taints if t.get("key") not in _OURS or _id(t) in wanted]
        have = {_id(taint) for taint in kept}
        now = timestamp(self._world.now())
        fresh = [
            {"key": key, "effect": effect, "timeAdded": now}
            for key, effect in wanted
            if (key, effect) not in have
        ]
        if fresh or len(kept) != len(taints):
            node = changed(node, "spec", "taints", value=[*kept, *fresh] or None)
            self._world.store.put(NODES, node)
        if any(effect == "NoExecute" for _, effect in wanted):
            self._evict_by_taint(name, node)

    def _wanted(self, node: Object) -> list[tuple[str, str]]:
        wanted = []
        if spec_of(node).get("unschedulable"):
            wanted.append((UNSCHEDULABLE, "NoSchedule"))
        for condition in status_of(node).get("conditions") or ():
            key = _BY_CONDITION.get((condition.get("type"), condition.get("status")))
            if key:
                wanted.append((key, "NoSchedule"))
                if condition.get("type") == "Ready":
                    wanted.append((key, "NoExecute"))
        return wanted

    def _lost(self, name: str) -> None:
        node = self._world.store.get(NODES, "", name)
        if node is None or name not in self._world.dead_kubelets:
            return
        now = self._world.now()
        for condition in list(status_of(node).get("conditions") or ()):
            if condition.get("type") in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
                node = with_condition(
                    node,
                    str(condition["type"]),
                    "Unknown",
                    now,
                    "NodeStatusUnknown",
                    "Kubelet stopped posting node status.",
                )
        self._world.store.put(NODES, node)
        for stored in self._world.store.pods_on(name):
            if is_ready(stored.item):
                self._world.store.put(PODS, with_condition(stored.item, "Ready", "False", now))

    def _evict_by_taint(self, name: str, node: Object) -> None:
        taints = [t for t in spec_of(node).get("taints") or () if t.get("effect") == "NoExecute"]
        for stored in self._world.store.pods_on(name):
            waits = [_tolerated_for(stored.item, taint) for taint in taints]
            bounded = [wait for wait in waits if wait is not None]
            if not bounded or is_terminating(stored.item):
                continue
            ready = condition_of(node, "Ready") or {}
            since = moment_of(str(ready.get("lastTransitionTime") or self._world.timestamp()))
            uid = uid_of(stored.item)
            namespace, pod = namespace_of(stored.item), name_of(stored.item)
            self._world.agenda.at(
                max(since + min(bounded), self._world.now()),
                ("taint-eviction", uid),
                lambda n=namespace, p=pod, u=uid: self._delete(n, p, u, name),  # type: ignore[misc]
            )

    def _delete(self, namespace: str, name: str, uid: str, node: str) -> None:
        pod = self._world.store.get(PODS, namespace, name)
        found = self._world.store.get(NODES, "", node)
        if pod is None or uid_of(pod) != uid or is_terminating(pod) or found is None:
            return
        if not any(t.get("effect") == "NoExecute" for t in spec_of(found).get("taints") or ()):
            return
        pod = with_condition(
            pod, "DisruptionTarget", "True", self._world.now(), "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )  # fmt: skip
        delete(self._world, PODS, self._world.store.put(PODS, pod), DeleteOptions())

    def _collect(self, node: str) -> None:
        if self._world.store.find(NODES, "", node) is not None:
            return
        for stored in self._world.store.pods_on(node):
            delete(self._world, PODS, stored.item, DeleteOptions(grace_seconds=0))


def _id(taint: Object) -> tuple[str, str]:
    return str(taint.get("key")), str(taint.get("effect"))


def _tolerated_for(pod: Object, taint: Object) -> timedelta | None:
    """How long the pod stays with the taint; None: for ever."""
    found = [one for one in spec_of(pod).get("tolerations") or () if tolerates(one, taint)]
    if not found:
        return timedelta(0)
    seconds = [
        one["tolerationSeconds"] for one in found if one.get("tolerationSeconds") is not None
    ]
    return timedelta(seconds=max(0, min(seconds))) if seconds else None
