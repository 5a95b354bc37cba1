"""Time, as something that is handed over: so that a week can pass in seconds in a replay."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of day, aware, UTC: what is written on nodes and compared with their times."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back: what deadlines inside one call are measured with."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
