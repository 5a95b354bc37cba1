"""What is to be done with each pod of a node that is being drained, and in which order.

Differs from ``kubectl drain`` on purpose: DaemonSet, mirror and balloon pods never hold a drain
up, emptyDir goes with its pod (a policy may say otherwise), and one pod that may not be evicted
does not keep the others. What cannot succeed is found before it is tried.
"""

import enum
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from functions.rules import keys
from functions.rules.policy import Drain
from functions.rules.selectors import Selector

SYSTEM_CRITICAL = 2_000_000_000
"""Priority from which a pod belongs to the system (``system-cluster-critical`` and up)."""
SLACK = timedelta(seconds=5)
"""How long after its grace a pod may still be there before we ask why."""
RETURNS = 2
"""Pods of one controller that came back to the cordoned node before we leave it alone. One may
be a bind that was under way when the node was cordoned."""


class Owner(msgspec.Struct, frozen=True):
    """The controlling ownerReference."""

    kind: str
    name: str
    uid: str = ""
    group: str = ""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    node: str = ""
    labels: Mapping[str, str] = {}
    owner: Owner | None = None
    mirror: bool = False
    """The API server's picture of a static pod: the kubelet makes it anew whatever we do."""
    phase: str = "Running"
    ready: bool = True
    priority: int = 0
    grace_seconds: int = 30
    empty_dirs: tuple[str, ...] = ()
    """Names of its emptyDir volumes."""
    host_paths: tuple[str, ...] = ()
    """Directories of the node that it mounts."""
    claims: tuple[str, ...] = ()
    """Its PersistentVolumeClaims, also those made for it alone."""
    finalizers: tuple[str, ...] = ()
    gone_by: datetime | None = None
    """deletionTimestamp: when its grace ends, by the API server's clock. None: not deleted."""
    asked_at: datetime | None = None
    """When it was asked to leave: deletionTimestamp less the grace that it got."""
    tolerates_cordon: bool = False
    """A new one of its controller may be bound to the cordoned node."""
    pod_group: str = ""
    """spec.schedulingGroup.podGroupName."""
    evict_after: str | None = None
    ready_to_evict: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget, with the status that its controller last wrote."""

    namespace: str
    name: str
    selector: Selector | None = None
    allowed: int = 0
    healthy: int = 0
    desired: int = 0
    expected: int = 0
    evicts_unhealthy: bool = False
    """unhealthyPodEvictionPolicy AlwaysAllow."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def covers(self, pod: Pod) -> bool:
        return (
            pod.namespace == self.namespace
            and self.selector is not None
            and self.selector.matches(pod.labels)
        )

    @property
    def never(self) -> bool:
        """It can allow nothing even when every pod is healthy: one replica and minAvailable 1,
        maxUnavailable 0, minAvailable 100%."""
        return 0 < self.expected <= self.desired and self.allowed <= 0

    def state(self) -> str:
        if self.never:
            return f"can never allow it: {self.desired} of its {self.expected} pods must stay"
        if self.healthy < self.desired:
            return f"allows none: its pods are unhealthy ({self.desired} must be healthy)"
        return f"allows none now: {self.desired} of its pods must stay healthy"


class Verdict(enum.StrEnum):
    IGNORE = "ignore"
    """Does not hold the drain up, and is not touched."""
    EVICT = "evict"
    DELETE = "delete"
    """Past its disruption budget: only at a deadline at which the policy says so."""
    LEAVING = "leaving"
    """Asked to leave already, by us or by anybody."""
    HELD = "held"
    """Its gang is warned, and has not answered yet."""
    BLOCKED = "blocked"
    """May not or cannot be evicted; tried again only when what blocks it has changed."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    pod: Pod
    verdict: Verdict
    why: str
    budgets: tuple[str, ...] = ()
    """Keys of the disruption budgets whose allowance an eviction uses up."""
    gang: str = ""
    stage: int = 0
    """0 for workloads, 1 for what the system needs, 2 for ourselves: a stage is evicted when
    nothing of the one below it is left that could leave."""
    until: datetime | None = None
    """When a held pod may go although nobody has answered."""
    ours: bool = False
    """Blocked by our own policy (`Drain.bare_pods`, `Drain.empty_dir`), not by the cluster."""


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan must know beside the pods."""

    node: str
    daemon_sets: Collection[str] | None = None
    """``namespace/name`` of those that exist. None: not known, so each is believed."""
    budgets: tuple[Budget, ...] = ()
    kubelet_lost: bool = False
    """The node's Ready condition is Unknown: nobody there stops containers."""
    own_namespace: str = ""
    notice: Mapping[str, datetime] = {}
    """By gang: from when on its members may go. A gang that is missing was not warned yet."""
    returned: Mapping[str, int] = {}
    """By controller UID: how many of its pods came back to this node during the drain."""
    skip_after: timedelta | None = None
    """Pods that should be gone for longer than this are no longer waited for. None: all are."""
    last_resort: bool = False
    """Blocked pods are to be deleted: a deadline is over, or the machine will be gone."""


