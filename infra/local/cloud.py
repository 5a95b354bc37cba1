"""The cloud of a replay: EC2 and Auto Scaling as far as the functions speak to them.

It stands where `functions.gateways.aws` speaks to AWS, so that what the functions do with a machine
is what they do in a cluster. It knows every machine as running until it is asked otherwise, ends
one some minutes after it was asked, and starts another in its place. Nothing here reaches a
network.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from events.sources.autoscaling import Lifecycle
from functions.gateways.aws import errors, types
from functions.gateways.aws.client import Aws
from functions.gateways.aws.types import Machine
from functions.gateways.clock import Clock

ACCOUNT = "111122223333"
ENDS_IN = timedelta(minutes=2)
"""From shutting-down to terminated."""

CALLS = ("describe", "terminate", "reboot")
REFUSALS: dict[str, tuple[type[errors.AwsError], str]] = {
    "throttled": (errors.Throttled, "RequestLimitExceeded"),
    "unauthorised": (errors.Unauthorised, "UnauthorizedOperation"),
    "expired": (errors.CredentialsExpired, "ExpiredToken"),
    "protected": (errors.Protected, "OperationNotPermitted"),
    "no-answer": (errors.Unreachable, ""),
}


class Habits(Protocol):
    """How this cloud behaves."""

    @property
    def replaced_after(self) -> timedelta:
        """From terminated until another machine's kubelet registers. A group does it by itself."""
        ...

    @property
    def reboots_in(self) -> timedelta: ...


@dataclass(frozen=True)
class Usual:
    replaced_after: timedelta = timedelta(minutes=8)
    reboots_in: timedelta = timedelta(minutes=4)


HOOK_SECONDS = 3600
"""How long a lifecycle hook holds without a heartbeat."""


@dataclass(order=True)
class _Due:
    at: datetime
    number: int
    act: Callable[[], None] = field(compare=False)


