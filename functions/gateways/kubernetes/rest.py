"""How requests move to a real API server: over a pool of connections, each once.

Nothing is retried behind the caller's back but one 401 after the credentials were read anew: an
eviction that is sent twice, or a pool that sleeps for a Retry-After, would break deadlines that
only the caller knows.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.connection import Connection
from functions.gateways.kubernetes.transport import Request, Response

CONNECT_SECONDS = 5.0
_SOME = 1 << 16


class RestTransport:
    """Moves requests over connections as ``read`` makes them. Threads may share it.

    ``read`` is called once now and again whenever the server no longer takes the credentials. It
    raises `errors.NotConfigured` when there is nothing to connect to.
    """

    def __init__(self, read: Callable[[], Connection]) -> None:
        self._open = read
        self._lock = threading.Lock()
        self._connection = self._open()
        self.agent = ""
        """The User-Agent; empty: ours, with its version."""

    @property
    def user(self) -> str:
        """What the kubeconfig calls whoever asks; empty where there is none."""
        return self._connection.user()

    def send(self, request: Request) -> Response:
        connection = self._connection
        response = self._exchange(connection, request)
        if response.status == 401:
            response = self._exchange(self._renew(connection), request)
        return response

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        connection = self._connection
        answer = self._begin(connection, request)
        if answer.status == 401:
            self._read(answer, request)
            answer = self._begin(self._renew(connection), request)
        head = Response(status=answer.status, headers=_headers(answer))
        if not 200 <= answer.status < 300:
            body = self._read(answer, request)
            return Response(status=head.status, headers=head.headers, body=body), iter(())
        return head, _Lines(answer, request)

    def close(self) -> None:
        """Close the idle connections."""
        self._connection.pool.clear()

    def _exchange(self, connection: Connection, request: Request) -> Response:
        started = time.monotonic()
        answer = self._begin(connection, request)
        body = self._read(answer, request, started + request.timeout_seconds)
        return Response(status=answer.status, headers=_headers(answer), body=body)

    def _begin(self, connection: Connection, request: Request) -> Any:
        from urllib3 import Timeout

        headers = {"Accept": "application/json", "User-Agent": self.agent or _agent()}
        if request.body:
            headers["Content-Type"] = request.content_type
        url = connection.host + quote(request.path)
        if request.query:
            url += "?" + urlencode(request.query)
        seconds = request.timeout_seconds
        with _unreachable(request):
            # This may read an expired token anew, or run an exec plugin.
            with self._lock:
                authorization = connection.authorization()
            if authorization:
                headers["Authorization"] = authorization
            return connection.pool.request(
                request.method,
                url,
                body=request.body or None,
                headers=headers,
                timeout=Timeout(connect=min(seconds, CONNECT_SECONDS), read=seconds),
                preload_content=False,
                retries=False,
            )

    def _read(self, answer: Any, request: Request, deadline: float | None = None) -> bytes:
        # One recv at a time: the pool's own timeout starts anew with every byte, and a server
        # that sends one a second would be listened to for ever.
        parts = []
        try:
            with _unreachable(request):
                while part := answer.read1(_SOME):
                    parts.append(part)
                    if deadline is not None and time.monotonic() > deadline:
                        raise TimeoutError(f"no full answer in {request.timeout_seconds:g} s")
        except errors.Unreachable:
            answer.close()
            raise
        answer.release_conn()
        return b"".join(parts)

    def _renew(self, refused: Connection) -> Connection:
        """Credentials read anew, by whichever thread was refused first."""
        with self._lock:
            if self._connection is refused:
                try:
                    self._connection = self._open()
                    refused.pool.clear()
                except errors.NotConfigured as problem:
                    raise errors.Unreachable(
                        f"401, and the credentials cannot be read anew: {problem}"
                    ) from problem
            return self._connection


class _Lines(Iterator[bytes]):
    """The lines of a stream as they come. ``close`` may be called from another thread, and ends
    the reading one."""

    def __init__(self, answer: Any, request: Request) -> None:
        self._answer = answer
        self._request = request
        self._closed = False
        self._reading = threading.Lock()
        self._ready: list[bytes] = []
        """Whole lines, the next one last."""
        self._rest = b""

    def __next__(self) -> bytes:
        while not self._ready:
            part = self._read()
            if not part:
                raise StopIteration
            *whole, self._rest = (self._rest + part).split(b"\n")
            self._ready = whole[::-1]
        return self._ready.pop()

    def _read(self) -> bytes:
        """What came; nothing at the end of the stream, or after `close`."""
        with self._reading:
            if self._closed:
                return b""
            try:
                with _unreachable(self._request):
                    part: bytes = self._answer.read1(_SOME)
                if not part and self._rest:
                    raise errors.Unreachable(f"{_label(self._request)}: cut within a line")
            except errors.Unreachable:
                self._answer.close()
                if self._closed:
                    return b""
                self._closed = True
                raise
            return part

    def close(self) -> None:
        self._closed = True
        # Shut down first, which ends a read in another thread; then wait for that to be over,
        # since the answer does not bear being closed under a reader.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._answer.shutdown()
        with self._reading:
            self._answer.close()


@contextlib.contextmanager
def _unreachable(request: Request) -> Iterator[None]:
    """Whatever kept an answer from coming, as the one error that says so."""
    from http.client import HTTPException

    from urllib3.exceptions import HTTPError

    try:
        yield
    except (HTTPError, HTTPException, OSError) as problem:
        raise errors.Unreachable(f"{_label(request)}: {problem}") from problem


def _label(request: Request) -> str:
    return f"{request.method} {request.path}"


def _headers(answer: Any) -> Mapping[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


@functools.cache
def _agent() -> str:
    from importlib import metadata

    try:
        return f"groundcrew/{metadata.version('k8s-groundcrew')}"
    except metadata.PackageNotFoundError:
        return "groundcrew/0"
