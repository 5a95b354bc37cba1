"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386), as the real server applies them."""

from typing import Any

import msgspec

from infra.local.cluster.objects import deep_copy
from infra.local.cluster.refusals import bad_request, patch_does_not_apply


def merge_patch(target: Any, patch: Any) -> Any:
    """A new object: null takes a field away, a list is replaced whole."""
    if not isinstance(patch, dict):
        kind = json_kind(patch)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type "
            "map[string]interface {}"
        )
    return _merged(target, patch)


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def json_kind(value: Any) -> str:
    """What Go calls the JSON value in its decoding errors."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "null"


def json_patch(document: Any, operations: Any) -> Any:
    """A changed copy. Raises a `Refusal`: 400 for what is no patch, 422 for one that does not
    apply; a ``test`` that failed looks no different from the rest of those.

    Where the server's library is laxer than the RFC, so is this: a missing field of an object
    that is there equals null and can be replaced or copied, a missing value is null, and the
    first slash of a path may be missing. A ``test`` below an object that is not there fails,
    with null too.
    """
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        kind = json_kind(operations)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type "
            "[]handlers.jsonPatchOp"
        )
    copy = deep_copy(document)
    for operation in operations:
        _apply(copy, operation)
    return copy


def _apply(document: Any, operation: dict[str, Any]) -> None:
    place = _Place(document, operation.get("path"))
    match operation.get("op"):
        case "test":
            if not _equal(place.get(), operation.get("value")):
                raise patch_does_not_apply()
        case "add":
            place.add(operation.get("value"))
        case "replace":
            place.get()
            place.set(operation.get("value"))
        case "remove":
            place.remove()
        case "move" | "copy" as kind:
            source = _Place(document, operation.get("from"))
            value = deep_copy(source.get())
            if kind == "move":
                source.remove()
                # An element that was taken out moves the ones behind it.
                place = _Place(document, operation.get("path"))
            place.add(value)
        case _:
            raise patch_does_not_apply()


class _Place:
    """The object or list that a path leads to, and the last word of the path."""

    def __init__(self, document: Any, path: Any) -> None:
        words = path.split("/") if isinstance(path, str) else []
        if len(words) < 2:
            raise patch_does_not_apply()
        names = [word.replace("~1", "/").replace("~0", "~") for word in words[1:]]
        here = document
        for name in names[:-1]:
            here = _child(here, name)
        if not isinstance(here, dict | list):
            raise patch_does_not_apply()
        self._container: Any = here
        self._name = names[-1]

    def get(self) -> Any:
        return _child(self._container, self._name)

    def set(self, value: Any) -> None:
        if isinstance(self._container, list):
            self._container[_index(self._container, self._name)] = value
        else:
            self._container[self._name] = value

    def add(self, value: Any) -> None:
        if not isinstance(self._container, list):
            self._container[self._name] = value
        elif self._name == "-":
            self._container.append(value)
        else:
            self._container.insert(_index([*self._container, None], self._name), value)

    def remove(self) -> None:
        if isinstance(self._container, list):
            del self._container[_index(self._container, self._name)]
        elif self._name not in self._container:
            raise patch_does_not_apply()
        else:
            del self._container[self._name]


def _child(container: Any, name: str) -> Any:
    if isinstance(container, dict):
        return container.get(name)
    if isinstance(container, list):
        return container[_index(container, name)]
    raise patch_does_not_apply()


def _index(items: list[Any], name: str) -> int:
    if not name.lstrip("-").isdigit():
        raise patch_does_not_apply()
    index = int(name)
    if not -len(items) <= index < len(items):
        raise patch_does_not_apply()
    return index


def _equal(found: Any, wanted: Any) -> bool:
    """As JSON: true is not 1, and 1 is not 1.0."""
    encode = msgspec.json.encode
    return encode(found, order="sorted") == encode(wanted, order="sorted")
