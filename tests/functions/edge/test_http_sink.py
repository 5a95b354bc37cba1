"""Events that are posted on arrive as they were, and what the sink answers is understood."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from events import cloudevent, registry
from events.cloudevent import CloudEvent
from functions.edge import sender
from functions.edge.http_sink import HttpSink, Many
from functions.edge.sqs_options import Result
from tests.support import aws as cloud

(SPOT,) = registry.from_raw("eventbridge", {}, cloud.spot("i-0123456789abcdef0").encode())
ODD = CloudEvent(
    id='a "quoted" % id\n', source="/x", type="t.odd", subject="s", extensions={"instanceid": "i-1"}
)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    answer: tuple[int, dict[str, str], bytes] = (204, {}, b"")

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        self.server.got.append((dict(self.headers.items()), body))
        status, headers, said = self.server.answer
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(said))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield made
        made.shutdown()


def sink(server: Server, many: Many = Many.EACH, key: str = "") -> HttpSink:
    url = f"http://127.0.0.1:{server.server_port}/"
    return HttpSink(url, connections=2, many=many, sender_key=key)


def heard(server: Server) -> list[CloudEvent]:
    return [event for headers, body in server.got for event in cloudevent.parse(headers, body)]


@pytest.mark.parametrize(("many", "requests"), [(Many.EACH, 2), (Many.BATCH, 1)])
def test_what_is_sent_is_what_arrives(server: Server, many: Many, requests: int) -> None:
    assert sink(server, many)([SPOT, SPOT]) == [Result(204), Result(204)]
    assert heard(server) == [SPOT, SPOT]
    assert len(server.got) == requests


def test_several_sent_as_one_say_what_they_say_by_themselves(server: Server) -> None:
    (other,) = registry.from_raw("eventbridge", {}, cloud.spot("i-0fedcba9876543210").encode())
    assert sink(server, Many.ONE)([SPOT, other]) == [Result(204), Result(204)]
    (one,) = heard(server)
    told = [registry.read(event).notices[0] for event in (SPOT, other)]
    assert list(registry.read(one).notices) == told


def test_one_alone_is_sent_as_itself(server: Server) -> None:
    sink(server, Many.ONE)([SPOT])
    assert heard(server) == [SPOT]


@pytest.mark.parametrize("many", Many)
def test_what_is_sent_bears_the_signature_of_its_sender(server: Server, many: Many) -> None:
    sink(server, many, "a key")([SPOT, SPOT])
    assert heard(server)
    assert all(sender.is_known(event, "a key") for event in heard(server))


def test_an_id_with_a_line_break_does_not_become_a_header(server: Server) -> None:
    sink(server)([ODD])
    ((headers, _),) = server.got
    assert headers["ce-id"] == "a%20%22quoted%22%20%25%20id%0A"


@pytest.mark.parametrize("many", [Many.BATCH, Many.ONE])
def test_no_more_are_sent_at_once_than_a_function_takes(server: Server, many: Many) -> None:
    large = cloud.bridged("AWS Health Event", {"x": "y" * 250_000}, source="aws.health")
    (event,) = registry.from_raw("eventbridge", {}, large.encode())
    assert sink(server, many)([event] * 3) == [Result(204)] * 3
    assert len(server.got) == 3
    assert max(len(body) for _, body in server.got) < cloudevent.MAX_BYTES


def test_whose_machine_is_none_of_the_clusters_is_heard_from_a_function(server: Server) -> None:
    server.answer = (204, {"Groundcrew-Unknown": "i-1,i-2"}, b"")
    assert sink(server)([SPOT]) == [Result(204, frozenset({"i-1", "i-2"}))]


@pytest.mark.parametrize("status", [400, 404, 429, 503, 302])
def test_what_is_no_success_is_said_with_its_reason(server: Server, status: int) -> None:
    server.answer = (status, {"Retry-After": "7"}, b'{"error": "no such thing"}')
    (result,) = sink(server)([SPOT])
    assert (result.done, result.status, result.retry_after_seconds) == (False, status, 7.0)
    assert "no such thing" in result.problem


def test_a_sink_that_does_not_answer_is_no_answer() -> None:
    (result,) = HttpSink("http://127.0.0.1:9/", connections=1)([SPOT])
    assert (result.done, result.status) == (False, 0)
    assert "127.0.0.1:9" in result.problem
