"""What comes in as JSON, brought into the form of its kind: types checked, nulls taken out."""

from collections.abc import Iterator, Mapping
from typing import Any

from infra.local.cluster.patches import json_kind
from infra.local.cluster.resources import CONFIG_MAPS, EVENTS, NODES, PDBS, PODS, Resource

_STRING_MAPS = frozenset(
    {"labels", "annotations", "matchLabels", "nodeSelector", "data", "capacity", "allocatable"}
)
_TYPES: Mapping[Resource, Mapping[str, str]] = {
    NODES: {"spec.unschedulable": "bool", "spec.providerID": "string", "spec.taints": "array"},
    PODS: {
        "spec.nodeName": "string",
        "spec.terminationGracePeriodSeconds": "number",
        "spec.containers": "array",
        "spec.tolerations": "array",
    },
    PDBS: {"spec.selector": "object"},
    CONFIG_MAPS: {"data": "object", "immutable": "bool"},
}
_COMMON = {
    "metadata": "object",
    "metadata.name": "string",
    "metadata.labels": "object",
    "metadata.annotations": "object",
    "metadata.finalizers": "array",
    "metadata.ownerReferences": "array",
    "spec": "object",
    "status": "object",
    "status.conditions": "array",
}
_USUAL_FIELDS = frozenset({"kind", "apiVersion", "metadata", "spec", "status"})
_FIELDS: Mapping[Resource, frozenset[str]] = {
    CONFIG_MAPS: frozenset({"kind", "apiVersion", "metadata", "data", "binaryData", "immutable"}),
    EVENTS: frozenset(
        {
            "kind",
            "apiVersion",
            "metadata",
            "involvedObject",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            "type",
            "eventTime",
            "series",
            "action",
            "related",
            "reportingComponent",
            "reportingInstance",
        }
    ),
}
_GO = {
    "bool": "bool",
    "string": "string",
    "number": "int64",
    "array": "[]struct",
    "object": "map[string]string",
}


class FormError(ValueError):
    """A field is not of the type that its kind gives it; worded as Go's decoder does."""


def formed(resource: Resource, item: Any) -> Any:
    """``item`` without fields that its kind does not have (at the top, no deeper) and without
    nulls: the server's types cannot tell them from what is not there, except
    in a map of strings, where null is the empty string. Raises `FormError`."""
    for problem in _problems(resource, item):
        raise FormError(problem)
    known = _FIELDS.get(resource, _USUAL_FIELDS)
    return _without_nulls({key: value for key, value in item.items() if key in known})


def _problems(resource: Resource, item: Any) -> Iterator[str]:
    for path, wanted in {**_COMMON, **_TYPES.get(resource, {})}.items():
        found: Any = item
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if found is None:
            continue
        if json_kind(found) != wanted:
            yield _text(resource, path, json_kind(found), _GO[wanted])
        elif path.rpartition(".")[2] in _STRING_MAPS:
            for value in found.values():
                if value is not None and not isinstance(value, str):
                    yield _text(resource, path, json_kind(value), "string")


def _text(resource: Resource, path: str, found: str, wanted: str) -> str:
    head, deeper, _ = path.partition(".")
    struct = {"metadata": "ObjectMeta", "spec": f"{resource.kind}Spec"}.get(head, "")
    if not deeper or not struct:
        struct = resource.kind
    return f"json: cannot unmarshal {found} into Go struct field {struct}.{path} of type {wanted}"


def _without_nulls(value: Any, *, strings: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: "" if item is None else _without_nulls(item, strings=key in _STRING_MAPS)
            for key, item in value.items()
            if item is not None or strings
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
