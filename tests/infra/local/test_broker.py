"""The local broker does what Knative's was measured to do, in process and over HTTP."""

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from functions.edge.call import Function, Reply
from functions.edge.context import Answer, Context, Outcome, Settings
from functions.gateways.kubernetes.errors import Unreachable
from infra.local import filters
from infra.local.broker import NO_ANSWER, Broker, Delivery, HttpBroker
from infra.local.clock import SimulatedClock
from infra.local.manifests import Delivery as DeliverySpec
from infra.local.manifests import Trigger

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
RETRIES = DeliverySpec(retries=3, backoff=timedelta(seconds=0.2), timeout=timedelta(seconds=5))


def _event(kind: str, identifier: str = "1") -> CloudEvent:
    return CloudEvent(id=identifier, source="/test", type=kind, data=b"{}")


def _trigger(name: str, kind: str, delivery: DeliverySpec = RETRIES) -> Trigger:
    matches = filters.of_trigger({"filters": [{"exact": {"type": kind}}]})
    return Trigger(name=name, subscriber=name, matches=matches, delivery=delivery)


def _no_cluster() -> Any:
    raise AssertionError("nobody connects here")


def _broker(
    clock: SimulatedClock, triggers: list[Trigger], **handlers: Callable[[Any, Context], Outcome]
) -> Broker:
    functions = {
        name: Function(name, handle, _no_cluster, clock, Settings())
        for name, handle in handlers.items()
    }
    return Broker(functions, triggers=triggers, clock=clock)


def _answering(kind: str) -> Callable[[Any, Context], Outcome]:
    return lambda event, context: Outcome(answer=Answer(kind, {"nodes": ["n1"]}))


def test_an_event_reaches_the_triggers_that_it_matches_and_no_other() -> None:
    heard: list[str] = []

    def _hear(name: str) -> Callable[[Any, Context], Outcome]:
        return lambda event, context: heard.append(name) or Outcome(declined="heard")

    triggers = [_trigger("one", "t.a"), _trigger("two", "t.b"), _trigger("three", "t.a")]
    broker = _broker(
        SimulatedClock(NOW), triggers, one=_hear("one"), two=_hear("two"), three=_hear("three")
    )
    deliveries = broker.publish(_event("t.a"))
    assert heard == ["one", "three"]
    assert [(d.trigger, d.reply.status) for d in deliveries] == [("one", 204), ("three", 204)]


def test_an_answer_goes_back_to_the_broker_and_reaches_who_waits_for_it() -> None:
    seen: list[CloudEvent] = []

    def drain(event: CloudEvent, context: Context) -> Outcome:
        seen.append(event)
        return Outcome()

    triggers = [_trigger("cordon", "t.node"), _trigger("drain", "t.cordoned")]
    broker = _broker(SimulatedClock(NOW), triggers, cordon=_answering("t.cordoned"), drain=drain)
    deliveries = broker.publish(_event("t.node", "e1"))
    assert [d.trigger for d in deliveries] == ["cordon", "drain"]
    assert seen[0].extensions == {"causationid": "e1"}
    assert seen[0].data == b'{"nodes":["n1"]}'


def test_an_answer_that_its_own_trigger_takes_is_refused_as_a_loop() -> None:
    both = Trigger("loop", "loop", filters.of_trigger({}), RETRIES)
    broker = _broker(SimulatedClock(NOW), [both], loop=_answering("t.again"))
    (delivery,) = broker.publish(_event("t.a"))
    assert delivery.dead == "a loop: the answer t.again matches the trigger that it comes from"
    assert broker.dead_letters == [delivery]


def test_two_functions_that_answer_each_other_are_stopped_after_some_hops() -> None:
    triggers = [_trigger("ping", "t.ping"), _trigger("pong", "t.pong")]
    broker = _broker(
        SimulatedClock(NOW), triggers, ping=_answering("t.pong"), pong=_answering("t.ping")
    )
    deliveries = broker.publish(_event("t.ping"))
    assert len(deliveries) == 17
    assert broker.dead_letters[0].dead.startswith("a loop: answers were answered more than 16")


def test_an_unreachable_api_server_is_tried_again_with_growing_waits() -> None:
    clock = SimulatedClock(NOW)
    times: list[float] = []

    def handle(event: CloudEvent, context: Context) -> Outcome:
        times.append(round(clock.monotonic(), 3))
        raise Unreachable("connection refused")

    broker = _broker(clock, [_trigger("cordon", "t.a")], cordon=handle)
    (delivery,) = broker.publish(_event("t.a"))
    assert times == [0, 0.2, 0.6, 1.4]
    assert delivery.attempts == 4
    assert broker.dead_letters == [delivery]
    assert delivery.trigger == "cordon"
    assert delivery.dead == (
        "503: the Kubernetes API server cannot be reached; send the event again"
    )


def test_a_refusal_for_good_is_not_tried_again() -> None:
    def handle(event: CloudEvent, context: Context) -> Outcome:
        raise MalformedEvent("detail.statusCode", "missing")

    broker = _broker(SimulatedClock(NOW), [_trigger("cordon", "t.a")], cordon=handle)
    (delivery,) = broker.publish(_event("t.a"))
    assert (delivery.reply.status, delivery.attempts) == (400, 1)
    assert "detail.statusCode: missing" in delivery.dead


def test_an_event_that_is_taken_on_a_retry_is_no_dead_letter() -> None:
    calls = iter([True, False])

    def handle(event: CloudEvent, context: Context) -> Outcome:
        if next(calls):
            raise RuntimeError("a mistake")
        return Outcome()

    broker = _broker(SimulatedClock(NOW), [_trigger("cordon", "t.a")], cordon=handle)
    (delivery,) = broker.publish(_event("t.a"))
    assert (delivery.reply.status, delivery.attempts) == (204, 2)
    assert broker.dead_letters == []


