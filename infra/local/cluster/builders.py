"""Objects to fill a cluster with, as they look in a real GPU fleet."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from infra.local.cluster.controllers.kubelet import PREFIX, healthy, running
from infra.local.cluster.objects import Object, timestamp

BORN = datetime(2026, 3, 1, tzinfo=UTC)


def node(
    name: str,
    *,
    pool: str = "gpu",
    instance_type: str = "p5.48xlarge",
    provider_id: str = "",
    gpus: int = 8,
    boot_id: str = "",
    zone: str = "us-east-1a",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    conditions: Sequence[Mapping[str, str]] = (),
    now: datetime = BORN,
) -> Object:
    """A Ready node as kubelet, cloud provider and GPU operator leave it. ``conditions`` are added
    to the kubelet's own, or replace the one of their type."""
    instance = _hex(f"instance {name}", 17)
    provider_id = provider_id or f"aws:///{zone}/i-{instance}"
    boot_id = boot_id or _uuid(f"boot {name}")
    moment = timestamp(now)
    cpu = "192" if gpus else "16"
    resources = {"cpu": cpu, "memory": "2Ti" if gpus else "64Gi", "pods": "110"}
    resources["ephemeral-storage"] = "500Gi"
    if gpus:
        resources |= {"nvidia.com/gpu": str(gpus), "vpc.amazonaws.com/efa": "32"}
    own_labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": zone.rstrip("abcdef"),
        "eks.amazonaws.com/nodegroup": pool,
    }
    if gpus:
        own_labels |= {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": str(gpus)}
    by_type = {one["type"]: one for one in healthy(moment)}
    for one in conditions:
        by_type[one["type"]] = {
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
            "reason": "",
            "message": "",
            **one,
        }
    address = ".".join(str(part) for part in (10, *hashlib.sha256(name.encode()).digest()[:3]))
    spec: Object = {"providerID": provider_id}
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": own_labels | dict(labels or {}),
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", **(annotations or {})},
        },
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": dict(resources),
            "conditions": list(by_type.values()),
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": _hex(f"machine {name}", 32),
                "systemUUID": _uuid(f"system {name}"),
                "bootID": boot_id,
                "kernelVersion": "6.12.40-63.114.amzn2023.x86_64",
                "osImage": "Amazon Linux 2023",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.37.2",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def pod(
    name: str,
    *,
    namespace: str = "default",
    node: str = "",
    gpus: int = 0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Object | None = None,
    grace_seconds: int = 30,
    stop_seconds: float | None = None,
    phase: str = "",
    ready: bool = True,
    volumes: Sequence[Mapping[str, Any]] = (),
    finalizers: Sequence[str] = (),
    tolerations: Sequence[Mapping[str, Any]] = (),
    priority_class: str = "",
    now: datetime = BORN,
) -> Object:
    """A pod; with ``node`` it already runs there. ``owner`` is a stored object that controls it."""
    meta: Object = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    notes = dict(annotations or {})
    if stop_seconds is not None:
        notes[PREFIX + "stop-seconds"] = str(stop_seconds)
    if not ready:
        notes[PREFIX + "ready"] = "false"
    if notes:
        meta["annotations"] = notes
    if finalizers:
        meta["finalizers"] = list(finalizers)
    if owner is not None:
        meta["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    item: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": pod_spec(
            gpus=gpus, grace_seconds=grace_seconds, volumes=volumes, tolerations=tolerations
        ),
    }
    if priority_class:
        item["spec"]["priorityClassName"] = priority_class
    if node:
        item["spec"]["nodeName"] = node
        number = int(_hex(f"{namespace}/{name}", 4), 16)
        item = running({**item, "status": {"qosClass": "BestEffort"}}, now, number)
    if phase:
        item["status"] = {**item.get("status", {}), "phase": phase}
    return item


def pod_spec(
    *,
    gpus: int = 0,
    grace_seconds: int = 30,
    volumes: Sequence[Mapping[str, Any]] = (),
    tolerations: Sequence[Mapping[str, Any]] = (),
    node_selector: Mapping[str, str] | None = None,
) -> Object:
    container: Object = {"name": "main", "image": "registry.example/work:1"}
    if gpus:
        container["resources"] = {
            "limits": {"nvidia.com/gpu": str(gpus)},
            "requests": {"nvidia.com/gpu": str(gpus)},
        }
    spec: Object = {"terminationGracePeriodSeconds": grace_seconds, "containers": [container]}
    if volumes:
        spec["volumes"] = [dict(volume) for volume in volumes]
    if tolerations:
        spec["tolerations"] = [dict(one) for one in tolerations]
    if node_selector:
        spec["nodeSelector"] = dict(node_selector)
    return spec


def workload(
    kind: str,
    name: str,
    *,
    namespace: str = "default",
    replicas: int = 1,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Object | None = None,
    **pod_fields: Any,
) -> Object:
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job whose pods have ``labels`` (by
    default ``app: name``), ``annotations`` and the fields of `pod_spec`."""
    own = dict(labels or {"app": name})
    template_meta: Object = {"labels": own}
    if annotations:
        template_meta["annotations"] = dict(annotations)
    template = {"metadata": template_meta, "spec": pod_spec(**pod_fields)}
    body: Object = {"template": template, **(spec or {})}
    if kind == "Job":
        body = {"parallelism": replicas, "completions": replicas, **body}
        template["spec"]["restartPolicy"] = "Never"
    else:
        body = {"selector": {"matchLabels": own}, **body}
        if kind != "DaemonSet":
            body["replicas"] = replicas
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": own},
        "spec": body,
    }


def pdb(
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str],
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    unhealthy: str = "",
) -> Object:
    spec: Object = {"selector": {"matchLabels": dict(labels)}}
    if min_available is not None:
        spec["minAvailable"] = min_available
    if max_unavailable is not None:
        spec["maxUnavailable"] = max_unavailable
    if unhealthy:
        spec["unhealthyPodEvictionPolicy"] = unhealthy
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _hex(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _uuid(text: str) -> str:
    digest = _hex(text, 32)
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))
