"""One event answers a call, whatever was in it, and answers the same way twice."""

import json
from datetime import UTC, datetime

import pytest
from cloudevents.http import from_http

from events import cloudevent
from events.cloudevent import CloudEvent
from functions.edge import answers
from functions.edge.answers import AnswerMatchesTrigger, compose
from functions.edge.context import Answer

NOW = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
CORDONED = "dev.groundcrew.nodes.cordoned"


def _event(identifier: str = "1", source: str = "/s") -> CloudEvent:
    return CloudEvent(id=identifier, source=source, type="t.a", data=b"{}")


def _compose(*answered: tuple[CloudEvent, Answer]) -> CloudEvent:
    event = compose("cordon", answered, NOW)
    assert event is not None
    return event


def test_no_answers_are_no_event() -> None:
    assert compose("cordon", [], NOW) is None


def test_an_answer_says_who_when_and_because_of_what() -> None:
    event = _compose((_event("e1"), Answer(CORDONED, {"nodes": ["n1"], "severity": "evict"})))
    assert event.type == CORDONED
    assert event.source == "/groundcrew/cordon"
    assert event.time == NOW
    assert event.extensions == {"causationid": "e1"}
    assert json.loads(event.data) == {"nodes": ["n1"], "severity": "evict"}


def test_an_event_delivered_again_is_answered_with_the_same_id() -> None:
    first = _compose((_event(), Answer(CORDONED, {"nodes": ["n1"]})))
    again = compose("cordon", [(_event(), Answer(CORDONED, {"nodes": []}))], NOW.replace(hour=10))
    assert again is not None
    assert first.id == again.id


@pytest.mark.parametrize(
    "other",
    [
        (_event("2"), Answer(CORDONED, {})),
        (_event("1", "/other"), Answer(CORDONED, {})),
        (_event(), Answer("dev.groundcrew.nodes.released", {})),
    ],
)
def test_another_event_or_another_answer_has_another_id(other: tuple[CloudEvent, Answer]) -> None:
    assert _compose((_event(), Answer(CORDONED, {}))).id != _compose(other).id


def test_answers_of_one_type_are_joined_and_those_of_another_left_to_the_resync() -> None:
    event = _compose(
        (_event("1"), Answer(CORDONED, {"nodes": ["n1"]})),
        (_event("2"), Answer("dev.groundcrew.nodes.released", {"nodes": ["n2"]})),
        (_event("3"), Answer(CORDONED, {"nodes": ["n3"]})),
    )
    assert event.type == CORDONED
    assert json.loads(event.data) == {"nodes": ["n1", "n3"]}


def test_many_nodes_are_told_as_a_count_and_a_sample() -> None:
    nodes = [f"n{number}" for number in range(51)]
    told = json.loads(_compose((_event(), Answer(CORDONED, {"nodes": nodes}))).data)
    assert told == {"nodes": nodes[:50], "count": 51}
    told = json.loads(_compose((_event(), Answer(CORDONED, {"nodes": nodes[:50]}))).data)
    assert told == {"nodes": nodes[:50]}


def test_a_function_may_not_answer_with_the_type_that_woke_it() -> None:
    with pytest.raises(AnswerMatchesTrigger, match=r"cordon answers t\.a"):
        _compose((_event(), Answer("t.a", {})))


def test_an_id_from_outside_cannot_break_out_of_its_header() -> None:
    wild = 'a b\r\nX-Evil: 1 "é" 100%'
    headers, body = answers.to_http(_compose((_event(wild), Answer(CORDONED, {"nodes": ["n1"]}))))
    value = headers["ce-causationid"]
    assert value.isascii()
    assert not set(value) & set(' \r\n"')
    (read,) = cloudevent.parse({**headers, "ce-causationid": "plain"}, body)
    assert read.data == b'{"nodes":["n1"]}'


def test_what_is_written_is_read_back_by_ours_and_by_the_package() -> None:
    event = _compose((_event("é"), Answer(CORDONED, {"nodes": ["n1"]})))
    headers, body = answers.to_http(event)
    assert cloudevent.parse(headers, body) == [event]
    package = from_http(headers, body)
    assert (package["id"], package["time"]) == (event.id, "2026-11-02T09:30:00Z")
    assert package.get_data() == {"nodes": ["n1"]}
