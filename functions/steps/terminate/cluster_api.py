"""Ending a machine of Cluster API's: its Machine is deleted, by UID, where a MachineSet owns it and
makes another one. Works where the Machine stands in this cluster (a self-managed one).

The Node names its Machine by annotations:
https://cluster-api.sigs.k8s.io/reference/api/labels-and-annotations
"""

from typing import Any

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.rules.replacing import Seen
from functions.steps.terminate.way import LATER, SOON, Asked, Look, Machine

MACHINE = "cluster.x-k8s.io/machine"
NAMESPACE = "cluster.x-k8s.io/cluster-namespace"
_GROUP = "/apis/cluster.x-k8s.io/v1beta1"
_OWNERS = ("MachineSet", "MachinePool", "KubeadmControlPlane")


class ClusterApi:
    name = "cluster-api"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def look(self, machine: Machine) -> Look:
        try:
            found = self._machine(machine) if machine.node else self._by_provider_id(machine)
        except errors.NotFound:
            return Look(seen=Seen.UNKNOWN, says="its Machine is not in this cluster")
        except errors.KubernetesError as problem:
            return Look(seen=Seen.UNKNOWN, says=str(problem))
        if found is None:
            says = "no Machine has its provider ID"
            return Look(seen=Seen.GONE, says=says, account="cluster-api")
        if wrong := _mismatch(found, machine):
            return Look(seen=Seen.UNKNOWN, says=wrong)
        name = found["metadata"]["name"]
        if found["metadata"].get("deletionTimestamp"):
            return Look(seen=Seen.ENDING, says=f"Machine {name} ends", account="cluster-api")
        owners = found["metadata"].get("ownerReferences") or ()
        owned = any(owner.get("kind") in _OWNERS for owner in owners)
        return Look(
            seen=Seen.RUNNING,
            says=f"Machine {name}",
            account="cluster-api",
            protected="" if owned else f"nothing owns Machine {name}: nothing would replace it",
        )

    def terminate(self, machine: Machine) -> Asked:
        try:
            found = self._machine(machine)
            if wrong := _mismatch(found, machine):
                return Asked(done=False, says=wrong, again=LATER)
            meta = found["metadata"]
            self._cluster.delete_object(_path(machine), uid=meta["uid"])
        except (errors.NotFound, errors.Conflict):
            return Asked(done=False, says="its Machine is another one by now", again=SOON)
        except (errors.Forbidden, errors.Unauthorized) as problem:
            return Asked(done=False, says=str(problem), again=LATER)
        except errors.KubernetesError as problem:
            return Asked(done=False, says=str(problem), again=SOON)
        return Asked(done=True, says=f"Machine {meta['name']} is deleted")

    def _machine(self, machine: Machine) -> dict[str, Any]:
        return self._cluster.get_object(_path(machine))

    def _by_provider_id(self, machine: Machine) -> dict[str, Any] | None:
        """Its Node, which named it, is gone: anybody may have deleted that."""
        every = self._cluster.list_objects(f"{_GROUP}/machines")
        return next((m for m in every if not _mismatch(m, machine)), None)


def _path(machine: Machine) -> str:
    assert machine.node is not None
    meta = machine.node.metadata
    namespace = meta.annotation(NAMESPACE) or "default"
    return f"{_GROUP}/namespaces/{namespace}/machines/{meta.annotation(MACHINE) or 'unknown'}"


def _mismatch(found: dict[str, Any], machine: Machine) -> str:
    said = found.get("spec", {}).get("providerID", "")
    if said == machine.provider_id:
        return ""
    return f"Machine {found['metadata']['name']} says provider ID {said or 'none'}"
