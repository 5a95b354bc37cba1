"""A queue in memory that keeps SQS's rules on a clock of its own, so that a test waits for no
visibility timeout. `tests/functions/gateways/aws/test_queue.py` holds it and moto to the same."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from time import monotonic

from functions.edge.sqs_consumer import Consumer
from functions.gateways.aws.queue import A_CALL, Message, Queue

_POLL_SECONDS = 0.05
"""What a long poll that finds nothing takes, by the real clock."""


class Time:
    """A monotonic clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass(eq=False)
class _Kept:
    message_id: str
    body: str
    forwarded: bool
    handle: str = ""
    receives: int = 0
    hidden_until: float = float("-inf")


class MemoryQueue(Queue):
    def __init__(
        self, *bodies: str, receives: int = 3, clock: Callable[[], float] = monotonic
    ) -> None:
        """With ``bodies`` in it; what was received ``receives`` times is a dead letter the next
        time."""
        super().__init__("https://sqs.us-east-1.amazonaws.com/123456789012/q", wait_seconds=0)
        self.dead: list[str] = []
        self._receives, self._now = receives, clock
        self._kept: list[_Kept] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self.put(*bodies)

    def put(self, *bodies: str, forwarded: bool = False) -> None:
        with self._changed:
            self._kept += [_Kept(str(next(self._numbers)), body, forwarded) for body in bodies]
            self._changed.notify_all()

    def depth(self) -> tuple[int, int]:
        """Messages that can be received, and messages that somebody has received."""
        with self._changed:
            seen = sum(self._is_visible(one) for one in self._kept)
            return seen, len(self._kept) - seen

    def receive(self, visibility_seconds: int) -> list[Message]:
        with self._changed:
            self._changed.wait_for(self._has_some, _POLL_SECONDS)
            for one in self._kept:
                if self._is_visible(one) and one.receives >= self._receives:
                    self.dead.append(one.body)
                    one.hidden_until = float("inf")
            self._kept = [one for one in self._kept if one.hidden_until != float("inf")]
            given = [one for one in self._kept if self._is_visible(one)][:A_CALL]
            for one in given:
                one.receives += 1
                one.handle = f"{one.message_id}/{one.receives}"
                one.hidden_until = self._now() + visibility_seconds
            return [
                Message(one.message_id, one.handle, one.body, one.receives, one.forwarded)
                for one in given
            ]

    def delete(self, handles: Sequence[str]) -> list[str]:
        """Only the newest handle deletes: SQS takes an older one, too, and may keep the message."""
        with self._changed:
            self._kept = [one for one in self._kept if one.handle not in handles]
            return []

    def hide(self, handles: Sequence[str], seconds: int) -> list[str]:
        with self._changed:
            known = {one.handle: one for one in self._kept if not self._is_visible(one)}
            for handle in known.keys() & set(handles):
                known[handle].hidden_until = self._now() + seconds
            self._changed.notify_all()
            return [handle for handle in handles if handle not in known]

    def send(self, body: str) -> None:
        self.put(body, forwarded=True)

    def _has_some(self) -> bool:
        return any(self._is_visible(one) for one in self._kept)

    def _is_visible(self, one: _Kept) -> bool:
        return one.hidden_until <= self._now()


@contextmanager
def running(consumer: Consumer) -> Iterator[None]:
    """``consumer`` in a thread of its own, which is over afterwards."""
    thread = threading.Thread(target=consumer.run)
    thread.start()
    try:
        yield
    finally:
        consumer.stop()
        thread.join(30.0)
        assert not thread.is_alive()
