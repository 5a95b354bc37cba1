"""The embedded cluster as the functions' client sees it: bytes in, bytes out, no sockets."""

from collections.abc import Callable, Iterator

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.transport import Request, Response
from infra.local.cluster.call import Answer, Call
from infra.local.cluster.embedded import EmbeddedCluster
from infra.local.cluster.faults import ConnectionDropped
from infra.local.cluster.watch import WatchStream


class EmbeddedTransport:
    """A `functions.gateways.kubernetes.transport.Transport`.

    Time does not pass inside a call, so a watch gives what has happened since its version and
    then ends as if its time were over; ``on_wait`` is told how many seconds that would have been,
    for a clock whose ``monotonic()`` is to go on.
    """

    def __init__(
        self, cluster: EmbeddedCluster, on_wait: Callable[[float], None] | None = None
    ) -> None:
        self._cluster = cluster
        self._on_wait = on_wait

    def send(self, request: Request) -> Response:
        try:
            return _response(self._cluster.handle(_call(request)))
        except ConnectionDropped:
            raise _unreachable(request) from None

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        try:
            found = self._cluster.watch(_call(request))
        except ConnectionDropped:
            raise _unreachable(request) from None
        if isinstance(found, Answer):
            return _response(found), iter(())
        response = Response(status=200, headers={"content-type": "application/json"})
        return response, self._lines(found, request)

    def _lines(self, stream: WatchStream, request: Request) -> Iterator[bytes]:
        try:
            while lines := self._cluster.lines(stream):
                yield from lines
            if stream.ended:
                return
            if self._on_wait:
                self._on_wait(stream.timeout_seconds)
            yield from self._cluster.lines(stream)
            yield from self._cluster.bookmark(stream)
        except ConnectionDropped:
            raise _unreachable(request) from None


def _call(request: Request) -> Call:
    return Call(
        method=request.method,
        path=request.path,
        query=request.query,
        body=request.body,
        content_type=request.content_type,
    )


def _response(answer: Answer) -> Response:
    headers = {"content-type": answer.content_type, **answer.headers}
    return Response(status=answer.status, headers=headers, body=answer.body)


def _unreachable(request: Request) -> errors.Unreachable:
    return errors.Unreachable(f"{request.method} {request.path}: the connection was dropped")
