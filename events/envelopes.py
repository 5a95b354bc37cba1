"""What AWS wraps events in, taken off in any nesting until the event itself is left.

    SQS          {"MessageId", "Body"} of ReceiveMessage, alone or in {"Messages": [...]};
                 {"messageId", "body"} as Lambda and EventBridge Pipes hand it over
    Lambda       {"Records": [...]}, each of SQS or of SNS ({"Sns": {...}})
    SNS          {"Type": "Notification", "Message": "..."}; what a topic asks for itself (to
                 confirm a subscription) becomes an event of its own, and is never fetched
    Pipes        a bare list of any of these
    a string     JSON written once more as a JSON string (an input transformer, a proxy)

Inside is an EventBridge event, a message of Auto Scaling itself (a lifecycle hook that notifies a
queue or topic without EventBridge), or a CloudEvent in structured mode. What tools that looked at
one layer only did with the rest: dropped it, or crashed on it until it left the queue.

https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html,
https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from events import cloudevent, decoding
from events.cloudevent import CloudEvent
from events.errors import EventError, MalformedEvent

MOST_LAYERS = 8
"""EventBridge in SNS in SQS in a Lambda batch, each string written twice, has seven."""


class Part(NamedTuple):
    """One message of a batch: the events in it, or why it is refused."""

    message_id: str
    """SQS' ID of the message, which a partial batch response names. Empty where it has none."""
    events: tuple[CloudEvent, ...] = ()
    refused: EventError | None = None


def from_raw(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """All events in ``body``. Raises the first refusal, with its place in a batch."""
    found = parts(body)
    for index, part in enumerate(found):
        if isinstance(part.refused, MalformedEvent) and len(found) > 1:
            raise part.refused.at(index) from part.refused
        if part.refused:
            raise part.refused
    return [event for part in found for event in part.events]


def parts(body: bytes) -> list[Part]:
    """Each message of ``body`` by itself, in their order; one where it is no batch.

    A bad message refuses itself alone: the others are acted on, and the sender of a batch is told
    which one it was. Raises `MalformedEvent` where ``body`` itself cannot be read.
    """
    members = _members(body, _read(body))
    return [_part(body)] if members is None else [_part(bytes(member)) for member in members]


_Raw = msgspec.Raw | msgspec.UnsetType


def _key(name: str) -> _Raw:
    """A field that may hold anything: what is inside an event is no business of its envelope."""
    field: _Raw = msgspec.field(default=msgspec.UNSET, name=name)
    return field


class _Layer(msgspec.Struct, frozen=True):
    """The keys by which a layer is known."""

    detail_type: _Raw = _key("detail-type")
    specversion: _Raw = _key("specversion")
    service: _Raw = _key("Service")
    sns_type: _Raw = _key("Type")
    sns_message: _Raw = _key("Message")
    sns: _Raw = _key("Sns")
    records: _Raw = _key("Records")
    messages: _Raw = _key("Messages")
    sqs_id: _Raw = _key("MessageId")
    sqs_body: _Raw = _key("Body")
    lambda_id: _Raw = _key("messageId")
    lambda_body: _Raw = _key("body")

    @property
    def is_event(self) -> bool:
        """An event's own fields may be called like those of an envelope."""
        return not (self.detail_type is msgspec.UNSET and self.specversion is msgspec.UNSET)


_LAYER = msgspec.json.Decoder(_Layer)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_STRING = msgspec.json.Decoder(str)


def _read(body: bytes) -> _Layer:
    if body.lstrip()[:1] in (b"[", b'"'):
        return _Layer()
    return decoding.decode(_LAYER, body, field="body")


def _members(body: bytes, layer: _Layer) -> list[msgspec.Raw] | None:
    """The messages of a batch; None when ``body`` is none."""
    if body.lstrip()[:1] == b"[":
        return decoding.decode(_LIST, body, field="body")
    if layer.is_event:
        return None
    for field, raw in (("Records", layer.records), ("Messages", layer.messages)):
        if isinstance(raw, msgspec.Raw):
            return decoding.decode(_LIST, bytes(raw), field=field)
    return None


def _part(body: bytes) -> Part:
    message_id = ""
    try:
        layer = _read(body)
        message_id = _text(layer.sqs_id) or _text(layer.lambda_id)
        return Part(message_id, tuple(_events(body, MOST_LAYERS)))
    except EventError as problem:
        return Part(message_id, refused=problem)


def _events(body: bytes, layers: int) -> Iterator[CloudEvent]:
    if not layers:
        raise MalformedEvent("body", f"wrapped more than {MOST_LAYERS} times")
    cloudevent.check_size(body)
    layer = _read(body)
    members = _members(body, layer)
    if members is not None:
        for member in members:
            yield from _events(bytes(member), layers - 1)
    elif inside := _inside(body, layer):
        yield from _events(inside, layers - 1)
    else:
        yield _event(body, layer)


def _inside(body: bytes, layer: _Layer) -> bytes:
    """What ``layer`` wraps; empty when it is the event itself."""
    if body.lstrip()[:1] == b'"':
        return _content(body, "body")
    if layer.is_event:
        return b""
    message = layer.sns_message if _text(layer.sns_type) == "Notification" else msgspec.UNSET
    for field, raw in (
        ("Sns", layer.sns),
        ("Message", message),
        ("Body", layer.sqs_body),
        ("body", layer.lambda_body),
    ):
        if isinstance(raw, msgspec.Raw):
            return _content(bytes(raw), field)
    return b""


def _content(raw: bytes, field: str) -> bytes:
    """The JSON in ``raw``, which is an object, or a string that holds one."""
    content = raw.strip()
    if content[:1] == b'"':
        content = decoding.decode(_STRING, content, field=field).encode().strip()
        if not content:
            raise MalformedEvent(field, "empty")
        decoding.check_json(content, field=field)
    if content[:1] not in (b"{", b"[", b'"'):
        raise MalformedEvent(field, "neither an object nor a string that holds one")
    return content


def _event(body: bytes, layer: _Layer) -> CloudEvent:
    from events.sources import eventbridge

    if isinstance(layer.detail_type, msgspec.Raw):
        return eventbridge.event_of(body)
    if isinstance(layer.specversion, msgspec.Raw):
        (event,) = cloudevent.parse({"content-type": cloudevent.STRUCTURED}, body)
        return event
    if _text(layer.sns_type).endswith("Confirmation"):
        from events.sources import sns_control

        return sns_control.event_of(body)
    if isinstance(layer.service, msgspec.Raw):
        from events.sources import autoscaling

        return autoscaling.event_of(body)
    raise MalformedEvent(
        "detail-type",
        "missing or empty: an EventBridge event has it, and this is neither an envelope (SQS, "
        "SNS, Lambda) nor a CloudEvent nor a message of Auto Scaling",
    )


def _text(raw: _Raw) -> str:
    """A string, or nothing where it is none."""
    if not isinstance(raw, msgspec.Raw) or not bytes(raw).startswith(b'"'):
        return ""
    return decoding.decode(_STRING, bytes(raw), field="body")
