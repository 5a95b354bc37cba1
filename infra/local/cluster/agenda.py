"""What is due when: the simulated machinery of the cluster, in order of time."""

import heapq
import itertools
from collections.abc import Callable
from datetime import datetime

Action = Callable[[], None]
ActionKey = tuple[str, ...]


class Agenda:
    """One pending action per key: the earliest time asked for stands.

    The first word of a key is the name of the one who acts (``disruption``, ``kubelet``);
    ``held`` names those who do nothing for the moment, so that a test can look in between.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, ActionKey]] = []
        self._pending: dict[ActionKey, tuple[datetime, int, Action]] = {}
        self._order = itertools.count()
        self.held: set[str] = set()
        self._aside: list[tuple[datetime, int, ActionKey]] = []
        """What was due of those in `_aside_for`: not looked at again until others are held."""
        self._aside_for: frozenset[str] = frozenset()

    def at(self, when: datetime, key: ActionKey, action: Action) -> None:
        known = self._pending.get(key)
        if known and known[0] <= when:
            return
        self._push(when, key, action)

    def move(self, when: datetime, key: ActionKey, action: Action) -> None:
        """As `at`, but the time asked for last stands."""
        known = self._pending.get(key)
        if not known or known[0] != when:
            self._push(when, key, action)

    def cancel(self, key: ActionKey) -> None:
        self._pending.pop(key, None)

    def _push(self, when: datetime, key: ActionKey, action: Action) -> None:
        order = next(self._order)
        self._pending[key] = (when, order, action)
        heapq.heappush(self._heap, (when, order, key))

    def next_due(self) -> datetime | None:
        """When the first action that is not held is due."""
        if not self.held and not self._aside:
            self._drop_stale()
            return self._heap[0][0] if self._heap else None
        times = [when for key, (when, _, _) in self._pending.items() if key[0] not in self.held]
        return min(times, default=None)

    def pop(self, now: datetime) -> tuple[datetime, Action] | None:
        """The next action due by ``now``, and when it was due."""
        if self._aside and self.held != self._aside_for:
            for entry in self._aside:
                heapq.heappush(self._heap, entry)
            self._aside.clear()
        self._aside_for = frozenset(self.held)
        self._drop_stale()
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            when, order, key = entry
            pending = self._pending.get(key)
            if pending is None or pending[1] != order:
                continue
            if key[0] in self.held:
                self._aside.append(entry)
                continue
            del self._pending[key]
            return when, pending[2]
        return None

    def _drop_stale(self) -> None:
        while self._heap:
            _, order, key = self._heap[0]
            pending = self._pending.get(key)
            if pending is not None and pending[1] == order:
                return
            heapq.heappop(self._heap)
