"""Operations of a JSON Patch (RFC 6902), and where annotations and labels are (RFC 6901).

In Kubernetes a ``test`` against null passes where the path is missing, and an ``add`` below a map
that is missing is refused: whoever adds the first annotation adds the map before it (`begin`).
"""

from collections.abc import Mapping
from typing import Any

Operation = Mapping[str, Any]

ANNOTATIONS = "/metadata/annotations"
LABELS = "/metadata/labels"


def annotation(key: str) -> str:
    return f"{ANNOTATIONS}/{_escaped(key)}"


def label(key: str) -> str:
    return f"{LABELS}/{_escaped(key)}"


def test(path: str, value: object) -> Operation:
    """The patch is refused (`errors.TestFailed`) when this is not what stands there."""
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: object) -> Operation:
    """Put it there, also over what is there."""
    return {"op": "add", "path": path, "value": value}


def begin(path: str) -> list[Operation]:
    """The map there, which was missing when it was read: nobody's first entry is lost by it."""
    return [test(path, None), add(path, {})]


def remove(path: str) -> Operation:
    """Refused when nothing is there."""
    return {"op": "remove", "path": path}


def _escaped(word: str) -> str:
    return word.replace("~", "~0").replace("/", "~1")
