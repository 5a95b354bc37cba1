"""Jobs: a lost pod is replaced after a while, until enough have succeeded."""

from infra.local.cluster.controllers.owners import make_pod, owned, set_status
from infra.local.cluster.objects import (
    Object,
    is_finished,
    is_ready,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    phase_of,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)
from infra.local.cluster.resources import JOBS
from infra.local.cluster.world import World


def keep_job(world: World, item: Object) -> None:
    spec = spec_of(item)
    if spec.get("suspend") or status_of(item).get("completionTime"):
        return
    pods = owned(world, item)
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
        _retry_later(world, item)
    elif missing > 0:
        taken = {_index(pod) for pod in [*done, *active]}
        free = [i for i in range(int(completions or 0)) if str(i) not in taken]
        for place in range(missing):
            _make_job_pod(world, item, str(free[place]) if indexed else "")
        return
    failed = sum(1 for pod in pods if phase_of(pod) == "Failed")
    if completions is not None and len(done) >= int(completions):
        item = with_condition(item, "Complete", "True", world.now())
        item["status"]["completionTime"] = world.timestamp()
    if missing <= 0:
        set_status(
    world,
            JOBS, item, active=len(active), ready=sum(1 for pod in active if is_ready(pod)),
            succeeded=len(done), failed=failed,
        )  # fmt: skip


def _retry_later(world: World, item: Object) -> None:
    namespace, name = namespace_of(item), name_of(item)

    def retry() -> None:
        found = world.store.get(JOBS, namespace, name)
        if found is not None:
            status = {**status_of(found), "active": 0}
            world.store.put(JOBS, {**found, "status": status})

    world.after(world.delays.job_retry, ("job-retry", namespace, name), retry)


def _make_job_pod(world: World, item: Object, index: str) -> None:
    labels = {
        "batch.kubernetes.io/job-name": name_of(item),
        "batch.kubernetes.io/controller-uid": uid_of(item),
        "job-name": name_of(item),
    }
    annotations = {}
    if index:
        labels["batch.kubernetes.io/job-completion-index"] = index
        annotations["batch.kubernetes.io/job-completion-index"] = index
    make_pod(world, JOBS, item, labels=labels, annotations=annotations)


def _index(pod: Object) -> str:
    return labels_of(pod).get("batch.kubernetes.io/job-completion-index", "")
