"""Calls of one process that come at the same time are done by one of them, together.

Half of a fleet accused at once is hundreds of events, and each would read the ledgers, reserve
its one place there by compare-and-set, and make all others lose and read again. Here the call
whose turn it is takes along everything that waits for a turn: one read, one reservation and one
answer for all of them. It holds no state and is not what keeps a budget (the compare-and-set
is): without it the calls of one process would only be in each other's way.
"""

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from functions.gateways.kubernetes import errors

MOST = 100
"""Calls that one of them does: more could not be patched in the time of one call."""
PATIENCE_SECONDS = 2.0
"""Over its own time, how long a call waits for the one that took it along."""

Ask = TypeVar("Ask")
Done = TypeVar("Done")
Shared = TypeVar("Shared")
Results: TypeAlias = Sequence[Done | errors.KubernetesError]


class Turn:
    """One call's hold on what only one call of the process may do at a time."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.held = False
        self._answer: Callable[[Sequence[Any]], None] | None = None

    def take(self, seconds: float) -> bool:
        """Whether it was our turn within ``seconds``."""
        if not self.held:
            self.held = self._lock.acquire(timeout=max(0.0, seconds))
        return self.held

    def take_if_free(self) -> bool:
        if not self.held:
            self.held = self._lock.acquire(blocking=False)
        return self.held

    def leave(self) -> None:
        if self.held:
            self.held = False
            self._lock.release()

    def answer(self, done: Sequence[Any]) -> None:
        """What came of each ask, as `Together.run` is to return it. Once the turn is left, the
        calls that were taken along end, and ours may go on with what nobody waits for."""
        if self._answer:
            self._answer(done)


@dataclass(eq=False)
class _Part(Generic[Ask, Done]):
    ask: Ask
    since: float
    over: threading.Event = field(default_factory=threading.Event)
    done: Done | None = None
    problem: Exception | None = None
    alone: bool = False
    """What was done together failed in a way that may be another part's fault."""

    def hear(self, result: Done | errors.KubernetesError) -> None:
        if isinstance(result, errors.KubernetesError):
            self.problem = result
        else:
            self.done = result

    def fail(self, problem: Exception, *, alone: bool = False) -> None:
        if not self.over.is_set():
            self.problem, self.alone = problem, alone


class Together:
    """One for all calls of a function in a process (`functions.edge.call.Function`)."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._queue: list[_Part] = []  # type: ignore[type-arg]
        self._guard = threading.Lock()
        self._shared: dict[Hashable, Any] = {}

    def share(self, key: Hashable, make: Callable[[], Shared]) -> Shared:
        """What ``make`` made for the first call that asked for ``key``."""
        with self._guard:
            if key not in self._shared:
                self._shared[key] = make()
            found: Shared = self._shared[key]
            return found

    @property
    def waiting(self) -> int:
        """Calls that wait for a turn."""
        with self._guard:
            return len(self._queue)

    def turn(self) -> Turn:
        return Turn(self._lock)

    def run(
        self,
        ask: Ask,
        work: Callable[[Sequence[Ask], Turn, float], Results[Done]],
        seconds: float,
    ) -> Done:
        """What ``work`` does for ``ask``, which it may be given together with others' asks.

        ``work(asks, turn, waited)`` is called while it is our turn, which it should leave as soon
        as it can; ``waited`` are the seconds (in tenths) since the oldest of the asks came. It
        returns one result for each: what was done, or what went wrong with that one alone. Raises
        that, what ``work`` raises, and `errors.Contended` when our turn did not come within
        ``seconds``.
        """
        mine: _Part[Ask, Done] = _Part(ask, self._monotonic())
        with self._guard:
            self._queue.append(mine)
        turn = self.turn()
        if not turn.take(seconds) and self._take_back(mine):
            raise errors.Contended(f"no turn at the ledgers within {seconds:g} s")
        try:
            batch = self._gather(mine) if turn.held else []
            if batch:
                self._do(batch, work, turn)
            else:
                turn.leave()
                if not mine.over.wait(seconds + PATIENCE_SECONDS):
                    raise errors.Contended("the call that took this one along does not end")
            if mine.alone:
                if not turn.take(PATIENCE_SECONDS):
                    raise errors.Contended("no turn at the ledgers to be tried alone")
                mine.problem = None
                mine.over.clear()
                self._do([mine], work, turn)
        finally:
            turn.leave()
        if mine.problem:
            raise mine.problem
        assert mine.done is not None
        return mine.done

    def _gather(self, mine: _Part[Ask, Done]) -> list[_Part[Ask, Done]]:
        """All that wait, ours first; empty when another has taken ours along."""
        with self._guard:
            if mine not in self._queue:
                return []
            self._queue.remove(mine)
            batch = [mine, *self._queue[: MOST - 1]]
            del self._queue[: MOST - 1]
        return batch

    def _take_back(self, mine: _Part[Ask, Done]) -> bool:
        with self._guard:
            if mine not in self._queue:
                return False
            self._queue.remove(mine)
            return True

    def _do(
        self,
        batch: Sequence[_Part[Ask, Done]],
        work: Callable[[Sequence[Ask], Turn, float], Results[Done]],
        turn: Turn,
    ) -> None:
        waited = round(self._monotonic() - min(part.since for part in batch), 1)

        def answer(done: Sequence[Done]) -> None:
            for part, result in list(zip(batch, done, strict=True))[1:]:
                part.hear(result)
                part.over.set()

        turn._answer = answer
        try:
            done = work([part.ask for part in batch], turn, waited)
            for part, result in zip(batch, done, strict=True):
                if not part.over.is_set():
                    part.hear(result)
        except errors.KubernetesError as problem:
            for part in batch:
                part.fail(problem)
        except Exception as problem:  # noqa: BLE001  each is tried alone, and says it again
            for part in batch:
                part.fail(problem, alone=len(batch) > 1)
        finally:
            turn.leave()
            for part in batch:
                part.over.set()
