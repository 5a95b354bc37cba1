"""Label selectors and field selectors, in the two forms that the API gives them."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from infra.local.cluster.objects import Object
from infra.local.cluster.refusals import Refusal, bad_request
from infra.local.cluster.resources import EVENTS, NAMESPACES, NODES, PODS, Resource

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]
Fields = tuple[tuple[str, str, bool], ...]
"""(field, value, equal or not)."""

_LABEL_KEY = r"(?:[a-z0-9A-Z.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?|"
_EQUALITY = re.compile(rf"^\s*({_LABEL_KEY})\s*(==|=|!=)\s*({_VALUE})\s*$")
_SET = re.compile(rf"^\s*({_LABEL_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*$")
_ORDER = re.compile(rf"^\s*({_LABEL_KEY})\s*([<>])\s*(-?\d+)\s*$")
_EXISTS = re.compile(rf"^\s*(!?)\s*({_LABEL_KEY})\s*$")
_COMMA = re.compile(r",(?![^()]*\))")


def _one(text: str) -> Requirement:
    if found := _EQUALITY.match(text):
        key, sign, value = found.groups()
        if sign == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _SET.match(text):
        key, word, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if word == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _ORDER.match(text):
        key, sign, bound = found.groups()
        return _ordered(key, sign, int(bound))
    if found := _EXISTS.match(text):
        absent, key = found.groups()
        if absent:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise ValueError(text)


def _ordered(key: str, sign: str, bound: int) -> Requirement:
    def holds(labels: Labels) -> bool:
        value = labels.get(key, "")
        if not re.fullmatch(r"-?\d+", value):
            return False
        return int(value) > bound if sign == ">" else int(value) < bound

    return holds


@lru_cache(maxsize=512)
def label_selector(text: str) -> tuple[Requirement, ...]:
    """The requirements of a ``labelSelector`` query parameter; raises a 400 `Refusal`."""
    if not text.strip():
        return ()
    try:
        return tuple(_one(part) for part in _COMMA.split(text))
    except ValueError as problem:
        raise bad_request(
            f"unable to parse requirement: found '{problem}' in the labelSelector '{text}'"
        ) from None


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """A LabelSelector as objects carry it: null selects nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_expression(one, labels) for one in selector.get("matchExpressions") or ())


def _expression(one: Mapping[str, Any], labels: Labels) -> bool:
    key, values = str(one.get("key", "")), list(one.get("values") or ())
    match one.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt":
            return _ordered(key, ">", int(values[0]))(labels)
        case "Lt":
            return _ordered(key, "<", int(values[0]))(labels)
    return False


_FIELDS: Mapping[Resource, frozenset[str]] = {
    NODES: frozenset({"spec.unschedulable"}),
    NAMESPACES: frozenset({"status.phase"}),
    PODS: frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    EVENTS: frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
}
_BOOLEANS = frozenset({"spec.unschedulable", "spec.hostNetwork"})


@lru_cache(maxsize=4096)
def field_selector(resource: Resource, text: str) -> Fields:
    """The requirements of a ``fieldSelector``; raises a 400 `Refusal` for a field that the real
    server does not index either."""
    found: list[tuple[str, str, bool]] = []
    for part in text.split(","):
        if not part.strip():
            continue
        split = re.match(r"^([^=!]+)(==|=|!=)(.*)$", part.strip())
        if not split:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        field, sign, value = split.groups()
        known = {"metadata.name", *_FIELDS.get(resource, ())}
        if resource.namespaced:
            known.add("metadata.namespace")
        if field not in known:
            raise _unknown_field(resource, field)
        found.append((field, value, sign != "!="))
    return tuple(found)


def _unknown_field(resource: Resource, field: str) -> Refusal:
    if resource in _FIELDS:
        return bad_request(f"field label not supported: {field}")
    return bad_request(
        f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def has_fields(item: Object, fields: Fields) -> bool:
    return all((_field(item, field) == value) is equal for field, value, equal in fields)


def _field(item: Object, field: str) -> str:
    value: Any = item
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if field in _BOOLEANS:
        return "true" if value else "false"
    if field == "source" and isinstance(value, dict):
        value = value.get("component")
    return "" if value is None else str(value)
