"""Strategic merge patch: lists that have a merge key are merged by it, all others replaced."""

from collections.abc import Mapping
from typing import Any

from infra.local.cluster.refusals import bad_request

MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""patchMergeKey of the kinds served here, by field name. ``spec.taints`` of a Node and
``tolerations`` have none: they are replaced whole."""
SETS = frozenset({"finalizers", "podCIDRs"})
"""Lists of strings that a patch adds to."""

_ORDER, _DELETE_FROM = "$setElementOrder/", "$deleteFromPrimitiveList/"


def strategic_patch(target: Any, patch: Any) -> Any:
    """A new object. Raises a 400 `Refusal` for a directive or element that makes no sense."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch is an object")
    return _object(target if isinstance(target, dict) else {}, patch)


def _object(target: dict[str, Any], patch: dict[str, Any]) -> Any:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type found: {directive}")
    merged = dict(target)
    kept = patch.get("$retainKeys")
    if kept is not None:
        merged = {key: value for key, value in merged.items() if key in kept}
    for key, value in patch.items():
        if key.startswith("$"):
            _directive(merged, key, value)
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            before = merged.get(key)
            merged[key] = _object(before if isinstance(before, dict) else {}, value)
        elif isinstance(value, list):
            merged[key] = _list(key, merged.get(key), value)
        else:
            merged[key] = value
    for key, order in patch.items():
        if key.startswith(_ORDER):
            _reorder(merged, key.removeprefix(_ORDER), order)
    return merged


def _directive(merged: dict[str, Any], key: str, value: Any) -> None:
    if key.startswith(_DELETE_FROM):
        field = key.removeprefix(_DELETE_FROM)
        if field in merged:
            merged[field] = [item for item in merged[field] if item not in value]


def _list(field: str, before: Any, patch: list[Any]) -> list[Any]:
    current: list[Any] = before if isinstance(before, list) else []
    if field in SETS:
        return current + [item for item in patch if item not in current]
    merge_key = MERGE_KEYS.get(field)
    if merge_key is None or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    result = list(current)
    for item in patch:
        wanted = item.get(merge_key)
        if wanted is None:
            raise bad_request(f"map: {item} does not contain declared merge key: {merge_key}")
        place = next((i for i, old in enumerate(result) if old.get(merge_key) == wanted), None)
        if item.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(_object({}, item))
        else:
            result[place] = _object(result[place], item)
    return result


def _reorder(merged: dict[str, Any], field: str, order: list[Any]) -> None:
    """``$setElementOrder`` names the elements in the order wanted; others keep their places
    behind the one that they followed."""
    items = merged.get(field)
    if not isinstance(items, list):
        return
    merge_key = MERGE_KEYS.get(field)

    def identity(item: Any) -> Any:
        return item.get(merge_key) if merge_key and isinstance(item, dict) else item

    wanted = {identity(item): place for place, item in enumerate(order)}
    ranks: list[int] = []
    last = -1
    for item in items:
        last = wanted.get(identity(item), last)
        ranks.append(last)
    merged[field] = [items[i] for i in sorted(range(len(items)), key=lambda i: (ranks[i], i))]
