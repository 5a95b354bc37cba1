"""Kubernetes Events on a node: the story that ``kubectl describe node`` shows.

One Event per change of state, under a name made from what it says, so that two instances, or a
redelivered event, tell it once (the second is answered 409). An Event that cannot be written is
logged and holds nothing up: the record on the node is what counts.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.rules.decision import Action, Decision

log = logging.getLogger(__name__)

COMPONENT = "groundcrew"
NAMESPACE = "default"
"""Where Events about cluster-scoped objects stand, and where kubectl looks for them."""
MOST_A_CALL = 100
"""An event about 500 nodes must not become a flood of Events; the resync tells no later."""

REASONS = {
    Action.OPEN: "IncidentOpened",
    Action.CORDON: "NodeCordoned",
    Action.RAISE: "NodeToBeDrained",
    Action.UNCORDON: "NodeReleased",
    Action.CLOSE: "IncidentClosed",
    Action.DISMISS: "IncidentDismissed",
    Action.HOLD: "ActionHeld",
    Action.START_DRAIN: "DrainStarted",
    Action.WAIT: "DrainBlocked",
    Action.DRAINED: "NodeDrained",
    Action.STOP_DRAIN: "DrainStopped",
    Action.HOOK: "LifecycleHookCompleted",
    Action.RESET: "ResetWanted",
    Action.REBOOT: "RebootAsked",
    Action.REBOOTED: "MachineRebooted",
    Action.COLLECT: "EvidenceWanted",
    Action.TERMINATE: "TerminationAsked",
    Action.TERMINATED: "MachineTerminated",
    Action.REPLACED: "MachineReplaced",
    Action.MISSING: "ReplacementMissing",
    Action.AT_RISK: "SevenDaysAtRisk",
    Action.WITHDRAW: "TerminationWithdrawn",
    Action.CLOCK_STOPPED: "ClockStopped",
    Action.GONE: "MachineGone",
    Action.RETURNED: "HardwareReturned",
}
GOOD_NEWS = frozenset(
    {
        Action.UNCORDON,
        Action.CLOSE,
        Action.DRAINED,
        Action.REBOOTED,
        Action.REPLACED,
        Action.CLOCK_STOPPED,
    }
)


def tell(
    cluster: Cluster,
    decisions: Iterable[Decision],
    uids: Mapping[str, str],
    now: datetime,
    parallel: int = 1,
) -> int:
    """Write one Event a decision that has a reason in `REASONS`; ``uids`` are the nodes' UIDs by
    name. Returns how many were written. ``parallel`` are in flight at once."""
    told = _worth_telling(decisions)[:MOST_A_CALL]
    bodies = [event(decision, uids.get(decision.node, ""), now) for decision in told]
    if parallel == 1 or len(bodies) < 3:
        return sum(_write(cluster, body) for body in bodies)
    with ThreadPoolExecutor(parallel) as pool:
        return sum(pool.map(lambda body: _write(cluster, body), bodies))


def _worth_telling(decisions: Iterable[Decision]) -> list[Decision]:
    """One for each change of state: that an incident was opened is in the words of the cordon that
    follows from it in the same call."""
    decisions = [d for d in decisions if d.action in REASONS]
    acted = {(d.node, d.incident) for d in decisions if d.action in (Action.CORDON, Action.RAISE)}
    return [
        d for d in decisions if d.action is not Action.OPEN or (d.node, d.incident) not in acted
    ]


def _write(cluster: Cluster, body: dict[str, Any]) -> bool:
    try:
        cluster.create_event(NAMESPACE, body)
    except errors.Conflict:
        return False  # told already
    except errors.KubernetesError as problem:
        node = body["involvedObject"]["name"]
        log.warning("the Event %s of %s was not written: %s", body["reason"], node, problem)
        return False
    return True


def event(decision: Decision, uid: str, now: datetime) -> dict[str, Any]:
    """A core/v1 Event about ``decision``."""
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    # The minute is in the name: the same change a day later is another Event, the same change
    # told by two instances at once is not. What holds us back may be found again at each look
    # (an opted-out node, an annotation that cannot be read): it is told once an hour.
    when = at[:13] if decision.action is Action.HOLD else at[:16]
    said = f"{uid}|{decision.action}|{decision.incident}|{decision.reason}|{when}"
    name = f"{decision.node}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": decision.node, "uid": uid},
        "reason": REASONS[decision.action],
        "message": decision.reason[:1024],
        "type": "Normal" if decision.action in GOOD_NEWS else "Warning",
        "source": {"component": COMPONENT},
        "reportingComponent": f"{COMPONENT}/{decision.function}",
        "reportingInstance": COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
