"""The ways to end a machine, one file each, and which of them fits one.

The policy may name a way for a pool; ``auto`` goes by what the node and the cloud show: Karpenter's
label, Cluster API's annotation, an EC2 provider ID with or without a group, and for all others an
event to whoever owns the machines.
"""

from collections.abc import Callable

from functions.gateways.aws import errors, types
from functions.gateways.aws.client import Aws
from functions.gateways.kubernetes import types as objects
from functions.gateways.kubernetes.client import Cluster
from functions.rules.replacing import Seen
from functions.steps.terminate.autoscaling import AutoScaling
from functions.steps.terminate.cluster_api import MACHINE, ClusterApi
from functions.steps.terminate.ec2 import Ec2
from functions.steps.terminate.handed_over import HandedOver
from functions.steps.terminate.karpenter import LABEL, Karpenter
from functions.steps.terminate.way import LATER, SOON, Asked, Look, Machine, Reboots, Way

__all__ = [
    "LATER",
    "OF_THE_NODE",
    "SOON",
    "Asked",
    "Look",
    "Machine",
    "Way",
    "choose",
    "is_reboot_handed_over",
    "owner",
    "to_reboot",
]

OF_THE_NODE = (Karpenter.name, ClusterApi.name, HandedOver.name)
"""Ways that only the Node shows, and no provider ID."""


def choose(machine: Machine, wanted: str, aws: Callable[[], Aws], cluster: Cluster) -> Way:
    """The way for ``machine``; ``wanted`` is the policy's word, ``auto`` or the name of one."""
    name = wanted if wanted != "auto" else _shown(machine)
    if name == "karpenter":
        return Karpenter(cluster, told=wanted == name)
    if name == "cluster-api":
        return ClusterApi(cluster)
    if name == "event":
        return HandedOver()
    try:
        return _of_aws(machine, name, aws(), told=wanted == name)
    except errors.NotConfigured as problem:
        return _Unknown(name, str(problem))


def to_reboot(machine: Machine, chosen: Way, aws: Callable[[], Aws]) -> Reboots:
    """Who reboots it: EC2, whoever ends it; or by event whoever can."""
    if is_reboot_handed_over(machine.provider_id, chosen.name):
        return HandedOver()
    return chosen if isinstance(chosen, Ec2) else Ec2(aws())


def is_reboot_handed_over(provider_id: str, way: str) -> bool:
    """Whether a reboot is asked for by event: of machines that are none of EC2's, and of those that
    are handed over to end, too."""
    return way == HandedOver.name or not provider_id.startswith("aws://")


def owner(node: objects.Node) -> str:
    """The way that ``node`` itself shows; empty: none, so that its provider ID says."""
    if node.metadata.label(LABEL):
        return "karpenter"
    return "cluster-api" if node.metadata.annotation(MACHINE) else ""


def _shown(machine: Machine) -> str:
    shown = owner(machine.node) if machine.node else ""
    return shown or ("aws" if machine.provider_id.startswith("aws://") else "event")


def _of_aws(machine: Machine, name: str, aws: Aws, *, told: bool) -> Way:
    if name == "ec2":
        return Ec2(aws, told=told)
    try:
        where = types.Machine.of(machine.provider_id)
        held = aws.scaling_instances(where.region, [where.instance_id]).get(where.instance_id)
    except (errors.AwsError, types.NotOfEc2) as problem:
        return _Unknown(name, str(problem))
    if held is not None:
        return AutoScaling(aws, held, told=told)
    if name == "autoscaling":
        return _Gone(aws, "no Auto Scaling group holds it: nothing would replace it")
    return Ec2(aws)


class _Unknown:
    """A way that cannot be told now."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self._problem = problem

    def look(self, machine: Machine) -> Look:
        return Look(seen=Seen.UNKNOWN, says=self._problem)

    def terminate(self, machine: Machine) -> Asked:
        return Asked(done=False, says=self._problem, again=SOON)


class _Gone(Ec2):
    """Of a group once, and held by none now: it may end or be gone, and is never ended so."""

    name = "autoscaling"

    def __init__(self, aws: Aws, why: str) -> None:
        super().__init__(aws)
        self._why = why

    def look(self, machine: Machine) -> Look:
        looked = super().look(machine)
        return Look(seen=looked.seen, says=looked.says, account=looked.account, protected=self._why)

    def terminate(self, machine: Machine) -> Asked:
        return Asked(done=False, says=self._why, again=LATER)
