"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386), as the real server applies them."""

from typing import Any

from infra.local.cluster.objects import deep_copy
from infra.local.cluster.refusals import Refusal, bad_request, patch_does_not_apply

_MISSING = object()


def merge_patch(target: Any, patch: Any) -> Any:
    """A new value: null takes a field away, a list is replaced whole."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(document: Any, operations: Any) -> Any:
    """A changed copy. Raises `Refusal`: 400 for what is no patch, 422 for one that does not
    apply; that a ``test`` failed looks no different from the rest of those."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into a list")
    copy = deep_copy(document)
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request("error decoding patch: an operation is not an object")
        copy = _apply(copy, operation)
    return copy


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    path = _tokens(operation.get("path"))
    match operation.get("op"):
        case "test":
            found = _find(document, path)
            wanted = operation.get("value")
            # A missing field equals null: that is how something is created only if it is not
            # there yet.
            if (None if found is _MISSING else found) != wanted or _differ(found, wanted):
                raise patch_does_not_apply()
            return document
        case "add":
            return _add(document, path, _value(operation))
        case "replace":
            if path and _find(document, path) is _MISSING:
                raise patch_does_not_apply()
            return _replace(document, path, _value(operation))
        case "remove":
            return _remove(document, path)
        case "move" | "copy" as kind:
            source = _tokens(operation.get("from"))
            value = _find(document, source)
            if value is _MISSING:
                raise patch_does_not_apply()
            if kind == "move":
                document = _remove(document, source)
            return _add(document, path, deep_copy(value))
    raise _unknown(operation.get("op"))


def _unknown(kind: Any) -> Refusal:
    return patch_does_not_apply()


def _differ(found: Any, wanted: Any) -> bool:
    """True and 1 are equal in Python and not in JSON."""
    return isinstance(found, bool) is not isinstance(wanted, bool) and found is not _MISSING


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise patch_does_not_apply()
    return operation["value"]


def _tokens(path: Any) -> list[str]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise patch_does_not_apply()
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _index(container: list[Any], token: str) -> int:
    if not token.isdigit():
        raise patch_does_not_apply()
    return int(token)


def _find(document: Any, path: list[str]) -> Any:
    here = document
    for token in path:
        if isinstance(here, dict):
            here = here.get(token, _MISSING)
        elif isinstance(here, list) and token.isdigit() and int(token) < len(here):
            here = here[int(token)]
        else:
            return _MISSING
    return here


def _parent(document: Any, path: list[str]) -> Any:
    parent = _find(document, path[:-1])
    if not isinstance(parent, dict | list):
        raise patch_does_not_apply()
    return parent


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, token = _parent(document, path), path[-1]
    if isinstance(parent, dict):
        parent[token] = value
    elif token == "-":
        parent.append(value)
    elif _index(parent, token) <= len(parent):
        parent.insert(int(token), value)
    else:
        raise patch_does_not_apply()
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, token = _parent(document, path), path[-1]
    if isinstance(parent, dict):
        parent[token] = value
    else:
        parent[_index(parent, token)] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    if not path or _find(document, path) is _MISSING:
        raise patch_does_not_apply()
    parent, token = _parent(document, path), path[-1]
    if isinstance(parent, dict):
        del parent[token]
    else:
        del parent[_index(parent, token)]
    return document
