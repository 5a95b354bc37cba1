"""Kubernetes Events on a node: the story that ``kubectl describe node`` shows.

One Event per change of state, under a name made from what it says, so that two instances, or a
redelivered event, tell it once (the second is answered 409). An Event that cannot be written is
logged and holds nothing up: the record on the node is what counts.
"""

import hashlib
import logging
from collections.abc import Iterable
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
}
GOOD_NEWS = frozenset({Action.UNCORDON, Action.CLOSE, Action.DRAINED})


def tell(
    cluster: Cluster, decisions: Iterable[Decision], uids: dict[str, str], now: datetime
) -> int:
    """Write one Event a decision that has a reason in `REASONS`; ``uids`` are the nodes' UIDs by
    name. Returns how many were written."""
    written = 0
    for decision in decisions:
        if decision.action not in REASONS or written >= MOST_A_CALL:
            continue
        body = event(decision, uids.get(decision.node, ""), now)
        try:
            cluster.create_event(NAMESPACE, body)
            written += 1
        except errors.Conflict:
            continue  # told already
        except errors.KubernetesError as problem:
            log.warning(
                "the Event %s of %s was not written: %s", body["reason"], decision.node, problem
            )
    return written


def event(decision: Decision, uid: str, now: datetime) -> dict[str, Any]:
    """A core/v1 Event about ``decision``."""
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    # The minute is in the name: the same change a day later is another Event, the same change
    # told by two instances at once is not.
    said = f"{uid}|{decision.action}|{decision.incident}|{decision.reason}|{at[:16]}"
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
