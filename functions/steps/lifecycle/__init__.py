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
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from functions.gateways.aws.client import Aws
from functions.gateways.clock import Clock
from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.rules.decision import Decision
from functions.rules.policy import Policy
from functions.steps import find
from functions.steps.lifecycle import held, waiting
from functions.steps.lifecycle.call import Call
from functions.steps.lifecycle.hooks import Hooks


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
    call = Call(cluster, Hooks(functools.cache(aws)), clock.now(), policy, paused)
    seen: set[str] = set()
    for node in marked:
        if holds := list(held.of_incidents(node, policy)):
            seen.add(find.instance_id(node.provider_id))
            call.carry_on(node, holds, held.is_drained(node))
    for region in regions:
        waiting.carry_on(call, region, seen)
    return Carried(call.decisions, min(call.looks, default=None))
