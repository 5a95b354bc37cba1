"""The recorder: an HTTP server that writes down what it is sent, masked, before it answers.

    POST /                CloudEvents, in any mode
    POST /from/<source>   a source's own body
    GET  /healthz         200

It answers 204, and keeps what is malformed, too: a replay refuses it as the functions did. 404 is
a source that nobody knows, which no replay could read, 413 a body over 1 MiB, 503 a disk that takes
no more; with ``forward`` the answer is that of whom it was forwarded to, after it was written down,
and 502 when nobody answered there.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from events import cloudevent, registry
from events.errors import UnknownSource
from functions.edge import answers
from infra.local import clock, telling
from infra.local.feed import Feed
from infra.local.masking import Masker
from infra.local.segments import Segments
from infra.local.world import Change

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    Forward = Callable[[str, dict[str, str], bytes], "Response"]

IN_FLIGHT = 64
BODY_SECONDS = 10.0
READ_ON = 4
"""Times the largest body."""
SYNC_SECONDS = 1.0
"""How often what was written is brought to the disk: what a power cut can cost."""
PRUNE_SECONDS = 60.0
FORWARD_SECONDS = 30.0
_OURS = "dev.groundcrew."
_TAKEN = ("dev.groundcrew.alertmanager", "dev.groundcrew.from.")
_NOT_FORWARDED = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "transfer-encoding", "upgrade"}
)
_ANSWERED = ("content-type", "retry-after")


class Sink:
    """An ASGI application over ``segments``."""

    def __init__(
        self, segments: Segments, masker: Masker, forward: "Forward | None" = None
    ) -> None:
        self.segments = segments
        self.left_out = 0
        """Clocks and answers of our own functions: a replay makes them itself."""
        self.refused = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        """That of `serve`."""
        self._masker = masker
        self._forward = forward

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        from starlette.requests import Request

        if scope["type"] != "http":
            return
        response = await self._respond(Request(scope, receive))
        if not 200 <= response.status_code < 300:
            self.refused += 1
        await response(scope, receive, send)

    async def _respond(self, request: "Request") -> "Response":
        path = request.url.path
        source = path.removeprefix("/from/")
        if path == "/healthz" and request.method in ("GET", "HEAD"):
            return _answer(200)
        if path != "/" and (source == path or not source or "/" in source):
            return _answer(404, "POST / takes CloudEvents, /from/<source> a source's own body")
        if source != path and not self._forward:  # else it is for whom it is forwarded to
            try:
                registry.check_raw(source)
            except UnknownSource as unknown:
                return _answer(404, str(unknown))
        if request.method != "POST":
            return _answer(405, f"{request.method} is not for events; POST them")
        try:
            body = await asyncio.wait_for(_body(request), BODY_SECONDS)
        except TimeoutError:
            return _answer(408, f"the body did not come within {BODY_SECONDS:.0f} s")
        if body is None:
            return _answer(413, f"the body is over {cloudevent.MAX_BYTES} bytes")
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            self.keep(path, headers, body)
        except OSError as problem:
            return _answer(503, f"cannot be written down: {problem.strerror}")
        if self._forward:
            from starlette.concurrency import run_in_threadpool

            return await run_in_threadpool(self._forward, path, headers, body)
        return _answer(204)

    def told(self, change: Change) -> None:
        """Write down what a watch says, from another thread than that of `serve`. Raises
        OSError."""

        async def kept() -> None:
            headers, body = answers.to_http(telling.of_change(change, self.segments.stamp()))
            self.keep("/", {name.lower(): value for name, value in headers.items()}, body)

        assert self.loop is not None, "not serving yet"
        asyncio.run_coroutine_threadsafe(kept(), self.loop).result()

    def keep(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Write a request down, names of headers in lower case. Raises OSError."""
        if path == "/" and is_our_own(headers, body):
            self.left_out += 1
            return
        at = self.segments.stamp()
        self.segments.write(at, line_of(at, path, headers, body, self._masker))


