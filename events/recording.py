"""Recorded events: one HTTP request as it came in, in a file that a person can read.

    {"method": "POST", "path": "/from/eventbridge", "headers": {...}, "body": {...}}

``body`` is a JSON value, taken byte for byte as it stands in the file, or a string, which is the
body itself; ``body_base64`` holds what is no text. ``description`` says what is special about it.
Beside ``<case>.json`` in ``events/recorded/<source>/`` stands ``<case>.notices.json``: how it is
understood, and that is one of

    [{...}, ...]                                  its notices
    {"notices": [...], "skipped": ["..."]}        its notices, and the parts that are none
    {"declined": "..."}                           why it needs nothing
    {"refused": "..."}                            what the refusal says, or a part of it
"""

import base64
import binascii

import msgspec

from events import cloudevent, decoding, registry
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Reading

EXPECTED_SUFFIX = ".notices.json"


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    method: str = "POST"
    path: str = "/"
    """``/`` takes CloudEvents, ``/from/<source>`` a source's own form."""
    headers: dict[str, str] = {}
    body: bytes = b""
    description: str = ""


class _File(msgspec.Struct, frozen=True):
    path: str
    headers: dict[str, str]
    method: str = "POST"
    body: msgspec.Raw = msgspec.Raw()
    body_base64: str | None = None
    description: str = ""


_FILE = msgspec.json.Decoder(_File)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def load(text: bytes, *, source: str = "") -> Recording:
    """The request that ``text``, the content of a file, records.

    A file that is no recording is a bare body in the form of ``source`` (`registry.RAW`).
    Raises `MalformedEvent`.
    """
    if source:
        registry.check_raw(source)
    try:
        # Of a history of millions nearly all are as they should be.
        return _request(_FILE.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _request_or_body(text, source)


def _request_or_body(text: bytes, source: str) -> Recording:
    """As `load`, for what is no recorded request, or one with a mistake that is to be named."""
    decoded: dict[str, msgspec.Raw] = {}
    if text.lstrip()[:1] == b"{":
        decoding.check_json(text, field="file")
        decoded = decoding.decode(_KEYS, text, field="file")
    if not {"path", "headers"} <= decoded.keys():
        if not source:
            raise MalformedEvent(
                "file",
                "no recorded request (path, headers, body); for a bare body say whose it is with "
                f"--source {'|'.join(sorted(registry.RAW))}",
            )
        return Recording(path=f"/from/{source}", body=text)
    return _request(decoding.decode(_FILE, text, field="file"))


def _request(file: "_File") -> Recording:
    return Recording(
        method=file.method,
        path=file.path,
        headers=file.headers,
        body=_body(file),
        description=file.description,
    )


def events_of(recording: Recording) -> list[CloudEvent]:
    """The events of the request, found as the edge finds them. Raises `EventError`."""
    if recording.path.startswith("/from/"):
        source = recording.path.removeprefix("/from/")
        return registry.from_raw(source, recording.headers, recording.body)
    return cloudevent.parse(recording.headers, recording.body)


def understand(recording: Recording) -> Reading:
    """Everything that the request says, as one reading. Raises `EventError`."""
    readings = [registry.read(event) for event in events_of(recording)]
    notices = tuple(notice for reading in readings for notice in reading.notices)
    skipped = tuple(part for reading in readings for part in reading.skipped)
    declined = tuple(reading.declined for reading in readings if reading.declined)
    if notices:
        return Reading(notices, skipped=skipped + declined)
    return Reading(declined="; ".join(declined) or "no events", skipped=skipped)


def _body(file: _File) -> bytes:
    if file.body_base64 is not None:
        try:
            return base64.b64decode(file.body_base64, validate=True)
        except binascii.Error as problem:
            raise MalformedEvent("body_base64", str(problem)) from problem
    raw = bytes(file.body)
    if raw[:1] == b'"':
        return msgspec.json.decode(raw, type=str).encode()
    return raw
