"""What AWS says of machines and groups: only what is read, in Python's own types."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_INSTANCE = re.compile(r"i-[0-9a-f]+")
_PROVIDER_ID = re.compile(r"aws:///([a-z0-9-]+)/(i-[0-9a-f]+)")
_REGION = re.compile(r"[a-z]{2,}(?:-[a-z]+)+-\d+")
"""Of a zone: ``us-gov-west-1`` of ``us-gov-west-1a``, ``us-west-2`` of ``us-west-2-lax-1a``."""


class NotOfEc2(ValueError):
    """A provider ID that names no EC2 instance: another cloud's, Fargate's, a hybrid node's."""


@dataclass(frozen=True)
class Machine:
    """An instance, and the region in which its ID means something."""

    instance_id: str
    region: str
    zone: str = ""

    @classmethod
    def of(cls, provider_id: str) -> "Machine":
        """``aws:///us-east-1a/i-0123``, as the cloud provider writes it into ``spec.providerID``.

        Raises `NotOfEc2`.
        """
        match = _PROVIDER_ID.fullmatch(provider_id)
        region = _REGION.match(match[1]) if match else None
        if not (match and region):
            raise NotOfEc2(f"{provider_id!r} names no EC2 instance (aws:///<zone>/i-...)")
        return cls(instance_id=match[2], region=region[0], zone=match[1])

    def __post_init__(self) -> None:
        if not _INSTANCE.fullmatch(self.instance_id):
            raise NotOfEc2(f"{self.instance_id!r} is no EC2 instance ID")
        if not _REGION.fullmatch(self.region):
            raise NotOfEc2(f"{self.region!r} is no AWS region")


@dataclass(frozen=True)
class Instance:
    """One of DescribeInstances."""

    instance_id: str
    account: str
    """Who owns it."""
    zone: str
    state: str
    """pending, running, stopping, stopped, shutting-down, terminated."""
    launched: datetime | None = None
    private_dns: str = ""
    kind: str = ""
    """``p5.48xlarge``."""
    spot_request: str = ""
    """``sir-...``; empty for an instance that is no spot."""
    capacity_reservation: str = ""
    host: str = ""
    """Of a dedicated host; of no other does EC2 say where it runs."""
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def is_ending(self) -> bool:
        """On its way out or gone, and coming back in no case."""
        return self.state in ("shutting-down", "terminated")

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.instance_id}"


@dataclass(frozen=True)
class ScalingInstance:
    """One of DescribeAutoScalingInstances: an instance that a group holds."""

    instance_id: str
    group: str
    zone: str
    state: str
    """``LifecycleState``: InService, Terminating:Wait, Pending:Wait, Warmed:Stopped, ..."""
    health: str = ""
    protected: bool = False
    """From scale-in; TerminateInstanceInAutoScalingGroup ends it all the same."""

    @property
    def waits(self) -> bool:
        """Held by a lifecycle hook."""
        return self.state.endswith(":Wait")


@dataclass(frozen=True)
class Group:
    """One of DescribeAutoScalingGroups."""

    name: str
    desired: int
    least: int
    most: int
    suspended: tuple[str, ...] = ()
    """Processes that somebody suspended: while Launch is, no replacement comes."""
    instances: tuple[ScalingInstance, ...] = ()


@dataclass(frozen=True)
class Hook:
    """One of DescribeLifecycleHooks: how long it holds an instance."""

    name: str
    group: str
    transition: str
    """autoscaling:EC2_INSTANCE_TERMINATING or autoscaling:EC2_INSTANCE_LAUNCHING."""
    heartbeat_seconds: int
    """Without a heartbeat it runs out after this (30 to 7,200)."""
    global_seconds: int
    """And after this in any case: 48 h or a hundred heartbeats, whichever is less."""
    default_result: str
    """What happens when it runs out: CONTINUE or ABANDON."""


def instance(found: Any, account: str) -> Instance:
    return Instance(
        instance_id=found["InstanceId"],
        account=account,
        zone=found.get("Placement", {}).get("AvailabilityZone", ""),
        state=found.get("State", {}).get("Name", ""),
        launched=found.get("LaunchTime"),
        private_dns=found.get("PrivateDnsName", ""),
        kind=found.get("InstanceType", ""),
        spot_request=found.get("SpotInstanceRequestId") or "",
        capacity_reservation=found.get("CapacityReservationId") or "",
        host=found.get("Placement", {}).get("HostId") or "",
        tags={tag["Key"]: tag.get("Value", "") for tag in found.get("Tags", ())},
    )


def scaling_instance(found: Any, group: str = "") -> ScalingInstance:
    return ScalingInstance(
        instance_id=found["InstanceId"],
        group=found.get("AutoScalingGroupName", group),
        zone=found.get("AvailabilityZone", ""),
        state=found.get("LifecycleState", ""),
        health=found.get("HealthStatus", ""),
        protected=bool(found.get("ProtectedFromScaleIn")),
    )


def group(found: Any) -> Group:
    name = found["AutoScalingGroupName"]
    return Group(
        name=name,
        desired=found["DesiredCapacity"],
        least=found["MinSize"],
        most=found["MaxSize"],
        suspended=tuple(p.get("ProcessName", "") for p in found.get("SuspendedProcesses", ())),
        instances=tuple(scaling_instance(one, name) for one in found.get("Instances", ())),
    )


def hook(found: Any) -> Hook:
    return Hook(
        name=found["LifecycleHookName"],
        group=found["AutoScalingGroupName"],
        transition=found.get("LifecycleTransition", ""),
        heartbeat_seconds=int(found.get("HeartbeatTimeout") or 3600),
        global_seconds=int(found.get("GlobalTimeout") or 172_800),
        default_result=found.get("DefaultResult") or "ABANDON",
    )
