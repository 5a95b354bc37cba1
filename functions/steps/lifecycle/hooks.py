"""The hooks of Auto Scaling groups: which there are, and telling them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from events.sources.autoscaling import Lifecycle
from functions.gateways.aws import errors, types
from functions.gateways.aws.client import Aws
from functions.gateways.aws.types import Machine
from functions.rules.lifecycle import Act, Hold

GONE = "gone"
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"

log = logging.getLogger("groundcrew")


class Refused(Exception):
    """AWS did not take it: it is told again."""


@dataclass
class Hooks:
    """Those of one call: each group is asked once."""

    aws: Callable[[], Aws]
    _known: dict[tuple[str, str], Sequence[types.Hook]] = field(default_factory=dict)

    def tell(self, machine: Machine, action: Lifecycle, act: Act) -> str:
        """What the hold is by now (`GONE` where AWS knows of none). Raises `Refused`."""
        try:
            if act is Act.BEAT:
                self.aws().heartbeat(machine, action)
            else:
                self.aws().complete(machine, action, act.value)
        except errors.NotFound:
            # Completed by an earlier call that died, by somebody else, or run out.
            return GONE
        except errors.AwsError as problem:
            log.warning("%s: %s not told to %s: %s", machine, action, act.value, problem)
            raise Refused(str(problem)) from problem
        return act.value

    def settings(self, region: str, action: Lifecycle, node: str, hold: Hold) -> Hold:
        """``hold`` with what its hook says of its times."""
        hooks = self.of(region, action.group, node)
        if hooks is None:
            return hold
        for hook in hooks:
            if hook.name == action.hook:
                return msgspec.structs.replace(
                    hold, seconds=hook.heartbeat_seconds, most_seconds=hook.global_seconds
                )
        return msgspec.structs.replace(hold, ended=GONE)

    def actions_of(self, machine: Machine, node: str) -> list[Lifecycle]:
        try:
            found = self.aws().scaling_instances(machine.region, [machine.instance_id])
        except errors.AwsError as problem:
            log.warning("%s: its group is not known: %s", node, problem)
            return []
        one = found.get(machine.instance_id)
        if one is None or not one.waits:
            return []
        return self.actions(machine.region, one.group, TERMINATING, node)

    def actions(self, region: str, group: str, transition: str, node: str) -> list[Lifecycle]:
        hooks = self.of(region, group, node) or ()
        return [Lifecycle("", one.name, group) for one in hooks if one.transition == transition]

    def of(self, region: str, group: str, node: str) -> Sequence[types.Hook] | None:
        """Of one group, asked once a call; None where AWS does not say."""
        if (region, group) not in self._known:
            try:
                self._known[region, group] = self.aws().hooks(region, group)
            except errors.AwsError as problem:
                log.warning("%s: the hooks of group %s are not known: %s", node, group, problem)
                return None
        return self._known[region, group]
