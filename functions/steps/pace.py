"""How fast pods are asked to leave: a rate that the API server never sees passed."""

import threading
from collections import deque

from functions.gateways.clock import Clock

_SECOND = 1.0
_LOOK_SECONDS = 0.05
"""How soon to look again when every place is held by a request without an answer."""


class Pace:
    """At most ``per_second`` requests reach the server within any second, over all threads.

    When one reaches it is not known: somewhere between its sending and its answer, which may be a
    tenth of a second (a connection is made first, a thread waits for its turn). So it holds its
    place from when it is sent until a second after its answer.
    """

    def __init__(self, clock: Clock, per_second: int) -> None:
        self._clock = clock
        self._per_second = per_second
        self._under_way = 0
        self._answered: deque[float] = deque()
        """When the answers of the last second came."""
        self._lock = threading.Lock()

    def wait(self) -> float:
        """0.0 and the place is taken, or how many seconds until there may be one."""
        with self._lock:
            now = self._clock.monotonic()
            while self._answered and now - self._answered[0] >= _SECOND:
                self._answered.popleft()
            if self._under_way + len(self._answered) < self._per_second:
                self._under_way += 1
                return 0.0
            if self._answered:
                return self._answered[0] + _SECOND - now
            return _LOOK_SECONDS

    def answered(self) -> None:
        """A request that took a place was answered, or will not be."""
        with self._lock:
            self._under_way -= 1
            self._answered.append(self._clock.monotonic())
