"""How events come in over HTTP, behind the real functions-framework."""

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flask.testing
import pytest
from cloudevents.http import from_http

from events.cloudevent import MAX_BYTES, CloudEvent
from events.errors import MalformedEvent
from functions.edge import http
from functions.edge.context import Answer, Context, Outcome, Settings
from functions.edge.sqs_options import MORE
from functions.gateways.kubernetes import connect as connecting
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.errors import KubernetesError, NotConfigured
from tests.support.edge import Refusing, Silent, binary, client_of

Client = flask.testing.FlaskClient
PING = "dev.knative.sources.ping"
Stub = Callable[..., Client]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    def _serve(handle: Any, transport: Any = None, **settings: Any) -> Client:
        def connect() -> Cluster:
            return Cluster(transport or Silent())

        view = http.function("stub", handle, connect=connect, settings=Settings(**settings))
        return client_of(view, tmp_path, monkeypatch)

    return _serve


class Heard:
    """A handler that remembers its events and answers as it is told."""

    def __init__(self, outcome: Outcome | None = None) -> None:
        self.events: list[CloudEvent] = []
        self._outcome = outcome or Outcome(declined="nothing to do")

    def __call__(self, event: CloudEvent, context: Context) -> Outcome:
        self.events.append(event)
        return self._outcome


