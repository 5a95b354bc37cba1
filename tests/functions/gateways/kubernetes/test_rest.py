"""The transport against a scripted HTTP server on a loopback port."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from functions.gateways.kubernetes import connection, errors
from functions.gateways.kubernetes.connect import transport as connect
from functions.gateways.kubernetes.connection import Connection
from functions.gateways.kubernetes.rest import RestTransport
from functions.gateways.kubernetes.transport import JSON_PATCH, Request
from tests.support.scripted import Server, chunks, says, write_kubeconfig

GET = Request(method="GET", path="/api/v1/nodes/n1", query={"labelSelector": "a=b"})
POST = Request(method="POST", path="/api/v1/x", body=b"{}")


@pytest.fixture
def transport(kubeconfig: Path) -> Iterator[RestTransport]:
    made = connect(str(kubeconfig))
    yield made
    made.close()


def test_a_request_arrives_as_it_was_asked_for(server: Server, transport: RestTransport) -> None:
    server.scripts = [says(200, b'{"a":1}', X_Some_Header="Yes")]
    response = transport.send(GET)
    transport.send(
        Request(method="PATCH", path="/api/v1/nodes/n1", body=b"[]", content_type=JSON_PATCH)
    )
    assert (response.status, response.body) == (200, b'{"a":1}')
    assert response.headers["x-some-header"] == "Yes"
    method, path, headers, _ = server.seen[0]
    assert (method, path) == ("GET", "/api/v1/nodes/n1?labelSelector=a%3Db")
    assert headers["authorization"] == "Bearer first"
    assert headers["user-agent"].startswith("groundcrew/")
    assert server.seen[1][2]["content-type"] == JSON_PATCH
    assert server.seen[1][3] == b"[]"


def test_a_401_is_tried_once_more_with_the_credentials_of_now(
    server: Server, transport: RestTransport, kubeconfig: Path
) -> None:
    server.scripts = [says(401), says(200)]
    write_kubeconfig(kubeconfig, server.url, "token: second")
    assert transport.send(POST).status == 200
    assert [seen[2]["authorization"] for seen in server.seen] == ["Bearer first", "Bearer second"]


def test_threads_that_are_refused_together_read_the_credentials_once(server: Server) -> None:
    loads: list[int] = []
    together = threading.Barrier(4)

    def read() -> Connection:
        loads.append(1)
        header = f"Bearer {len(loads)}"
        return connection.to(server.url, lambda: header)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        old = handler.headers["Authorization"] == "Bearer 1"
        if old:
            together.wait(5)
        says(401 if old else 200)(handler)

    server.scripts = [answer]
    transport = RestTransport(read)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(transport.send, [GET] * 4))
    transport.close()
    assert [a.status for a in answers] == [200] * 4
    assert len(loads) == 2


def test_a_second_401_is_the_answer(server: Server, transport: RestTransport) -> None:
    server.scripts = [says(401)]
    assert transport.send(GET).status == 401
    assert len(server.seen) == 2


def test_a_watch_that_is_refused_with_401_reads_the_credentials_anew(
    server: Server, transport: RestTransport, kubeconfig: Path
) -> None:
    server.scripts = [says(401), chunks(b'{"a":1}\n')]
    write_kubeconfig(kubeconfig, server.url, "token: second")
    response, lines = transport.stream(GET)
    assert (response.status, list(lines)) == (200, [b'{"a":1}'])


def test_credentials_that_can_no_longer_be_read_are_said_to_be_the_reason(
    server: Server, transport: RestTransport, kubeconfig: Path
) -> None:
    server.scripts = [says(401)]
    kubeconfig.write_text("")
    with pytest.raises(errors.Unreachable, match=r"401.*cannot be read anew"):
        transport.send(GET)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("request_", [GET, POST])
def test_a_refusal_is_handed_over_and_not_retried(
    server: Server, transport: RestTransport, request_: Request, status: int
) -> None:
    server.scripts = [says(status, b'{"code":1}', Retry_After="1")]
    started = time.monotonic()
    response = transport.send(request_)
    assert (response.status, response.headers["retry-after"]) == (status, "1")
    assert len(server.seen) == 1
    assert time.monotonic() - started < 0.9


def test_a_redirect_is_not_followed(server: Server, transport: RestTransport) -> None:
    server.scripts = [says(302, b"", Location="/elsewhere")]
    assert transport.send(GET).status == 302
    assert len(server.seen) == 1


def test_no_answer_in_time_is_unreachable(server: Server, transport: RestTransport) -> None:
    held = threading.Event()
    server.scripts = [lambda handler: held.wait(5)]
    try:
        with pytest.raises(errors.Unreachable, match="GET /api/v1/nodes/n1"):
            transport.send(Request(method="GET", path="/api/v1/nodes/n1", timeout_seconds=0.1))
    finally:
        held.set()


def test_an_answer_that_drips_is_given_up_at_its_deadline(
    server: Server, transport: RestTransport
) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.05)

    server.scripts = [drip]
    started = time.monotonic()
    with pytest.raises(errors.Unreachable, match="no full answer"):
        transport.send(Request(method="GET", path="/x", timeout_seconds=0.2))
    assert time.monotonic() - started < 2


def test_a_reset_is_unreachable(server: Server, transport: RestTransport) -> None:
    def reset(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    server.scripts = [reset]
    with pytest.raises(errors.Unreachable):
        transport.send(POST)
    assert len(server.seen) == 1


def test_an_answer_cut_short_is_unreachable(server: Server, transport: RestTransport) -> None:
    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.close_connection = True

    server.scripts = [cut]
    with pytest.raises(errors.Unreachable):
        transport.send(GET)


def test_a_refused_connection_is_unreachable(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        path = tmp_path / "kubeconfig"
        write_kubeconfig(path, f"http://127.0.0.1:{unused.getsockname()[1]}", "token: t")
        transport = connect(str(path))
        with pytest.raises(errors.Unreachable):
            transport.send(GET)
        transport.close()


def test_a_watch_gives_whole_lines_however_they_were_cut(
    server: Server, transport: RestTransport
) -> None:
    server.scripts = [chunks(b'{"a":', b'1}\n{"b":2}\n{"c"', b":3}\n")]
    response, lines = transport.stream(GET)
    assert response.status == 200
    assert list(lines) == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


@pytest.mark.parametrize("said", [b'{"a":1}\n', b'{"a":1}\n{"b"'])
def test_a_watch_that_breaks_is_unreachable_and_one_that_ends_is_not(
    server: Server, transport: RestTransport, said: bytes
) -> None:
    server.scripts = [chunks(said, end=False)]
    _, lines = transport.stream(GET)
    assert next(lines) == b'{"a":1}'
    with pytest.raises(errors.Unreachable):
        next(lines)


def test_a_line_without_its_end_is_not_handed_over(
    server: Server, transport: RestTransport
) -> None:
    server.scripts = [chunks(b'{"a":1}\n{"b"')]
    _, lines = transport.stream(GET)
    assert next(lines) == b'{"a":1}'
    with pytest.raises(errors.Unreachable, match="cut within a line"):
        next(lines)


def test_a_silent_watch_is_given_up(server: Server, transport: RestTransport) -> None:
    held = threading.Event()
    server.scripts = [chunks(b'{"a":1}\n', hold=held)]
    _, lines = transport.stream(Request(method="GET", path="/x", timeout_seconds=0.1))
    assert next(lines) == b'{"a":1}'
    with pytest.raises(errors.Unreachable):
        next(lines)
    held.set()


def test_a_watch_that_is_refused_has_its_reason_in_the_answer(
    server: Server, transport: RestTransport
) -> None:
    server.scripts = [says(410, b'{"code":410}')]
    response, lines = transport.stream(GET)
    assert (response.status, response.body, list(lines)) == (410, b'{"code":410}', [])


def test_closing_a_watch_ends_the_thread_that_reads_it(
    server: Server, transport: RestTransport
) -> None:
    held = threading.Event()
    server.scripts = [chunks(b'{"a":1}\n', hold=held)]
    _, lines = transport.stream(GET)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.extend(lines))
    reader.start()
    while not read:
        time.sleep(0.01)
    lines.close()  # type: ignore[attr-defined]
    reader.join(2)
    assert not reader.is_alive()
    held.set()
