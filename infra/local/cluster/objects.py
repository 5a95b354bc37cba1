"""Kubernetes objects as plain dicts: reading them, and making changed copies.

What the store holds is never changed in place: a change is a new dict that shares what did not
change. So a watch's history, a page of a LIST and a reader each keep what they saw.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

FINISHED = ("Succeeded", "Failed")


def timestamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, as metav1.Time is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def deep_copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: deep_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [deep_copy(item) for item in value]
    return value


def changed(item: Object, *path: str, value: Any) -> Object:
    """A copy of ``item`` with another value at ``path``; None takes the field away."""
    copy = dict(item)
    head, rest = path[0], path[1:]
    if rest:
        copy[head] = changed(copy.get(head) or {}, *rest, value=value)
    elif value is None:
        copy.pop(head, None)
    else:
        copy[head] = value
    return copy


def metadata(item: Object) -> Object:
    found: Object = item.get("metadata") or {}
    return found


def name_of(item: Object) -> str:
    return str(metadata(item).get("name") or "")


def namespace_of(item: Object) -> str:
    return str(metadata(item).get("namespace") or "")


def uid_of(item: Object) -> str:
    return str(metadata(item).get("uid") or "")


def labels_of(item: Object) -> Mapping[str, str]:
    return metadata(item).get("labels") or {}


def annotation(item: Object, key: str) -> str | None:
    found: str | None = (metadata(item).get("annotations") or {}).get(key)
    return found


def spec_of(item: Object) -> Object:
    found: Object = item.get("spec") or {}
    return found


def status_of(item: Object) -> Object:
    found: Object = item.get("status") or {}
    return found


def controller_of(item: Object) -> Object | None:
    owners = metadata(item).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def condition_of(item: Object, kind: str) -> Object | None:
    conditions = status_of(item).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), None)


def is_true(item: Object, condition: str) -> bool:
    found = condition_of(item, condition)
    return found is not None and found.get("status") == "True"


def node_of(pod: Object) -> str:
    return str(spec_of(pod).get("nodeName") or "")


def phase_of(pod: Object) -> str:
    return str(status_of(pod).get("phase") or "")


def is_finished(pod: Object) -> bool:
    return phase_of(pod) in FINISHED


def is_terminating(item: Object) -> bool:
    return bool(metadata(item).get("deletionTimestamp"))


def is_ready(pod: Object) -> bool:
    return is_true(pod, "Ready")


def with_condition(
    item: Object, kind: str, status: str, now: datetime, reason: str = "", message: str = ""
) -> Object:
    """A copy with the condition set; lastTransitionTime moves only if the status does."""
    conditions = list(status_of(item).get("conditions") or ())
    fresh: Object = {"type": kind, "status": status, "lastTransitionTime": timestamp(now)}
    if reason:
        fresh["reason"] = reason
    if message:
        fresh["message"] = message
    for place, old in enumerate(conditions):
        if old.get("type") == kind:
            if old.get("status") == status:
                fresh["lastTransitionTime"] = old.get("lastTransitionTime")
            conditions[place] = {**old, **fresh}
            if not reason:
                conditions[place].pop("reason", None)
            if not message:
                conditions[place].pop("message", None)
            break
    else:
        conditions.append(fresh)
    return changed(item, "status", "conditions", value=conditions)
