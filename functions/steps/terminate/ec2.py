"""Ending an EC2 instance that no group holds: TerminateInstances. Nothing replaces it by itself."""

from functions.gateways.aws import errors, types
from functions.gateways.aws.client import Aws
from functions.rules.replacing import Seen
from functions.steps.terminate import refusals
from functions.steps.terminate.way import Asked, Look, Machine

NODE_GROUP = "eks.amazonaws.com/nodegroup"
"""Label of a node of a managed node group."""
CLUSTER = "eks:cluster-name"
"""Tag that EKS puts on the instances of such a group."""
_SEEN = {
    "pending": Seen.RUNNING,
    "running": Seen.RUNNING,
    "stopping": Seen.ENDING,
    "stopped": Seen.STOPPED,
    "shutting-down": Seen.ENDING,
    "terminated": Seen.GONE,
}


class Ec2:
    name = "ec2"

    def __init__(self, aws: Aws, *, told: bool = False) -> None:
        """``told``: the policy names this way for the pool, so that EKS' node repair does not
        hold."""
        self._aws = aws
        self._told = told

    def look(self, machine: Machine) -> Look:
        try:
            where = types.Machine.of(machine.provider_id)
            found = self._aws.instance(where)
            if found is None:
                # Not ours, or forgotten an hour after its end: which of the two is for whoever
                # has seen it before.
                account = self._aws.account(where.region)
                return Look(
                    seen=Seen.UNKNOWN,
                    says=f"account {account} knows no {where.instance_id} in {where.region}",
                    account=account,
                )
            self._aws.check_account(found.account, where.region)
        except (errors.AwsError, types.NotOfEc2) as problem:
            return refusals.look(problem)
        if where.zone and found.zone and where.zone != found.zone:
            return Look(
                seen=Seen.UNKNOWN,
                says=f"{where.instance_id} is in {found.zone}, the Node says {where.zone}",
            )
        try:
            others = self._repaired(where, found, machine)
        except errors.AwsError as problem:
            return refusals.look(problem)
        return Look(
            seen=_SEEN.get(found.state, Seen.UNKNOWN),
            says=f"EC2 says {found.state}",
            account=found.account,
            host=found.host,
            others=others,
            reserved=_reserved(found),
        )

    def _repaired(self, where: types.Machine, found: types.Instance, machine: Machine) -> str:
        """Why EKS replaces its sick nodes itself; empty: it does not, or we may not ask. Raises
        `errors.AwsError`."""
        group = machine.node.metadata.label(NODE_GROUP) if machine.node else ""
        cluster = found.tags.get(CLUSTER, "")
        if self._told or not group or not cluster:
            return ""
        try:
            if not self._aws.repairs_nodes(where.region, cluster, group):
                return ""
        except (errors.Unauthorised, errors.NotFound):
            return ""
        return (
            f"node repair is on for EKS node group {group}: only told, until replace.ways in the "
            "policy names autoscaling for this pool"
        )

    def terminate(self, machine: Machine) -> Asked:
        try:
            state = self._aws.terminate(types.Machine.of(machine.provider_id))
        except errors.AwsError as problem:
            return refusals.asked(problem)
        return Asked(done=True, says=f"TerminateInstances was taken: {state}")

    def reboot(self, machine: Machine) -> Asked:
        try:
            self._aws.reboot(types.Machine.of(machine.provider_id))
        except errors.AwsError as problem:
            return refusals.asked(problem)
        return Asked(done=True, says="RebootInstances was taken")


def _reserved(found: types.Instance) -> str:
    """Also where no label of its Node says so: a group's launch template may name a reservation, or
    a capacity block."""
    said = found.capacity_reservation
    return f"it runs in capacity reservation {said}" if said else ""