def is_our_own(headers: dict[str, str], body: bytes) -> bool:
    """A tick of a clock, or the answer of one of our functions."""
    kind = headers.get("ce-type", "")
    if headers.get("content-type", "").startswith(cloudevent.STRUCTURED):
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            kind = msgspec.json.decode(body, type=_Typed).type
    return kind == clock.PING or (kind.startswith(_OURS) and not kind.startswith(_TAKEN))


class _Typed(msgspec.Struct):
    type: str = ""


def line_of(at: datetime, path: str, headers: dict[str, str], body: bytes, masker: Masker) -> bytes:
    """One line of a history."""
    kept = masker.body(body)
    line = {
        "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "method": "POST",
        "path": masker.path(path),
        "headers": masker.headers(headers),
        "body": msgspec.Raw(kept) if isinstance(kept, bytes) else kept,
    }
    return msgspec.json.encode(line) + b"\n"


async def _body(request: "Request") -> bytes | None:
    """None when it is too large. Some more is read then, and forgotten: a sender that is cut off
    while it sends never hears why."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= cloudevent.MAX_BYTES:
            parts.append(part)
        elif size > READ_ON * cloudevent.MAX_BYTES:
            break
    return b"".join(parts) if size <= cloudevent.MAX_BYTES else None


def _answer(status: int, error: str = "") -> "Response":
    from starlette.responses import Response

    if not error:
        return Response(status_code=status)
    headers = {"content-type": "application/json"}
    if status == 405:
        headers["allow"] = "POST"
    if status in (408, 413):
        # What is left of the body is not read.
        headers["connection"] = "close"
    return Response(msgspec.json.encode({"error": error}), status, headers)


def forward_to(url: str) -> "Forward":
    """To ``url`` and the path that it was sent to, as it came."""
    import urllib3
    from starlette.responses import Response

    pool = urllib3.PoolManager(maxsize=IN_FLIGHT, retries=False)
    timeout = urllib3.Timeout(connect=5.0, total=FORWARD_SECONDS)

    def forward(path: str, headers: dict[str, str], body: bytes) -> Response:
        try:
            answer = pool.request(
                "POST",
                url.rstrip("/") + path,
                body=body,
                headers={k: v for k, v in headers.items() if k not in _NOT_FORWARDED},
                timeout=timeout,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as problem:
            return _answer(502, f"written down, and not forwarded: {problem}")
        named = {name.lower(): value for name, value in answer.headers.items()}
        kept = {k: v for k, v in named.items() if k in _ANSWERED or k.startswith("ce-")}
        return Response(answer.data, answer.status, kept)

    return forward


def serve(
    sink: Sink,
    listening: socket.socket,
    started: Callable[[], None],
    feeds: Sequence[Feed] = (),
) -> None:
    """Until SIGINT or SIGTERM. What was written is on the disk when this returns. ``feeds`` tell
    `Sink.told` what they hear meanwhile; raises what they raise where they cannot begin."""
    import uvicorn

    config = uvicorn.Config(
        sink,
        log_level="critical",
        access_log=False,
        interface="asgi3",
        lifespan="off",
        limit_concurrency=IN_FLIGHT,
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    server = uvicorn.Server(config)

    async def run() -> None:
        sink.loop = loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, server)
        upkeep = asyncio.create_task(_upkeep(sink.segments))
        try:
            for feed in feeds:
                await asyncio.to_thread(feed.begin)
            started()
            await server.serve(sockets=[listening])
        finally:
            for feed in feeds:
                # In a thread: what it has just heard is still written down here.
                await asyncio.to_thread(feed.end)
            upkeep.cancel()

    try:
        asyncio.run(run())
    finally:
        sink.segments.close()


def _stop(server: Any) -> None:
    server.should_exit = True


async def _upkeep(segments: Segments) -> None:
    loop = asyncio.get_running_loop()
    pruned = loop.time()
    while True:
        await asyncio.sleep(SYNC_SECONDS)
        # A full disk is told to the next one who sends something.
        with contextlib.suppress(OSError):
            await asyncio.to_thread(segments.sync)
            if loop.time() - pruned >= PRUNE_SECONDS:
                pruned = loop.time()
                segments.prune()
