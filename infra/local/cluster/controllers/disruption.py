"""The disruption controller: keeps the status of PodDisruptionBudgets."""

import math
from datetime import datetime
from typing import Any

from infra.local.cluster.objects import (
    Object,
    controller_of,
    is_ready,
    is_terminating,
    labels_of,
    metadata,
    moment_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    with_condition,
)
from infra.local.cluster.resources import (
    BY_KIND,
    DEPLOYMENTS,
    PDBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from infra.local.cluster.selectors import selects
from infra.local.cluster.store import Change
from infra.local.cluster.world import World

_SCALES = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)


class NoControllerError(Exception):
    """A budget that counts by scale covers a pod whose scale nobody knows."""


class Disruption:
    def __init__(self, world: World) -> None:
        self._world = world
        world.store.subscribe(self._noticed)

    def _noticed(self, change: Change) -> None:
        sides = [side.item for side in (change.old, change.new) if side]
        namespace = namespace_of(sides[0])
        if change.resource is PDBS:
            if change.new:
                self._recount_soon(change.new.item)
        elif change.resource is PODS:
            for stored in self._world.store.all(PDBS, namespace):
                selector = spec_of(stored.item).get("selector")
                if any(selects(selector, labels_of(side)) for side in sides):
                    self._recount_soon(stored.item)
        elif change.resource in _SCALES and _replicas(sides[0]) != _replicas(sides[-1]):
            for stored in self._world.store.all(PDBS, namespace):
                self._recount_soon(stored.item)

    def _recount_soon(self, pdb: Object) -> None:
        namespace, name = namespace_of(pdb), name_of(pdb)
        self._world.soon(("disruption", namespace, name), lambda: self._recount(namespace, name))

    def _recount(self, namespace: str, name: str) -> None:
        pdb = self._world.store.get(PDBS, namespace, name)
        if pdb is None:
            return
        now = self._world.now()
        selector = spec_of(pdb).get("selector")
        pods = [
            stored.item
            for stored in self._world.store.all(PODS, namespace)
            if selects(selector, stored.labels)
        ]
        disrupted = self._still_disrupted(pdb, pods, now)
        healthy = sum(
            1
            for pod in pods
            if not is_terminating(pod) and name_of(pod) not in disrupted and is_ready(pod)
        )
        try:
            expected, desired = self._expected(pdb, pods)
        except NoControllerError as problem:
            self._fail_safe(pdb, str(problem))
            return
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: Object = {
            **status_of(pdb),
            "observedGeneration": metadata(pdb).get("generation", 1),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        status.pop("disruptedPods", None)
        if disrupted:
            status["disruptedPods"] = disrupted
        fresh = with_condition(
            {**pdb, "status": status},
            "DisruptionAllowed",
            "True" if allowed else "False",
            now,
            "SufficientPods" if allowed else "InsufficientPods",
        )
        condition = next(
            c for c in fresh["status"]["conditions"] if c["type"] == "DisruptionAllowed"
        )
        condition["observedGeneration"] = status["observedGeneration"]
        if fresh["status"] != pdb.get("status"):
            self._world.store.put(PDBS, fresh)

    def _still_disrupted(self, pdb: Object, pods: list[Object], now: datetime) -> dict[str, str]:
        """Pods whose eviction was paid for and that are not terminating yet. After two minutes
        the controller no longer believes in it."""
        entries = status_of(pdb).get("disruptedPods") or {}
        kept = {}
        namespace, name = namespace_of(pdb), name_of(pdb)
        for pod in pods:
            since = entries.get(name_of(pod))
            if since is None or is_terminating(pod):
                continue
            end = moment_of(since) + self._world.delays.disruption_timeout
            if now < end:
                kept[name_of(pod)] = since
                self._world.agenda.at(
                    end,
                    ("disruption", namespace, name, "recheck"),
                    lambda: self._recount(namespace, name),
                )
        return kept

    def _expected(self, pdb: Object, pods: list[Object]) -> tuple[int, int]:
        """expectedPods and desiredHealthy. A number under minAvailable counts the pods that are
        there; everything else counts what their controllers want."""
        spec = spec_of(pdb)
        unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if unavailable is not None:
            expected = self._scale(pods)
            return expected, max(0, expected - _scaled(unavailable, expected))
        if isinstance(available, str):
            expected = self._scale(pods)
            return expected, _scaled(available, expected)
        return len(pods), int(available or 0)

    def _scale(self, pods: list[Object]) -> int:
        scales: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                continue
            resource = BY_KIND.get((owner.get("apiVersion", ""), owner.get("kind", "")))
            found = (
                self._world.store.get(resource, namespace_of(pod), owner["name"])
                if resource in _SCALES and resource
                else None
            )
            if found is not None and resource is REPLICA_SETS and controller_of(found):
                above = controller_of(found) or {}
                found = (
                    self._world.store.get(DEPLOYMENTS, namespace_of(pod), above.get("name", ""))
                    or found
                )
            if found is None:
                raise NoControllerError(f'found no controllers for pod "{name_of(pod)}"')
            scales[str(metadata(found)["uid"])] = int(spec_of(found).get("replicas", 1))
        return sum(scales.values())

    def _fail_safe(self, pdb: Object, why: str) -> None:
        status = {**status_of(pdb), "disruptionsAllowed": 0}
        fresh = with_condition(
            {**pdb, "status": status},
            "DisruptionAllowed",
            "False",
            self._world.now(),
            "SyncFailed",
            why,
        )
        if fresh["status"] != pdb.get("status"):
            self._world.store.put(PDBS, fresh)


def _replicas(item: Object) -> Any:
    return spec_of(item).get("replicas")


def _scaled(value: int | str, total: int) -> int:
    """A number, or a percentage of ``total`` rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * total / 100)
    return int(value)
