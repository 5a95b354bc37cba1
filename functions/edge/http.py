"""How events come in over HTTP, and what is answered.

    POST /                CloudEvents: binary, structured or a batch
    POST /from/<source>   a source's own body (``/from/alertmanager``), made CloudEvents here
    GET  /healthz         200 and nothing else, for an httpGet probe

Answers: 204, or 200 with one CloudEvent; never anything else that is 2xx, because Knative's
broker counts a body that is no event as a failure and sends the event again. A refusal is a JSON
object: ``error``, and where known the ``field`` and the ``index`` in a batch.

    400  malformed, or refused for good: nothing done     413  body over 1 MiB
    404  no such path, or no such source                  415  neither JSON nor a CloudEvent
    405  another method                                   429  as many calls as we take at once
    500  a mistake of ours; the log has it                503  the API server cannot be reached

functions-framework gives a request no deadline and takes bodies of any size: both are bounded
here and in the functions (`Settings.call_seconds`).
"""

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import flask
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from events import cloudevent, registry
from events.errors import EventError, EventTooLarge
from functions.edge import answers, log, sender
from functions.edge.call import Function, Reply, refuse
from functions.edge.context import Handler, Many, Settings
from functions.edge.sqs_options import MORE
from functions.gateways.aws import client as aws_client
from functions.gateways.aws.client import Aws
from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes.client import Cluster

_FROM = "/from/"
UNKNOWN = "groundcrew-unknown"
"""Header of a success: machines that the events were about and no node of this cluster stands for.
Whoever shares a queue between clusters leaves those events to the others."""
MOST_UNKNOWN = 50
"""Of more than these `MORE` is said: headers may not be long everywhere."""

View = Callable[[flask.Request], flask.Response]


def function(
    name: str,
    handle: Handler,
    *,
    connect: Callable[[], Cluster] | None = None,
    clock: Clock | None = None,
    settings: Settings | None = None,
    aws: Callable[[], Aws] | None = None,
    many: Many | None = None,
) -> View:
    """``handle`` as a view for functions-framework's ``http`` signature.

    ``connect`` opens a cluster, on the first use in a call; by default the one that
    `gateways.kubernetes.connect` finds.
    """
    settings = settings or Settings.from_environment()
    call = Function(
        name, handle, connect or _connect, clock or SystemClock(), settings, aws or _aws, many=many
    )
    places = threading.BoundedSemaphore(settings.max_in_flight)

    def view(request: flask.Request) -> flask.Response:
        if request.path == "/healthz" and request.method in ("GET", "HEAD"):
            return _respond(Reply(200))
        if not places.acquire(blocking=False):
            log.write(logging.WARNING, "busy: an event is sent away", function=name)
            problem = {"error": f"{settings.max_in_flight} calls are in flight; send it again"}
            return _respond(Reply(429, problem=problem, retry_after_seconds=1), unread=True)
        try:
            return _handle(request, call, settings)
        except Exception:  # noqa: BLE001 - the framework would answer with the exception's text
            log.write(logging.ERROR, "failed outside the function", trace=True, function=name)
            return _respond(Reply(500, problem={"error": "internal error"}), unread=True)
        finally:
            places.release()

    view.__name__ = view.__qualname__ = name
    return view


def _handle(request: flask.Request, call: Function, settings: Settings) -> flask.Response:
    if refusal := _wrong_request(request):
        return _respond(refusal, unread=True)
    # One byte more than is taken: of a chunked body the framework hands over what fits without
    # a word, and a body that was cut at the limit must not look like one that ends there.
    request.max_content_length = cloudevent.MAX_BYTES + 1
    try:
        body = request.get_data()
    except RequestEntityTooLarge:
        problem = EventTooLarge(
            f"the body is over {cloudevent.MAX_BYTES} bytes; send smaller batches"
        )
        return _respond(refuse(call.name, problem), unread=True)
    except HTTPException as cut:
        return _respond(Reply(400, problem={"error": f"body: {cut.description}"}), unread=True)
    source = request.path.removeprefix(_FROM) if request.path.startswith(_FROM) else ""
    headers = dict(request.headers.items())
    try:
        if source:
            events = registry.from_raw(source, headers, body)
            if sender.may_speak(_by_lower_case(headers), settings.ingress_token):
                events = [sender.sign(event, settings.sender_key) for event in events]
        else:
            events = cloudevent.parse(headers, body)
    except EventError as problem:
        return _respond(refuse(call.name, problem, unknown=404 if source else 400))
    reply = call(events)
    if reply.event:
        reply = replace(reply, event=sender.sign(reply.event, settings.sender_key))
    return _respond(reply)


def _by_lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _wrong_request(request: flask.Request) -> Reply | None:
    """What is wrong with the request before its body is looked at."""
    path, source = request.path, request.path.removeprefix(_FROM)
    if path != "/" and (source == path or not source or "/" in source):
        return Reply(404, problem={"error": "POST / takes CloudEvents, /from/<source> raw bodies"})
    if request.method != "POST":
        return Reply(405, problem={"error": f"{request.method} is not for events; POST them"})
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        error = f"content-encoding: {encoding[:40]!r} is not read; send the body as it is"
        return Reply(415, problem={"error": error, "field": "content-encoding"})
    return None


def _respond(reply: Reply, *, unread: bool = False) -> flask.Response:
    """``reply`` on the wire. ``unread`` says that the request's body was not read (to its end).

    After the view, functions-framework reads what is left of the body into memory, unless the
    response is a stream. So that nobody makes it hold a gigabyte, an unread request is answered
    with a stream, of one piece and known length.
    """
    headers: dict[str, str] = {}
    body = reply.body
    if reply.event:
        written, body = answers.to_http(reply.event)
        headers |= written
    elif body:
        headers["content-type"] = "application/json"
    if reply.status == 405:
        headers["allow"] = "POST"
    if reply.unknown:
        more = [MORE] if len(reply.unknown) > MOST_UNKNOWN else []
        headers[UNKNOWN] = ",".join(sorted(reply.unknown)[:MOST_UNKNOWN] + more)
    if reply.retry_after_seconds is not None:
        headers["retry-after"] = str(reply.retry_after_seconds)
    if unread:
        response = flask.Response(iter([body]), reply.status, {**headers})
        response.headers["content-length"] = str(len(body))
    else:
        response = flask.Response(body, reply.status, headers)
    if not body:
        # A content type on an empty 204 would be the framework's text/html.
        response.headers.pop("content-type", None)
    return response


@functools.cache
def _cluster() -> Cluster:
    from functions.gateways.kubernetes.connect import connect

    return connect()


@functools.cache
def _aws() -> Aws:
    # Clients take half a second to make, and keep their connections and credentials.
    return aws_client.connect()


def _connect() -> Cluster:
    # Connections and credentials are shared by all calls, the count of requests is each one's.
    return _cluster().fresh()
