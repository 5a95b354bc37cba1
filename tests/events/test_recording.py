"""Recorded events as files."""

import pytest

from events import recording
from events.errors import MalformedEvent, UnknownSource


def test_a_json_body_is_taken_byte_for_byte_and_a_string_is_the_body_itself() -> None:
    text = b'{"path": "/", "headers": {}, "body": { "a":  1 }}'
    assert recording.load(text).body == b'{ "a":  1 }'
    assert recording.load(b'{"path": "/", "headers": {}, "body": "{\\"a"}').body == b'{"a'
    assert recording.load(b'{"path": "/", "headers": {}, "body_base64": "/w=="}').body == b"\xff"
    assert recording.load(b'{"path": "/", "headers": {}}').body == b""


def test_a_bare_body_is_posted_to_the_source_that_is_named_and_kept_as_it_is() -> None:
    found = recording.load(b'  {"version": "4"}\n', source="alertmanager")
    assert (found.path, found.body) == ("/from/alertmanager", b'  {"version": "4"}\n')
    with pytest.raises(MalformedEvent, match="--source alertmanager"):
        recording.load(b'{"version": "4"}')
    with pytest.raises(UnknownSource, match="gossip"):
        recording.load(b"{}", source="gossip")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b'{"path": 1, "headers": {}}', "path"),
        (b'{"path": "/", "headers": {"a": 1}}', "headers[...]"),
        (b'{"path": "/", "headers": {}, "body_base64": "*"}', "body_base64"),
        (b'{"path": "/", "headers": {}', "file"),
    ],
)
def test_a_broken_recording_is_refused_by_its_field(text: bytes, field: str) -> None:
    with pytest.raises(MalformedEvent) as caught:
        recording.load(text)
    assert caught.value.field == field


def test_several_events_in_one_request_are_one_reading() -> None:
    event = b'{"specversion": "1.0", "id": "1", "source": "s", "type": "dev.knative.sources.ping"}'
    batch = recording.Recording(
        headers={"content-type": "application/cloudevents-batch+json"},
        body=b"[" + event + b"," + event + b"]",
    )
    tick = "a clock's tick: resync"
    assert recording.understand(batch).declined == f"{tick}; {tick}"
