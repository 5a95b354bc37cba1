"""The calls that we make to EC2, Auto Scaling and STS, in whatever region the machine is.

Every method raises an `errors.AwsError`. Reads, and what changes nothing the second time, are
tried again inside the call's time (`bounded`) after throttling, a lost answer or a 5xx; the rest
only after a refusal that says that nothing was done.

An instance ID means something in one region only, and a machine is one account's: `Aws` speaks
with one account's credentials, and whoever knows whose the machine is asks `check_account`.
"""

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from events.sources.autoscaling import Lifecycle
from functions.gateways.aws import calls, errors, types
from functions.gateways.aws.types import Machine
from functions.gateways.clock import Clock, SystemClock

CALL_SECONDS = 20.0
"""For one method with its retries, where the caller sets no bound."""
INSTANCES_A_CALL = 100
SCALING_INSTANCES_A_CALL = 50
"""DescribeAutoScalingInstances takes no more."""
GROUPS_A_CALL = 50

_IDS = re.compile(r"i-[0-9a-f]+")


class Aws:
    def __init__(
        self,
        clients: calls.Clients | None = None,
        *,
        clock: Clock | None = None,
        regions: Iterable[str] = (),
        seconds: float = CALL_SECONDS,
    ) -> None:
        """``regions`` that we are set up for; none named: all."""
        self._clients = clients or calls.Clients()
        self._clock = clock or SystemClock()
        self._regions = frozenset(regions)
        self._left: Callable[[], float] = lambda: seconds
        self._account: list[str] = []

    def bounded(self, left: Callable[[], float]) -> "Aws":
        """The same, where no method tries again when more than ``left()`` seconds would be over."""
        made = copy.copy(self)
        made._left = left
        return made

    # who we are

    def account(self, region: str) -> str:
        """The account that the credentials are of. Asked once."""
        if not self._account:
            said = self._repeatable("sts", region, "GetCallerIdentity")
            self._account.append(said["Account"])
        return self._account[0]

    def check_account(self, account: str, region: str) -> None:
        """Raises `errors.WrongAccount` unless a machine of ``account`` is ours to touch. Empty
        where it is not known: then EC2 itself finds no such instance."""
        if account and account != self.account(region):
            raise errors.WrongAccount(
                f"the machine is of account {account}, our credentials are of "
                f"{self.account(region)}: nothing was sent"
            )

    # EC2

    def instances(self, region: str, ids: Iterable[str]) -> dict[str, types.Instance]:
        """By ID. Who is not there is not known in this region and account: ended over an hour
        ago, or never there."""
        found: dict[str, types.Instance] = {}
        for some in _batches(ids, INSTANCES_A_CALL):
            # By filter and not by ID: one unknown ID would have the whole call refused.
            chosen = [{"Name": "instance-id", "Values": some}]
            for page in self._pages("ec2", region, "DescribeInstances", Filters=chosen):
                for reservation in page["Reservations"]:
                    for one in reservation["Instances"]:
                        made = types.instance(one, reservation.get("OwnerId", ""))
                        found[made.instance_id] = made
        return found

    def instance(self, machine: Machine) -> types.Instance | None:
        return self.instances(machine.region, [machine.instance_id]).get(machine.instance_id)

    def statuses(self, region: str, ids: Iterable[str]) -> Iterator[Mapping[str, Any]]:
        """Answers of DescribeInstanceStatus, page by page, about those of ``ids`` that run."""
        for some in _batches(ids, INSTANCES_A_CALL):
            left = some
            while left:
                try:
                    yield self._repeatable(
                        "ec2", region, "DescribeInstanceStatus", InstanceIds=left
                    )
                    break
                except errors.NotFound as problem:
                    # It names those that it does not know, and says nothing of the others.
                    unknown = set(_IDS.findall(problem.message)) & set(left)
                    if not unknown:
                        raise
                    left = [one for one in left if one not in unknown]

    def statuses_by(
        self, region: str, name: str, values: Iterable[str]
    ) -> Iterator[Mapping[str, Any]]:
        """Each instance of DescribeInstanceStatus that passes a filter: the account's, not the
        cluster's."""
        chosen = [{"Name": name, "Values": list(values)}]
        for page in self._pages("ec2", region, "DescribeInstanceStatus", Filters=chosen):
            yield from page["InstanceStatuses"]

    def spot_requests_by_status(
        self, region: str, codes: Iterable[str]
    ) -> Iterator[Mapping[str, Any]]:
        """Each of DescribeSpotInstanceRequests whose status has one of ``codes``."""
        chosen = [{"Name": "status-code", "Values": list(codes)}]
        for page in self._pages("ec2", region, "DescribeSpotInstanceRequests", Filters=chosen):
            yield from page["SpotInstanceRequests"]

    def spot_requests(self, region: str, ids: Iterable[str]) -> Iterator[Mapping[str, Any]]:
        """Answers of DescribeSpotInstanceRequests, page by page, about instances ``ids``."""
        for some in _batches(ids, INSTANCES_A_CALL):
            chosen = [{"Name": "instance-id", "Values": some}]
            yield from self._pages("ec2", region, "DescribeSpotInstanceRequests", Filters=chosen)

    def terminate(self, machine: Machine) -> str:
        """End it; returns the state it is in now. A repeat ends nothing a second time.

        Raises `errors.AlreadyTerminating` where it was on its way out before (also when an answer
        was lost, and the call was sent again).
        """
        said = self._repeatable(
            "ec2", machine.region, "TerminateInstances", InstanceIds=[machine.instance_id]
        )
        (changed,) = said["TerminatingInstances"]
        before = changed["PreviousState"]["Name"]
        if before in ("shutting-down", "terminated"):
            raise errors.AlreadyTerminating(
                f"ec2:TerminateInstances in {machine.region}",
                "PreviousState",
                f"{machine.instance_id} was {before} before",
            )
        now: str = changed["CurrentState"]["Name"]
        return now

    def reboot(self, machine: Machine) -> None:
        """Ask for a reboot; EC2 answers before it is done, and it is done when the node has a new
        boot ID. Not sent again when an answer is lost: it would be a second reboot."""
        self._once("ec2", machine.region, "RebootInstances", InstanceIds=[machine.instance_id])

    # Auto Scaling

    def scaling_instances(
        self, region: str, ids: Iterable[str]
    ) -> dict[str, types.ScalingInstance]:
        """By ID. Who is not there is in no group."""
        found = {}
        for some in _batches(ids, SCALING_INSTANCES_A_CALL):
            for page in self._pages(
                "autoscaling", region, "DescribeAutoScalingInstances", InstanceIds=some
            ):
                for one in page["AutoScalingInstances"]:
                    found[one["InstanceId"]] = types.scaling_instance(one)
        return found

    def groups(self, region: str, names: Iterable[str]) -> dict[str, types.Group]:
        """By name. Who is not there does not exist."""
        found = {}
        for some in _batches(names, GROUPS_A_CALL):
            for page in self._pages(
                "autoscaling", region, "DescribeAutoScalingGroups", AutoScalingGroupNames=some
            ):
                for one in page["AutoScalingGroups"]:
                    made = types.group(one)
                    found[made.name] = made
        return found

    def all_groups(self, region: str) -> Iterator[types.Group]:
        """Every group of the region, with its instances: one call for some fifty groups."""
        for page in self._pages(
            "autoscaling", region, "DescribeAutoScalingGroups", MaxRecords=GROUPS_A_CALL
        ):
            yield from (types.group(one) for one in page["AutoScalingGroups"])

    def hooks(self, region: str, group: str) -> tuple[types.Hook, ...]:
        said = self._repeatable(
            "autoscaling", region, "DescribeLifecycleHooks", AutoScalingGroupName=group
        )
        return tuple(types.hook(one) for one in said["LifecycleHooks"])

    def repairs_nodes(self, region: str, cluster: str, node_group: str) -> bool:
        """Whether EKS repairs the nodes of this managed node group itself (`nodeRepairConfig`)."""
        said = self._repeatable(
            "eks", region, "DescribeNodegroup", clusterName=cluster, nodegroupName=node_group
        )
        repair = said["nodegroup"].get("nodeRepairConfig") or {}
        return bool(repair.get("enabled"))

    def terminate_in_group(self, machine: Machine) -> None:
        """End it, and keep the group's capacity, so that a replacement comes.

        Raises `errors.NotFound` where no group holds it.
        """
        self._repeatable(
            "autoscaling",
            machine.region,
            "TerminateInstanceInAutoScalingGroup",
            InstanceId=machine.instance_id,
            ShouldDecrementDesiredCapacity=False,
        )

    def complete(self, machine: Machine, action: Lifecycle, result: str) -> None:
        """Tell a lifecycle hook CONTINUE or ABANDON.

        Raises `errors.NotFound` where the action is completed or has run out: the same token is
        taken once.
        """
        self._repeatable(
            "autoscaling",
            machine.region,
            "CompleteLifecycleAction",
            LifecycleActionResult=result,
            **_named(machine, action),
        )

    def heartbeat(self, machine: Machine, action: Lifecycle) -> None:
        """Hold a lifecycle action for one more of its hook's heartbeats, from now.

        Raises `errors.NotFound` where the action is completed or has run out.
        """
        self._repeatable(
            "autoscaling",
            machine.region,
            "RecordLifecycleActionHeartbeat",
            **_named(machine, action),
        )

    # how

    def _pages(
        self, service: str, region: str, operation: str, **given: Any
    ) -> Iterator[Mapping[str, Any]]:
        token = ""
        while True:
            more = {"NextToken": token} if token else {}
            page = self._repeatable(service, region, operation, **given, **more)
            yield page
            token = page.get("NextToken") or ""
            if not token:
                return

    def _repeatable(self, service: str, region: str, operation: str, **given: Any) -> Any:
        return self._send(calls.REPEATABLE, service, region, operation, given)

    def _once(self, service: str, region: str, operation: str, **given: Any) -> Any:
        return self._send(calls.NOT_DONE, service, region, operation, given)

    def _send(
        self,
        kinds: calls.Kinds,
        service: str,
        region: str,
        operation: str,
        given: Mapping[str, Any],
    ) -> Any:
        if self._regions and region not in self._regions:
            raise errors.WrongRegion(
                f"{service}:{operation}: we are set up for {', '.join(sorted(self._regions))}, "
                f"not for {region}: nothing was sent"
            )
        return calls.retrying(
            self._clock,
            self._clock.monotonic() + self._left(),
            kinds,
            lambda: calls.send(self._clients, service, region, operation, **given),
        )


def connect(clock: Clock | None = None) -> Aws:
    """AWS with the credentials that botocore finds: variables, profile, web identity (IRSA), EKS
    Pod Identity, the instance's role. No request is sent."""
    return Aws(clock=clock)


def _named(machine: Machine, action: Lifecycle) -> Mapping[str, str]:
    # Without a token the hold of that instance by that hook is meant.
    token = {"LifecycleActionToken": action.token} if action.token else {}
    return {
        "AutoScalingGroupName": action.group,
        "LifecycleHookName": action.hook,
        "InstanceId": machine.instance_id,
        **token,
    }


def _batches(items: Iterable[str], size: int) -> Iterator[Sequence[str]]:
    distinct = list(dict.fromkeys(items))
    for start in range(0, len(distinct), size):
        yield distinct[start : start + size]
