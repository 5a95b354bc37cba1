"""The Table form of answers, which kubectl asks for and prints as it comes."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from infra.local.cluster.call import Answer, Call
from infra.local.cluster.objects import (
    Object,
    is_terminating,
    is_true,
    labels_of,
    metadata,
    moment_of,
    name_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
)
from infra.local.cluster.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NODES,
    PDBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from infra.local.cluster.store import Stored
from infra.local.cluster.world import World

Cell = str | int
Column = tuple[str, int, Callable[[Object, datetime], Cell]]
"""Name, priority (1 shows with -o wide only), and the cell of an object."""


def wants_table(accept: str) -> bool:
    return "as=Table" in accept


def table(
    world: World,
    resource: Resource,
    items: Sequence[Stored],
    version: str,
    call: Call,
    following: str = "",
) -> Answer:
    meta = {"resourceVersion": version, **({"continue": following} if following else {})}
    return Answer(200, msgspec.json.encode(_table(world, resource, items, meta, call)))


def row_event(world: World, resource: Resource, call: Call) -> Callable[[Stored], bytes]:
    """For a watch: each object as a Table of one row."""

    def render(stored: Stored) -> bytes:
        meta = {"resourceVersion": metadata(stored.item)["resourceVersion"]}
        return msgspec.json.encode(_table(world, resource, [stored], meta, call))

    return render


def _table(
    world: World,
    resource: Resource,
    items: Sequence[Stored],
    meta: dict[str, str],
    call: Call,
) -> dict[str, Any]:
    columns = [("Name", 0, _name), *_COLUMNS.get(resource, ()), ("Age", 0, _age)]
    if resource is NODES:
        columns = _in_kubectl_order(columns)
    now = world.now()
    include = call.query.get("includeObject", "Metadata")
    rows = []
    for stored in items:
        row: dict[str, Any] = {"cells": [cell(stored.item, now) for _, _, cell in columns]}
        if include == "Object":
            row["object"] = msgspec.Raw(stored.whole(resource))
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata(stored.item),
            }
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [
            {
                "name": name,
                "type": "string",
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": priority,
            }
            for name, priority, _ in columns
        ],
        "rows": rows,
    }


def _in_kubectl_order(columns: list[Column]) -> list[Column]:
    """Age stands before Version and the wide columns."""
    order = {"Name": 0, "Status": 1, "Roles": 2, "Age": 3}
    return sorted(columns, key=lambda column: order.get(column[0], 4))


def _name(item: Object, now: datetime) -> Cell:
    return name_of(item)


def _age(item: Object, now: datetime) -> Cell:
    return _since(metadata(item).get("creationTimestamp"), now)


def _since(moment: str | None, now: datetime) -> str:
    if not moment:
        return "<unknown>"
    seconds = max(0, int((now - moment_of(moment)).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def _node_status(node: Object, now: datetime) -> Cell:
    ready = "Ready" if is_true(node, "Ready") else "NotReady"
    return ready + (",SchedulingDisabled" if spec_of(node).get("unschedulable") else "")


def _roles(node: Object, now: datetime) -> Cell:
    prefix = "node-role.kubernetes.io/"
    roles = sorted(k.removeprefix(prefix) for k in labels_of(node) if k.startswith(prefix))
    return ",".join(roles) or "<none>"


def _address(kind: str) -> Callable[[Object, datetime], Cell]:
    def cell(node: Object, now: datetime) -> Cell:
        for address in status_of(node).get("addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address"))
        return "<none>"

    return cell


def _info(field: str) -> Callable[[Object, datetime], Cell]:
    return lambda node, now: str((status_of(node).get("nodeInfo") or {}).get(field) or "<unknown>")


def _pod_ready(pod: Object, now: datetime) -> Cell:
    statuses = status_of(pod).get("containerStatuses") or ()
    total = len(spec_of(pod).get("containers") or ())
    return f"{sum(1 for one in statuses if one.get('ready'))}/{total}"


def _pod_status(pod: Object, now: datetime) -> Cell:
    if is_terminating(pod):
        return "Terminating"
    phase = phase_of(pod)
    return "Completed" if phase == "Succeeded" else phase


def _restarts(pod: Object, now: datetime) -> Cell:
    statuses = status_of(pod).get("containerStatuses") or ()
    return sum(int(one.get("restartCount") or 0) for one in statuses)


def _spec(field: str, missing: Cell = "<none>") -> Callable[[Object, datetime], Cell]:
    def cell(item: Object, now: datetime) -> Cell:
        value = spec_of(item).get(field)
        return missing if value is None else value

    return cell


def _status(field: str) -> Callable[[Object, datetime], Cell]:
    return lambda item, now: status_of(item).get(field) or 0


def _of_replicas(field: str) -> Callable[[Object, datetime], Cell]:
    return lambda item, now: f"{status_of(item).get(field) or 0}/{spec_of(item).get('replicas', 0)}"


def _involved(event: Object, now: datetime) -> Cell:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind') or '').lower()}/{involved.get('name')}"


_COLUMNS: dict[Resource, list[Column]] = {
    NODES: [
        ("Status", 0, _node_status),
        ("Roles", 0, _roles),
        ("Version", 0, _info("kubeletVersion")),
        ("Internal-IP", 1, _address("InternalIP")),
        ("External-IP", 1, _address("ExternalIP")),
        ("OS-Image", 1, _info("osImage")),
        ("Kernel-Version", 1, _info("kernelVersion")),
        ("Container-Runtime", 1, _info("containerRuntimeVersion")),
    ],
    PODS: [
        ("Ready", 0, _pod_ready),
        ("Status", 0, _pod_status),
        ("Restarts", 0, _restarts),
        ("IP", 1, lambda pod, now: status_of(pod).get("podIP") or "<none>"),
        ("Node", 1, lambda pod, now: node_of(pod) or "<none>"),
    ],
    PDBS: [
        ("Min Available", 0, _spec("minAvailable", "N/A")),
        ("Max Unavailable", 0, _spec("maxUnavailable", "N/A")),
        ("Allowed Disruptions", 0, _status("disruptionsAllowed")),
    ],
    DEPLOYMENTS: [
        ("Ready", 0, _of_replicas("readyReplicas")),
        ("Up-to-date", 0, _status("updatedReplicas")),
        ("Available", 0, _status("availableReplicas")),
    ],
    REPLICA_SETS: [
        ("Desired", 0, _spec("replicas", 0)),
        ("Current", 0, _status("replicas")),
        ("Ready", 0, _status("readyReplicas")),
    ],
    STATEFUL_SETS: [("Ready", 0, _of_replicas("readyReplicas"))],
    DAEMON_SETS: [
        ("Desired", 0, _status("desiredNumberScheduled")),
        ("Current", 0, _status("currentNumberScheduled")),
        ("Ready", 0, _status("numberReady")),
    ],
    JOBS: [
        ("Active", 0, _status("active")),
        ("Succeeded", 0, _status("succeeded")),
        ("Failed", 0, _status("failed")),
    ],
    CONFIG_MAPS: [("Data", 0, lambda item, now: len(item.get("data") or {}))],
    EVENTS: [
        ("Type", 0, lambda item, now: str(item.get("type") or "")),
        ("Reason", 0, lambda item, now: str(item.get("reason") or "")),
        ("Object", 0, _involved),
        ("Message", 0, lambda item, now: str(item.get("message") or "")),
    ],
}
