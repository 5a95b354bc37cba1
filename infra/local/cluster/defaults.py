"""What the server fills in before an object is stored."""

from typing import Any

from infra.local.cluster.objects import Object, spec_of
from infra.local.cluster.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PDBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def with_defaults(resource: Resource, item: Object) -> Object:
    """A copy with the defaults of its kind; fields that are there stay."""
    if resource is PODS:
        return {**item, "spec": _pod_spec(spec_of(item), bare=True)}
    if resource in _SPECS:
        spec = {**_SPECS[resource], **_without_nulls(spec_of(item))}
        if resource is JOBS and spec.get("completions") is None and "parallelism" not in spec:
            spec.update(parallelism=1, completions=1)
        if "template" in spec:
            template = spec["template"]
            spec["template"] = {**template, "spec": _pod_spec(template.get("spec") or {})}
        return {**item, "spec": spec}
    if resource is EVENTS:
        return {"source": {}, "reportingComponent": "", "reportingInstance": "", **item}
    if resource is NAMESPACES:
        meta = item["metadata"]
        labels = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}
        return {
            **item,
            "metadata": {**meta, "labels": labels},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
    return item


_SPECS: dict[Resource, Object] = {
    DEPLOYMENTS: {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
        },
    },
    REPLICA_SETS: {"replicas": 1},
    STATEFUL_SETS: {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    },
    DAEMON_SETS: {
        "revisionHistoryLimit": 10,
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
        },
    },
    JOBS: {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False},
}


def first_status(resource: Resource) -> Any:
    """The status that a new object gets, whatever its maker wrote there."""
    if resource is PODS:
        return {"phase": "Pending", "qosClass": "BestEffort"}
    if resource is PDBS:
        return {
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }
    if resource in (DEPLOYMENTS, JOBS):
        return {}
    if resource is REPLICA_SETS:
        return {"replicas": 0}
    if resource is STATEFUL_SETS:
        return {"replicas": 0, "availableReplicas": 0}
    if resource is DAEMON_SETS:
        return {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        }
    return None


def _without_nulls(fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value is not None}


def _pod_spec(spec: Object, *, bare: bool = False) -> Object:
    full: Object = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **_without_nulls(spec),
    }
    full["containers"] = [_container(one) for one in full.get("containers") or ()]
    if bare:
        # Admission plugins, not defaulting: they see pods and no templates.
        full.setdefault("priority", 0)
        full.setdefault("preemptionPolicy", "PreemptLowerPriority")
        full.setdefault("enableServiceLinks", True)
        tolerations = list(full.get("tolerations") or ())
        for key in (NOT_READY, UNREACHABLE):
            if not any(_covers(one, key) for one in tolerations):
                tolerations.append(
                    {
                        "key": key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 300,
                    }
                )
        full["tolerations"] = tolerations
    return full


def _covers(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (
        None,
        "",
        "NoExecute",
    )


def _container(container: Object) -> Object:
    return {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        **container,
    }
