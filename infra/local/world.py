"""The cluster that a scenario is played in: the embedded one, or any that has an API server.

The player and everybody in the scenario (agents, clouds, people) reach it through its API alone,
so that the same scenario plays against a real one.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from functions.gateways.kubernetes.transport import Request, Transport
from infra.local.clock import SimulatedClock

_T = TypeVar("_T")

TOLD = {"Node": "/api/v1/nodes", "Event": "/api/v1/namespaces/default/events"}
"""What the project's ApiServerSources watch."""


class Change(NamedTuple):
    """What a watch says: one object was added, changed or deleted."""

    verb: str
    """``add``, ``update`` or ``delete``, as ApiServerSource calls them."""
    kind: str
    body: bytes
    """The object."""

    @property
    def name(self) -> str:
        return msgspec.json.decode(self.body, type=_Named).metadata.name


class _Meta(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta


class World(Protocol):
    clock: SimulatedClock

    @property
    def transport(self) -> Transport: ...

    @property
    def version(self) -> int:
        """Another number whenever anything has changed."""
        ...

    def advance(self, to: datetime) -> None:
        """Let happen by itself what is due until then."""
        ...

    def next_due(self) -> datetime | None:
        """When something happens by itself next; None: nothing will."""
        ...

    def changes(self) -> list[Change]:
        """What has happened to Nodes and Events since the last call."""
        ...

    def close(self) -> None: ...


class EmbeddedWorld:
    """The embedded cluster, in process; ``transport`` may be another way to the same one."""

    def __init__(
        self,
        clock: SimulatedClock,
        transport: Transport | None = None,
        *,
        seen: int = 50_000,
        seed: int = 1,
    ) -> None:
        """``seen``: how many requests the cluster remembers; ``seed``: of names and UIDs."""
        from infra.local.cluster import EmbeddedCluster, EmbeddedTransport

        self.clock = clock
        self.cluster = EmbeddedCluster(clock, seen=seen, seed=seed)
        self._inside = EmbeddedTransport(self.cluster, on_wait=clock.waited)
        self.transport: Transport = transport or self._inside
        self._read_up_to = 0
        self._versions = dict.fromkeys(TOLD, 0)

    @property
    def version(self) -> int:
        return self.cluster.resource_version

    def advance(self, to: datetime) -> None:
        self.cluster.advance(to)

    def next_due(self) -> datetime | None:
        return self.cluster.next_due()

    def changes(self) -> list[Change]:
        if self.version == self._read_up_to:
            return []
        self._read_up_to = self.version
        found = [change for kind, path in TOLD.items() for change in self._watch(kind, path)]
        return [change for _, change in sorted(found, key=lambda pair: pair[0])]

    def forget(self) -> None:
        """Let go of what has changed and was read: a play of months must not grow with them."""
        if self.version == self._read_up_to:
            self._versions = dict.fromkeys(TOLD, self._read_up_to)
            self.cluster.compact()

    def close(self) -> None: ...

    def _watch(self, kind: str, path: str) -> Iterator[tuple[int, Change]]:
        query = {"watch": "true", "resourceVersion": str(self._versions[kind])}
        if not self._versions[kind]:
            # From the beginning of time: a watch without a version begins with what is there.
            query.pop("resourceVersion")
        _, lines = self._inside.stream(Request(method="GET", path=path, query=query))
        for line in lines:
            event = msgspec.json.decode(line, type=_WatchLine)
            body = bytes(event.object)
            version = int(msgspec.json.decode(body, type=_Versioned).metadata.version)
            self._versions[kind] = max(version, self._versions[kind])
            yield version, Change(_VERBS[event.type], kind, body)


_VERBS = {"ADDED": "add", "MODIFIED": "update", "DELETED": "delete"}


class _WatchLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _VersionedMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion")


class _Versioned(msgspec.Struct):
    metadata: _VersionedMeta


class Api:
    """The API server for those who are not us: plain objects, and an error for every refusal."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, path: str) -> dict[str, Any]:
        return self._send("GET", path)

    def read(self, path: str, form: type[_T]) -> _T:
        """What is at ``path``, of which no more is decoded than ``form`` has."""
        answer = self._transport.send(Request(method="GET", path=path))
        _check("GET", path, answer.status, answer.body)
        return msgspec.json.decode(answer.body, type=form)

    def find(self, path: str) -> dict[str, Any] | None:
        answer = self._transport.send(Request(method="GET", path=path))
        if answer.status == 404:
            return None
        return _decoded("GET", path, answer.status, answer.body)

    def list(self, path: str, **query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._send("GET", path, query=query).get("items") or []
        return found

    def create(self, path: str, item: Mapping[str, Any]) -> dict[str, Any]:
        return self._send("POST", path, item)

    def patch(
        self, path: str, change: Any, content_type: str = "application/merge-patch+json"
    ) -> dict[str, Any]:
        return self._send("PATCH", path, change, content_type=content_type)

    def delete(self, path: str, grace_seconds: int | None = None) -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        self._send("DELETE", path, options)

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        answer = self._transport.send(
            Request(
                method=method,
                path=path,
                query=query or {},
                body=b"" if body is None else msgspec.json.encode(body),
                content_type=content_type,
            )
        )
        return _decoded(method, path, answer.status, answer.body)


class Refused(Exception):
    """The API server refused what the scenario's people or agents wanted to do."""


def _check(method: str, path: str, status: int, body: bytes) -> None:
    if not 200 <= status < 300:
        raise Refused(f"{method} {path}: {status} {body[:300].decode(errors='replace')}")


def _decoded(method: str, path: str, status: int, body: bytes) -> dict[str, Any]:
    _check(method, path, status, body)
    found: dict[str, Any] = msgspec.json.decode(body)
    return found
