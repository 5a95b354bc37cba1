"""The parser against the specification, and against the cloudevents package as an oracle."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from cloudevents.exceptions import GenericException
from cloudevents.http import from_http
from hypothesis import given
from hypothesis import strategies as st

from events import cloudevent, recording
from events.cloudevent import CloudEvent, parse
from events.errors import EventError, EventTooLarge, MalformedEvent

HEADERS = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/tests",
    "ce-type": "com.example.test",
    "content-type": "application/json",
}
RECORDED = sorted((Path(recording.__file__).parent / "recorded").glob("*/*.json"))


def _one(headers: Mapping[str, str], body: bytes) -> CloudEvent:
    (event,) = parse(headers, body)
    return event


def _refusal(headers: Mapping[str, str], body: bytes = b"{}") -> MalformedEvent:
    with pytest.raises(MalformedEvent) as caught:
        parse(headers, body)
    return caught.value


def _attributes(event: CloudEvent) -> dict[str, str]:
    found = {"id": event.id, "source": event.source, "type": event.type, **event.extensions}
    if event.subject:
        found["subject"] = event.subject
    return found


def _oracle(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, str], object]:
    """What the package makes of it. It leaves percent-encoding in place and invents a time."""
    made = from_http(dict(headers), body)
    attributes = {}
    for name, value in made.get_attributes().items():
        if name in ("specversion", "time", "datacontenttype", "dataschema") or value is None:
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        attributes[name] = unquote(text) if "ce-id" in {h.lower() for h in headers} else text
    return attributes, made.data


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_is_accepted_the_package_reads_the_same(path: Path) -> None:
    if path.name.endswith(recording.EXPECTED_SUFFIX):
        return
    recorded = recording.load(path.read_bytes())
    if recorded.path.startswith("/from/") or cloudevent.is_batch(recorded.headers):
        return
    try:
        event = _one(recorded.headers, recorded.body)
    except EventError:
        return
    attributes, data = _oracle(recorded.headers, recorded.body)
    assert _attributes(event) == attributes
    assert (json.loads(event.data) if event.data else None) == data


_text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(
    attributes=st.fixed_dictionaries(
        {"id": _text, "source": _text, "type": _text},
        optional={"subject": _text, "traced": _text, "n1": st.integers(-9, 9), "b": st.booleans()},
    ),
    data=_json,
)
def test_a_structured_event_reads_as_the_package_reads_it(
    attributes: dict[str, Any], data: object
) -> None:
    body = json.dumps({"specversion": "1.0", **attributes, "data": data}).encode()
    headers = {"Content-Type": "application/cloudevents+json"}
    event = _one(headers, body)
    read, value = _oracle(headers, body)
    assert _attributes(event) == read
    assert json.loads(event.data) == data
    # The package takes an empty string for no data.
    assert value == (data if data != "" else None)


@given(st.dictionaries(st.sampled_from([*HEADERS, "ce-x", "ce-time"]), st.text(max_size=8)))
def test_any_headers_are_read_or_refused_and_never_crash(headers: dict[str, str]) -> None:
    try:
        event = _one({**HEADERS, **headers}, b"{}")
    except EventError:
        return
    assert event.id
    assert event.source
    assert event.type


@given(st.binary(max_size=40))
def test_any_body_is_read_or_refused_and_never_crashes(body: bytes) -> None:
    for content_type in ("application/json", cloudevent.STRUCTURED, cloudevent.BATCH):
        try:
            parse({**HEADERS, "content-type": content_type}, body)
        except EventError:
            continue


def test_malformed_json_is_refused_which_the_package_hands_on_as_it_is() -> None:
    assert from_http(HEADERS, b'{"a":').data == b'{"a":'
    assert _refusal(HEADERS, b'{"a":').field == "data"


def test_a_missing_id_is_refused_and_none_is_invented() -> None:
    headers = {name: value for name, value in HEADERS.items() if name != "ce-id"}
    with pytest.raises(GenericException):
        from_http(headers, b"{}")
    assert _refusal(headers).field == "ce-id"


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
@pytest.mark.parametrize("value", [None, ""])
def test_a_required_attribute_is_neither_missing_nor_empty(name: str, value: str | None) -> None:
    headers = {key: text for key, text in HEADERS.items() if key != f"ce-{name}"}
    if value is not None:
        headers[f"ce-{name}"] = value
    assert _refusal(headers).field == f"ce-{name}"
    event = {key[3:]: text for key, text in headers.items() if key.startswith("ce-")}
    structured = {"content-type": cloudevent.STRUCTURED}
    assert _refusal(structured, json.dumps(event).encode()).field == name


def test_header_values_are_unquoted_and_percent_decoded_once() -> None:
    event = _one({**HEADERS, "ce-subject": '"n\\"1"', "ce-note": "Gr%C3%BC%C3%9Fe %2525"}, b"{}")
    assert event.subject == 'n"1'
    assert event.extensions == {"note": "Grüße %25"}


@pytest.mark.parametrize("value", ["100%", "%C3", "%zz", "Grüße", "%00", "a\x01"])
def test_a_header_value_that_no_sender_may_write_is_refused(value: str) -> None:
    assert _refusal({**HEADERS, "ce-subject": value}).field == "ce-subject"


def test_header_names_are_read_in_any_case_and_never_twice() -> None:
    assert _one({key.title(): value for key, value in HEADERS.items()}, b"{}").id == "1"
    assert _refusal({**HEADERS, "Ce-Id": "2"}).field == "ce-id"


@pytest.mark.parametrize("name", ["trace-id", "trace_id", "größe", "data", "datacontenttype"])
def test_a_name_that_is_no_attribute_is_refused(name: str) -> None:
    assert _refusal({**HEADERS, f"ce-{name}": "1"}).field == f"ce-{name}"


def test_an_extension_may_be_empty_since_knative_sends_it_so() -> None:
    assert _one({**HEADERS, "Ce-Namespace": ""}, b"{}").extensions == {"namespace": ""}


@pytest.mark.parametrize("name", ["subject", "time", "dataschema"])
def test_an_optional_attribute_is_left_out_and_not_empty(name: str) -> None:
    assert _refusal({**HEADERS, f"ce-{name}": ""}).field == f"ce-{name}"


def test_time_is_read_to_the_microsecond_and_in_utc() -> None:
    event = _one({**HEADERS, "ce-time": "2026-11-29T15:23:09.297177697+02:00"}, b"{}")
    assert event.time == datetime(2026, 11, 29, 13, 23, 9, 297178, tzinfo=UTC)
    assert event.time.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    ["yesterday", "2026-11-29", "2026-11-29T13:23:09", "2026-02-30T00:00:00Z", "1764422589",
     "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"],
)  # fmt: skip
def test_a_time_that_is_none_or_far_off_is_refused(value: str) -> None:
    assert _refusal({**HEADERS, "ce-time": value}).field == "ce-time"
    body = json.dumps({"specversion": "1.0", "id": "1", "source": "s", "type": "t", "time": value})
    assert _refusal({"content-type": cloudevent.STRUCTURED}, body.encode()).field == "time"


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=UTF-8", "application/vnd.x+json", "text/json", ""]
)
def test_json_is_known_by_its_content_type(content_type: str) -> None:
    assert _one({**HEADERS, "content-type": content_type}, b'{"a": 1}').data == b'{"a": 1}'


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/xml", "application/json; charset=latin-1", "application/jsonp",
     "application/cloudevents", "application/cloudevents+avro"],
)  # fmt: skip
def test_data_that_is_not_json_is_refused(content_type: str) -> None:
    assert _refusal({**HEADERS, "content-type": content_type}).field == "content-type"


def test_an_event_without_data_needs_no_content_type() -> None:
    assert _one({**HEADERS, "content-type": "text/plain"}, b"").data == b""
    assert _one({**HEADERS, "content-type": "application/json"}, b"").data == b""


@pytest.mark.parametrize("body", [b'{"a": "\xff"}', b'"\xed\xa0\x80"', b"\xef\xbb\xbf{}"])
def test_what_is_no_utf_8_is_refused(body: bytes) -> None:
    assert _refusal(HEADERS, body).field == "data"


def test_nesting_without_end_is_refused() -> None:
    assert _refusal(HEADERS, b"[" * 200_000).field == "data"
    assert _refusal({"content-type": cloudevent.STRUCTURED}, b"[" * 200_000).field == "body"


def test_a_body_of_one_mebibyte_is_read_and_one_byte_more_is_not() -> None:
    body = b'"' + b"a" * (cloudevent.MAX_BYTES - 2) + b'"'
    assert _one(HEADERS, body).data == body
    with pytest.raises(EventTooLarge, match="1048577 bytes"):
        parse(HEADERS, body + b" ")


def test_base64_data_is_decoded_and_must_be_json() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    headers = {"content-type": cloudevent.STRUCTURED}
    good = json.dumps({**event, "data_base64": "eyJhIjogMX0="}).encode()
    assert _one(headers, good).data == b'{"a": 1}'
    for bad in ("eyJhIjog", "*", 1, None):
        body = json.dumps({**event, "data_base64": bad}).encode()
        assert _refusal(headers, body).field == "data_base64"


def test_null_is_an_attribute_left_out() -> None:
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "s",
        "type": "t",
        "subject": None,
        "x": None,
    }
    read = _one({"content-type": cloudevent.STRUCTURED}, json.dumps(event).encode())
    assert (read.subject, read.extensions) == ("", {})


def test_an_integer_of_more_than_32_bits_is_no_attribute() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "n": 2**31}
    assert (
        _refusal({"content-type": cloudevent.STRUCTURED}, json.dumps(event).encode()).field == "n"
    )


def test_a_batch_is_read_whole_and_the_first_bad_event_is_named_by_its_place() -> None:
    good = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": {"a": 1}}
    headers = {"Content-Type": cloudevent.BATCH}
    assert cloudevent.is_batch(headers)
    assert not cloudevent.is_batch(HEADERS)
    assert [event.data for event in parse(headers, json.dumps([good, good]).encode())] == [
        b'{"a": 1}'
    ] * 2
    bad = {**good, "id": ""}
    refusal = _refusal(headers, json.dumps([good, bad, 7]).encode())
    assert (refusal.field, refusal.index) == ("id", 1)
    assert str(refusal) == "event 1 of the batch: id: empty"
    assert _refusal(headers, json.dumps([good, 7]).encode()).index == 1
    assert _refusal(headers, json.dumps(good).encode()).field == "body"