class SimulatedAws(Aws):
    def __init__(
        self,
        clock: Clock,
        habits: Habits | None = None,
        *,
        is_there: Callable[[str], bool] = lambda instance: True,
        on_reboot: Callable[[str], None] = lambda instance: None,
        on_gone: Callable[[str], None] = lambda instance: None,
        on_replacement: Callable[[str], None] = lambda instance: None,
    ) -> None:
        """``is_there``: whether an instance runs that nobody has asked to end. The hooks hear of
        one that boots anew, is gone, and has another in its place."""
        super().__init__(clock=clock)
        self._time = clock
        self._habits: Habits = habits or Usual()
        self._is_there = is_there
        self._hooks = (on_reboot, on_gone, on_replacement)
        self._states: dict[str, str] = {}
        self._due: list[_Due] = []
        self._held: dict[str, Lifecycle] = {}
        self._holds_until: dict[str, datetime] = {}
        self.strangers: set[str] = set()
        """Instances that are another account's: this one knows none of them."""
        self.refuses: dict[str, str] = {}
        """By call (``describe``, ``terminate``, ``reboot``), how it is refused: see `REFUSALS`."""
        self.ended: list[tuple[datetime, str]] = []
        """Instances that were asked to end and ran: when, and which."""
        self.asked: list[str] = []
        """Every call that changes something."""

    def bounded(self, left: Callable[[], float]) -> "SimulatedAws":
        return self

    # time

    def next_due(self) -> datetime | None:
        return self._due[0].at if self._due else None

    def advance(self, to: datetime) -> None:
        while self._due and self._due[0].at <= to:
            heapq.heappop(self._due).act()

    def _later(self, after: timedelta, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, _Due(self._time.now() + after, len(self.asked), act))

    # the calls

    def account(self, region: str) -> str:
        self._may("describe")
        return ACCOUNT

    def instances(self, region: str, ids: Iterable[str]) -> dict[str, types.Instance]:
        self._may("describe")
        return {
            one: types.Instance(instance_id=one, account=ACCOUNT, zone="", state=self.state(one))
            for one in ids
            if one not in self.strangers
        }

    def scaling_instances(
        self, region: str, ids: Iterable[str]
    ) -> dict[str, types.ScalingInstance]:
        self._may("describe")
        return {
            one: types.ScalingInstance(
                instance_id=one, group="nodes", zone="", state="InService", health="Healthy"
            )
            for one in ids
            if one not in self.strangers and self.state(one) == "running"
        }

    def groups(self, region: str, names: Iterable[str]) -> dict[str, types.Group]:
        self._may("describe")
        return {name: types.Group(name=name, desired=1, least=0, most=1) for name in names}

    def terminate(self, machine: Machine) -> str:
        self._end(machine, replaced=False)
        return "shutting-down"

    def terminate_in_group(self, machine: Machine) -> None:
        self._end(machine, replaced=True)

    def reboot(self, machine: Machine) -> None:
        self._may("reboot")
        one = machine.instance_id
        self.asked.append(f"reboot {one}")
        self._later(self._habits.reboots_in, lambda: self._hooks[0](one))

    # lifecycle hooks

    def hold(self, instance: str, action: Lifecycle) -> None:
        """A group takes the instance out, and its hook holds it: for `HOOK_SECONDS` after this or
        the last heartbeat."""
        self._held[instance] = action
        self._begin_hold(instance)

    def hooks(self, region: str, group: str) -> tuple[types.Hook, ...]:
        self._may("describe")
        named = dict.fromkeys(
            action.hook for action in self._held.values() if action.group == group
        )
        return tuple(
            types.Hook(
                name=name,
                group=group,
                transition="autoscaling:EC2_INSTANCE_TERMINATING",
                heartbeat_seconds=HOOK_SECONDS,
                global_seconds=172_800,
                default_result="CONTINUE",
            )
            for name in named
        )

    def heartbeat(self, machine: Machine, action: Lifecycle) -> None:
        self._check_held(machine, action)
        self.asked.append(f"heartbeat {machine.instance_id}")
        self._begin_hold(machine.instance_id)

    def complete(self, machine: Machine, action: Lifecycle, result: str) -> None:
        self._check_held(machine, action)
        self.asked.append(f"{result} {machine.instance_id}")
        self._let_go(machine.instance_id)

    def _check_held(self, machine: Machine, action: Lifecycle) -> None:
        self._may("terminate")
        if self._held.get(machine.instance_id) != action:
            said = f"No active Lifecycle Action found with instance ID {machine.instance_id}"
            raise errors.NotFound("autoscaling:CompleteLifecycleAction", "ValidationError", said)

    def _begin_hold(self, instance: str) -> None:
        until = self._holds_until[instance] = self._time.now() + timedelta(seconds=HOOK_SECONDS)

        def run_out() -> None:
            if self._holds_until.get(instance) == until:
                self._let_go(instance)

        self._later(timedelta(seconds=HOOK_SECONDS), run_out)

    def _let_go(self, instance: str) -> None:
        del self._held[instance], self._holds_until[instance]
        self._shut_down(instance, replaced=True)

    # what it does

    def state(self, instance: str) -> str:
        known = self._states.get(instance)
        return known or ("running" if self._is_there(instance) else "terminated")

    def end_by_somebody(self, instance: str) -> None:
        """A person ends it in the console."""
        self._states[instance] = "terminated"

    def _end(self, machine: Machine, *, replaced: bool) -> None:
        self._may("terminate")
        one = machine.instance_id
        self.asked.append(f"terminate {one}")
        if one in self.strangers:
            raise errors.NotFound("ec2:TerminateInstances", "InvalidInstanceID.NotFound", one)
        if self.state(one) != "running":
            raise errors.AlreadyTerminating("ec2:TerminateInstances", "PreviousState", one)
        self.ended.append((self._time.now(), one))
        self._shut_down(one, replaced=replaced)

    def _shut_down(self, one: str, *, replaced: bool) -> None:
        self._states[one] = "shutting-down"

        def gone() -> None:
            self._states[one] = "terminated"
            self._hooks[1](one)
            if replaced:
                self._later(self._habits.replaced_after, lambda: self._hooks[2](one))

        self._later(ENDS_IN, gone)

    def _may(self, call: str) -> None:
        how = self.refuses.get(call)
        if not how:
            return
        kind, code = REFUSALS[how]
        if issubclass(kind, errors.Refused):
            raise kind(f"ec2:{call}", code, "as the scenario says")
        raise kind(f"ec2:{call}: no answer")

    def _send(self, *_: Any, **__: Any) -> Any:
        raise errors.NotConfigured("the cloud of a replay has no such call")
