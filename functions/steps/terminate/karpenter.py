"""Ending a machine of Karpenter's: its NodeClaim is deleted, by UID, and Karpenter ends the machine
and starts another where pods want one. https://karpenter.sh/docs/concepts/nodeclaims/"""

from typing import Any

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.rules.replacing import Seen
from functions.steps.terminate.way import LATER, SOON, Asked, Look, Machine

PATH = "/apis/karpenter.sh/v1/nodeclaims"
LABEL = "karpenter.sh/nodepool"


class Karpenter:
    name = "karpenter"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def look(self, machine: Machine) -> Look:
        try:
            found = self._claim(machine)
        except errors.KubernetesError as problem:
            return Look(seen=Seen.UNKNOWN, says=str(problem))
        if found is None:
            if machine.node is None:
                return Look(seen=Seen.GONE, says="its NodeClaim is gone", account="karpenter")
            return Look(seen=Seen.UNKNOWN, says="no NodeClaim has its provider ID")
        meta = found["metadata"]
        if meta.get("deletionTimestamp"):
            return Look(
                seen=Seen.ENDING, says=f"NodeClaim {meta['name']} ends", account="karpenter"
            )
        return Look(seen=Seen.RUNNING, says=f"NodeClaim {meta['name']}", account="karpenter")

    def terminate(self, machine: Machine) -> Asked:
        try:
            found = self._claim(machine)
            if found is None:
                return Asked(done=False, says="no NodeClaim has its provider ID", again=LATER)
            meta = found["metadata"]
            self._cluster.delete_object(f"{PATH}/{meta['name']}", uid=meta["uid"])
        except (errors.NotFound, errors.Conflict):
            return Asked(done=False, says="its NodeClaim is another one by now", again=SOON)
        except (errors.Forbidden, errors.Unauthorized) as problem:
            return Asked(done=False, says=str(problem), again=LATER)
        except errors.KubernetesError as problem:
            return Asked(done=False, says=str(problem), again=SOON)
        return Asked(done=True, says=f"NodeClaim {meta['name']} is deleted")

    def reboot(self, machine: Machine) -> Asked:
        return Asked(done=False, says="Karpenter reboots no machine", again=LATER)

    def _claim(self, machine: Machine) -> dict[str, Any] | None:
        claims = self._cluster.list_objects(PATH)
        return next(
            (c for c in claims if c.get("status", {}).get("providerID") == machine.provider_id),
            None,
        )
