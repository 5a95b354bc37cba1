"""What is logged, and what is not."""

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from events.cloudevent import CloudEvent
from functions.edge import log
from functions.edge.context import Outcome
from functions.rules.decision import Action, Decision

EVENT = CloudEvent(id="e1", source="/s", type="t.a")
CORDON = Decision(
    function="cordon",
    action=Action.CORDON,
    node="n1",
    reason="XID 79: the GPU fell off the bus",
    incident="kubernetes.event/xid-79/",
    severity="evict",
    pool="p5",
    look_again=datetime(2026, 11, 2, 9, tzinfo=UTC),
)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    written = io.StringIO()
    log.configure({}, written)
    yield written
    root.handlers[:] = handlers
    root.setLevel(level)


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_decision_is_one_line_with_all_that_explains_it(stream: io.StringIO) -> None:
    log.outcomes("cordon", [EVENT], [Outcome(decisions=(CORDON,))], 12.345, {"patch nodes": 1})
    (line,) = _lines(stream)
    assert datetime.fromisoformat(line.pop("time")).tzinfo
    assert line == {
        "severity": "INFO",
        "message": "cordon n1: XID 79: the GPU fell off the bus",
        "function": "cordon",
        "event": "e1",
        "node": "n1",
        "pool": "p5",
        "action": "cordon",
        "reason": "XID 79: the GPU fell off the bus",
        "incident": "kubernetes.event/xid-79/",
        "incident_severity": "evict",
        "look_again": "2026-11-02T09:00:00Z",
        "ms": 12.35,
        "requests": {"patch nodes": 1},
    }


def test_what_blocks_a_decision_is_in_its_line(stream: io.StringIO) -> None:
    held = Decision(
        function="cordon",
        action=Action.HOLD,
        node="n1",
        reason="budget",
        blocked_by=("budget: 3 of 3 nodes of pool p5",),
        shadow=True,
    )
    log.outcomes("cordon", [EVENT], [Outcome(decisions=(held,))], 1, {})
    (line,) = _lines(stream)
    assert line["blocked_by"] == ["budget: 3 of 3 nodes of pool p5"]
    assert line["shadow"] is True


def test_an_event_that_needs_nothing_is_not_logged(stream: io.StringIO) -> None:
    nothing = Decision(function="cordon", action=Action.NOTHING, node="n1", reason="healthy")
    done = [Outcome(declined="no notices"), Outcome(decisions=(nothing,))]
    log.outcomes("cordon", [EVENT, EVENT], done, 0.1, {})
    assert stream.getvalue() == ""


def test_at_debug_it_is(stream: io.StringIO) -> None:
    log.configure({"GROUNDCREW_LOG_LEVEL": "debug"}, stream)
    log.outcomes("cordon", [EVENT], [Outcome(declined="no notices")], 0.1, {})
    (line,) = _lines(stream)
    assert (line["severity"], line["message"]) == ("DEBUG", "no notices")


def test_a_line_break_from_outside_begins_no_line(stream: io.StringIO) -> None:
    log.write(logging.WARNING, 'refused: "x"\n{"severity":"INFO"}\u2028', field="a\r\nb")
    assert stream.getvalue().count("\n") == 1
    assert json.loads(stream.getvalue())["field"] == "a\r\nb"


@pytest.mark.parametrize(
    "secret",
    [
        "Authorization: Bearer abcdef0123456789",
        "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl",
        "key AKIAIOSFODNN7EXAMPLE",
        "https://sqs/?X-Amz-Signature=deadbeef&x=1",
        'password=hunter2"',
    ],
)
def test_what_looks_like_a_credential_is_struck_out(stream: io.StringIO, secret: str) -> None:
    try:
        raise RuntimeError(secret)
    except RuntimeError:
        log.write(logging.ERROR, f"failed: {secret}", trace=True, reason=secret)
    text = stream.getvalue()
    for part in ("abcdef0123456789", "eyJzdWIi", "IOSFODNN7", "deadbeef", "hunter2"):
        assert part not in text
    assert "[struck out]" in text
    assert json.loads(text)["severity"] == "ERROR"


def test_a_traceback_is_a_field(stream: io.StringIO) -> None:
    try:
        raise RuntimeError("a mistake")
    except RuntimeError:
        log.write(logging.ERROR, "failed", trace=True)
    (line,) = _lines(stream)
    assert "RuntimeError: a mistake" in line["traceback"]


def test_other_peoples_lines_are_json_too_and_say_whose_they_are(stream: io.StringIO) -> None:
    logging.getLogger("somebody.else").warning("%s of %s", 1, 2)
    (line,) = _lines(stream)
    assert (line["message"], line["logger"]) == ("1 of 2", "somebody.else")


def test_a_level_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        log.configure({"GROUNDCREW_LOG_LEVEL": "loud"}, io.StringIO())
