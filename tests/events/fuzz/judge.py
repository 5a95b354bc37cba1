"""What must hold of any request, however damaged: it is refused in words or understood, in time,
and nobody is accused whom it does not name."""

import base64
import binascii
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec

from events import envelopes, names, recording
from events.decoding import EARLIEST, LATEST
from events.errors import EventError
from events.notice import EVIDENCE_BYTES, Kind, Notice, Reading, Severity
from events.recording import Recording

LIMIT_SECONDS = 1.0
"""Of processor time, for one request of at most 1 MiB; most take less than a millisecond."""

LONGEST = 600
"""Characters of a name. The longest that is known is a lifecycle's: token, hook and group."""


def understood(recorded: Recording) -> Reading | EventError:
    """How the request is understood, or how it is refused.

    Raises `AssertionError` for whatever must never be; what the sources raise that they must not
    goes through.
    """
    began = time.process_time()
    result = _result(recorded)
    took = time.process_time() - began
    assert took < LIMIT_SECONDS, f"took {took:.1f} s"
    if isinstance(result, EventError):
        assert str(result).strip(), "refused without a word"
        return result
    reading = result
    assert bool(reading.notices) != bool(reading.declined), "neither notices nor why not, or both"
    said = Said(recorded)
    for notice in reading.notices:
        _check(notice, said)
    assert msgspec.json.decode(msgspec.json.encode(reading), type=Reading) == reading
    if recorded.path == "/from/lambda":
        _check_parts(recorded)
    return reading


def _result(recorded: Recording) -> Reading | EventError:
    with _time_limit():
        try:
            return recording.understand(recorded)
        except EventError as refusal:
            return refusal


class Said:
    """Every string that a request holds, also those inside JSON that is inside a string."""

    def __init__(self, recorded: Recording) -> None:
        self.texts = set(recorded.headers.values())
        self._add(recorded.body.decode("utf-8", "replace"))

    def names(self, value: str) -> bool:
        """Whether ``value`` stands in it as a word of its own, or as the end of a path."""
        word = re.compile(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])")
        return value in self.texts or any(word.search(text) for text in self.texts)

    def _add(self, value: Any) -> None:
        if isinstance(value, dict):
            for key, member in value.items():
                self.texts.add(key)
                self._add(member)
        elif isinstance(value, list):
            for member in value:
                self._add(member)
        elif isinstance(value, str):
            self.texts.add(value)
            for inner in (value, _from_base64(value)):
                if inner.lstrip()[:1] in ("{", "[", '"'):
                    try:
                        self._add(json.loads(inner))
                    except (ValueError, RecursionError):
                        continue


def _check(notice: Notice, said: Said) -> None:
    identity = notice.identity
    assert any(
        (identity.node, identity.instance_id, identity.provider_id, identity.capacity_reservation)
    ), "a notice about nobody"
    for field in identity.__struct_fields__:
        value = getattr(identity, field)
        # A provider ID of Google's is put together of project, zone and name.
        parts = value.removeprefix("gce://").split("/") if value.startswith("gce://") else [value]
        for part in parts:
            assert not part or said.names(part), f"{field}: {value!r} is not in the request"
    # These go into paths and selectors of requests to the API server.
    assert not identity.node or names.NODE.fullmatch(identity.node)
    assert not identity.instance_id or names.INSTANCE.fullmatch(identity.instance_id)
    assert notice.source
    assert notice.check.strip(), "a notice that says nothing"
    # These are written on the node, where all of its incidents share 8 KiB.
    assert notice.check.isprintable(), f"check: {notice.check!r}"
    assert notice.ref.isprintable(), f"ref: {notice.ref!r}"
    for text in (notice.check, notice.ref, notice.reason, notice.gpu, notice.job):
        assert len(text) <= LONGEST, "a name without end"
    assert len(notice.evidence.encode()) <= EVIDENCE_BYTES
    if notice.kind in (Kind.RECOVERY, Kind.INFORMATIONAL):
        assert notice.severity is Severity.WATCH, f"a {notice.kind} that acts"
    for when in (notice.since, notice.deadline):
        assert when is None or EARLIEST <= when < LATEST, f"{when} is far off"


def _check_parts(recorded: Recording) -> None:
    found = envelopes.parts(recorded.body)
    assert all(part.refused is None for part in found)


def _from_base64(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


@contextmanager
def _time_limit() -> Iterator[None]:
    """Ends what would never end. Only where signals can be had: the main thread."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"took more than {10 * LIMIT_SECONDS} s")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 10 * LIMIT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
