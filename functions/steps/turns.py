"""Whose pods are asked to leave next, where one call empties many nodes.

One node after the other, as the server answers: those that are begun get done, instead of all of
them a little, and a call that ends soon leaves nothing asked and unheard. Threads only; on a
simulated clock nodes are worked on in turn anyway.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator

BEGIN_AT_ONCE = 8
"""Nodes that are read and marked side by side before their first pod is asked to leave."""
_LOOK_SECONDS = 0.2
"""How often somebody who waits sees whether his time is over."""

Over = Callable[[], bool]
"""Whether it is no longer worth waiting."""


class Turns:
    def __init__(self, at_once: int) -> None:
        """``at_once`` requests are under way at most."""
        self._at_once = at_once
        self._changed = threading.Condition()
        self._queue: deque[Place] = deque()
        self._beginning = 0
        self._under_way = 0
        self._takes = 0.0

    @property
    def answer_seconds(self) -> float:
        """How long a request takes from here to its answer, as it was lately."""
        return self._takes

    def turn(self) -> "Place":
        return Place(self)

    @contextlib.contextmanager
    def beginning(self, over: Over) -> Iterator[bool]:
        """Whether another node should be begun: not before the pods of those that are begun are on
        their way. False when that is not so before it is ``over``. What it wants to send should
        be known (`Place.line_up`) before it is left."""
        with self._changed:
            began = self._wait(over, self._has_room)
            self._beginning += began
        try:
            yield began
        finally:
            with self._changed:
                self._beginning -= began
                self._changed.notify_all()

    def sent(self) -> None:
        with self._changed:
            self._under_way += 1

    def answered(self, seconds: float) -> None:
        """The answer took so long to come."""
        with self._changed:
            self._under_way -= 1
            self._takes = seconds if not self._takes else 0.8 * self._takes + 0.2 * seconds
            self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _has_room(self) -> bool:
        wanted = sum(turn.wants for turn in self._queue)
        return self._beginning < BEGIN_AT_ONCE and self._under_way + wanted < 2 * self._at_once

    def _wait(self, over: Over, ready: Callable[[], bool]) -> bool:
        """With the lock held."""
        while not ready():
            if over():
                return False
            self._changed.wait(_LOOK_SECONDS)
        return True


class Place:
    """One node's place in the queue."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.wants = 0
        """Requests that it waits to send."""

    def line_up(self, wants: int) -> None:
        """Nobody behind it has a turn before it took its own, or gave it up."""
        turns = self._turns
        with turns._changed:
            self.wants = wants
            if self not in turns._queue:
                turns._queue.append(self)

    def take(self, wants: int, over: Over) -> int:
        """Wait for this node's turn, and keep it until `give`. How many requests it may send now;
        0 when it is ``over``."""
        self.line_up(wants)
        turns = self._turns
        with turns._changed:
            if not turns._wait(over, self._is_first):
                return 0
            return turns._at_once - turns._under_way

    def give(self) -> None:
        turns = self._turns
        with turns._changed:
            self.wants = 0
            if self in turns._queue:
                turns._queue.remove(self)
                turns._changed.notify_all()

    def _is_first(self) -> bool:
        turns = self._turns
        # A few at a time: whoever sends one looks through all pods of his node before.
        return turns._queue[0] is self and turns._under_way <= turns._at_once * 3 // 4
