"""A clock of ours that is wrong, and a server that says its own time in each answer, as all do."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec

from functions.gateways.clock import Clock
from functions.gateways.kubernetes.transport import Request, Response, Transport
from tests.support.simulated import SimClock


class Wrong(SimClock):
    """``ahead`` of the API server's."""

    def __init__(self, server: Clock, ahead: timedelta) -> None:
        self._server, self._ahead = server, ahead

    def now(self) -> datetime:
        return self._server.now() + self._ahead

    def monotonic(self) -> float:
        return self._server.monotonic()

    def sleep(self, seconds: float) -> None:
        self._server.sleep(seconds)


class Dated:
    """The machine that this runs on is ``ahead`` of the server."""

    def __init__(self, inner: Transport, ahead: timedelta) -> None:
        self._inner, self._ahead = inner, ahead

    def send(self, request: Request) -> Response:
        answer = self._inner.send(request)
        date = format_datetime(datetime.now(UTC) - self._ahead, usegmt=True)
        return msgspec.structs.replace(answer, headers={**answer.headers, "date": date})

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)
