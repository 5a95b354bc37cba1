"""A world as the starting point of a history has it.

Recorded are nodes, pods and disruption budgets, and not what makes the pods. Whatever controlled
them is made again from them, or a pod that is evicted would never come back and its budget never
recover. Left out are DaemonSets and their pods (no drain touches them), finished pods, and our
own policy, ledgers and pause; and Deployments, which would take the recorded ReplicaSets for those
of an older template, and replace every pod.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from functions.rules import keys
from infra.local.cluster import EmbeddedCluster
from infra.local.cluster.objects import FINISHED, Object, controller_of, labels_of, phase_of
from infra.local.cluster.resources import BY_KIND
from infra.local.history import History, HistoryError
from infra.local.past.reader import Reader

FIRST_LOOK = timedelta(minutes=11)
"""Heartbeats come every five minutes at the latest."""
NO_STARTING_POINT = (
    "no starting point was recorded, so there are only the nodes that spoke within the first "
    f"{FIRST_LOOK.total_seconds() / 60:.0f} minutes, and no pods: see record --from-cluster"
)
_MADE_AGAIN = ("ReplicaSet", "StatefulSet", "Job")
_ORDER = ("Namespace", "Node", "PodDisruptionBudget")
"""Before all others, in this order; pods come last."""
_BUSY = ("disruption", "workloads", "scheduler", "node-lifecycle")
_OF_THE_POD = ("nodeName", "hostname", "ephemeralContainers")
"""Of a pod's spec what is no part of its controller's template."""


def beginning(
    history: History, objects: Iterable[Mapping[str, Any]], reader: Reader
) -> tuple[list[Object], tuple[str, ...]]:
    """What to fill worlds with before the first event of ``history``, whose starting point is
    ``objects``, and what a reader of the outcome is to know of that, a sentence each. ``reader``
    learns the nodes. Raises `HistoryError` where not one node is known."""
    items = starting_point(objects, reader)
    notes: tuple[str, ...] = ()
    if not _has_nodes(items):
        items += _first_nodes(history, reader)
        notes = (NO_STARTING_POINT,)
    if not _has_nodes(items):
        raise HistoryError(history.path, f"not one node is known: {NO_STARTING_POINT}")
    return items, notes


def starting_point(objects: Iterable[Mapping[str, Any]], reader: Reader) -> list[Object]:
    """What to fill worlds with, in an order in which it can be. ``reader`` learns the nodes."""
    kept: list[Object] = []
    pods: list[Object] = []
    for item in objects:
        kind = str(item.get("kind"))
        if (str(item.get("apiVersion")), kind) not in BY_KIND or keys.PART in labels_of(dict(item)):
            continue
        if kind == "Node":
            kept.append(reader.start(item))
        elif kind == "Pod":
            owner = controller_of(dict(item))
            if phase_of(dict(item)) not in FINISHED and (owner or {}).get("kind") != "DaemonSet":
                pods.append(dict(item))
        elif kind not in ("DaemonSet", "Deployment", "Event"):
            kept.append(dict(item))
    known = {str(item["metadata"].get("uid")) for item in kept}
    kept += _controllers(pods, known)
    rank = {kind: place for place, kind in enumerate(_ORDER)}
    kept.sort(key=lambda item: rank.get(item["kind"], len(rank)))
    return [*kept, *pods]


def _has_nodes(items: Iterable[Object]) -> bool:
    return any(item["kind"] == "Node" for item in items)


def _first_nodes(history: History, reader: Reader) -> list[Object]:
    """Where no starting point was recorded: each node as it first speaks within `FIRST_LOOK`."""
    listener = Reader()
    found: dict[str, Mapping[str, Any]] = {}
    for event in history.events():
        if event.at - history.start > FIRST_LOOK:
            break
        for change in listener.hear(event).changes:
            if change.node is not None:
                found.setdefault(change.name, change.node)
    return starting_point(found.values(), reader)


def fill(cluster: EmbeddedCluster, items: Iterable[Object]) -> None:
    """Controllers look when all is there, not after each of many thousand objects."""
    cluster.held.update(_BUSY)
    for item in items:
        cluster.apply(item)
    cluster.held.difference_update(_BUSY)
    cluster.advance(cluster.now())


def _controllers(pods: Iterable[Object], known: set[str]) -> list[Object]:
    """Of each controller that is not there, one that makes pods as its first one is."""
    by_owner: dict[str, list[Object]] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner and owner["kind"] in _MADE_AGAIN and owner["uid"] not in known:
            by_owner.setdefault(str(owner["uid"]), []).append(pod)
    return [_controller(owned) for owned in by_owner.values()]


def _controller(pods: list[Object]) -> Object:
    owner = controller_of(pods[0])
    assert owner is not None
    first = pods[0]
    kind = owner["kind"]
    spec: Object = {"template": _template(first)}
    if kind == "Job":
        spec |= {"parallelism": len(pods), "completions": len(pods)}
    else:
        ordinals = [int(m[0]) for p in pods if (m := re.search(r"\d+$", p["metadata"]["name"]))]
        count = max(ordinals) + 1 if kind == "StatefulSet" and ordinals else len(pods)
        spec |= {"replicas": count, "selector": {"matchLabels": dict(labels_of(first))}}
    if kind == "StatefulSet":
        spec["podManagementPolicy"] = "Parallel"
    return {
        "apiVersion": owner["apiVersion"],
        "kind": kind,
        "metadata": {
            "name": owner["name"],
            "namespace": first["metadata"]["namespace"],
            "uid": owner["uid"],
        },
        "spec": spec,
    }


def _template(pod: Object) -> Object:
    meta = pod["metadata"]
    notes = {
        k: v
        for k, v in (meta.get("annotations") or {}).items()
        if k not in (keys.EVICT_AFTER, keys.EVICT_REASON, keys.READY_TO_EVICT)
    }
    spec = {k: v for k, v in pod["spec"].items() if k not in _OF_THE_POD}
    return {"metadata": {"labels": dict(labels_of(pod)), "annotations": notes}, "spec": spec}
