"""Whatever AWS wraps an event in, it is the same event inside."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events import cloudevent, envelopes, recording, registry
from events.errors import EventTooLarge, MalformedEvent

RECORDED = Path(recording.__file__).parent / "recorded"
NAMES = ("eventbridge", "lambda", "sns", "sqs")


def _body(case: str) -> bytes:
    return recording.load((RECORDED / f"{case}.json").read_bytes()).body


SPOT = _body("ec2_spot/terminate").decode()

WRAPPINGS: dict[str, Callable[[str], Any]] = {
    "sqs": lambda text: {"MessageId": "m-1", "ReceiptHandle": "r", "Body": text},
    "received": lambda text: {"Messages": [{"MessageId": "m-1", "Body": text}]},
    "lambda": lambda text: {"Records": [{"messageId": "m-1", "body": text}]},
    "sns": lambda text: {"Type": "Notification", "MessageId": "n-1", "Message": text},
    "sns_decoded": lambda text: {"Type": "Notification", "Message": json.loads(text)},
    "lambda_of_sns": lambda text: {"Records": [{"Sns": {"Type": "Notification", "Message": text}}]},
    "pipes": lambda text: [{"messageId": "m-1", "body": text}],
    "string": lambda text: text,
}
LAYERS = {"received": 2, "lambda": 2, "lambda_of_sns": 3, "pipes": 2}


@given(st.lists(st.sampled_from(sorted(WRAPPINGS)), max_size=6), st.sampled_from(NAMES))
def test_an_event_is_the_same_in_any_nesting_and_under_any_name(
    wrappings: list[str], name: str
) -> None:
    text = SPOT
    for wrapping in wrappings:
        text = json.dumps(WRAPPINGS[wrapping](text))
    if sum(LAYERS.get(wrapping, 1) for wrapping in wrappings) >= envelopes.MOST_LAYERS - 1:
        return
    (event,) = registry.from_raw(name, {}, text.encode())
    assert event.id == "11111111-2222-3333-4444-555555555555"
    (notice,) = registry.read(event).notices
    assert notice.identity.instance_id == "i-0123456789abcdef0"


def test_the_longest_way_that_is_known_fits_and_an_endless_one_is_refused() -> None:
    text = SPOT
    for wrapping in ("string", "sns", "string", "sqs"):
        text = json.dumps(WRAPPINGS[wrapping](text))
    text = json.dumps({"Records": [{"messageId": "m-1", "body": text}]})
    (part,) = envelopes.parts(text.encode())
    assert len(part.events) == 1
    for _ in range(4):
        text = json.dumps(WRAPPINGS["sns"](text))
    with pytest.raises(MalformedEvent, match="wrapped more than 8 times"):
        registry.from_raw("sns", {}, text.encode())


def test_a_bad_message_of_a_batch_refuses_itself_alone_and_is_named() -> None:
    found = envelopes.parts(_body("envelopes/lambda_batch_one_bad"))
    assert [part.message_id for part in found] == ["m-0001", "m-0002"]
    assert [len(part.events) for part in found] == [1, 0]
    assert found[0].refused is None
    assert isinstance(found[1].refused, MalformedEvent)
    assert found[1].refused.field == "detail-type"


def test_a_message_that_is_no_object_refuses_itself_alone() -> None:
    whole = '{"Records": [{"messageId": "m-1", "body": %s}, 7, {"messageId": 5, "body": "{"}]}'
    found = envelopes.parts((whole % json.dumps(SPOT)).encode())
    assert [bool(part.refused) for part in found] == [False, True, True]
    assert [part.message_id for part in found] == ["m-1", "", ""]


def test_a_record_that_holds_several_events_is_one_message() -> None:
    inner = json.dumps({"Records": [{"body": SPOT}, {"body": SPOT}]})
    (part,) = envelopes.parts(json.dumps([{"messageId": "m-1", "body": inner}]).encode())
    assert (part.message_id, len(part.events)) == ("m-1", 2)


def test_a_message_of_a_batch_may_be_no_larger_than_any_other_body() -> None:
    large = json.dumps("x" * (cloudevent.MAX_BYTES + 1))
    body = json.dumps([{"messageId": "m-1", "body": large}, {"messageId": "m-2", "body": SPOT}])
    found = envelopes.parts(body.encode())
    assert isinstance(found[0].refused, EventTooLarge)
    assert len(found[1].events) == 1


def test_what_cannot_be_read_at_all_is_refused_as_a_whole() -> None:
    for body in (b"7", b"null", b'{"Records": 7}', b"{"):
        with pytest.raises(MalformedEvent):
            envelopes.from_raw({}, body)
