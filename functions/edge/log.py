"""What is logged: one JSON object a line, one line a decision.

functions-framework leaves the root logger at WARNING, so that INFO is dropped without a word,
and gives it no format; `configure` sets both. An event that needs nothing is logged at DEBUG
only: on a real fleet that is 99 % of them, and a line costs more than reading the event.

Bodies and headers of requests are never logged. Texts that come from outside (reasons, messages
of exceptions) are written as JSON strings, so that a line break in them cannot begin a new line,
and what looks like a credential in them is struck out.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from functions.edge.context import Outcome
from functions.rules.decision import Action

logger = logging.getLogger("groundcrew")

_FIELDS = "groundcrew_fields"
_CREDENTIAL = re.compile(
    r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"  # an Authorization header
    r"|\beyJ[\w-]+\.[\w-]+\.[\w-]*"  # a JSON web token: service account tokens are these
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"  # an AWS access key ID
    r"|(?i:(password|secret|token|signature)=)[^&\s\"'\\]+"
)


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, severity, message, the fields given, the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "severity": record.levelname,
            "message": record.getMessage(),
        }
        line |= getattr(record, _FIELDS, {})
        if record.name != logger.name:
            line["logger"] = record.name
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _CREDENTIAL.sub("[struck out]", msgspec.json.encode(line, enc_hook=str).decode())


def configure(environ: Mapping[str, str] = os.environ, stream: TextIO | None = None) -> None:
    """Set the root logger up: JSON on stdout, level INFO or ``GROUNDCREW_LOG_LEVEL``.

    Raises ValueError for a level that logging does not know.
    """
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(environ.get("GROUNDCREW_LOG_LEVEL", "").upper() or logging.INFO)


def write(level: int, message: str, *, trace: bool = False, **fields: Any) -> None:
    """One line at ``level`` with ``fields``; empty ones are left out. ``trace`` adds the
    traceback of the exception being handled."""
    if logger.isEnabledFor(level):
        given = {name: value for name, value in fields.items() if value not in ("", None, (), {})}
        logger.log(level, message, exc_info=trace, extra={_FIELDS: given})


def outcomes(
    function: str,
    events: Sequence[Any],
    done: Sequence[Outcome],
    milliseconds: float,
    requests: Mapping[str, int],
) -> None:
    """A line for each decision; for an event that needed nothing, one at DEBUG."""
    call: dict[str, Any] = {
        "function": function,
        "ms": round(milliseconds, 2),
        "requests": dict(requests),
    }
    for event, outcome in zip(events, done, strict=True):
        if not outcome.decisions:
            write(
                logging.DEBUG,
                outcome.declined or "nothing to do",
                event=event.id,
                event_type=event.type,
                **call,
            )
        for decision in outcome.decisions:
            # What was decided and is not done needs attention no more than what is done: INFO.
            level = logging.DEBUG if decision.action is Action.NOTHING else logging.INFO
            write(
                level,
                f"{decision.action} {decision.node}: {decision.reason}",
                event=event.id,
                node=decision.node,
                pool=decision.pool,
                action=decision.action,
                reason=decision.reason,
                incident=decision.incident,
                incident_severity=decision.severity,
                blocked_by=decision.blocked_by,
                look_again=decision.look_again,
                shadow=decision.shadow or None,
                **call,
            )
