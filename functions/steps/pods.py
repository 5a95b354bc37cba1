"""Kubernetes' objects as the facts that the drain plan is made of."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import drain_plan, keys
from functions.rules.drain_plan import Budget, Owner, Pod
from functions.rules.selectors import Requirement, Selector

MIRROR = "kubernetes.io/config.mirror"
_CORDON_TAINT = "node.kubernetes.io/unschedulable"
DEFAULT_GRACE_SECONDS = 30


def work_on(cluster: Cluster, node: str) -> tuple[str, ...]:
    """The pods that run on ``node`` now and are work, ``namespace/name``: no DaemonSet, mirror,
    balloon or finished ones."""
    around = drain_plan.Around(node=node)
    found = (pod(p) for p in cluster.list_pods(node=node).items or ())
    return tuple(
        sorted(p.key for p in found if not p.finished and not drain_plan.ignored(p, around))
    )


def pod(found: types.Pod) -> Pod:
    meta, spec = found.metadata, found.spec
    owner = meta.controller
    annotations = meta.annotations or {}
    group = (spec.scheduling_group or {}).get("podGroupName")
    grace = spec.termination_grace_period_seconds
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        node=spec.node_name or "",
        labels=meta.labels or {},
        owner=_owner(owner) if owner else None,
        mirror=MIRROR in annotations,
        phase=found.status.phase,
        ready=any(c.type == "Ready" and c.status == "True" for c in found.status.conditions or ()),
        priority=spec.priority or 0,
        grace_seconds=DEFAULT_GRACE_SECONDS if grace is None else grace,
        empty_dirs=tuple(v.name for v in spec.volumes or () if v.empty_dir is not None),
        host_paths=tuple(str(v.host_path.get("path")) for v in spec.volumes or () if v.host_path),
        claims=tuple(_claims(found)),
        finalizers=tuple(meta.finalizers or ()),
        gone_by=meta.deletion_timestamp,
        asked_at=_asked_at(meta),
        tolerates_cordon=any(map(_tolerates_cordon, spec.tolerations or ())),
        pod_group=group if isinstance(group, str) else "",
        evict_after=annotations.get(keys.EVICT_AFTER),
        ready_to_evict=annotations.get(keys.READY_TO_EVICT) == "true",
    )


def _claims(found: types.Pod) -> Iterator[str]:
    for volume in found.spec.volumes or ():
        if volume.persistent_volume_claim:
            yield str(volume.persistent_volume_claim.get("claimName"))
        elif volume.ephemeral is not None:
            # Named after both (pkg/controller/volume/ephemeral).
            yield f"{found.metadata.name}-{volume.name}"


def _tolerates_cordon(toleration: types.Toleration) -> bool:
    """Whether it tolerates ``node.kubernetes.io/unschedulable:NoSchedule`` (of no value)."""
    if toleration.effect not in ("", "NoSchedule"):
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    return toleration.key == _CORDON_TAINT and (
        toleration.operator == "Exists" or not toleration.value
    )


def _asked_at(meta: types.Meta) -> datetime | None:
    if meta.deletion_timestamp is None:
        return None
    return meta.deletion_timestamp - timedelta(seconds=meta.deletion_grace_period_seconds or 0)


def budget(found: types.PodDisruptionBudget) -> Budget:
    selector = found.spec.selector
    return Budget(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        selector=_selector(selector) if selector else None,
        allowed=found.status.disruptions_allowed,
        healthy=found.status.current_healthy,
        desired=found.status.desired_healthy,
        expected=found.status.expected_pods,
        evicts_unhealthy=found.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )


def _owner(reference: types.OwnerReference) -> Owner:
    group = reference.api_version.rpartition("/")[0]
    return Owner(kind=reference.kind, name=reference.name, uid=reference.uid, group=group)


def _selector(found: types.LabelSelector) -> Selector:
    return Selector(
        labels=found.match_labels or {},
        requirements=tuple(
            Requirement(r.key, r.operator, tuple(r.values or ()))
            for r in found.match_expressions or ()
        ),
    )
