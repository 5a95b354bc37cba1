"""Recorded requests, damaged: as a sender that is broken, new, or malicious would send them.

All choices come from one `random.Random`, so that hypothesis can hold the reins (and shrink what
it finds), and so that a long run can be repeated from its seed.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from events import registry
from events.recording import Recording

Path = tuple[Any, ...]

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 2**31, 2**63, 10**30, "", " ", "\0", "\n", "null", "0",
    "true", "x" * 5000, "\u202e", "ﬁ", "İ", "😀", "i-0123456789abcdef0,i-1", "../..", "'\"\\",
    "%00", [], {}, [[]], [None], {"": None}, [{}] * 50, {"a": {"b": {"c": []}}},
    "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-01-15T10:00:00", "2026-13-45T99:99:99Z",
    "2026-01-15T10:00:00+24:00", "Thu, 31 Feb 2026 10:00:00 GMT", "1 Jan 9999 00:00:00 GMT",
    "١٢", "arn:aws:ec2:::instance/", "arn:aws:ec2:us-east-1:1:instance/i-0", "-1", "NaN",
)  # fmt: skip
ODD_BYTES = (b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\ud800", b"\0", b'"', b"{", b"]", b",")
ODD_HEADERS = ("", " ", "a", "%", "%zz", "%00", "é", "x" * 5000, '"', "\\", "i-1,i-2", "1.0", "\n")


def damaged(recorded: Recording, random: random.Random, others: Sequence[Recording]) -> Recording:
    """``recorded`` with one to three things wrong with it."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        how = random.choices((_structure, _bytes, _headers, _path), (20, 2, 3, 1))[0]
        recorded = how(recorded, random, others)
    return recorded


def _structure(
    recorded: Recording, random: random.Random, others: Sequence[Recording]
) -> Recording:
    try:
        body = json.loads(recorded.body)
    except (ValueError, RecursionError):
        return _bytes(recorded, random, others)
    changed = _change(body, random, others)
    return _with(recorded, body=json.dumps(changed, ensure_ascii=random.random() < 0.5))


def _change(body: Any, random: random.Random, others: Sequence[Recording]) -> Any:
    """``body`` with a change at one place, which may lie in JSON that is inside a string."""
    path = random.choice(list(paths(body)))
    value = _at(body, path)
    inner = _inner(value)
    if inner is not None and random.random() < 0.7:
        return _put(body, path, json.dumps(_change(inner, random, others)))
    change = random.choice(_CHANGES)
    if change is _delete:
        return _delete(body, path, random)
    return _put(body, path, change(value, body, random, others))


def _odd(value: Any, body: Any, random: random.Random, others: Sequence[Recording]) -> Any:
    return random.choice(ODD)


def _another_place(
    value: Any, body: Any, random: random.Random, others: Sequence[Recording]
) -> Any:
    """What stands somewhere else in the same body."""
    return _at(body, random.choice(list(paths(body))))


def _another_recording(
    value: Any, body: Any, random: random.Random, others: Sequence[Recording]
) -> Any:
    try:
        other = json.loads(random.choice(others).body)
    except (ValueError, RecursionError):
        return None
    return _at(other, random.choice(list(paths(other))))


def _written_again(
    value: Any, body: Any, random: random.Random, others: Sequence[Recording]
) -> Any:
    return json.dumps(value)


def _many(value: Any, body: Any, random: random.Random, others: Sequence[Recording]) -> Any:
    return value * 3 if isinstance(value, list) and len(value) < 50 else [value, value]


def _letters(value: Any, body: Any, random: random.Random, others: Sequence[Recording]) -> Any:
    """A string with something in it changed; a key of an object in other letters."""
    if isinstance(value, dict) and value:
        key = random.choice(list(value))
        changed = random.choice((key.lower(), key.upper(), key.replace("-", "_"), key + " "))
        return {(changed if name == key else name): kept for name, kept in value.items()}
    if not isinstance(value, str):
        return [value]
    at = random.randint(0, len(value))
    end = min(len(value), at + random.randint(0, 3))
    return value[:at] + random.choice(("", "0", "-", " ", "é", "\0", ":", "/", ",")) + value[end:]


_CHANGES: tuple[Callable[..., Any], ...]


def _delete(body: Any, path: Path, random: random.Random) -> Any:
    if not path:
        return random.choice((None, {}, []))
    parent = _at(body, path[:-1])
    if isinstance(parent, dict):
        kept: Any = {name: value for name, value in parent.items() if name != path[-1]}
    else:
        kept = [value for index, value in enumerate(parent) if index != path[-1]]
    return _put(body, path[:-1], kept)


_CHANGES = (
    _odd, _odd, _odd, _delete, _delete, _letters, _letters, _another_place, _another_recording,
    _written_again, _many,
)  # fmt: skip


def _bytes(recorded: Recording, random: random.Random, others: Sequence[Recording]) -> Recording:
    body = bytearray(recorded.body)
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(body))
        end = min(len(body), at + random.choice((0, 1, 1, 2, 8, 200)))
        body[at:end] = random.choice((b"", bytes([random.randint(0, 255)]), *ODD_BYTES))
    return _with(recorded, body=bytes(body))


def _headers(recorded: Recording, random: random.Random, others: Sequence[Recording]) -> Recording:
    headers = dict(recorded.headers)
    name = random.choice([*headers, "content-type", "groundcrew-node", "ce-type", "Ce-Id", "ce-"])
    what = random.randint(0, 4)
    if what == 0:
        headers.pop(name, None)
    elif what == 1:
        headers[name.upper()] = headers.get(name, "a")
    elif what == 2:
        other = random.choice(others).headers
        headers |= dict([random.choice(list(other.items()))]) if other else {}
    else:
        headers[name] = random.choice((*ODD_HEADERS, headers.get(name, "")[:-1]))
    return _with(recorded, headers=headers)


def _path(recorded: Recording, random: random.Random, others: Sequence[Recording]) -> Recording:
    """Posted to somebody else's address."""
    return _with(recorded, path=random.choice(["/", *(f"/from/{name}" for name in registry.RAW)]))


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value[:50])
    for key, member in members:
        yield from paths(member, (*path, key))


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _put(copy[path[0]], path[1:], new)
    return copy


def _inner(value: Any) -> Any:
    """The JSON object or list in a string; None when there is none."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _with(recorded: Recording, **changed: Any) -> Recording:
    body = changed.get("body", recorded.body)
    return Recording(
        method=recorded.method,
        path=changed.get("path", recorded.path),
        headers=changed.get("headers", recorded.headers),
        # Lone surrogates are what a careless sender writes too: as bytes that are no UTF-8.
        body=body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body,
    )
