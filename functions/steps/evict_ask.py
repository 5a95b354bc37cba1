"""Asking one pod to leave."""

from functions.rules.drain_plan import Step, Verdict
from functions.steps.drain_call import Call
from functions.steps.drain_target import Target

EVICTION_SECONDS = 15.0
"""The server itself may take 10 s over one: it retries conflicts on the budget's status."""


def ask(call: Call, target: Target, step: Step) -> None:
    """Evict the pod, or past its budgets delete it. Raises `errors.KubernetesError`."""
    pod = step.pod
    grace = _grace(call, target, pod.grace_seconds)
    if step.verdict is Verdict.DELETE:
        seconds = max(1, pod.grace_seconds if grace is None else grace)
        call.cluster.delete_pod(pod.namespace, pod.name, uid=pod.uid, grace_seconds=seconds)
    else:
        call.cluster.evict(
            pod.namespace,
            pod.name,
            uid=pod.uid,
            grace_seconds=grace,
            timeout_seconds=EVICTION_SECONDS,
        )


def _grace(call: Call, target: Target, own: int) -> int | None:
    """Another grace than the pod's own: chosen by somebody, or shorter because the machine will
    not be there for as long."""
    chosen = target.grace_seconds
    if target.lost_at is not None:
        left = int((target.lost_at - call.now()).total_seconds())
        if left < (own if chosen is None else chosen):
            chosen = left
    return None if chosen is None else max(1, chosen)
