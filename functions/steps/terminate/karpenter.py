"""Ending a machine of Karpenter's: its NodeClaim is deleted, as it was read, and Karpenter drains
the node, ends the machine, and starts another one where pods want one.

https://karpenter.sh/docs/concepts/disruption/. A NodeClaim and its Node carry the finalizer
``karpenter.sh/termination``: both stand, marked as deleted, until the machine is gone. Where
Karpenter ends a machine already, or repairs nodes itself, it is left to it.
"""

from typing import Any

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.rules.replacing import Seen, nodeclaim
from functions.steps.terminate.way import LATER, SOON, Asked, Look, Machine

PATH = "/apis/karpenter.sh/v1/nodeclaims"
LABEL = "karpenter.sh/nodepool"
DEPLOYMENTS = "/apis/apps/v1/deployments"
ITS_OWN = "app.kubernetes.io/name=karpenter"
"""As its Helm charts label it."""
AUTO_MODE = ("eks.amazonaws.com/compute-type", "auto")
"""The label of nodes of EKS Auto Mode, whose Karpenter runs outside the cluster and repairs."""


class Karpenter:
    name = "karpenter"

    def __init__(self, cluster: Cluster, *, told: bool = False) -> None:
        """``told``: the policy names this way for the pool, so that node repair does not hold."""
        self._cluster = cluster
        self._told = told

    def look(self, machine: Machine) -> Look:
        try:
            found = self._claims(machine)
            if not found and machine.node is None:
                return Look(seen=Seen.GONE, says="its NodeClaim is gone", account="karpenter")
            if len(found) != 1:
                return Look(seen=Seen.UNKNOWN, says=_not_one(found))
            claim = found[0]
            if nodeclaim.is_ending(claim):
                return Look(
                    seen=Seen.ENDING, says=nodeclaim.how_it_ends(claim), account="karpenter"
                )
            return Look(
                seen=Seen.RUNNING,
                says=f"NodeClaim {claim['metadata']['name']}",
                account="karpenter",
                others="" if self._told else self._repairs(machine),
            )
        except errors.KubernetesError as problem:
            return Look(seen=Seen.UNKNOWN, says=str(problem))

    def terminate(self, machine: Machine) -> Asked:
        try:
            found = self._claims(machine)
            if len(found) != 1:
                return Asked(done=False, says=_not_one(found), again=LATER)
            meta = found[0]["metadata"]
            if nodeclaim.is_ending(found[0]):
                return Asked(done=True, says=nodeclaim.how_it_ends(found[0]))
            self._cluster.delete_object(
                f"{PATH}/{meta['name']}", uid=meta["uid"], resource_version=meta["resourceVersion"]
            )
        except (errors.NotFound, errors.Conflict):
            return Asked(done=False, says="its NodeClaim has changed meanwhile", again=SOON)
        except (errors.Forbidden, errors.Unauthorized) as problem:
            return Asked(done=False, says=str(problem), again=LATER)
        except errors.KubernetesError as problem:
            return Asked(done=False, says=str(problem), again=SOON)
        return Asked(done=True, says=f"NodeClaim {meta['name']} is deleted")

    def _claims(self, machine: Machine) -> list[dict[str, Any]]:
        """Those that say the machine's provider ID. The Node names its own, which saves reading
        them all."""
        owner = _owner(machine)
        if owner:
            try:
                named = self._cluster.get_object(f"{PATH}/{owner}")
            except errors.NotFound:
                pass
            else:
                if nodeclaim.provider_id(named) == machine.provider_id:
                    return [named]
        return [
            claim
            for claim in self._cluster.list_objects(PATH)
            if nodeclaim.provider_id(claim) == machine.provider_id
        ]

    def _repairs(self, machine: Machine) -> str:
        """Why Karpenter replaces sick machines itself; empty: nothing shows that it does. Raises
        `errors.KubernetesError`."""
        key, value = AUTO_MODE
        if machine.node and machine.node.metadata.label(key) == value:
            return f"EKS Auto Mode repairs its nodes itself: {_TOLD}"
        for found in self._cluster.list_objects(DEPLOYMENTS, ITS_OWN):
            if nodeclaim.repairs_nodes(found):
                meta = found["metadata"]
                where = f"{meta.get('namespace', '')}/{meta['name']}"
                return f"Karpenter's node repair is on (Deployment {where}): {_TOLD}"
        return ""


_TOLD = "only told, until replace.ways in the policy names karpenter for this pool"


def _owner(machine: Machine) -> str:
    references = (machine.node.metadata.owner_references if machine.node else None) or ()
    return next((o.name for o in references if o.kind == "NodeClaim"), "")


def _not_one(found: list[dict[str, Any]]) -> str:
    if not found:
        return "no NodeClaim has its provider ID"
    names = ", ".join(sorted(claim["metadata"]["name"] for claim in found))
    return f"NodeClaims {names} have one provider ID: one of them is wrong"
