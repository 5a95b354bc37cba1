"""The embedded cluster over HTTP, for function servers and kubectl."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.local.cluster.call import Answer, Call
from infra.local.cluster.embedded import EmbeddedCluster
from infra.local.cluster.faults import ConnectionDropped
from infra.local.cluster.watch import WatchStream

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

BOOKMARK_SECONDS = 60.0
LONGEST_IDLE_SECONDS = 1.0
"""How far the cluster may lag behind a clock that is not the system's."""
START_SECONDS = 10.0


class ServerNotStartedError(Exception):
    pass


class Server:
    """A running server; ``with serve(cluster) as server: ...`` closes it."""

    def __init__(
        self, cluster: EmbeddedCluster, port: int, on_wait: Callable[[float], None] | None
    ) -> None:
        import uvicorn

        self._cluster = cluster
        self._on_wait = on_wait
        self._stopping = threading.Event()
        self._something_changed = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchers: set[asyncio.Event] = set()
        self._socket = socket.create_server(("127.0.0.1", port))
        # asyncio does so itself only where the socket names its protocol; without it each answer
        # waits 40 ms for the client's delayed acknowledgement of its headers.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            self._app,
            log_level="critical",
            access_log=False,
            interface="asgi3",
            lifespan="off",
            # A dropped connection is a fault that a test asked for.
            timeout_graceful_shutdown=1,
        )
        self._uvicorn = uvicorn.Server(config)
        self._threads = [
            threading.Thread(target=self._serve, name="embedded-cluster", daemon=True),
            threading.Thread(target=self._tick, name="embedded-cluster-time", daemon=True),
        ]
        cluster.subscribe(self._changed)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def kubeconfig(self, path: Path, *, namespace: str = "default") -> Path:
        """Write a kubeconfig for this server to ``path``."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "embedded", "cluster": {"server": self.url}}],
            # Without a user kubectl asks for a password as soon as anything answers 401.
            "users": [{"name": "embedded", "user": {"token": "embedded"}}],
            "contexts": [
                {
                    "name": "embedded",
                    "context": {"cluster": "embedded", "user": "embedded", "namespace": namespace},
                }
            ],
            "current-context": "embedded",
        }
        path.write_text(json.dumps(document, indent=2))  # JSON is YAML
        return path

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._uvicorn.started:
            if time.monotonic() > deadline or not self._threads[0].is_alive():
                raise ServerNotStartedError(f"no server at {self.url} within {START_SECONDS} s")
            time.sleep(0.01)

    def close(self) -> None:
        self._stopping.set()
        self._something_changed.set()
        self._wake()
        self._uvicorn.should_exit = True
        for thread in self._threads:
            thread.join(timeout=10)
        self._socket.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # the threads

    def _serve(self) -> None:
        asyncio.run(self._uvicorn.serve(sockets=[self._socket]))

    def _tick(self) -> None:
        """Keep the cluster at the clock's time."""
        while not self._stopping.is_set():
            self._something_changed.clear()
            self._cluster.advance(self._cluster.clock.now())
            due = self._cluster.next_due()
            wait = LONGEST_IDLE_SECONDS
            if due is not None:
                wait = min(wait, (due - self._cluster.clock.now()).total_seconds())
            self._something_changed.wait(max(0.001, wait))

    def _changed(self) -> None:
        self._something_changed.set()
        self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            # Closing between the check and the call: nobody is left to be woken.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake_watchers)

    def _wake_watchers(self) -> None:
        for event in self._watchers:
            event.set()

    # requests

    async def _app(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        from starlette.requests import Request

        if scope["type"] != "http":
            return
        self._loop = asyncio.get_running_loop()
        try:
            response = await self._respond(Request(scope, receive))
        except ConnectionDropped:
            await _hang_up(send)
            return
        await response(scope, receive, send)

    async def _respond(self, request: "Request") -> "Response":
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import StreamingResponse

        call = Call(
            method=request.method,
            path=request.url.path,
            query=dict(request.query_params),
            body=await request.body(),
            content_type=request.headers.get("content-type", ""),
            accept=request.headers.get("accept", ""),
        )
        if not call.is_watch:
            return _response(await run_in_threadpool(self._cluster.handle, call))
        found = await run_in_threadpool(self._cluster.watch, call)
        if isinstance(found, Answer):
            return _response(found)
        return StreamingResponse(self._lines(found), media_type="application/json")

    async def _lines(self, stream: WatchStream) -> AsyncIterator[bytes]:
        """The watch until its time is over. With ``on_wait`` that is at once, as in process."""
        loop = asyncio.get_running_loop()
        end = loop.time() + stream.timeout_seconds
        bookmark = loop.time() + BOOKMARK_SECONDS
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            while not self._stopping.is_set():
                changed.clear()
                while lines := self._cluster.lines(stream):
                    for line in lines:
                        yield line
                now = loop.time()
                if stream.ended or now >= end or self._on_wait:
                    break
                if now >= bookmark:
                    bookmark = now + BOOKMARK_SECONDS
                    for line in self._cluster.bookmark(stream):
                        yield line
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), min(end, bookmark) - now)
            if self._on_wait and not stream.ended:
                self._on_wait(stream.timeout_seconds)
                for line in self._cluster.lines(stream):
                    yield line
            for line in self._cluster.bookmark(stream):
                yield line
        finally:
            self._watchers.discard(changed)


def serve(
    cluster: EmbeddedCluster, port: int = 0, *, on_wait: Callable[[float], None] | None = None
) -> Server:
    """Serve the cluster on a loopback port (0: any free one) until ``close``.

    A thread keeps the cluster at its clock's time. With ``on_wait`` the clock is a simulated one:
    a watch then ends as soon as it has told what there is, and reports the seconds that it would
    have waited, as `EmbeddedTransport` does.
    """
    server = Server(cluster, port, on_wait)
    server.start()
    return server


def _response(answer: Answer) -> "Response":
    from starlette.responses import Response

    return Response(
        answer.body,
        status_code=answer.status,
        headers=dict(answer.headers),
        media_type=answer.content_type,
    )


async def _hang_up(send: "Send") -> None:
    """Break off in the middle of an answer: the server closes a connection whose answer is
    shorter than it said."""
    message: dict[str, Any] = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-length", b"1000"), (b"content-type", b"application/json")],
    }
    await send(message)
