"""The scheduler: pending pods go to nodes that take them, or wait.

It looks at spec.unschedulable, NoSchedule and NoExecute taints, nodeSelector, required node
affinity, and requests against allocatable (pods, cpu, memory, and every extended resource such
as nvidia.com/gpu). It does not preempt, and knows no spread or affinity between pods.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from infra.local.cluster.controllers.node_lifecycle import UNSCHEDULABLE
from infra.local.cluster.objects import (
    Object,
    changed,
    condition_of,
    is_finished,
    is_terminating,
    labels_of,
    metadata,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)
from infra.local.cluster.resources import NODES, PODS
from infra.local.cluster.selectors import selects
from infra.local.cluster.store import Change, Key
from infra.local.cluster.tolerations import tolerates, untolerated
from infra.local.cluster.world import World

ENOUGH_NODES = 20
"""So many nodes that would do are compared; more would make no better choice (the real
scheduler stops at a share of a large cluster too)."""

Amounts = dict[str, int]
"""By resource, in thousandths, so that half a CPU is a whole number too."""


class Scheduler:
    def __init__(self, world: World) -> None:
        self._world = world
        self._pending: dict[Key, str] = {}
        self._used: dict[str, Amounts] = {}
        self._requests: dict[str, Amounts] = {}
        self._start = 0
        world.store.subscribe(self._noticed)

    def _noticed(self, change: Change) -> None:
        if change.resource is PODS:
            self._pod_changed(change)
        elif change.resource is NODES:
            old, new = change.old, change.new
            if new is None:
                return
            if old is None or _matters(old.item) != _matters(new.item):
                self._try_soon()

    def _pod_changed(self, change: Change) -> None:
        before = _holds(change.old.item) if change.old else ""
        after = _holds(change.new.item) if change.new else ""
        if before != after:
            if before and change.old:
                self._account(before, change.old.item, -1)
                self._try_soon()
            if after and change.new:
                self._account(after, change.new.item, 1)
        item = (change.new or change.old).item  # type: ignore[union-attr]
        key = (namespace_of(item), name_of(item))
        if change.new and not node_of(item) and not is_finished(item) and not is_terminating(item):
            if key not in self._pending:
                self._pending[key] = uid_of(item)
                self._try_soon()
        else:
            self._pending.pop(key, None)
        if change.new is None:
            self._requests.pop(uid_of(item), None)

    def _account(self, node: str, pod: Object, sign: int) -> None:
        used = self._used.setdefault(node, {})
        for resource, amount in self._requested(pod).items():
            used[resource] = used.get(resource, 0) + sign * amount

    def _requested(self, pod: Object) -> Amounts:
        uid = uid_of(pod)
        found = self._requests.get(uid)
        if found is None:
            found = self._requests[uid] = requests_of(pod)
        return found

    def _try_soon(self) -> None:
        if self._pending:
            self._world.after(self._world.delays.schedule, ("scheduler",), self._try_all)

    def _try_all(self) -> None:
        nodes = [stored.item for stored in self._world.store.all(NODES)]
        pods = [
            pod for key in self._pending if (pod := self._world.store.get(PODS, *key)) is not None
        ]
        pods.sort(key=_order)
        for pod in pods:
            node = self._choose(pod, nodes)
            if node:
                self._bind(pod, node)
            else:
                self._tell_waiting(pod, len(nodes))

    def _choose(self, pod: Object, nodes: list[Object]) -> str:
        """The node with the fewest pods among those that would do, or nothing."""
        wanted = self._requested(pod)
        found: list[tuple[int, str]] = []
        for place in range(len(nodes)):
            node = nodes[(self._start + place) % len(nodes)]
            used = self._used.get(name_of(node), {})
            if accepts(node, pod) and _fits(node, used, wanted):
                found.append((used.get("pods", 0), name_of(node)))
                if len(found) == ENOUGH_NODES:
                    self._start = (self._start + place + 1) % len(nodes)
                    break
        return min(found)[1] if found else ""

    def _bind(self, pod: Object, node: str) -> None:
        bound = changed(pod, "spec", "nodeName", value=node)
        bound = with_condition(bound, "PodScheduled", "True", self._world.now())
        self._world.store.put(PODS, bound)

    def _tell_waiting(self, pod: Object, nodes: int) -> None:
        known = condition_of(pod, "PodScheduled")
        if known is None or known.get("status") != "False":
            message = f"0/{nodes} nodes are available"
            self._world.store.put(
                PODS,
                with_condition(
                    pod, "PodScheduled", "False", self._world.now(), "Unschedulable", message
                ),
            )


def accepts(node: Object, pod: Object) -> bool:
    """Whether the node takes the pod, whatever room it has."""
    spec = spec_of(pod)
    if spec_of(node).get("unschedulable") and not any(
        tolerates(one, {"key": UNSCHEDULABLE, "effect": "NoSchedule"})
        for one in spec.get("tolerations") or ()
    ):
        return False
    if untolerated(pod, node, ("NoSchedule", "NoExecute")) is not None:
        return False
    labels = labels_of(node)
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term(term: Mapping[str, Any], node: Object) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    return (
        bool(expressions or fields)
        and selects({"matchExpressions": expressions}, labels_of(node))
        and selects({"matchExpressions": fields}, {"metadata.name": name_of(node)})
    )


def requests_of(pod: Object) -> Amounts:
    """What the pod takes up on a node: its containers together, and one of ``pods``."""
    total: Amounts = {"pods": 1000}
    for container in spec_of(pod).get("containers") or ():
        resources = container.get("resources") or {}
        wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for resource, amount in wanted.items():
            total[resource] = total.get(resource, 0) + quantity(str(amount))
    return total


def _fits(node: Object, used: Amounts, wanted: Amounts) -> bool:
    allocatable = status_of(node).get("allocatable") or {}
    for resource, amount in wanted.items():
        room = quantity(str(allocatable.get(resource, "0")))
        if amount and used.get(resource, 0) + amount > room:
            return False
    return True


_SUFFIXES = {
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}


@lru_cache(maxsize=4096)
def quantity(text: str) -> int:
    """A Kubernetes quantity (``500m``, ``2Ti``, ``8``) in thousandths."""
    for length in (2, 1):
        factor = _SUFFIXES.get(text[-length:])
        if factor is not None and len(text) > length:
            return int(Decimal(text[:-length]) * factor * 1000)
    return int(Decimal(text) * 1000)


def _holds(pod: Object) -> str:
    """The node whose room the pod takes up."""
    return "" if is_finished(pod) else node_of(pod)


def _matters(node: Object) -> tuple[Any, ...]:
    return (spec_of(node), labels_of(node), status_of(node).get("allocatable"))


def _order(pod: Object) -> tuple[int, str, str, str]:
    meta = metadata(pod)
    priority = int(spec_of(pod).get("priority") or 0)
    return -priority, str(meta.get("creationTimestamp")), namespace_of(pod), name_of(pod)
