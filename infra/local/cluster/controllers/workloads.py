"""What brings evicted pods back: ReplicaSets, StatefulSets, Jobs and DaemonSets, and the
Deployments above them. Each looks again whenever it or a pod of its own has changed."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from infra.local.cluster.controllers.node_lifecycle import UNSCHEDULABLE
from infra.local.cluster.controllers.scheduler import accepts
from infra.local.cluster.defaults import first_status, with_defaults
from infra.local.cluster.deletion import DeleteOptions, delete
from infra.local.cluster.objects import (
    Object,
    controller_of,
    is_finished,
    is_ready,
    is_terminating,
    labels_of,
    metadata,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)
from infra.local.cluster.resources import (
    BY_KIND,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from infra.local.cluster.store import Change
from infra.local.cluster.world import World

_DAEMON_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]


class Workloads:
    def __init__(self, world: World) -> None:
        self._world = world
        self._keepers: dict[Resource, Callable[[Object], None]] = {
            DEPLOYMENTS: self._deployment,
            REPLICA_SETS: self._replica_set,
            STATEFUL_SETS: self._stateful_set,
            JOBS: self._job,
            DAEMON_SETS: self._daemon_set,
        }
        world.store.subscribe(self._noticed)

    def _noticed(self, change: Change) -> None:
        if change.resource in self._keepers:
            if change.new:
                self._look_soon(change.resource, change.new.item)
            elif change.old:
                uid = uid_of(change.old.item)
                self._world.soon(("garbage", uid), lambda: self._collect(uid))
        if change.resource in (PODS, REPLICA_SETS):
            for side in (change.old, change.new):
                owner = controller_of(side.item) if side else None
                if side and owner:
                    self._owner_soon(owner, namespace_of(side.item))
                    break
        elif change.resource is NODES and _takes_others(change):
            for stored in self._world.store.all(DAEMON_SETS):
                self._look_soon(DAEMON_SETS, stored.item)

    def _owner_soon(self, owner: Object, namespace: str) -> None:
        resource = BY_KIND.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        if resource in self._keepers and resource:
            found = self._world.store.get(resource, namespace, owner["name"])
            if found is not None and uid_of(found) == owner.get("uid"):
                self._look_soon(resource, found)

    def _look_soon(self, resource: Resource, item: Object) -> None:
        namespace, name = namespace_of(item), name_of(item)

        def look() -> None:
            found = self._world.store.get(resource, namespace, name)
            if found is not None and not is_terminating(found):
                self._keepers[resource](found)

        self._world.soon(("workloads", resource.plural, namespace, name), look)

    def _collect(self, uid: str) -> None:
        """The garbage collector: what a deleted owner controlled goes too."""
        for resource, stored in self._world.store.owned_by(uid):
            if not is_terminating(stored.item):
                delete(self._world, resource, stored.item, DeleteOptions())

    def _owned(self, item: Object, resource: Resource = PODS) -> list[Object]:
        found = [
            stored.item for kind, stored in self._world.store.owned_by(uid_of(item))
            if kind is resource
        ]  # fmt: skip
        return sorted(found, key=lambda one: (metadata(one)["creationTimestamp"], name_of(one)))

    def _set_status(self, resource: Resource, item: Object, **fields: int) -> None:
        # Go's omitempty: most counters that are 0 are not written at all.
        status = {**status_of(item), **fields}
        status["observedGeneration"] = metadata(item).get("generation", 1)
        if status != status_of(item):
            self._world.store.put(resource, {**item, "status": status})

    def _make_pod(
        self,
        resource: Resource,
        owner: Object,
        *,
        name: str = "",
        labels: Object | None = None,
        node: str = "",
        annotations: Object | None = None,
    ) -> None:
        template = spec_of(owner).get("template") or {}
        meta = dict(template.get("metadata") or {})
        meta["namespace"] = namespace_of(owner)
        meta["labels"] = {**(meta.get("labels") or {}), **(labels or {})}
        if annotations:
            meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
        meta["ownerReferences"] = [_reference(resource, owner)]
        meta["generateName"] = f"{name_of(owner)}-"
        if name:
            meta["name"] = name
        spec = dict(template.get("spec") or {})
        if node:
            spec["nodeName"] = node
            spec["tolerations"] = [*(spec.get("tolerations") or ()), *_DAEMON_TOLERATIONS]
        if name and resource is STATEFUL_SETS:
            spec["hostname"] = name
        pod = {"metadata": meta, "spec": spec, "status": first_status(PODS)}
        self._world.add(PODS, with_defaults(PODS, pod))

    # one kind each

    def _deployment(self, item: Object) -> None:
        spec = spec_of(item)
        template = spec.get("template") or {}
        digest = _digest(template)
        sets = self._owned(item, REPLICA_SETS)
        current = next((s for s in sets if labels_of(s).get("pod-template-hash") == digest), None)
        wanted = int(spec.get("replicas", 1))
        if current is None:
            self._make_replica_set(item, template, digest, wanted)
            return
        for one in sets:
            replicas = wanted if one is current else 0
            if spec_of(one).get("replicas") != replicas:
                meta = {**metadata(one), "generation": metadata(one).get("generation", 1) + 1}
                spec_of_set = {**spec_of(one), "replicas": replicas}
                self._world.store.put(REPLICA_SETS, {**one, "metadata": meta, "spec": spec_of_set})
        status = status_of(current)
        self._set_status(
            DEPLOYMENTS,
            item,
            replicas=int(status.get("replicas", 0)),
            updatedReplicas=int(status.get("replicas", 0)),
            readyReplicas=int(status.get("readyReplicas", 0)),
            availableReplicas=int(status.get("availableReplicas", 0)),
            unavailableReplicas=max(0, wanted - int(status.get("availableReplicas", 0))),
        )

    def _make_replica_set(self, item: Object, template: Object, digest: str, replicas: int) -> None:
        own = {"pod-template-hash": digest}
        meta = template.get("metadata") or {}
        labels = {**(meta.get("labels") or {}), **own}
        selector = dict(spec_of(item).get("selector") or {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **own}
        self._world.add(
            REPLICA_SETS,
            {
                "metadata": {
                    "name": f"{name_of(item)}-{digest}",
                    "namespace": namespace_of(item),
                    "labels": labels,
                    "ownerReferences": [_reference(DEPLOYMENTS, item)],
                },
                "spec": {
                    "replicas": replicas,
                    "selector": selector,
                    "template": {**template, "metadata": {**meta, "labels": labels}},
                },
                "status": {"replicas": 0},
            },
        )

    def _replica_set(self, item: Object) -> None:
        pods = self._owned(item)
        # A terminating pod is no longer counted: its replacement comes while it still stops.
        active = [pod for pod in pods if not is_finished(pod) and not is_terminating(pod)]
        wanted = int(spec_of(item).get("replicas", 1))
        for _ in range(wanted - len(active)):
            self._make_pod(REPLICA_SETS, item)
        for pod in sorted(active, key=_least_missed)[: max(0, len(active) - wanted)]:
            delete(self._world, PODS, pod, DeleteOptions())
        ready = sum(1 for pod in active if is_ready(pod))
        self._set_status(
            REPLICA_SETS,
            item,
            replicas=len(active),
            fullyLabeledReplicas=len(active),
            readyReplicas=ready,
            availableReplicas=ready,
        )

    def _stateful_set(self, item: Object) -> None:
        wanted = int(spec_of(item).get("replicas", 1))
        in_order = spec_of(item).get("podManagementPolicy") != "Parallel"
        pods = {name_of(pod): pod for pod in self._owned(item)}
        for ordinal in range(wanted):
            name = f"{name_of(item)}-{ordinal}"
            pod = pods.get(name)
            if pod is None:
                # Whoever has the name now must be gone first: there is at most one of each.
                if self._world.store.find(PODS, namespace_of(item), name) is None:
                    labels = {
                        "statefulset.kubernetes.io/pod-name": name,
                        "apps.kubernetes.io/pod-index": str(ordinal),
                    }
                    self._make_pod(STATEFUL_SETS, item, name=name, labels=labels)
            elif is_finished(pod) and not is_terminating(pod):
                delete(self._world, PODS, pod, DeleteOptions())
            if in_order and (pod is None or is_terminating(pod) or not is_ready(pod)):
                break
        surplus = [pod for pod in pods.values() if _ordinal(pod) >= wanted]
        for pod in sorted(surplus, key=_ordinal, reverse=True)[: 1 if in_order else None]:
            if not is_terminating(pod):
                delete(self._world, PODS, pod, DeleteOptions())
        ready = sum(1 for pod in pods.values() if is_ready(pod) and not is_terminating(pod))
        self._set_status(
            STATEFUL_SETS,
            item,
            replicas=len(pods),
            readyReplicas=ready,
            availableReplicas=ready,
            currentReplicas=len(pods),
            updatedReplicas=len(pods),
        )

    def _job(self, item: Object) -> None:
        spec = spec_of(item)
        if spec.get("suspend") or status_of(item).get("completionTime"):
            return
        pods = self._owned(item)
        done = [pod for pod in pods if phase_of(pod) == "Succeeded"]
        active = [pod for pod in pods if not is_finished(pod) and not is_terminating(pod)]
        completions = spec.get("completions")
        left = (
            int(completions) - len(done)
            if completions is not None
            else (0 if done else len(active) + 1)
        )
        indexed = spec.get("completionMode") == "Indexed"
        parallel = int(spec.get("parallelism", 1))
        missing = min(parallel, max(0, left)) - len(active)
        lost = len(pods) > len(done) + len(active) or bool(status_of(item).get("active"))
        if missing > 0 and lost:
            self._retry_later(item)
        elif missing > 0:
            taken = {_index(pod) for pod in [*done, *active]}
            free = [i for i in range(int(completions or 0)) if str(i) not in taken]
            for place in range(missing):
                self._make_job_pod(item, str(free[place]) if indexed else "")
            return
        failed = sum(1 for pod in pods if phase_of(pod) == "Failed")
        if completions is not None and len(done) >= int(completions):
            item = with_condition(item, "Complete", "True", self._world.now())
            item["status"]["completionTime"] = self._world.timestamp()
        if missing <= 0:
            self._set_status(
                JOBS, item, active=len(active), ready=sum(1 for pod in active if is_ready(pod)),
                succeeded=len(done), failed=failed,
            )  # fmt: skip

    def _retry_later(self, item: Object) -> None:
        namespace, name = namespace_of(item), name_of(item)

        def retry() -> None:
            found = self._world.store.get(JOBS, namespace, name)
            if found is not None:
                status = {**status_of(found), "active": 0}
                self._world.store.put(JOBS, {**found, "status": status})

        self._world.after(self._world.delays.job_retry, ("job-retry", namespace, name), retry)

    def _make_job_pod(self, item: Object, index: str) -> None:
        labels = {
            "batch.kubernetes.io/job-name": name_of(item),
            "batch.kubernetes.io/controller-uid": uid_of(item),
            "job-name": name_of(item),
        }
        annotations = {}
        if index:
            labels["batch.kubernetes.io/job-completion-index"] = index
            annotations["batch.kubernetes.io/job-completion-index"] = index
        self._make_pod(JOBS, item, labels=labels, annotations=annotations)

    def _daemon_set(self, item: Object) -> None:
        template = spec_of(item).get("template") or {}
        spec = template.get("spec") or {}
        probe = {
            "spec": {
                **spec,
                "tolerations": [*(spec.get("tolerations") or ()), *_DAEMON_TOLERATIONS],
            }
        }
        by_node: dict[str, list[Object]] = {}
        for pod in self._owned(item):
            by_node.setdefault(node_of(pod), []).append(pod)
        nodes = [s.item for s in self._world.store.all(NODES) if accepts(s.item, probe)]
        names = {name_of(node) for node in nodes}
        for node in names - by_node.keys():
            self._make_pod(DAEMON_SETS, item, node=node)
        for node, pods in by_node.items():
            for pod in pods:
                finished = is_finished(pod) and not is_terminating(pod)
                if (node not in names or finished) and not is_terminating(pod):
                    delete(self._world, PODS, pod, DeleteOptions())
        kept = [pod for pods in by_node.values() for pod in pods if not is_terminating(pod)]
        ready = sum(1 for pod in kept if is_ready(pod))
        self._set_status(
            DAEMON_SETS,
            item,
            desiredNumberScheduled=len(names),
            currentNumberScheduled=len(kept),
            numberReady=ready,
            numberAvailable=ready,
            updatedNumberScheduled=len(kept),
            numberMisscheduled=0,
        )


def _takes_others(change: Change) -> bool:
    """Whether the node may now take daemon pods that it did not, or no longer."""
    if change.old is None or change.new is None:
        return True
    return _daemons_see(change.old.item) != _daemons_see(change.new.item)


def _daemons_see(node: Object) -> tuple[Any, ...]:
    """What decides on daemon pods. A cordon does not: they tolerate it."""
    taints = spec_of(node).get("taints") or ()
    return labels_of(node), [taint for taint in taints if taint.get("key") != UNSCHEDULABLE]


def _reference(resource: Resource, owner: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _digest(template: Object) -> str:
    raw = msgspec.json.encode(template, order="sorted")
    return hashlib.sha256(raw).hexdigest()[:10]


def _least_missed(pod: Object) -> tuple[bool, bool, str]:
    """Unbound before bound, not ready before ready, then by name."""
    return bool(node_of(pod)), is_ready(pod), name_of(pod)


def _ordinal(pod: Object) -> int:
    tail = name_of(pod).rpartition("-")[2]
    return int(tail) if tail.isdigit() else 0


def _index(pod: Object) -> str:
    return labels_of(pod).get("batch.kubernetes.io/job-completion-index", "")
