"""What stands on a node about the holds of its instance, and what a hold waits for."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from events.sources import autoscaling
from events.sources.autoscaling import LAUNCH, TERMINATION, TO_WARM_POOL, Lifecycle, lifecycle_of
from functions.gateways.kubernetes import errors, json_patch, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.json_patch import Operation
from functions.rules import drain_state, incidents, keys, lifecycle
from functions.rules.lifecycle import Hold
from functions.rules.policy import Policy
from functions.steps import mark

_PATH = json_patch.annotation(keys.LIFECYCLE)
_NOT_YET = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "startup-taint.")

log = logging.getLogger("groundcrew")


@dataclass(frozen=True)
class Held:
    """One hold of a node's instance."""

    action: Lifecycle | None
    """None where the incident does not say it whole: then AWS is asked."""
    since: datetime
    incident: str = ""
    check: str = TERMINATION

    @property
    def launching(self) -> bool:
        return self.check == LAUNCH


def of_incidents(node: types.Node, policy: Policy) -> Iterator[Held]:
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
            yield Held(lifecycle_of(one.ref), one.told or one.first, one.key, one.check)


def read(node: types.Node) -> dict[str, Hold]:
    try:
        return lifecycle.decode(node.metadata.annotation(keys.LIFECYCLE), node.provider_id)
    except lifecycle.Unreadable as problem:
        log.warning("%s: its annotation %s is begun anew: %s", node.name, keys.LIFECYCLE, problem)
        return {}


def write(cluster: Cluster, node: types.Node, hooks: Mapping[str, Hold]) -> None:
    """Say on the node what came of its holds."""
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
        cluster.patch_node(node.name, operations)
    except (errors.TestFailed, errors.NotFound):
        # Another instance was faster, or the node has gone: the next look finds what is true,
        # and a heartbeat or an end that is told twice changes nothing.
        return


def is_drained(node: types.Node) -> bool:
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


def is_schedulable(node: types.Node, policy: Policy) -> bool:
    """Ready, uncordoned, without a taint that keeps work off until something is done: by the names
    that are in use for those, or the policy's own."""
    not_yet = (*_NOT_YET, policy.replace.startup_taint)
    return (
        node.ready == "True"
        and not node.unschedulable
        and not any(taint.key.startswith(not_yet) for taint in node.spec.taints or ())
    )
