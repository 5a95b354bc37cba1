"""Everybody in a scenario who is not us: the cloud, the nodes' agents, the people.

They act through the API server, as they do in a cluster. Nothing here knows what we will make
of it.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from events import conditions
from functions.gateways.clock import Clock
from functions.rules import keys, pause
from functions.rules import policy as policies
from functions.steps import active
from infra.local.cluster import builders
from infra.local.cluster.controllers.kubelet import PREFIX
from infra.local.cluster.objects import timestamp
from infra.local.scenario import Budget, Condition, Pool, Reboot, Scenario, Workload
from infra.local.scenario_file import pick
from infra.local.world import Api

NAMESPACE = "groundcrew-system"
_PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Pod": "/api/v1/namespaces/{}/pods",
}
_AGENT = (
    ("AcceleratedHardwareReady", "NvidiaAcceleratedHardwareIsReady"),
    ("NetworkingReady", "NetworkingIsReady"),
    ("StorageReady", "DiskIsReady"),
    ("KernelReady", "KernelIsReady"),
    ("ContainerRuntimeReady", "ContainerRuntimeIsReady"),
)
"""What the EKS node monitoring agent says of a node that is well."""


Habits = Callable[[Workload], dict[str, str]]
"""The annotations by which a world's kubelets know how long the pods of a workload take to end."""


def embedded_habits(workload: Workload) -> dict[str, str]:
    if workload.stop_seconds is None:
        return {}
    return {f"{PREFIX}stop-seconds": f"{workload.stop_seconds}"}


