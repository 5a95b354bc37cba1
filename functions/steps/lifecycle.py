"""Carrying on with the instances that Auto Scaling's lifecycle hooks hold: a heartbeat in time, and
the end of the hold once.

`carry_on` is a part of a resync. It holds no loop and no timer: what is due is read from the nodes
and from AWS each time (`rules.lifecycle`), so that a crash, a second instance or a lost event make
neither one heartbeat a period too many nor one hold too long.

    draining    a node whose open incident says so (`events.sources.autoscaling`): let go when it
                is drained, or when its time is over. An instance on its way to the warm pool, too:
                it does not end, and what ran on it must have moved
    launching   an instance in Pending:Wait with a node: let go when the node is schedulable
    without     an instance in Terminating:Wait that no node stands for: let go at once, if its
                group is one of this cluster's. It has no workload
"""

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from events.sources import autoscaling
from events.sources.autoscaling import LAUNCH, TERMINATION, TO_WARM_POOL, Lifecycle, lifecycle_of
from functions.gateways.aws import errors as aws_errors
from functions.gateways.aws import types as aws_types
from functions.gateways.aws.client import Aws
from functions.gateways.aws.types import Machine, NotOfEc2
from functions.gateways.clock import Clock
from functions.gateways.kubernetes import errors, json_patch, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.json_patch import Operation
from functions.rules import drain_state, incidents, keys, lifecycle
from functions.rules.decision import Action, Decision
from functions.rules.lifecycle import Act, Facts, Hold
from functions.rules.policy import Policy
from functions.steps import find, mark

FUNCTION = "replace"
GONE = "gone"
AGAIN = timedelta(minutes=1)
MOST_IN_SELECTOR = 100
_TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
_LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"
_PATH = json_patch.annotation(keys.LIFECYCLE)
_NOT_YET = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "startup-taint.")

log = logging.getLogger("groundcrew")


class Carried(NamedTuple):
    decisions: list[Decision]
    look_again: datetime | None
    """When the next heartbeat, or the end of a hold, is due."""


def carry_on(
    cluster: Cluster,
    aws: Callable[[], Aws],
    clock: Clock,
    policy: Policy,
    marked: Iterable[types.Node],
    *,
    regions: Sequence[str] = (),
    paused: Callable[[str], str] = lambda pool: "",
) -> Carried:
    """What came of all holds. ``marked`` are the nodes with our label, as read just now;
    ``regions`` those in which launches and holds without a node are looked for (none: not at all).

    ``aws`` is called when there is something to ask.

    Trouble with AWS is a decision about the node it was had with, and is tried again next time.
    Raises `errors.KubernetesError`.
    """
    call = _Call(cluster, functools.cache(aws), clock.now(), policy, paused)
    seen: set[str] = set()
    for node in marked:
        if holds := list(_of_incidents(node, policy)):
            seen.add(find.instance_id(node.provider_id))
            call.carry_on(node, holds, _is_drained(node))
    for region in regions:
        call.waiting(region, seen)
    return Carried(call.decisions, min(call.looks, default=None))


@dataclass(frozen=True)
class _Held:
    """One hold of a node's instance."""

    action: Lifecycle | None
    """None where the incident does not say it whole: then AWS is asked."""
    since: datetime
    incident: str = ""
    check: str = TERMINATION

    @property
    def launching(self) -> bool:
        return self.check == LAUNCH


def _of_incidents(node: types.Node, policy: Policy) -> Iterator[_Held]:
    if keys.INCIDENTS not in (node.metadata.annotations or {}):
        return
    try:
        record = incidents.read(mark.view(node, policy))
    except incidents.Unreadable:
        return  # cordon says so
    for one in record.incidents:
        if (
            one.open
            and one.source == autoscaling.SOURCE
            and one.check in (TERMINATION, TO_WARM_POOL)
        ):
            yield _Held(lifecycle_of(one.ref), one.told or one.first, one.key, one.check)