@pytest.mark.parametrize(
    ("status", "attempts"),
    [
        *((status, 4) for status in (NO_ANSWER, 404, 408, 409, 429, 500, 502, 503)),
        *((status, 1) for status in (301, 400, 413, 415)),
    ],
)
def test_what_is_tried_again_is_what_knative_tries_again(status: int, attempts: int) -> None:
    settled: list[Delivery] = []
    broker = HttpBroker(
        {"f": ""},
        triggers=[_trigger("f", "t.a")],
        clock=SimulatedClock(NOW),
        deliver=lambda trigger, event: Reply(status),
        on_delivery=settled.append,
    )
    broker.publish(_event("t.a"))
    assert broker.wait_until_idle(5)
    broker.close()
    assert settled[0].attempts == attempts
    assert settled[0].dead


def test_a_mistake_of_who_listens_ends_no_lane() -> None:
    heard: list[str] = []

    def listen(delivery: Delivery) -> None:
        heard.append(delivery.event.id)
        raise RuntimeError("nobody thought of this")

    broker = HttpBroker(
        {"f": ""},
        triggers=[_trigger("f", "t.a")],
        deliver=lambda trigger, event: Reply(204),
        on_delivery=listen,
    )
    for _ in range(20):  # more than the threads of a lane
        broker.publish(_event("t.a"))
    assert broker.wait_until_idle(5)
    broker.close()
    assert len(heard) == 20


def test_a_linear_backoff_begins_without_a_wait() -> None:
    spec = DeliverySpec(retries=3, exponential=False, backoff=timedelta(seconds=0.2))
    assert [spec.wait_before(n) for n in (1, 2, 3)] == [0, 0.2, 0.4]


Route = Callable[[dict[str, str], bytes], tuple[int, dict[str, str], bytes]]


@contextmanager
def _server(answer: Route) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers, content = answer(dict(self.headers.items()), body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            with suppress(ConnectionError):  # the broker has given up, as a test wants it
                self.wfile.write(content)

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_over_http_an_answer_is_an_event_again() -> None:
    answered = {
        "ce-specversion": "1.0",
        "ce-id": "a",
        "ce-source": "/groundcrew/cordon",
        "ce-type": "t.cordoned",
        "content-type": "application/json",
    }
    bodies: list[bytes] = []

    def drain(headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        bodies.append(body)
        return 204, {}, b""

    with (
        _server(lambda headers, body: (200, answered, b'{"nodes":["n1"]}')) as first,
        _server(drain) as second,
    ):
        broker = HttpBroker(
            {"cordon": first, "drain": second},
            triggers=[_trigger("cordon", "t.node"), _trigger("drain", "t.cordoned")],
        )
        broker.publish(_event("t.node"))
        assert broker.wait_until_idle(5)
        broker.close()
    assert bodies == [b'{"nodes":["n1"]}']
    assert broker.dead_letters == []


def test_a_2xx_with_a_body_that_is_no_event_counts_as_a_failure() -> None:
    with _server(lambda headers, body: (200, {"content-type": "text/html"}, b"OK")) as url:
        broker = HttpBroker({"f": url}, triggers=[_trigger("f", "t.a")], clock=SimulatedClock(NOW))
        broker.publish(_event("t.a"))
        assert broker.wait_until_idle(5)
        broker.close()
    (dead,) = broker.dead_letters
    assert (dead.reply.status, dead.attempts) == (502, 4)


def test_a_server_that_is_not_there_is_no_answer() -> None:
    broker = HttpBroker(
        {"f": "http://127.0.0.1:9/"}, triggers=[_trigger("f", "t.a")], clock=SimulatedClock(NOW)
    )
    broker.publish(_event("t.a"))
    assert broker.wait_until_idle(5)
    broker.close()
    (dead,) = broker.dead_letters
    assert (dead.reply.status, dead.attempts) == (NO_ANSWER, 4)
    assert dead.dead.startswith("no answer: ")


@pytest.mark.parametrize("who", ["another function", "the same function"])
def test_a_call_that_hangs_delays_no_other_event(who: str) -> None:
    hang = threading.Event()
    heard: list[float] = []

    def serve(headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        if headers["ce-type"] == "t.slow":
            hang.wait(60)
        else:
            heard.append(time.monotonic())
        return 204, {}, b""

    with _server(serve) as one, _server(serve) as two:
        triggers = {
            "another function": [_trigger("one", "t.slow"), _trigger("two", "t.node")],
            "the same function": [Trigger("one", "one", filters.of_trigger({}), RETRIES)],
        }[who]
        broker = HttpBroker({"one": one, "two": two}, triggers=triggers)
        broker.publish(_event("t.slow"))
        started = time.monotonic()
        broker.publish(_event("t.node"))
        while not heard and time.monotonic() - started < 5:
            time.sleep(0.01)
        broker.close()
        hang.set()
    assert heard[0] - started < 2


def test_an_attempt_ends_at_the_deliverys_timeout() -> None:
    hang = threading.Event()

    def slow(headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        hang.wait(10)
        return 204, {}, b""

    with _server(slow) as url:
        spec = DeliverySpec(timeout=timedelta(seconds=0.05))
        broker = HttpBroker({"f": url}, triggers=[_trigger("f", "t.a", spec)])
        broker.publish(_event("t.a"))
        assert broker.wait_until_idle(5)
        broker.close()
        hang.set()
    (dead,) = broker.dead_letters
    assert (dead.reply.status, dead.attempts) == (NO_ANSWER, 1)