class Outside:
    def __init__(
        self,
        api: Api,
        clock: Clock,
        scenario: Scenario,
        habits: Habits = embedded_habits,
    ) -> None:
        self.api = api
        self._habits = habits
        self._clock = clock
        self._scenario = scenario
        self._generation: dict[str, int] = {}
        """How many machines have stood behind the name before."""
        self._boots = 0

    # the beginning

    def build(self, policy: str) -> Iterator[None]:
        """Nodes, workloads, budgets, and the policy in force (empty: the default). Yields when
        pods should find their nodes before those of the next workload look for theirs."""
        cluster = self._scenario.cluster
        for namespace in sorted({NAMESPACE, *(w.namespace for w in cluster.workloads)}):
            if self.api.find(f"/api/v1/namespaces/{namespace}") is None:
                self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        if policy:
            data = active.policy_data(policies.parse(policy), "scenario")
            self._config_map(active.POLICY_NAME, "policy", data)
        for name in self._scenario.nodes:
            self._register(name)
        yield
        for workload in cluster.workloads:
            self._deploy(workload)
            yield

    # nodes

    def node(self, name: str) -> dict[str, Any]:
        return self.api.get(f"/api/v1/nodes/{name}")

    def condition(self, said: Condition) -> None:
        for name in self._pick(said.node):
            now = timestamp(self._clock.now())
            old = next((c for c in self._conditions(name) if c["type"] == said.type), {})
            turned = old.get("status") != said.status
            fresh = {
                "type": said.type,
                "status": said.status,
                "reason": said.reason,
                "message": said.message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now if turned else old.get("lastTransitionTime", now),
            }
            self._status(name, {"conditions": [fresh]})

    def gpus(self, names: Sequence[str], count: int) -> None:
        for name in names:
            self._status(name, {"capacity": _gpus(count), "allocatable": _gpus(count)})

    def reboot(self, how: Reboot) -> None:
        for name in self._pick(how.node):
            now = timestamp(self._clock.now())
            kept = [c for c in self._conditions(name) if c["type"] in how.keeps]
            fresh = _well(self._clock.now(), kept)
            pool = self._scenario.nodes[name]
            self._boots += 1
            status: dict[str, Any] = {
                # What was bad and is none of the usual conditions is as good as new, too.
                "conditions": [*fresh, *self._forgotten(name, fresh, now)],
                "nodeInfo": {"bootID": _uuid(f"boot {name} {self._boots}")},
            }
            if pool.gpus:
                count = pool.gpus if how.gpus is None else how.gpus
                status |= {"capacity": _gpus(count), "allocatable": _gpus(count)}
            self._status(name, status)

    def replace(self, names: Sequence[str]) -> None:
        """Another machine under the same name."""
        for name in names:
            if self.api.find(f"/api/v1/nodes/{name}") is not None:
                self.vanish([name])
            self._collect(name)
            self._generation[name] = self._generation.get(name, 0) + 1
            self._register(name)

    def reboot_as_it_is(self, name: str, *, healed: bool) -> None:
        """The cloud boots the machine; its faults are there again unless that ``healed`` it."""
        if self.api.find(f"/api/v1/nodes/{name}") is None:
            return
        bad = [c for c in self._conditions(name) if c["status"] != _good(c)]
        node = self.node(name)
        has = int(node["status"]["capacity"].get(keys.GPU, 0))
        self.reboot(Reboot(node=name, gpus=None if healed else has))
        if bad and not healed:
            # Its agents begin anew and know of nothing; then they find it again.
            now = timestamp(self._clock.now())
            again = [{**c, "lastHeartbeatTime": now, "lastTransitionTime": now} for c in bad]
            self._status(name, {"conditions": again})

    def instance(self, name: str) -> str:
        """The cloud's ID of the machine that is called ``name`` now."""
        return self._provider_id(name).rpartition("/")[2]

    def name_of(self, instance: str) -> str:
        return next(name for name in self._scenario.nodes if self._was(name, instance))

    def _was(self, name: str, instance: str) -> bool:
        generations = range(self._generation.get(name, 0) + 1)
        return any(self._provider_id(name, g).endswith(instance) for g in generations)

    def register_again(self, names: Sequence[str]) -> None:
        """The kubelet makes its Node anew: what others wrote on it is gone with the old one."""
        for name in names:
            old = self.node(name)
            self.api.delete(f"/api/v1/nodes/{name}")
            fresh = self._node(name)
            fresh["status"] = old["status"]
            fresh["spec"]["providerID"] = old["spec"]["providerID"]
            self.api.create("/api/v1/nodes", fresh)

    def vanish(self, names: Sequence[str]) -> None:
        """The machine is gone, its Node is deleted, and its pods with it."""
        for name in names:
            self.api.delete(f"/api/v1/nodes/{name}")
            self._collect(name)

    def _collect(self, name: str) -> None:
        """Pods of a Node that is gone, as the pod garbage collector does a minute later."""
        for pod in self.api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"):
            self._delete_pod(pod, grace_seconds=0)

    # people

    def cordon(self, names: Sequence[str], unschedulable: bool) -> None:
        for name in names:
            self.api.patch(
                f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable or None}}
            )

    def note(self, name: str, field: str, values: Mapping[str, str | None]) -> None:
        self.api.patch(f"/api/v1/nodes/{name}", {"metadata": {field: dict(values)}})

    def budget(self, changed: Budget) -> None:
        namespace = next(
            w.namespace
            for w in self._scenario.cluster.workloads
            if any((b.name or w.name) == changed.name for b in w.budgets)
        )
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{changed.name}"
        spec = {"minAvailable": changed.min_available, "maxUnavailable": changed.max_unavailable}
        self.api.patch(path, {"spec": spec})

    def delete_pods_of(self, workload: str) -> None:
        for pod in self.api.list("/api/v1/pods", labelSelector=f"app={workload}"):
            self._delete_pod(pod)

    def pause(self, until: datetime, reason: str, pool: str) -> None:
        stop = pause.Pause(until=until, reason=reason, by="alice")
        data = {pause.key(pool): msgspec.json.encode(stop).decode()}
        self._config_map(active.PAUSE_NAME, "pause", data)

    def resume(self) -> None:
        self.api.delete(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{active.PAUSE_NAME}")

    # how it is done

    def _pick(self, names: str | list[str]) -> list[str]:
        return pick(names, self._scenario.nodes)

    def _register(self, name: str) -> None:
        self.api.create("/api/v1/nodes", self._node(name))

    def _node(self, name: str) -> dict[str, Any]:
        key = name.rpartition("-")[0]
        pool = self._scenario.cluster.pools[key]
        which = self._which(name)
        cloud = self._scenario.cluster.cloud
        hardware = name if pick(cloud.same_host, [name]) else which
        annotations = {keys.GPU_UUIDS: f"GPU-{_uuid(hardware)}"} if cloud.same_host else {}
        zone = _zone(name, pool)
        return builders.node(
            name,
            pool=key,
            instance_type=pool.instance_type,
            gpus=pool.gpus,
            zone=zone,
            provider_id=self._provider_id(name),
            annotations=annotations,
            boot_id=_uuid(f"boot {which}"),
            labels=pool.labels,
            conditions=_well(self._clock.now(), ())[4:],
            now=self._clock.now(),
        )

    def _which(self, name: str, generation: int | None = None) -> str:
        number = self._generation.get(name, 0) if generation is None else generation
        return f"{name} {number}"

    def _provider_id(self, name: str, generation: int | None = None) -> str:
        zone = _zone(name, self._scenario.cluster.pools[name.rpartition("-")[0]])
        which = self._which(name, generation)
        return f"aws:///{zone}/i-{hashlib.sha256(which.encode()).hexdigest()[:17]}"

    def _conditions(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.node(name)["status"].get("conditions") or []
        return found

    def _forgotten(
        self, name: str, fresh: Sequence[Mapping[str, Any]], now: str
    ) -> list[dict[str, Any]]:
        known = {condition["type"] for condition in fresh}
        return [
            {**old, "status": _good(old), "lastTransitionTime": now, "reason": "", "message": ""}
            for old in self._conditions(name)
            if old["type"] not in known
        ]

    def _status(self, name: str, status: Mapping[str, Any]) -> None:
        self.api.patch(
            f"/api/v1/nodes/{name}/status",
            {"status": status},
            "application/strategic-merge-patch+json",
        )

    def _deploy(self, workload: Workload) -> None:
        labels = {"app": workload.name, **workload.labels}
        kind = "Deployment" if workload.kind == "Balloon" else workload.kind
        if workload.kind == "Balloon":
            labels[keys.BALLOON] = workload.pool or "any"
        selector = {"eks.amazonaws.com/nodegroup": workload.pool} if workload.pool else None
        made = builders.workload(
            "Deployment" if kind == "Pod" else kind,
            workload.name,
            namespace=workload.namespace,
            replicas=workload.replicas,
            labels=labels,
            annotations=self._habits(workload),
            gpus=workload.gpus,
            grace_seconds=workload.grace_seconds,
            node_selector=selector,
        )
        template = made["spec"]["template"]
        if kind == "StatefulSet":
            made["spec"]["podManagementPolicy"] = "Parallel"
        if workload.nodes:
            template["spec"]["affinity"] = _affinity(self._pick(workload.nodes))
        if kind == "Pod":
            meta = {**template["metadata"], "name": workload.name, "namespace": workload.namespace}
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        self.api.create(_PATHS[kind].format(workload.namespace), made)
        for budget in workload.budgets:
            self.api.create(
                f"/apis/policy/v1/namespaces/{workload.namespace}/poddisruptionbudgets",
                builders.pdb(
                    budget.name or workload.name,
                    namespace=workload.namespace,
                    labels={"app": workload.name},
                    min_available=budget.min_available,
                    max_unavailable=budget.max_unavailable,
                ),
            )

    def _delete_pod(self, pod: Mapping[str, Any], grace_seconds: int | None = None) -> None:
        meta = pod["metadata"]
        self.api.delete(
            f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", grace_seconds
        )

    def _config_map(self, name: str, part: str, data: Mapping[str, str]) -> None:
        self.api.create(
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            {"metadata": {"name": name, "labels": {keys.PART: part}}, "data": dict(data)},
        )


def _well(now: datetime, kept: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The conditions of a node that is well, but for those ``kept``."""
    plain = builders.node("any", now=now)["status"]["conditions"]
    moment = timestamp(now)
    agent = [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": "",
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }
        for kind, reason in _AGENT
    ]
    by_type = {one["type"]: dict(one) for one in (*plain, *agent, *kept)}
    return list(by_type.values())


def _good(condition: Mapping[str, Any]) -> str:
    rule = conditions.table().of_type(condition["type"])
    good = [word for word in (rule.good if rule else ()) if word in ("True", "False")]
    return good[0] if good else str(condition["status"])


def _gpus(count: int) -> dict[str, str]:
    return {keys.GPU: str(count)}


def _zone(name: str, pool: Pool) -> str:
    number = int(name.rpartition("-")[2])
    return pool.zones[(number - 1) % len(pool.zones)]


def _affinity(nodes: Sequence[str]) -> dict[str, Any]:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _uuid(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
