"""One call of a function at a time, where answers and clocks wake it behind the events.

Two calls that empty the same nodes side by side ask for each pod's eviction twice, and gain
nothing. Who comes while one is under way is not kept waiting either: each function has a resync,
which finds by itself what the answer would have named, and has its turn as soon as the call is
over. So it has after a call whose time was not enough: what is left would else wait for the clock.
"""

import threading
from collections.abc import Callable, Sequence

from events.cloudevent import CloudEvent
from functions.edge.call import Reply
from infra.local.broker import Call


class OneAtATime:
    def __init__(self, call: Call, again: Callable[[], object]) -> None:
        """``again`` has the resync's turn come; it must not wait for it."""
        self._call, self._again = call, again
        self._guard = threading.Lock()
        self._running = self._missed = False

    def __call__(self, events: Sequence[CloudEvent]) -> Reply:
        with self._guard:
            if self._running:
                self._missed = True
                return Reply(204)
            self._running = True
        more = False
        try:
            reply = self._call(events)
            more = reply.more
            return reply
        finally:
            with self._guard:
                missed, self._running, self._missed = self._missed, False, False
            if missed or more:
                self._again()
