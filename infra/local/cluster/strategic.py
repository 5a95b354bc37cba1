"""Strategic merge patch: lists that have a merge key are merged by it, all others replaced."""

from collections.abc import Callable, Mapping
from typing import Any

from infra.local.cluster.refusals import Refusal, bad_request

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
    """A new object. Raises a `Refusal` for a directive or element that makes no sense."""
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a strategic merge patch is an object")
    return _object(target if isinstance(target, dict) else {}, patch)


def _object(target: dict[str, Any], patch: dict[str, Any]) -> Any:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type found: {directive}")
    kept = patch.get("$retainKeys")
    merged = {key: value for key, value in target.items() if kept is None or key in kept}
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            field = key.removeprefix(_DELETE_FROM)
            if field in merged:
                merged[field] = [item for item in merged[field] if item not in value]
        elif key.startswith(_ORDER):
            field = key.removeprefix(_ORDER)
            if field not in patch and isinstance(merged.get(field), list):
                merged[field] = _list(field, merged[field], [], value)
        elif key.startswith("$"):
            continue
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            before = merged.get(key)
            merged[key] = _object(before if isinstance(before, dict) else {}, value)
        elif isinstance(value, list):
            merged[key] = _list(key, merged.get(key), value, patch.get(_ORDER + key))
        else:
            merged[key] = value
    return merged


def _list(field: str, before: Any, patch: list[Any], order: list[Any] | None) -> list[Any]:
    current: list[Any] = before if isinstance(before, list) else []
    if field in SETS:
        added = [item for item in patch if item not in current]
        return _in_order(current + added, current, patch if order is None else order, _itself)
    merge_key = MERGE_KEYS.get(field)
    if merge_key is None or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    result = list(current)
    for item in patch:
        if merge_key not in item:
            raise Refusal(
                500,
                "",
                f"map: {go_text(item)} does not contain declared merge key: {merge_key}",
            )
        wanted = item[merge_key]
        place = next((i for i, old in enumerate(result) if old.get(merge_key) == wanted), None)
        if item.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(_object({}, item))
        else:
            result[place] = _object(result[place], item)
    identity: Callable[[Any], Any] = lambda item: item.get(merge_key)  # noqa: E731
    named = patch if order is None else order
    return _in_order(result, current, named, identity)


def _itself(item: Any) -> Any:
    return item


def _in_order(
    items: list[Any], before: list[Any], named: list[Any], identity: Callable[[Any], Any]
) -> list[Any]:
    """The elements that the patch names, in its order, with those that it does not name put in
    where they stood before: each goes ahead of the first named one that it used to precede."""
    ranks = {identity(item): rank for rank, item in enumerate(before)}
    wanted = {identity(item): rank for rank, item in enumerate(named)}
    rest = [item for item in items if identity(item) not in wanted]
    chosen = sorted(
        (item for item in items if identity(item) in wanted), key=lambda i: wanted[identity(i)]
    )
    ordered: list[Any] = []
    while rest and chosen:
        old, new = ranks.get(identity(rest[0])), ranks.get(identity(chosen[0]))
        goes_first = old is not None and new is not None and old < new
        ordered.append(rest.pop(0) if goes_first else chosen.pop(0))
    return ordered + chosen + rest


def go_text(value: Any) -> str:
    """As Go prints a decoded JSON value (``%v``)."""
    if isinstance(value, dict):
        inner = " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value))
        return f"map[{inner}]"
    if isinstance(value, list):
        return f"[{' '.join(go_text(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)
