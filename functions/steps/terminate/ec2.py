"""Ending an EC2 instance that no group holds: TerminateInstances. Nothing replaces it by itself."""

from functions.gateways.aws import errors, types
from functions.gateways.aws.client import Aws
from functions.rules.replacing import Seen
from functions.steps.terminate import refusals
from functions.steps.terminate.way import Asked, Look, Machine

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

    def __init__(self, aws: Aws) -> None:
        self._aws = aws

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
        seen = _SEEN.get(found.state, Seen.UNKNOWN)
        return Look(
            seen=seen, says=f"EC2 says {found.state}", account=found.account, host=found.host
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
