"""What comes in wrong does nothing, and is answered with what is wrong about it.

Every recorded event is posted to every function, behind the real functions-framework, with an
API server that nobody reaches: so a 503 shows that the function wanted to act, and whoever
refuses or declines has asked for nothing.
"""

import importlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from events import recording, registry
from events.cloudevent import MAX_BYTES, CloudEvent
from events.errors import EventError
from events.notice import Reading
from functions.edge import http
from functions.edge.context import Settings
from functions.gateways.kubernetes.client import Cluster
from tests.support.edge import Silent, binary, client_of

ROOT = Path(__file__).parents[2]
RECORDED = sorted(
    path
    for path in (ROOT / "events" / "recorded").glob("*/*.json")
    if not path.name.endswith(recording.EXPECTED_SUFFIX)
)
FUNCTIONS = ("cordon", "drain")
PING = "dev.knative.sources.ping"
REFUSED = {400, 404, 413, 415}

Post = Callable[..., Any]


class Posted:
    def __init__(self, response: Any, transport: Silent) -> None:
        self.status: int = response.status_code
        self.body: bytes = response.data
        self.json: Any = response.json if response.is_json else None
        self.asked = len(transport.asked)


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Post:
    clients: dict[str, Any] = {}

    def _post(name: str, path: str, headers: dict[str, str], body: bytes) -> Posted:
        if name not in clients:
            transport = Silent()
            handle = importlib.import_module(f"functions.{name}").handle
            view = http.function(
                name, handle, connect=lambda: Cluster(transport), settings=Settings()
            )
            clients[name] = transport, client_of(view, tmp_path, monkeypatch)
        transport, client = clients[name]
        transport.asked.clear()
        return Posted(client.post(path, headers=headers, data=body), transport)

    return _post


def test_there_are_recorded_events_of_every_source() -> None:
    assert {source.name for source in registry.SOURCES} <= {path.parent.name for path in RECORDED}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_recorded_event_is_taken_refused_or_wanted_again(post: Post, name: str) -> None:
    for path in RECORDED:
        recorded = recording.load(path.read_bytes())
        # What was recorded behind a broker came to another server's path.
        path_here = recorded.path if recorded.path.startswith("/from/") else "/"
        posted = post(name, path_here, _headers(recorded), recorded.body)
        where = f"{path.parent.name}/{path.name}: {posted.status} {posted.body!r}"
        events, readings = _understood(recorded)
        if events is None or (readings is None and (name == "cordon" or len(events) > 1)):
            assert posted.status in REFUSED, where
            assert posted.json["error"], where
            assert posted.asked == 0, where
            continue
        ticks = any(event.type == PING for event in events)
        # Only cordon listens to what is said of nodes from outside.
        wants = ticks or (name == "cordon" and any(r.notices for r in readings or ()))
        assert posted.status == (503 if wants else 204), where
        assert (posted.asked > 0) is wants, where
        assert posted.body == b"" or posted.json["error"], where


def _understood(
    recorded: recording.Recording,
) -> tuple[list[CloudEvent] | None, list[Reading] | None]:
    """The events, None for a broken envelope, and what they say, None for data that is broken."""
    try:
        events = recording.events_of(recorded)
    except EventError:
        return None, None
    try:
        return events, [registry.read(event) for event in events]
    except EventError:
        return events, None


def _headers(recorded: recording.Recording) -> dict[str, str]:
    # What the sender's socket had, and ours has of its own.
    own = {"host", "content-length"}
    return {name: value for name, value in recorded.headers.items() if name.lower() not in own}