def plan(pods: Iterable[Pod], around: Around, policy: Drain, now: datetime) -> list[Step]:
    """One step for each pod of ``around.node``, in the order in which they are to go."""
    steps = [_step(pod, around, policy, now) for pod in pods if pod.node == around.node]
    # Among equals the slowest first: what they need of the rate ends their wait the sooner.
    return sorted(steps, key=lambda s: (s.stage, s.pod.priority, -s.pod.grace_seconds, s.pod.key))


def gang_of(pod: Pod) -> str:
    """Which gang the pod is a member of; empty when of none. Pods of one Job count as one."""
    if pod.finished:
        return ""
    if pod.pod_group:
        return f"PodGroup {pod.namespace}/{pod.pod_group}"
    if named := pod.labels.get(keys.GANG):
        return f"gang {pod.namespace}/{named}"
    if job_set := pod.labels.get("jobset.sigs.k8s.io/jobset-name"):
        return f"JobSet {pod.namespace}/{job_set}"
    if pod.owner and pod.owner.kind.endswith("Job"):
        # batch/v1 Job, and the training operators': MPIJob, PyTorchJob, TFJob.
        return f"{pod.owner.kind} {pod.namespace}/{pod.owner.name}"
    return ""


def declared(gang: str) -> bool:
    """Whether somebody said that these pods belong together: then one pod is a gang, too. A Job
    of a single pod is none."""
    return gang.startswith(("PodGroup ", "gang "))


def overdue(pod: Pod, around: Around, now: datetime) -> str:
    """Why a pod that was asked to leave is still there; empty while it may take its time."""
    if pod.gone_by is None:
        return ""
    finalizers = f"held by finalizer {', '.join(pod.finalizers)}" if pod.finalizers else ""
    if around.kubelet_lost:
        lost = "the kubelet does not answer (Ready is Unknown): fence the machine"
        return f"{lost}; also {finalizers}" if finalizers else f"{lost}, then it is gone"
    if now < pod.gone_by + SLACK:
        return ""
    if finalizers:
        return finalizers
    return "still there after its grace: its containers do not stop, or its volumes do not unmount"


def of_daemon_set(step: Step) -> bool:
    """Whether the pod is left alone because its DaemonSet would make it anew."""
    owner = step.pod.owner
    return (
        step.verdict is Verdict.IGNORE
        and not step.pod.mirror
        and owner is not None
        and owner.kind == "DaemonSet"
    )


def ignored(pod: Pod, around: Around) -> str:
    """Why the pod does not count; empty when it does."""
    if pod.mirror or (pod.owner and pod.owner.kind == "Node"):
        return "a static pod of the kubelet"
    if keys.BALLOON in pod.labels:
        return "a balloon"
    if pod.namespace == keys.EVIDENCE_NAMESPACE and keys.EVIDENCE in pod.labels:
        return "it collects evidence before the machine ends"
    if (
        not pod.finished
        and pod.owner
        and pod.owner.kind == "DaemonSet"
        and not _orphan(pod, around)
    ):
        return f"of DaemonSet {pod.namespace}/{pod.owner.name}"
    return ""


