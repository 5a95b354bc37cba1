"""Typed decoding whose failures name the field as its sender would look for it.

Times are part of it: what is no time, or a time far off (a zero value, seconds taken for
milliseconds), is refused here, so that nothing behind has to reckon with the year 1.
"""

import re
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from events.errors import MalformedEvent

T = TypeVar("T")

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)
"""No machine that we look after was told anything before the one, or for after the other."""


def decode(
    decoder: msgspec.json.Decoder[T], data: bytes, *, field: str = "data", within: str = ""
) -> T:
    """``data`` as the type of ``decoder``. ``field`` is what the whole of it is called, and
    ``within`` stands before the names of its fields (``alerts[3].``).

    Raises `MalformedEvent` with the path of the field: ``detail.statusCode``.
    """
    if not data:
        raise MalformedEvent(field, "missing: the event has no body")
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as problem:
        raise _named(str(problem), field, within) from problem
    except msgspec.DecodeError as problem:
        raise MalformedEvent(field, str(problem)) from problem
    except RecursionError as problem:
        raise MalformedEvent(field, "nested too deeply") from problem


def check_json(data: bytes, *, field: str) -> None:
    """Raises `MalformedEvent` unless ``data`` is JSON in UTF-8. Builds no objects."""
    try:
        if not data.isascii():
            data.decode()
        _ANY.decode(data)
    except UnicodeDecodeError as problem:
        raise MalformedEvent(field, f"not UTF-8 at byte {problem.start}") from problem
    except msgspec.DecodeError as problem:
        text = str(problem).removeprefix("JSON is malformed: ")
        raise MalformedEvent(field, f"malformed JSON: {text}") from problem
    except RecursionError as problem:
        raise MalformedEvent(field, "nested too deeply") from problem


def name(text: str, *, field: str, most: int = 256) -> str:
    """``text`` as a name that is written on nodes and in logs: not empty, without control
    characters, and no longer than ``most``. Raises `MalformedEvent`."""
    if not text.strip():
        raise MalformedEvent(field, "empty")
    if len(text) > most or not text.isprintable():
        raise MalformedEvent(
            field, f"{text[:40]!r} is longer than {most} characters or not all of it is printable"
        )
    return text


def time(text: str, *, field: str) -> datetime:
    """An RFC 3339 time with its offset, in UTC. Raises `MalformedEvent`."""
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError as problem:
        raise MalformedEvent(field, f"{text!r} is no RFC 3339 time") from problem
    if found.tzinfo is None:
        raise MalformedEvent(field, f"{text!r} has no time zone")
    return plausible(found, field=field)


def gmt(text: str, *, field: str) -> datetime:
    """``Thu, 3 Sep 2026 13:19:03 GMT``, with or without a weekday and whether or not it is the
    right one (samples of AWS carry wrong ones), or RFC 3339; in UTC. Raises `MalformedEvent`."""
    if text[:4].isdigit():
        return time(text, field=field)
    match = _GMT.fullmatch(text)
    if not match or match[2] not in _MONTHS:
        raise MalformedEvent(field, f"{text!r} is no time like 'Thu, 3 Sep 2026 13:19:03 GMT'")
    day, year, hour, minute, second = (int(match[group]) for group in (1, 3, 4, 5, 6))
    try:
        found = datetime(year, _MONTHS.index(match[2]) + 1, day, hour, minute, second, tzinfo=UTC)
    except ValueError as problem:
        raise MalformedEvent(field, f"{text!r}: {problem}") from problem
    return plausible(found, field=field)


_GMT = re.compile(r"(?:[A-Za-z]+, *)?(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def plausible(when: datetime, *, field: str) -> datetime:
    """``when`` in UTC, or `MalformedEvent` when it is far off."""
    if not EARLIEST <= when < LATEST:
        raise MalformedEvent(field, f"{when.isoformat()} is far off, not in 2000 to 2099")
    return when.astimezone(UTC)


_ANY = msgspec.json.Decoder(msgspec.Raw)


def _named(message: str, field: str, within: str) -> MalformedEvent:
    # msgspec: "Object missing required field `x` - at `$.detail`"
    problem, _, path = message.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if missing := re.match(r"Object missing required field `(.+)`", problem):
        path, problem = f"{path}.{missing[1]}" if path else missing[1], "missing"
    return MalformedEvent(within + path if path else field, problem)