ALERT: dict[str, Any] = {
    "version": "4",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "GpuFell", "node": "n1"},
            "annotations": {},
            "startsAt": "2026-11-02T09:00:00Z",
            "fingerprint": "0123456789abcdef",
        }
    ],
}
NODE_UPDATE = binary("dev.knative.apiserver.resource.update", kind="Node")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("headers", "body", "field"),
    [
        (NODE_UPDATE, b"{not json", "data"),
        (NODE_UPDATE, b'{"kind":"Node"} {}', "data"),
        (NODE_UPDATE, b'{"kind":"\xff"}', "data"),
        ({"content-type": "application/json"}, b"{}", "ce-specversion"),
        *((binary(**{a: ""}), b"{}", f"ce-{a}") for a in ("specversion", "id", "source", "type")),
        (binary(specversion="2.0"), b"{}", "ce-specversion"),
        (binary(time="yesterday"), b"{}", "ce-time"),
        ({"content-type": "application/cloudevents+json"}, b"[]", "event"),
        ({"content-type": "application/cloudevents+json"}, b'{"specversion":', "body"),
        ({"content-type": "application/cloudevents-batch+json"}, b"{}", "body"),
    ],
)
def test_a_malformed_event_is_a_400_that_names_the_field_and_asks_for_nothing(
    post: Post, name: str, headers: dict[str, str], body: bytes, field: str
) -> None:
    posted = post(name, "/", headers, body)
    assert (posted.status, posted.json["field"], posted.asked) == (400, field, 0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_body_over_a_mebibyte_is_refused(post: Post, name: str) -> None:
    posted = post(name, "/", NODE_UPDATE, b'"' + b"x" * MAX_BYTES + b'"')
    assert (posted.status, posted.asked) == (413, 0)


def test_a_type_that_nobody_reads_is_refused(post: Post) -> None:
    posted = post("cordon", "/", binary("com.example.lunch"), b"{}")
    assert (posted.status, posted.asked) == (400, 0)
    assert "com.example.lunch" in posted.json["error"]


def test_one_bad_event_in_a_batch_and_nothing_is_done(post: Post) -> None:
    good = {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "dev.groundcrew.alertmanager",
        "data": ALERT,
    }
    headers = {"content-type": "application/cloudevents-batch+json"}
    bad_envelope = good | {"specversion": "2.0"}
    posted = post("cordon", "/", headers, json.dumps([good, bad_envelope]).encode())
    assert (posted.status, posted.json["index"], posted.asked) == (400, 1, 0)
    bad_data = good | {"data": ALERT | {"version": "3"}}
    posted = post("cordon", "/", headers, json.dumps([good, good, bad_data]).encode())
    assert (posted.status, posted.json["index"], posted.asked) == (400, 2, 0)


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_dates_far_off_are_read_or_refused_and_never_a_mistake(post: Post, when: str) -> None:
    alert = ALERT | {"alerts": [ALERT["alerts"][0] | {"startsAt": when}]}
    raw = post("cordon", "/from/alertmanager", {}, json.dumps(alert).encode())
    assert raw.status in (400, 503)
    headed = post("cordon", "/", binary("dev.groundcrew.alertmanager", time=when), b"{}")
    assert headed.status == 400


def test_an_api_server_that_is_away_is_a_503_for_a_fault_and_a_tick(post: Post) -> None:
    alert = post("cordon", "/from/alertmanager", {}, json.dumps(ALERT).encode())
    assert (alert.status, alert.asked > 0) == (503, True)
    for name in FUNCTIONS:
        assert post(name, "/", binary(PING, time=datetime.now(UTC).isoformat()), b"").status == 503


def test_five_hundred_machines_in_one_event_are_one_call(post: Post) -> None:
    entities = [{"entityValue": f"i-{number:017x}"} for number in range(500)]
    path = ROOT / "events/recorded/aws_health/multi_entity_one_page.json"
    body = json.loads(recording.load(path.read_bytes()).body)
    entities = [body["detail"]["affectedEntities"][0] | entity for entity in entities]
    body["detail"]["affectedEntities"] = entities
    posted = post("cordon", "/from/eventbridge", {}, json.dumps(body).encode())
    assert (posted.status, posted.asked) == (503, 1)
