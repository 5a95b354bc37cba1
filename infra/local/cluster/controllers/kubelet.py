"""All kubelets: bound pods start, become ready, and stop when they are told to.

Annotations on a pod say how it behaves, where the usual is not what a test needs:
``embedded.groundcrew.dev/start-seconds``, ``stop-seconds`` (at most its grace), ``ready``
(``false``: it runs and never gets ready) and ``run-seconds`` (then it ends as Succeeded).
"""

from datetime import datetime, timedelta

from infra.local.cluster.deletion import DeleteOptions, delete
from infra.local.cluster.objects import (
    Object,
    annotation,
    changed,
    is_finished,
    is_terminating,
    metadata,
    moment_of,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    with_condition,
)
from infra.local.cluster.resources import NODES, PODS
from infra.local.cluster.store import Change
from infra.local.cluster.world import World

PREFIX = "embedded.groundcrew.dev/"


class Kubelets:
    def __init__(self, world: World) -> None:
        self._world = world
        self._addresses = 0
        world.store.subscribe(self._noticed)

    def revived(self, node: str) -> None:
        """What waited while the kubelet was dead is taken up."""
        for stored in self._world.store.pods_on(node):
            self._look_at(stored.item)

    def _noticed(self, change: Change) -> None:
        if change.resource is PODS and change.new and node_of(change.new.item):
            self._look_at(change.new.item)
        elif change.resource is NODES and change.new and not change.old:
            name = name_of(change.new.item)
            self.revived(name)
            if not status_of(change.new.item).get("conditions"):
                key = ("kubelet", "register", name)
                self._world.after(self._world.delays.start, key, lambda: self._register(name))

    def _register(self, name: str) -> None:
        """A node that somebody created without a status gets one, as from a machine that came
        up (kwok does the same)."""
        node = self._world.store.get(NODES, "", name)
        if node is None or name in self._world.dead_kubelets:
            return
        room = {"cpu": "32", "memory": "256Gi", "pods": "110"}
        status: Object = {"capacity": room, "allocatable": room, **status_of(node)}
        moment = self._world.timestamp()
        status["conditions"] = [*(status.get("conditions") or ()), *healthy(moment)]
        self._world.store.put(NODES, {**node, "status": status})

    def _look_at(self, pod: Object) -> None:
        key = ("kubelet", uid_of(pod))
        namespace, name, uid = namespace_of(pod), name_of(pod), uid_of(pod)
        if is_terminating(pod):
            if not _has_stopped(pod):
                self._world.agenda.move(
                    self._stop_time(pod), key, lambda: self._stop(namespace, name, uid)
                )
        elif phase_of(pod) == "Pending":
            delay = _seconds(pod, "start-seconds", self._world.delays.start)
            self._world.after(delay, key, lambda: self._start(namespace, name, uid))
        elif phase_of(pod) == "Running":
            runs = annotation(pod, PREFIX + "run-seconds")
            if runs is not None:
                since = moment_of(status_of(pod).get("startTime") or self._world.timestamp())
                end = since + timedelta(seconds=float(runs))
                self._world.agenda.at(end, key, lambda: self._finish(namespace, name, uid))

    def _stop_time(self, pod: Object) -> datetime:
        grace = timedelta(seconds=int(metadata(pod).get("deletionGracePeriodSeconds") or 0))
        told = moment_of(metadata(pod)["deletionTimestamp"]) - grace
        return told + min(grace, _seconds(pod, "stop-seconds", self._world.delays.stop))

    def _alive(self, namespace: str, name: str, uid: str) -> Object | None:
        """The pod, if it is still the same one and its kubelet is there to act."""
        pod = self._world.store.get(PODS, namespace, name)
        if pod is None or uid_of(pod) != uid:
            return None
        node = node_of(pod)
        if node in self._world.dead_kubelets or self._world.store.find(NODES, "", node) is None:
            return None
        return pod

    def _start(self, namespace: str, name: str, uid: str) -> None:
        pod = self._alive(namespace, name, uid)
        if pod is None or phase_of(pod) != "Pending" or is_terminating(pod):
            return
        self._addresses += 1
        self._world.store.put(PODS, running(pod, self._world.now(), self._addresses))

    def _finish(self, namespace: str, name: str, uid: str) -> None:
        pod = self._alive(namespace, name, uid)
        if pod is None or is_finished(pod) or is_terminating(pod):
            return
        now = self._world.now()
        pod = changed(pod, "status", "phase", value="Succeeded")
        self._world.store.put(PODS, with_condition(pod, "Ready", "False", now, "PodCompleted"))

    def _stop(self, namespace: str, name: str, uid: str) -> None:
        pod = self._alive(namespace, name, uid)
        if pod is None:
            return
        if metadata(pod).get("finalizers"):
            # The processes are gone; the object stays for whoever holds the finalizer.
            now = self._world.now()
            pod = changed(pod, "status", "phase", value="Succeeded")
            pod = with_condition(pod, "Ready", "False", now, "PodCompleted")
            pod = self._world.store.put(PODS, pod)
        delete(self._world, PODS, pod, DeleteOptions(grace_seconds=0, uid=uid))


_HEALTHY = (
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def healthy(moment: str) -> list[Object]:
    """The conditions that a kubelet writes when all is well."""
    return [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
            "reason": reason,
            "message": message,
        }
        for kind, status, reason, message in _HEALTHY
    ]


def running(pod: Object, now: datetime, number: int) -> Object:
    """The pod with the status that its kubelet writes once it runs."""
    ready = annotation(pod, PREFIX + "ready") != "false"
    moment = timestamp(now)
    address = f"10.{128 + number // 65536 % 128}.{number // 256 % 256}.{number % 256}"
    status = {
        **status_of(pod),
        "phase": "Running",
        "startTime": moment,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": [
            {
                "name": container.get("name", ""),
                "image": container.get("image", ""),
                "imageID": "",
                "ready": ready,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": moment}},
                "lastState": {},
            }
            for container in spec_of(pod).get("containers") or ()
        ],
    }
    pod = {**pod, "status": status}
    for kind in ("PodReadyToStartContainers", "Initialized", "PodScheduled"):
        pod = with_condition(pod, kind, "True", now)
    for kind in ("ContainersReady", "Ready"):
        reason = "" if ready else "ContainersNotReady"
        pod = with_condition(pod, kind, "True" if ready else "False", now, reason)
    return pod


def _has_stopped(pod: Object) -> bool:
    return not metadata(pod).get("deletionGracePeriodSeconds") and is_finished(pod)


def _seconds(pod: Object, key: str, usual: timedelta) -> timedelta:
    value = annotation(pod, PREFIX + key)
    return usual if value is None else timedelta(seconds=float(value))
