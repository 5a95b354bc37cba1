"""The messages of a queue that are in this process: which comes next, and how long each is hidden.

Bounded, by number and by bytes: while it is full nobody receives, and the rest waits in the queue,
where it is not counted as received. It holds no state that anything rests upon: what is lost with
the process becomes visible in the queue again.

Interruptions come first, the earliest deadline of them first of all; then what says something of a
machine; then all that needs nothing. Within a rank, as they came.
"""

import heapq
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from events.cloudevent import CloudEvent

MOST_MESSAGES = 2_000
MOST_BYTES = 16 << 20
MORE_SECONDS = 0.2
"""After a poll that found many, more messages are there within this time."""
GATHER_SECONDS = 0.6
"""How long urgent ones wait at most for others to be handled with them."""
URGENT = 0
NOTICES = 1
NOTHING = 2


@dataclass(eq=False)
class Held:
    """One message, from its reception until it is deleted, given back or left."""

    message_id: str
    handle: str
    """The newest receipt handle."""
    events: tuple[CloudEvent, ...]
    rank: int = NOTHING
    deadline: float = 0.0
    """Of the earliest interruption in it, as a POSIX time; orders within the urgent ones."""
    machines: frozenset[str] = frozenset()
    """Instance IDs, provider IDs and names of nodes that its notices are about."""
    refused: bool = False
    """A part of it could not be read: what could be is done, and it is left in the queue."""
    body: str = ""
    """Kept where it may have to be forwarded."""
    forwarded: bool = False
    receives: int = 1
    """How often it was received, by SQS' count."""
    size: int = 0
    hidden_until: float = 0.0
    """By the monotonic clock."""
    attempts: int = 0
    alone: bool = False
    """To be tried by itself: in company it, or one of the others, was refused."""
    in_work: bool = False


@dataclass(order=True)
class _Turn:
    rank: int
    deadline: float
    place: int
    held: Held = field(compare=False)


class Book:
    """Threads share it."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        most_messages: int = MOST_MESSAGES,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._monotonic = monotonic
        self._most_messages, self._most_bytes = most_messages, most_bytes
        self._changed = threading.Condition()
        self._held: dict[str, Held] = {}
        self._bytes = 0
        self._turns: list[_Turn] = []
        self._later: list[tuple[float, int, Held]] = []
        self._place = 0
        self._more_until = float("-inf")
        self._closed = False

    def __len__(self) -> int:
        return len(self._held)

    def wait_for_room(self, seconds: float) -> bool:
        """Whether more may be received, at the latest after so many seconds."""
        with self._changed:
            return self._changed.wait_for(self._has_room, seconds) and not self._closed

    def known(self, message_id: str, handle: str, hidden_until: float) -> bool:
        """Whether the message is here already, received once more; its newest handle is kept."""
        with self._changed:
            held = self._held.get(message_id)
            if held is None:
                return False
            held.handle, held.hidden_until = handle, hidden_until
            return True

    def add(self, held: Held) -> None:
        """A message that is not `known`."""
        with self._changed:
            self._held[held.message_id] = held
            self._bytes += held.size
            self._queue(held)
            self._changed.notify_all()

    def expect_more(self) -> None:
        """A poll found many: the queue may hold more than was taken."""
        with self._changed:
            self._more_until = self._monotonic() + MORE_SECONDS

    def take(self, most: int, seconds: float, *, urgent_only: bool = False) -> list[Held]:
        """The next messages, of one rank, to be worked on now; none after so many seconds, or
        when the book is closed.

        Where there are more on their way, and many are taken at once, they are waited for a
        little: a hundred interruptions are handled with fewer requests than ten times ten. A lone
        one waits for nothing.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._is_ready(urgent_only), self._until_next(seconds)
            )
            self._gather(most)
            if self._closed or not self._is_ready(urgent_only):
                return []
            rank = self._turns[0].rank
            taken: list[Held] = []
            while self._turns and self._turns[0].rank == rank and len(taken) < most:
                if taken and (self._turns[0].held.alone or taken[0].alone):
                    break
                taken.append(heapq.heappop(self._turns).held)
            for held in taken:
                held.in_work = True
            return taken

    def put_back(self, helds: Iterable[Held], seconds: float) -> None:
        """To be worked on again, not before so many seconds are over."""
        with self._changed:
            due = self._monotonic() + seconds  # one for all: what was tried together is so again
            for held in helds:
                held.in_work = False
                held.attempts += 1
                self._place += 1
                heapq.heappush(self._later, (due, self._place, held))
            self._changed.notify_all()

    def drop(self, helds: Iterable[Held]) -> None:
        """They are no longer here."""
        with self._changed:
            for held in helds:
                if self._held.pop(held.message_id, None):
                    self._bytes -= held.size
            self._changed.notify_all()

    def to_hide(self, before: float) -> list[Held]:
        """Those that would be visible to others before that time of the monotonic clock."""
        with self._changed:
            return [held for held in self._held.values() if held.hidden_until < before]

    def close(self) -> None:
        """Nothing is taken any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def idle(self) -> Sequence[Held]:
        """Those that nobody works on."""
        with self._changed:
            return [held for held in self._held.values() if not held.in_work]

    def in_work(self) -> Sequence[Held]:
        with self._changed:
            return [held for held in self._held.values() if held.in_work]

    def _gather(self, most: int) -> None:
        ends = self._monotonic() + GATHER_SECONDS
        while 0 < len(self._turns) < most and not self._closed:
            left = min(ends, self._more_until) - self._monotonic()
            if left <= 0:
                return
            self._changed.wait(left)

    def _has_room(self) -> bool:
        return self._closed or (
            len(self._held) < self._most_messages and self._bytes < self._most_bytes
        )

    def _queue(self, held: Held) -> None:
        self._place += 1
        heapq.heappush(self._turns, _Turn(held.rank, held.deadline, self._place, held))

    def _is_ready(self, urgent_only: bool) -> bool:
        now = self._monotonic()
        while self._later and self._later[0][0] <= now:
            self._queue(heapq.heappop(self._later)[2])
        return bool(self._turns) and (not urgent_only or self._turns[0].rank == URGENT)

    def _until_next(self, seconds: float) -> float:
        """No longer than until the first of those that are to be tried again is due."""
        if not self._later:
            return seconds
        return max(0.0, min(seconds, self._later[0][0] - self._monotonic()))