def _structured(identifier: str = "1", **fields: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": identifier, "source": "/test", "type": PING} | fields


def _batch(client: Client, *events: dict[str, Any]) -> Any:
    return client.post(
        "/", data=json.dumps(events), content_type="application/cloudevents-batch+json"
    )


# what is taken


def test_an_event_that_needs_nothing_is_answered_with_an_empty_204(serve: Stub) -> None:
    heard = Heard()
    response = serve(heard).post("/", headers=binary(subject="s"), data=b'{"a":1}')
    assert (response.status_code, response.data) == (204, b"")
    assert "content-type" not in response.headers
    assert [(e.id, e.subject, e.data) for e in heard.events] == [("1", "s", b'{"a":1}')]


def test_a_structured_event_is_taken(serve: Stub) -> None:
    heard = Heard()
    response = serve(heard).post(
        "/",
        data=json.dumps(_structured(data={"a": 1})),
        content_type="application/cloudevents+json; charset=UTF-8",
    )
    assert response.status_code == 204
    assert heard.events[0].data == b'{"a": 1}'


def test_an_answer_is_one_event_that_the_cloudevents_package_reads(serve: Stub) -> None:
    answer = Answer("dev.groundcrew.nodes.cordoned", {"nodes": ["n1"]})
    client = serve(Heard(Outcome(answer=answer)))
    response = client.post("/", headers=binary(id="e 1"), data=b"{}")
    assert response.status_code == 200
    read = from_http(dict(response.headers.items()), response.data)
    assert read["type"] == "dev.groundcrew.nodes.cordoned"
    assert read["source"] == "/groundcrew/stub"
    assert response.headers["ce-causationid"] == "e%201"
    assert read.get_data() == {"nodes": ["n1"]}


def test_a_batch_is_handled_in_order_and_answered_as_one(serve: Stub) -> None:
    def handle(event: CloudEvent, context: Context) -> Outcome:
        return Outcome(answer=Answer("t.done", {"nodes": [event.id]}))

    response = _batch(serve(handle), _structured("a"), _structured("b"))
    assert response.status_code == 200
    assert response.json == {"nodes": ["a", "b"]}


def test_an_empty_batch_is_taken_and_does_nothing(serve: Stub) -> None:
    heard = Heard()
    assert _batch(serve(heard)).status_code == 204
    assert heard.events == []


def test_a_probe_is_answered_and_no_event(serve: Stub) -> None:
    heard = Heard()
    response = serve(heard).get("/healthz")
    assert (response.status_code, response.data, heard.events) == (200, b"", [])


# what is refused


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_posts_are_events(serve: Stub, method: str) -> None:
    response = serve(Heard()).open("/", method=method, data=b"{}")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/events", "/from/", "/from/a/b", "/healthz"])
def test_another_path_is_not_found(serve: Stub, path: str) -> None:
    assert serve(Heard()).post(path, headers=binary(), data=b"{}").status_code == 404


def test_a_source_that_nobody_knows_is_not_found(serve: Stub) -> None:
    response = serve(Heard()).post("/from/nagios", json={})
    assert response.status_code == 404
    assert "no 'nagios'; known are alertmanager" in response.json["error"]


def test_a_body_that_is_no_json_is_not_read_as_one(serve: Stub) -> None:
    headers = binary() | {"content-type": "text/plain"}
    response = serve(Heard()).post("/", headers=headers, data=b"hello")
    assert (response.status_code, response.json["field"]) == (415, "content-type")


def test_a_compressed_body_is_refused(serve: Stub) -> None:
    headers = binary() | {"content-encoding": "gzip"}
    response = serve(Heard()).post("/", headers=headers, data=b"\x1f\x8b")
    assert (response.status_code, response.json["field"]) == (415, "content-encoding")


def test_what_a_function_refuses_is_a_400_that_names_the_field(serve: Stub) -> None:
    def handle(event: CloudEvent, context: Context) -> Outcome:
        raise MalformedEvent("detail.statusCode", "missing")

    response = serve(handle).post("/", headers=binary(), data=b"{}")
    assert response.status_code == 400
    assert response.json == {
        "error": "detail.statusCode: missing",
        "field": "detail.statusCode",
    }


def test_a_body_of_one_byte_too_many_is_refused(serve: Stub) -> None:
    body = b'"' + b"x" * (MAX_BYTES - 1) + b'"'
    assert serve(Heard()).post("/", headers=binary(), data=body).status_code == 413


@pytest.mark.parametrize("path", ["/", "/from/alertmanager", "/nowhere"])
def test_a_body_over_the_limit_is_refused_before_it_is_read(serve: Stub, path: str) -> None:
    body = io.BytesIO(b"x" * 10)
    heard = Heard()
    response = serve(heard).post(
        path,
        headers=binary(),
        input_stream=body,
        environ_overrides={"CONTENT_LENGTH": str(MAX_BYTES + 2)},
    )
    assert response.status_code == (404 if path == "/nowhere" else 413)
    assert "content-length" in response.headers
    assert body.tell() == 0
    assert heard.events == []


def test_a_chunked_body_is_read_to_the_limit_and_no_further(serve: Stub) -> None:
    body = io.BytesIO(b" " * (3 * MAX_BYTES))
    response = serve(Heard()).post(
        "/",
        headers=binary() | {"transfer-encoding": "chunked"},
        input_stream=body,
        environ_overrides={"wsgi.input_terminated": True, "CONTENT_LENGTH": ""},
    )
    assert response.status_code == 413
    assert body.tell() <= MAX_BYTES + 1


def test_a_body_of_just_the_limit_is_read(serve: Stub) -> None:
    body = b'"' + b"x" * (MAX_BYTES - 2) + b'"'
    assert serve(Heard()).post("/", headers=binary(), data=body).status_code == 204


def test_a_body_that_ends_early_is_a_400(serve: Stub) -> None:
    response = serve(Heard()).post(
        "/",
        headers=binary(),
        input_stream=io.BytesIO(b"{}"),
        environ_overrides={"CONTENT_LENGTH": "100"},
    )
    assert response.status_code == 400


# batches


def test_a_batch_with_a_bad_envelope_does_nothing_and_names_the_place(serve: Stub) -> None:
    heard = Heard()
    response = _batch(serve(heard), _structured(), _structured(), _structured(id=""))
    assert response.status_code == 400
    assert (response.json["field"], response.json["index"]) == ("id", 2)
    assert heard.events == []


def test_a_batch_with_bad_data_does_nothing_and_names_the_place(serve: Stub) -> None:
    heard = Heard()
    bad = _structured(type="dev.groundcrew.alertmanager", data={"version": "3"})
    response = _batch(serve(heard), _structured(), bad)
    assert (response.status_code, response.json["index"]) == (400, 1)
    assert heard.events == []


def test_a_batch_with_a_type_that_nobody_reads_does_nothing(serve: Stub) -> None:
    heard = Heard()
    response = _batch(serve(heard), _structured(), _structured(type="com.example"))
    assert (response.status_code, response.json["index"]) == (400, 1)
    assert heard.events == []


def test_a_batch_of_our_own_answers_is_taken(serve: Stub) -> None:
    heard = Heard()
    ours = _structured(type="dev.groundcrew.nodes.cordoned", data={"nodes": []})
    assert _batch(serve(heard), ours, ours).status_code == 204
    assert len(heard.events) == 2


# what goes wrong


def _list_nodes(event: CloudEvent, context: Context) -> Outcome:
    list(context.cluster.list_nodes())
    return Outcome()


@pytest.mark.parametrize("transport", [Silent(), Refusing(500), Refusing(503), Refusing(429)])
def test_an_api_server_that_cannot_be_reached_is_a_503(serve: Stub, transport: Any) -> None:
    response = serve(_list_nodes, transport).post("/", headers=binary(), data=b"{}")
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1


def test_a_token_that_is_no_longer_good_is_a_503_that_says_so(serve: Stub) -> None:
    response = serve(_list_nodes, Refusing(401)).post("/", headers=binary(), data=b"{}")
    assert response.status_code == 503
    assert "does not know us: is our token still good?" in response.json["error"]


def test_the_api_servers_own_retry_after_is_passed_on(serve: Stub) -> None:
    transport = Refusing(429, {"retry-after": "7"})
    response = serve(_list_nodes, transport).post("/", headers=binary(), data=b"{}")
    assert response.headers["retry-after"] == "7"


def test_no_configuration_for_a_cluster_is_a_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect() -> Cluster:
        raise NotConfigured("no kubeconfig")

    view = http.function("stub", _list_nodes, connect=connect, settings=Settings())
    client = client_of(view, tmp_path, monkeypatch)
    assert client.post("/", headers=binary(), data=b"{}").status_code == 503


def test_other_refusals_of_the_api_server_are_a_mistake_of_ours(serve: Stub) -> None:
    response = serve(_list_nodes, Refusing(403)).post("/", headers=binary(), data=b"{}")
    assert response.status_code == 500


def test_a_mistake_is_a_500_that_tells_the_log_and_not_the_caller(
    serve: Stub, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(event: CloudEvent, context: Context) -> Outcome:
        raise RuntimeError("the password is swordfish")

    response = serve(handle).post("/", headers=binary(), data=b"{}")
    assert response.status_code == 500
    assert b"swordfish" not in response.data
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert record.exc_info


def test_a_function_that_answers_its_own_type_is_a_mistake(serve: Stub) -> None:
    client = serve(Heard(Outcome(answer=Answer("t.a", {}))))
    assert client.post("/", headers=binary("t.a"), data=b"{}").status_code == 500


def test_more_calls_than_allowed_are_sent_away_and_the_place_is_given_back(serve: Stub) -> None:
    inside, leave = threading.Event(), threading.Event()

    def handle(event: CloudEvent, context: Context) -> Outcome:
        inside.set()
        leave.wait(5)
        return Outcome()

    client = serve(handle, max_in_flight=1)
    app = client.application
    statuses: list[int] = []
    first = threading.Thread(
        target=lambda: statuses.append(
            app.test_client().post("/", headers=binary(), data=b"{}").status_code
        )
    )
    first.start()
    assert inside.wait(5)
    busy = client.post("/", headers=binary(), data=b"{}")
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
    assert client.get("/healthz").status_code == 200
    leave.set()
    first.join()
    assert statuses == [204]
    assert client.post("/", headers=binary(), data=b"{}").status_code == 204


def test_calls_share_their_connections_and_count_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[Cluster] = []
    counted: list[dict[str, int]] = []

    def connect() -> Cluster:
        connected.append(Cluster(Refusing(404)))
        return connected[-1]

    def handle(event: CloudEvent, context: Context) -> Outcome:
        with pytest.raises(KubernetesError):
            context.cluster.get_node("n1")
        counted.append(dict(context.requests))
        return Outcome()

    http._cluster.cache_clear()
    monkeypatch.setattr(connecting, "connect", connect)
    client = client_of(http.function("stub", handle, settings=Settings()), tmp_path, monkeypatch)
    for _ in range(2):
        client.post("/", headers=binary(), data=b"{}")
    http._cluster.cache_clear()
    assert len(connected) == 1
    assert counted == [{"get nodes": 1}, {"get nodes": 1}]


def test_a_declined_event_loads_no_client_of_anything() -> None:
    script = """
import sys, flask
from functions.edge import http
from functions.edge.context import Outcome, Settings
view = http.function("stub", lambda e, c: Outcome(declined="x"), settings=Settings())
app = flask.Flask("t")
headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t",
           "content-type": "application/json"}
with app.test_request_context("/", method="POST", headers=headers, data=b"{}"):
    assert view(flask.request._get_current_object()).status_code == 204
heavy = {"kubernetes", "boto3", "botocore", "cloudevents", "yaml", "urllib3", "rich", "croniter"}
print(sorted(heavy & set(sys.modules)))
"""
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "[]"


def test_machines_that_no_node_stands_for_are_named_beside_the_answer(serve: Stub) -> None:
    """So that who shares a queue between clusters leaves their events to the others."""
    client = serve(Heard(Outcome(unknown=frozenset({"i-2", "i-1"}))))
    assert client.post("/", headers=binary(), data=b"{}").headers[http.UNKNOWN] == "i-1,i-2"
    known = serve(Heard(Outcome())).post("/", headers=binary(), data=b"{}")
    assert http.UNKNOWN not in known.headers


@pytest.mark.parametrize(("unknown", "more"), [(50, False), (51, True)])
def test_of_more_of_them_than_are_named_it_is_said_that_there_are_more(
    serve: Stub, unknown: int, more: bool
) -> None:
    client = serve(Heard(Outcome(unknown=frozenset(f"i-{n}" for n in range(unknown)))))
    said = client.post("/", headers=binary(), data=b"{}").headers[http.UNKNOWN].split(",")
    assert len(said) == 50 + more
    assert (MORE in said) is more