@dataclass
class _Call:
    cluster: Cluster
    aws: Callable[[], Aws]
    now: datetime
    policy: Policy
    paused: Callable[[str], str]
    decisions: list[Decision] = field(default_factory=list)
    looks: list[datetime] = field(default_factory=list)
    _hooks: dict[tuple[str, str], Sequence[aws_types.Hook]] = field(default_factory=dict)

    # what is held

    def carry_on(self, node: types.Node, holds: Sequence[_Held], done: bool) -> None:
        """Do what is due for ``holds``, and write on the node what came of it."""
        view = mark.view(node, self.policy)
        if view.opted_out:
            return
        try:
            machine = Machine.of(node.provider_id)
        except NotOfEc2 as problem:
            self._say(node.name, Action.NOTHING, str(problem), holds[0].incident, view.pool)
            return
        before = _read(node)
        after = dict(before)
        for held in holds:
            actions = [held.action] if held.action else self._actions_of(machine, node.name)
            for action in actions:
                name = ":".join(action)
                hold = before.get(name, Hold())
                after[name] = self._next(node, machine, held, action, hold, done, view.pool)
        if after != before:
            self._write(node, after)

    def waiting(self, region: str, seen: set[str]) -> None:
        """Launches, and holds that no node of ours is marked for."""
        try:
            groups = list(self.aws().all_groups(region))
        except aws_errors.AwsError as problem:
            log.warning("lifecycle hooks in %s are not looked for: %s", region, problem)
            return
        held = {
            one.instance_id: one
            for group in groups
            for one in group.instances
            if one.waits and one.instance_id not in seen
        }
        if not held:
            return
        nodes = self._nodes(list(held))
        ending = [one for one in held.values() if one.state.startswith("Terminating")]
        for one in held.values():
            node = nodes.get(one.instance_id)
            if node is not None and one.state.startswith("Pending"):
                since = node.metadata.creation_timestamp or self.now
                actions = self._actions(region, one.group, _LAUNCHING, node.name)
                holds = [_Held(action, since, "", LAUNCH) for action in actions]
                if holds:
                    self.carry_on(node, holds, _is_schedulable(node))
        if without := [one for one in ending if one.instance_id not in nodes]:
            self._let_go_without_node(region, groups, without)

    def _let_go_without_node(
        self,
        region: str,
        groups: Sequence[aws_types.Group],
        without: Sequence[aws_types.ScalingInstance],
    ) -> None:
        # Not every node has its label yet: before an instance is said to have none, all are read.
        ours = {find.instance_id(node.provider_id) for node in self.cluster.list_nodes()}
        members = {group.name: {one.instance_id for one in group.instances} for group in groups}
        for one in without:
            if one.instance_id in ours:
                continue  # cordon hears of it, and a drain comes first
            if not members[one.group] & ours:
                continue  # another cluster's, as far as can be known
            if self.paused(""):
                continue
            for action in self._actions(region, one.group, _TERMINATING, one.instance_id):
                self._tell_aws(
                    Machine(one.instance_id, region), action, Act.CONTINUE, one.instance_id
                )

    def _nodes(self, instances: Sequence[str]) -> dict[str, types.Node]:
        found = {}
        for start in range(0, len(instances), MOST_IN_SELECTOR):
            chunk = ",".join(instances[start : start + MOST_IN_SELECTOR])
            for node in self.cluster.list_nodes(f"{keys.INSTANCE} in ({chunk})"):
                found[find.instance_id(node.provider_id)] = node
        return found

    # one hold

    def _next(
        self,
        node: types.Node,
        machine: Machine,
        held: _Held,
        action: Lifecycle,
        hold: Hold,
        done: bool,
        pool: str,
    ) -> Hold:
        """What the hold is after what is due was done."""
        facts = Facts(
            hold=hold,
            since=held.since,
            launching=held.launching,
            done=done,
            paused=self.paused(pool),
        )
        due = lifecycle.decide(facts, self.policy.lifecycle, self.now)
        if due.act is Act.ASK:
            asked = self._settings(machine.region, action, node.name, hold)
            if asked == hold or asked.ended:
                return asked
            return self._next(node, machine, held, action, asked, done, pool)
        if due.act in (Act.WAIT, Act.NOTHING):
            self.looks += [due.look_again] if due.look_again else []
            return hold
        told = self._tell_aws(machine, action, due.act, node.name, held.incident, pool, due.reason)
        if not told:
            self.looks.append(self.now + AGAIN)
        if told == Act.BEAT:
            beaten = msgspec.structs.replace(hold, beat=self.now, beats=hold.beats + 1)
            waits = msgspec.structs.replace(facts, hold=beaten)
            due = lifecycle.decide(waits, self.policy.lifecycle, self.now)
            self.looks += [due.look_again] if due.look_again else []
            return beaten
        return msgspec.structs.replace(hold, ended=told) if told else hold

    def _tell_aws(
        self,
        machine: Machine,
        action: Lifecycle,
        act: Act,
        node: str,
        incident: str = "",
        pool: str = "",
        why: str = "no node stands for the instance",
    ) -> str:
        """What the hold is by now (`GONE` where AWS knows of none); empty where AWS did not take
        it."""
        hook = f"hook {action.hook} of group {action.group}"
        try:
            if act is Act.BEAT:
                self.aws().heartbeat(machine, action)
                return Act.BEAT
            self.aws().complete(machine, action, act.value)
        except aws_errors.NotFound:
            # Completed by an earlier call that died, by somebody else, or run out.
            return GONE
        except aws_errors.AwsError as problem:
            log.warning("%s: %s not told to %s: %s", node, hook, act.value, problem)
            self._say(node, Action.NOTHING, f"{hook} could not be told: {problem}", incident, pool)
            return ""
        self._say(node, Action.HOOK, f"{hook} is told {act.value}: {why}", incident, pool)
        return act.value

    def _settings(self, region: str, action: Lifecycle, node: str, hold: Hold) -> Hold:
        """``hold`` with what its hook says of its times."""
        hooks = self._hooks_of(region, action.group, node)
        if hooks is None:
            return hold
        for hook in hooks:
            if hook.name == action.hook:
                return msgspec.structs.replace(
                    hold, seconds=hook.heartbeat_seconds, most_seconds=hook.global_seconds
                )
        return msgspec.structs.replace(hold, ended=GONE)

    # which hooks

    def _actions_of(self, machine: Machine, node: str) -> list[Lifecycle]:
        try:
            found = self.aws().scaling_instances(machine.region, [machine.instance_id])
        except aws_errors.AwsError as problem:
            log.warning("%s: its group is not known: %s", node, problem)
            return []
        one = found.get(machine.instance_id)
        if one is None or not one.waits:
            return []
        return self._actions(machine.region, one.group, _TERMINATING, node)

    def _actions(self, region: str, group: str, transition: str, node: str) -> list[Lifecycle]:
        hooks = self._hooks_of(region, group, node) or ()
        return [Lifecycle("", one.name, group) for one in hooks if one.transition == transition]

    def _hooks_of(self, region: str, group: str, node: str) -> Sequence[aws_types.Hook] | None:
        """Of one group, asked once a call; None where AWS does not say."""
        if (region, group) not in self._hooks:
            try:
                self._hooks[region, group] = self.aws().hooks(region, group)
            except aws_errors.AwsError as problem:
                log.warning("%s: the hooks of group %s are not known: %s", node, group, problem)
                return None
        return self._hooks[region, group]

    # the node

    def _write(self, node: types.Node, hooks: Mapping[str, Hold]) -> None:
        meta = node.metadata
        operations: list[Operation] = [json_patch.test("/metadata/uid", meta.uid)]
        if meta.annotations is None:
            operations += json_patch.begin(json_patch.ANNOTATIONS)
        text = lifecycle.encode(hooks, node.provider_id)
        operations += [
            json_patch.test(_PATH, meta.annotation(keys.LIFECYCLE)),
            json_patch.add(_PATH, text),
        ]
        try:
            self.cluster.patch_node(node.name, operations)
        except (errors.TestFailed, errors.NotFound):
            # Another instance was faster, or the node has gone: the next look finds what is true,
            # and a heartbeat or an end that is told twice changes nothing.
            return

    def _say(
        self, node: str, action: Action, reason: str, incident: str = "", pool: str = ""
    ) -> None:
        self.decisions.append(
            Decision(
                function=FUNCTION,
                action=action,
                node=node,
                reason=reason,
                incident=incident,
                pool=pool,
            )
        )


def _read(node: types.Node) -> dict[str, Hold]:
    try:
        return lifecycle.decode(node.metadata.annotation(keys.LIFECYCLE), node.provider_id)
    except lifecycle.Unreadable as problem:
        log.warning("%s: its annotation %s is begun anew: %s", node.name, keys.LIFECYCLE, problem)
        return {}


def _is_drained(node: types.Node) -> bool:
    text = node.metadata.annotation(keys.DRAIN)
    if text is None or not node.unschedulable:
        return False
    try:
        state = drain_state.decode(text)
    except drain_state.Unreadable:
        return False
    return state.state is drain_state.State.DRAINED and state.belongs_to(
        provider_id=node.provider_id, uid=node.metadata.uid, boot=node.boot_id
    )


def _is_schedulable(node: types.Node) -> bool:
    return (
        node.ready == "True"
        and not node.unschedulable
        and not any(taint.key.startswith(_NOT_YET) for taint in node.spec.taints or ())
    )
