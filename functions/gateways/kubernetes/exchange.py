"""How a call reaches an API server: requests that are counted, bounded and checked, answers that
are decoded, lists by page, watches by line.

`client.Cluster` says what is asked; nothing here knows of nodes or pods.
"""

import copy
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Self, TypeVar

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.transport import Request, Response, Transport

T = TypeVar("T")
PAGE = 500
"""Objects a page: a few MB of a large cluster's nodes, decoded and dropped."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark after which a watch tells news."""
_PATH = re.compile(r"(/[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?)+")
_SAME = timedelta(seconds=3)


class Watch(Generic[T]):
    """An open watch. Iterate it for `types.WatchEvent`; close it, or leave its ``with`` block,
    to end it. Iteration ends when the server ends the watch (its timeout), raises
    `errors.Gone` when the resourceVersion is too old, and `errors.Unreachable` when the
    connection broke."""

    def __init__(self, lines: Iterator[bytes], kind: type[T], request: str) -> None:
        self._lines = lines
        self._decode: Callable[[bytes], types.WatchEvent[T]] = msgspec.json.Decoder(
            types.WatchEvent[kind]  # type: ignore[valid-type]
        ).decode
        self._request = request

    def __iter__(self) -> Iterator[types.WatchEvent[T]]:
        for line in self._lines:
            if not line.strip():
                continue
            if line.startswith(b'{"type":"ERROR"'):
                status = msgspec.json.decode(line, type=types.WatchEvent[errors.Status]).object
                raise errors.api_error(self._request, status.code, msgspec.json.encode(status))
            yield self._decode(line)

    def close(self) -> None:
        close = getattr(self._lines, "close", None)
        if close:
            close()

    def __enter__(self) -> "Watch[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Exchange:
    """One API server, through a `Transport`.

    ``requests`` counts what was sent, by verb and resource, for the budget of requests per
    event: each is a cost to an API server that thousands of nodes share. ``wrote`` says how many
    of them changed something.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._counting = threading.Lock()
        self._wrote = [0]
        self._dated: list[tuple[str, datetime]] = []
        """The last answer's Date, and when it came by our own clock."""
        self._lacks: set[str] = set()
        """What this server was found to be too old for."""
        self.requests: dict[str, int] = {}

    @property
    def wrote(self) -> int:
        return self._wrote[0]

    @property
    def skew(self) -> timedelta:
        """How far the server's clock is ahead of ours, by the Date of its last answer, which is in
        whole seconds: less than `_SAME` is taken for none."""
        if not self._dated:
            return timedelta(0)
        from email.utils import parsedate_to_datetime

        text, came = self._dated[0]
        try:
            ahead = parsedate_to_datetime(text) - came
        except ValueError:
            return timedelta(0)
        return ahead if abs(ahead) > _SAME else timedelta(0)

    def bounded(self, left: Callable[[], float]) -> Self:
        """The same cluster and counters; no request lasts longer than ``left()`` says, and none
        is sent when that is not above 0 (`errors.Unreachable`)."""
        made = copy.copy(self)
        made._transport = _Bounded(self._transport, left)
        return made

    def fresh(self) -> Self:
        """The same server over the same transport, counted anew."""
        made = type(self)(self._transport)
        made._dated, made._lacks = self._dated, self._lacks
        return made

    def _delete(self, resource: str, path: str, uid: str, resource_version: str = "") -> None:
        unchanged = {"resourceVersion": resource_version} if resource_version else {}
        preconditions = {"uid": uid, **unchanged}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        request = Request(method="DELETE", path=path, body=msgspec.json.encode(body))
        self._exchange("delete", resource, request, changes=True)

    def _get(self, resource: str, path: str, kind: type[T]) -> T:
        response = self._exchange("get", resource, Request(method="GET", path=path), changes=False)
        return decode(response.body, kind, f"GET {path}")

    def _pages(
        self, resource: str, path: str, kind: type[T], query: Mapping[str, str]
    ) -> Iterator[types.Page[T]]:
        token = ""
        while True:
            parameters = {**query, "limit": str(PAGE)}
            if token:
                parameters["continue"] = token
            request = Request(method="GET", path=path, query=parameters, timeout_seconds=15.0)
            response = self._exchange("list", resource, request, changes=False)
            page = decode(response.body, types.Page[kind], f"GET {path}")  # type: ignore[valid-type]
            yield page
            token = page.metadata.continue_
            if not token:
                return

    def _list(
        self, resource: str, path: str, kind: type[T], query: Mapping[str, str]
    ) -> Iterator[T]:
        for page in self._pages(resource, path, kind, query):
            yield from page.items or ()

    def _list_all(
        self, resource: str, path: str, kind: type[T], query: Mapping[str, str]
    ) -> types.Page[T]:
        items: list[T] = []
        meta = types.ListMeta()
        for page in self._pages(resource, path, kind, query):
            items.extend(page.items or ())
            meta = page.metadata
        return types.Page(items=items, metadata=meta)

    def _watch(
        self,
        resource: str,
        path: str,
        kind: type[T],
        query: Mapping[str, str],
        resource_version: str | None,
        timeout_seconds: float,
    ) -> Watch[T]:
        """Changes after ``resource_version``; None: all that there is now comes first, as if it
        were added, and then a bookmark that says so (`INITIAL_EVENTS_END`)."""
        if resource_version is None:
            since = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            since = {"resourceVersion": resource_version}
        seconds = max(1, math.ceil(timeout_seconds))
        request = Request(
            method="GET",
            path=path,
            query={
                **query,
                "watch": "true",
                "allowWatchBookmarks": "true",
                **since,
                "timeoutSeconds": str(seconds),
            },
            timeout_seconds=seconds + 5.0,
        )
        self._count("watch", resource)
        response, lines = self._transport.stream(request)
        label = f"WATCH {path}"
        if not 200 <= response.status < 300:
            raise errors.api_error(label, response.status, response.body, _retry_after(response))
        return Watch(lines, kind, label)

    def _write(
        self,
        verb: str,
        resource: str,
        path: str,
        body: Any,
        kind: type[T],
        *,
        method: str = "PATCH",
        content_type: str = "application/json",
        dry_run: bool = False,
    ) -> T:
        request = Request(
            method=method,
            path=path,
            query={"dryRun": "All"} if dry_run else {},
            body=msgspec.json.encode(body),
            content_type=content_type,
        )
        response = self._exchange(verb, resource, request, changes=not dry_run)
        return decode(response.body, kind, f"{method} {path}")

    def _exchange(self, verb: str, resource: str, request: Request, *, changes: bool) -> Response:
        _check(request)
        self._count(verb, resource)
        response = self._transport.send(request)
        if date := response.headers.get("date"):
            self._dated[:] = [(date, datetime.now(UTC))]
        if not 200 <= response.status < 300:
            raise errors.api_error(
                f"{request.method} {request.path}",
                response.status,
                response.body,
                _retry_after(response),
            )
        if changes:
            with self._counting:
                self._wrote[0] += 1
        return response

    def _count(self, verb: str, resource: str) -> None:
        key = f"{verb} {resource}"
        with self._counting:
            self.requests[key] = self.requests.get(key, 0) + 1


class _Bounded:
    """A transport under one deadline."""

    def __init__(self, transport: Transport, left: Callable[[], float]) -> None:
        self._transport = transport
        self._left = left

    def send(self, request: Request) -> Response:
        return self._transport.send(self._cut(request))

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        return self._transport.stream(self._cut(request))

    def _cut(self, request: Request) -> Request:
        left = self._left()
        if left <= 0:
            raise errors.Unreachable(f"{request.method} {request.path}: no time left to ask")
        if left >= request.timeout_seconds:
            return request
        return msgspec.structs.replace(request, timeout_seconds=left)


def decode(body: bytes, kind: type[T], request: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        # A proxy's error page with status 200, or an answer cut short: the server was not heard.
        raise errors.Unreachable(
            f"{request}: the answer is not what the API says: {problem}"
        ) from problem


def _check(request: Request) -> None:
    """Names in paths may come from events (a label of an alert): one that no object can have
    must not reach another path (``..``) or query. It is answered as the server would."""
    if not _PATH.fullmatch(request.path):
        status = errors.Status(404, "NotFound", "no object can have such a name")
        raise errors.NotFound(f"{request.method} {request.path!r}", status)


def _retry_after(response: Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdigit() else None
