"""What a NodeClaim of Karpenter's shows: whether it ends, by whom, and what that waits for; and
whether Karpenter's Deployment has node repair on.

As of karpenter.sh/v1: the conditions and the annotation are those of its termination and health
controllers (https://karpenter.sh/docs/concepts/disruption/#termination-controller).
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

ENDS_BY = "karpenter.sh/nodeclaim-termination-timestamp"
"""When its pods are deleted past everything. Node repair sets it to the moment at which it deletes
the NodeClaim; else it is that moment and the terminationGracePeriod."""
REPAIR = timedelta(seconds=5)
"""Between the two writes of node repair."""
GATES = "FEATURE_GATES"
FLAG = "--feature-gates"


def provider_id(claim: Mapping[str, Any]) -> str:
    found: str = claim.get("status", {}).get("providerID", "")
    return found


def is_ending(claim: Mapping[str, Any]) -> bool:
    return bool(claim["metadata"].get("deletionTimestamp"))


def how_it_ends(claim: Mapping[str, Any]) -> str:
    """A sentence on a NodeClaim that `is_ending`."""
    meta = claim["metadata"]
    who = _who(claim)
    said = f"Karpenter ends NodeClaim {meta['name']} since {meta['deletionTimestamp']}"
    return said + (f", by {who}" if who else "") + _waits(claim)


def _who(claim: Mapping[str, Any]) -> str:
    """Which part of Karpenter's decided it. Empty: somebody who deleted it, or its age."""
    meta = claim["metadata"]
    limit, deleted = _moment(_limit(claim)), _moment(meta["deletionTimestamp"])
    if limit and deleted and limit <= deleted + REPAIR and _grace(claim) != "0s":
        return "its node repair"
    for condition in _conditions(claim):
        if condition.get("type") == "DisruptionReason" and condition.get("status") == "True":
            return f"its disruption of what is {str(condition.get('reason', '')).lower()}"
    return ""


def _waits(claim: Mapping[str, Any]) -> str:
    status = {str(c.get("type")): c.get("status") for c in _conditions(claim)}
    if status.get("InstanceTerminating") == "True":
        return ": its instance is ending"
    if status.get("VolumesDetached") == "Unknown":
        return ": it waits for volumes to be detached"
    if status.get("Drained") != "Unknown":
        return ""
    if limit := _limit(claim):
        return f": it drains the node, until {limit} at the latest"
    return (
        ": it drains the node; without a terminationGracePeriod it waits for ever for pods that a "
        "budget or karpenter.sh/do-not-disrupt keeps"
    )


def _limit(claim: Mapping[str, Any]) -> str:
    found: str = (claim["metadata"].get("annotations") or {}).get(ENDS_BY, "")
    return found


def _grace(claim: Mapping[str, Any]) -> str:
    found: str = claim.get("spec", {}).get("terminationGracePeriod", "")
    return found


def _conditions(claim: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(claim.get("status", {}).get("conditions") or ())


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def repairs_nodes(deployment: Mapping[str, Any]) -> bool:
    """Whether a Deployment of Karpenter's has the feature gate ``NodeRepair`` on. A flag wins over
    the environment, as it does there."""
    pod = deployment.get("spec", {}).get("template", {}).get("spec", {})
    return any(_gate(container) for container in pod.get("containers") or ())


def _gate(container: Mapping[str, Any]) -> bool:
    said = ""
    for variable in container.get("env") or ():
        if variable.get("name") == GATES:
            said = variable.get("value") or ""
    for text in _flags([*(container.get("command") or ()), *(container.get("args") or ())]):
        said = text
    gates = dict(part.strip().partition("=")[::2] for part in said.split(",") if "=" in part)
    return gates.get("NodeRepair", "").strip().lower() in ("true", "t", "1")


def _flags(words: list[str]) -> Iterator[str]:
    """The values of ``--feature-gates=X`` and ``--feature-gates X``, with one dash or two."""
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in (FLAG, FLAG[1:]):
            yield value if equals else next(iter(words[number + 1 : number + 2]), "")