def _step(pod: Pod, around: Around, policy: Drain, now: datetime) -> Step:
    stage = _stage(pod, around)
    gang = gang_of(pod)

    def step(
        verdict: Verdict,
        why: str,
        budgets: tuple[str, ...] = (),
        until: datetime | None = None,
        ours: bool = False,
    ) -> Step:
        return Step(
            pod=pod,
            verdict=verdict,
            why=why,
            budgets=budgets,
            gang=gang,
            stage=stage,
            until=until,
            ours=ours,
        )

    if why := ignored(pod, around):
        return step(Verdict.IGNORE, why)
    if pod.gone_by is not None:
        if why := _given_up(pod, around, now):
            return step(Verdict.IGNORE, why)
        return step(Verdict.LEAVING, overdue(pod, around, now) or "is terminating")
    if pod.finished:
        return step(Verdict.EVICT, f"has {pod.phase.lower()}")
    if pod.owner and around.returned.get(pod.owner.uid, 0) >= RETURNS:
        # Also at a deadline: deleting it would go on for ever.
        return step(
            Verdict.BLOCKED, f"{pod.owner.kind} {pod.owner.name} puts its pods back on this node"
        )
    budgets = _budgets(pod, around)
    names = tuple(b.key for b in budgets)
    forbidden = _forbidden(pod, around, policy)
    blocked = forbidden or _cannot(budgets)
    if around.last_resort:
        if blocked or any(b.allowed <= 0 for b in budgets):
            return step(Verdict.DELETE, blocked or f"PodDisruptionBudget {', '.join(names)}")
        return step(Verdict.EVICT, "must leave now", names)
    if blocked:
        return step(Verdict.BLOCKED, blocked, ours=bool(forbidden))
    if gang:
        until = around.notice.get(gang)
        if until is None:
            return step(Verdict.HELD, f"{gang} is to be warned first", names)
        if now < until:
            return step(
                Verdict.HELD, f"{gang} is warned, until {until:%H:%M:%S}Z", names, until=until
            )
    return step(Verdict.EVICT, "", names)


def _given_up(pod: Pod, around: Around, now: datetime) -> str:
    """Why a pod that was asked to leave is not waited for any longer."""
    if around.skip_after is None or pod.gone_by is None:
        return ""
    # With its kubelet lost, nobody ends the containers when the grace is over.
    since = (pod.asked_at or pod.gone_by) if around.kubelet_lost else pod.gone_by
    if now - since <= around.skip_after:
        return ""
    return f"not waited for: {overdue(pod, around, now) or 'should be gone'}"


def _stage(pod: Pod, around: Around) -> int:
    if around.own_namespace and pod.namespace == around.own_namespace:
        return 2
    return 1 if pod.priority >= SYSTEM_CRITICAL else 0


def _orphan(pod: Pod, around: Around) -> bool:
    """Of a DaemonSet that is gone. Daemon sets of other API groups (OpenKruise) put their pods
    back on the node as well; we do not list those, and believe them."""
    return (
        pod.owner is not None
        and pod.owner.kind == "DaemonSet"
        and pod.owner.group == "apps"
        and around.daemon_sets is not None
        and f"{pod.namespace}/{pod.owner.name}" not in around.daemon_sets
    )


def _budgets(pod: Pod, around: Around) -> list[Budget]:
    """Those that the eviction API would ask (pkg/registry/core/pod/storage/eviction.go)."""
    if pod.phase == "Pending":
        return []
    found = [b for b in around.budgets if b.covers(pod)]
    if len(found) == 1 and not pod.ready:
        [budget] = found
        if budget.evicts_unhealthy or budget.healthy >= budget.desired > 0:
            return []
    return found


def _forbidden(pod: Pod, around: Around, policy: Drain) -> str:
    """Why our policy does not let it be evicted."""
    if policy.bare_pods == "block":
        if pod.owner is None:
            return "has no controller that would make it anew"
        if _orphan(pod, around):
            return f"its DaemonSet {pod.owner.name} is gone: nobody would make it anew"
    if pod.empty_dirs and policy.empty_dir == "block":
        return f"would lose its emptyDir volumes: {', '.join(pod.empty_dirs)}"
    return ""


def _cannot(budgets: list[Budget]) -> str:
    """Why an eviction can never be granted."""
    if len(budgets) > 1:
        names = ", ".join(sorted(b.key for b in budgets))
        return f"more than one PodDisruptionBudget covers it, which evictions refuse: {names}"
    if budgets and budgets[0].never:
        return f"PodDisruptionBudget {budgets[0].key} {budgets[0].state()}"
    return ""
