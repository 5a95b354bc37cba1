"""Holds that no node of ours is marked for: launches, and ends without a node."""

import logging
from collections.abc import Mapping, Sequence

from events.sources.autoscaling import LAUNCH
from functions.gateways.aws import errors, types
from functions.gateways.aws.types import Machine
from functions.rules.lifecycle import Act
from functions.steps import find
from functions.steps.lifecycle.call import Call
from functions.steps.lifecycle.held import Held, is_schedulable
from functions.steps.lifecycle.hooks import LAUNCHING, TERMINATING

log = logging.getLogger("groundcrew")


def carry_on(call: Call, region: str, seen: set[str]) -> None:
    """``seen``: instances of nodes that are marked, which have been looked at already."""
    try:
        groups = list(call.hooks.aws().all_groups(region))
    except errors.AwsError as problem:
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
    nodes = find.nodes_stamped(call.cluster, held)
    for one in held.values():
        node = nodes.get(one.instance_id)
        if node is not None and one.state.startswith("Pending"):
            since = node.metadata.creation_timestamp or call.now
            actions = call.hooks.actions(region, one.group, LAUNCHING, node.name)
            holds = [Held(action, since, "", LAUNCH) for action in actions]
            if holds:
                call.carry_on(node, holds, is_schedulable(node, call.policy))
    ending = [one for one in held.values() if one.state.startswith("Terminating")]
    without = [one for one in ending if one.instance_id not in nodes]
    members = {group.name: [one.instance_id for one in group.instances] for group in groups}
    if without and not call.paused(""):
        _let_go(call, region, _of_our_groups(call, without, members))


def _of_our_groups(
    call: Call, without: Sequence[types.ScalingInstance], members: Mapping[str, Sequence[str]]
) -> list[types.ScalingInstance]:
    """Those whose group has a node here, by its stamp: the others are another cluster's, as far as
    can be known, and may wait there for hours."""
    groups = {one.group for one in without}
    ours = find.nodes_stamped(call.cluster, [one for group in groups for one in members[group]])
    return [one for one in without if any(member in ours for member in members[one.group])]


def _let_go(call: Call, region: str, without: Sequence[types.ScalingInstance]) -> None:
    if not without:
        return
    # Not every node has its label yet: before an instance is said to have none, all are read.
    known = {find.instance_id(node.provider_id) for node in call.cluster.list_nodes()}
    for one in without:
        if one.instance_id in known:
            continue  # cordon hears of it, and a drain comes first
        for action in call.hooks.actions(region, one.group, TERMINATING, one.instance_id):
            machine = Machine(one.instance_id, region)
            call.tell(machine, action, Act.CONTINUE, one.instance_id)
