"""How what happens in a scenario becomes events: what the API server's watch says, as
ApiServerSource sends it, and what clouds and agents send, from recordings."""

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from events import recording
from events.cloudevent import CloudEvent
from events.notice import Identity
from events.recording import Recording
from infra.local.outside import Outside
from infra.local.scenario import Event
from infra.local.scenario_file import moment, recorded
from infra.local.world import Change

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_PART = re.compile(r"[^.\[\]]+|\[\d+\]")
_EVENT_TIMES = ("firstTimestamp", "lastTimestamp")


class Untellable(ValueError):
    """The event cannot be made: a placeholder or a path in it means nothing."""


def of_change(change: Change, now: datetime) -> CloudEvent:
    """As Knative's ApiServerSource says it in mode Resource."""
    found = msgspec.json.decode(change.body, type=_Object)
    meta = found.metadata
    plural = f"{change.kind.lower()}s"
    return CloudEvent(
        id=hashlib.sha256(f"{meta.uid}{meta.version}{change.verb}".encode()).hexdigest()[:32],
        source="https://10.100.0.1:443",
        type=f"dev.knative.apiserver.resource.{change.verb}",
        subject=f"/apis/v1/namespaces/{meta.namespace}/{plural}/{meta.name}",
        time=now,
        extensions={
            "kind": change.kind,
            "apiversion": "v1",
            "name": meta.name,
            "namespace": meta.namespace,
        },
        data=change.body,
    )


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct):
    metadata: _Meta


def request(event: Event, node: str, outside: Outside, start: datetime, now: datetime) -> Recording:
    """The HTTP request that ``event`` is at ``now``, about ``node`` if one is named. Raises
    `Untellable`."""
    fill = _filler(outside, start, now)
    if not event.recorded:
        body = _filled(event.body, fill)
        raw = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
        return Recording(path=event.path, headers=event.headers, body=raw)
    loaded = recording.load(recorded(event.recorded).read_bytes())
    headers, text = dict(loaded.headers), loaded.body.decode(errors="surrogateescape")
    if node:
        for old, new in _identities(loaded, outside.node(node)):
            text = text.replace(old, new)
            headers = {name: value.replace(old, new) for name, value in headers.items()}
    raw = text.encode(errors="surrogateescape")
    try:
        document = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return msgspec.structs.replace(loaded, headers=headers, body=raw)
    _date(document, headers, now)
    for path, value in event.set.items():
        _put(document, path, _filled(value, fill))
    return msgspec.structs.replace(loaded, headers=headers, body=msgspec.json.encode(document))


def _identities(loaded: Recording, node: dict[str, Any]) -> list[tuple[str, str]]:
    """What the recording calls its machine, and what ``node`` is called; long names first."""
    reading = recording.understand(loaded)
    said = reading.notices[0].identity if reading.notices else Identity()
    provider = node["spec"].get("providerID", "")
    pairs = [
        (said.provider_id, provider),
        (said.instance_id, provider.rpartition("/")[2]),
        (said.node_uid, node["metadata"]["uid"]),
        (said.boot_id, node["status"]["nodeInfo"]["bootID"]),
        (said.node, node["metadata"]["name"]),
    ]
    return sorted(((old, new) for old, new in pairs if old), key=lambda pair: -len(pair[0]))


def _date(document: Any, headers: dict[str, str], now: datetime) -> None:
    """The event is of now, under an ID that it had never before."""
    stamp = _stamp(now)
    fresh = hashlib.sha256(f"{stamp} {msgspec.json.encode(document)!r}".encode()).hexdigest()[:32]
    for name in headers:
        if name.lower() == "ce-time":
            headers[name] = stamp
        elif name.lower() == "ce-id":
            headers[name] = fresh
    if not isinstance(document, dict):
        return
    if "detail-type" in document:
        document |= {"time": stamp, "id": fresh}
    if document.get("kind") == "Event":
        document |= {field: stamp for field in _EVENT_TIMES if document.get(field)}


def _filler(outside: Outside, start: datetime, now: datetime) -> Callable[[re.Match[str]], str]:
    def fill(match: re.Match[str]) -> str:
        words = match[1].split()
        if words == ["now"]:
            return _stamp(now)
        if len(words) == 2 and words[0] in ("instance", "provider", "uid", "boot"):
            node = outside.node(words[1])
            provider: str = node["spec"]["providerID"]
            return {
                "instance": provider.rpartition("/")[2],
                "provider": provider,
                "uid": str(node["metadata"]["uid"]),
                "boot": str(node["status"]["nodeInfo"]["bootID"]),
            }[words[0]]
        gmt = words[-1] == "gmt"
        try:
            at = moment(" ".join(words[: -1 if gmt else None]), start)
        except ValueError as problem:
            raise Untellable(f"{match[0]}: {problem}") from problem
        return f"{at:%a, %-d %b %Y %H:%M:%S} GMT" if gmt else _stamp(at)

    return fill


def _filled(value: Any, fill: Callable[[re.Match[str]], str]) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(fill, value)
    if isinstance(value, dict):
        return {key: _filled(item, fill) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, fill) for item in value]
    return value


def _put(document: Any, path: str, value: Any) -> None:
    *way, last = (int(part[1:-1]) if part.startswith("[") else part for part in _PART.findall(path))
    here = document
    try:
        for part in way:
            here = here[part]
        if isinstance(here, list) or (isinstance(here, dict) and isinstance(last, str)):
            here[last] = value
            return
    except (KeyError, IndexError, TypeError):
        pass
    raise Untellable(f"set: {path}: the recorded event has nothing there")


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
