"""What a consumer of a queue is told to do, what handling an event gave, and what it counts."""

import enum
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from events.cloudevent import CloudEvent

REFUSED = frozenset({400, 413, 415, 422})
"""Answers that will never be another for the same event. Other refusals (404, 403) are a sink that
is set up wrongly, for which no message is to be lost."""


class Foreign(enum.StrEnum):
    """What becomes of a message about machines that are none of this cluster's."""

    LEAVE = "leave"
    """It becomes visible again after a while, for the other consumers of a shared queue."""
    FORWARD = "forward"
    """It is put into another queue, and deleted here."""
    DELETE = "delete"
    """Nobody else reads this queue."""


MORE = "*"
"""Among the names of unknown machines: more are unknown than could be named."""


class Result(NamedTuple):
    """What came of one event."""

    status: int
    """Of HTTP; 0 where there was no answer."""
    unknown: frozenset[str] = frozenset()
    """Machines and nodes that are none of this cluster's, as far as is known now."""
    problem: str = ""
    retry_after_seconds: float = 0.0

    @property
    def done(self) -> bool:
        return 200 <= self.status < 300


Act = Callable[[Sequence[CloudEvent]], Sequence[Result]]
"""Has events handled; one result for each. Raises nothing that it knows of."""


@dataclass(frozen=True)
class Options:
    receivers: int = 4
    """Long polls at once."""
    workers: int = 2
    urgent_workers: int = 1
    together: int = 1
    """Messages that one `Act` takes at once."""
    visibility_seconds: int = 30
    """For how long a message is hidden from others, each time; extended from half of it on."""
    left_seconds: int = 20
    """How long a message of others stays hidden when it is left."""
    left_most_seconds: int = 600
    """What is not urgent stays hidden twice as long each time, up to this: it may be about a node
    of ours that is not known yet, and every reception brings it nearer to the dead letters."""
    foreign: Foreign = Foreign.LEAVE
    failures: int = 3
    """Attempts at a message that makes a function fail (500): then it is left to the queue's
    policy."""
    grace_seconds: float = 20.0
    """What is in work when the end is asked for has this long."""


@dataclass
class Counts:
    received: int = 0
    duplicates: int = 0
    deleted: int = 0
    unreadable: int = 0
    refused: int = 0
    left: int = 0
    forwarded: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, name: str, number: int = 1) -> None:
        with self.lock:
            setattr(self, name, getattr(self, name) + number)

    def shown(self) -> dict[str, int]:
        with self.lock:
            return {name: value for name, value in vars(self).items() if name != "lock"}
