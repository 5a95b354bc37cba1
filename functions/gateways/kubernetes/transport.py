"""How a request reaches an API server.

The client speaks to a `Transport`, of which there are two: connections to a real API server
(`rest`), and the embedded API server called in process by the replay. Both
move bytes, so that what the functions decode on a laptop is what they decode in a cluster.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    """Absolute path below the server's URL, e.g. ``/api/v1/nodes/n1``."""
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"
    timeout_seconds: float = 5.0
    """For the whole exchange; for a stream, the longest silence that is waited for."""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str] = {}
    """Names in lower case."""
    body: bytes = b""


class Transport(Protocol):
    """Moves one request. Raises `errors.Unreachable` when no answer came, and nothing else:
    an answer of whatever status is a `Response`."""

    def send(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        """An answer whose body is read line by line (a watch). The iterator ends when the server
        ends the stream; closing it closes the connection. A non-2xx answer has no lines, and its
        body in the response."""
        ...
