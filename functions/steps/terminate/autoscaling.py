"""Ending an EC2 instance that an Auto Scaling group holds: the group's capacity is kept, so that it
starts another one. Its lifecycle hooks run as they do for any end."""

from dataclasses import replace

from functions.gateways.aws import errors, types
from functions.gateways.aws.client import Aws
from functions.rules.replacing import Seen
from functions.steps.terminate import refusals
from functions.steps.terminate.ec2 import Ec2
from functions.steps.terminate.way import Asked, Look, Machine

STANDBY = ("Standby", "EnteringStandby", "Detaching", "Detached")


class AutoScaling(Ec2):
    name = "autoscaling"

    def __init__(self, aws: Aws, found: types.ScalingInstance, *, told: bool = False) -> None:
        super().__init__(aws, told=told)
        self._found = found

    def look(self, machine: Machine) -> Look:
        looked = super().look(machine)
        found = self._found
        if looked.seen is Seen.RUNNING and found.state.startswith("Terminating"):
            return Look(
                seen=Seen.ENDING,
                says=f"group {found.group} says {found.state}",
                account=looked.account,
            )
        protected = ""
        if found.state in STANDBY:
            protected = f"group {found.group} has it in {found.state}: nothing would replace it"
        elif looked.seen is Seen.RUNNING:
            try:
                protected = self._launches_none(machine)
            except errors.AwsError as problem:
                return refusals.look(problem)
        return replace(looked, says=f"{looked.says}, in group {found.group}", protected=protected)

    def _launches_none(self, machine: Machine) -> str:
        """Why its group would not start another one; empty: it would. Raises `errors.AwsError`."""
        name, region = self._found.group, types.Machine.of(machine.provider_id).region
        held = self._aws.groups(region, [name]).get(name)
        if held is None or "Launch" not in held.suspended:
            return ""
        return f"group {name} has its process Launch suspended: nothing would replace it"

    def terminate(self, machine: Machine) -> Asked:
        try:
            self._aws.terminate_in_group(types.Machine.of(machine.provider_id))
        except errors.AwsError as problem:
            return refusals.asked(problem)
        return Asked(done=True, says=f"group {self._found.group} ends it and keeps its capacity")
