"""Whose word may empty a node."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import flask.testing
import msgspec
import pytest

from events import registry
from events.cloudevent import CloudEvent
from events.notice import Severity
from functions import cordon
from functions.edge import http, sender
from functions.edge.context import Context, Outcome, Settings
from functions.gateways.kubernetes.client import Cluster
from infra.local.clock import SimulatedClock
from tests.support import aws as cloud
from tests.support.edge import Silent, client_of

KEY, TOKEN = "a key", "a token"
ID = "i-0123456789abcdef0"
NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def event(body: str = "") -> CloudEvent:
    (made,) = registry.from_raw("eventbridge", {}, (body or cloud.spot(ID)).encode())
    return made


def test_what_is_signed_is_known_and_what_a_broker_adds_does_not_matter() -> None:
    signed = sender.sign(event(), KEY)
    assert sender.is_known(signed, KEY)
    added = {**signed.extensions, "knativearrivaltime": "2026-03-02T09:00:00Z"}
    assert sender.is_known(msgspec.structs.replace(signed, extensions=added), KEY)


@pytest.mark.parametrize(
    "change",
    [
        {"data": cloud.spot("i-0fedcba9876543210").encode()},
        {"id": "another"},
        {"type": "aws.ec2.EC2 Instance State-change Notification"},
        {"source": "/aws/999999999999/us-east-1/aws.ec2"},
        {"subject": "another"},
    ],
)
def test_what_was_changed_on_the_way_is_not(change: dict[str, Any]) -> None:
    signed = sender.sign(event(), KEY)
    assert not sender.is_known(msgspec.structs.replace(signed, **change), KEY)


def test_neither_is_a_machine_that_was_put_in() -> None:
    signed = sender.sign(event(), KEY)
    forged = msgspec.structs.replace(signed, extensions={**signed.extensions, "instanceid": "i-1"})
    assert not sender.is_known(forged, KEY)


def test_nor_another_key_or_none() -> None:
    assert not sender.is_known(sender.sign(event(), "another"), KEY)
    assert not sender.is_known(event(), KEY)
    assert sender.SIGNATURE not in sender.sign(event(), "").extensions


def test_without_a_key_the_network_is_trusted() -> None:
    assert sender.is_known(event(), "")


def test_only_what_a_cloud_says_is_doubted() -> None:
    spot = registry.read(event()).notices
    (doubted,) = sender.doubted(spot)
    assert doubted.unconfirmed
    own = (msgspec.structs.replace(spot[0], source="kubernetes.node"),)
    assert sender.doubted(own) == own


class Hearing:
    """A function that keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[CloudEvent] = []

    def handle(self, event: CloudEvent, context: Context) -> Outcome:
        self.heard.append(event)
        return Outcome()


@pytest.fixture
def hearing() -> Hearing:
    return Hearing()


@pytest.fixture
def client(
    hearing: Hearing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> flask.testing.FlaskClient:
    settings = Settings(sender_key=KEY, ingress_token=TOKEN)
    view = http.function(
        "hearing", hearing.handle, connect=lambda: Cluster(Silent()), settings=settings
    )
    return client_of(view, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("header", "known"),
    [(f"Bearer {TOKEN}", True), ("Bearer another", False), (TOKEN, False), ("", False)],
)
def test_a_raw_body_is_known_by_the_ingress_token(
    header: str, known: bool, client: flask.testing.FlaskClient, hearing: Hearing
) -> None:
    headers = {"authorization": header} if header else {}
    answer = client.post("/from/eventbridge", data=cloud.spot(ID), headers=headers)
    assert answer.status_code == 204
    assert sender.is_known(hearing.heard[0], KEY) is known


def test_no_token_that_is_not_set_lets_anybody_in() -> None:
    assert not sender.may_speak({"authorization": "Bearer "}, "")


def is_doubted(made: CloudEvent, key: str) -> bool:
    context = Context(lambda: Cluster(Silent()), SimulatedClock(NOW), Settings(sender_key=key))
    (notice,) = cordon._read(made, context).notices
    assert notice.severity is Severity.EVICT
    return notice.unconfirmed


def test_cordon_acts_on_the_word_of_those_it_knows() -> None:
    assert is_doubted(event(), KEY)
    assert not is_doubted(sender.sign(event(), KEY), KEY)
    assert not is_doubted(event(), "")
