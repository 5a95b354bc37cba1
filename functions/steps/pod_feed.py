"""What happens to the pods of one node, as it happens: a watch, and the answers to evictions.

There are two ways to wait. On a real clock the watch is read by a thread of its own, so that
answers and timers are not held up by a silent server. On a simulated clock nothing happens while
nobody looks: the watch is read in the caller's thread, and its wait is what moves the time.
"""

import queue
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from functions.gateways.clock import Clock
from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.exchange import Watch
from functions.steps.pod_watch import LONGEST_WATCH, TRY_AGAIN, Lost, PodEvent, Watcher
from functions.steps.read_together import PodsTogether, Subscription


@dataclass(frozen=True)
class Answer:
    """What the server said to the eviction or deletion of a pod; None: accepted."""

    uid: str
    problem: BaseException | None


@dataclass(frozen=True)
class Woken:
    """Something that is no matter of these pods has changed: a budget, the end of the call."""


Item = PodEvent | Answer | Lost | Woken
_Entry = tuple[int | None, Item | BaseException]
"""With the number of the watch that said it; None for what is no matter of a watch."""


class PodFeed(Protocol):
    def follow(self, resource_version: str, watch: Watch[types.Pod] | None = None) -> None:
        """Watch from there, in place of any earlier watch; by ``watch``, if one is open."""

    def answered(self, answer: Answer) -> None: ...

    def wake(self) -> None:
        """End a wait in `items`. From any thread."""

    def items(self, seconds: float) -> Iterator[Item]:
        """What happened; waits up to ``seconds`` for something to happen."""

    def close(self) -> None: ...


class InlineFeed:
    """For simulated clocks: everything in one thread, in one order."""

    def __init__(self, cluster: Cluster, node: str, selector: str = "") -> None:
        self._cluster = cluster
        self._node = node
        self._selector = selector
        self._version = ""
        self._answers: list[Answer] = []

    def follow(self, resource_version: str, watch: Watch[types.Pod] | None = None) -> None:
        # A watch that is open waits for what a simulated clock would never bring.
        if watch:
            watch.close()
        self._version = resource_version

    def answered(self, answer: Answer) -> None:
        self._answers.append(answer)

    def wake(self) -> None: ...

    def items(self, seconds: float) -> Iterator[Item]:
        while self._answers:
            yield self._answers.pop(0)
        if seconds <= 0:
            return
        try:
            with self._cluster.watch_pods(
                node=self._node,
                selector=self._selector,
                resource_version=self._version,
                timeout_seconds=seconds,
            ) as watch:
                for event in watch:
                    self._version = event.object.metadata.resource_version
                    if event.type != "BOOKMARK":
                        yield event
        except TRY_AGAIN as problem:
            yield Lost(problem)

    def close(self) -> None: ...


class ThreadedFeed:
    """For real clocks. ``until`` is how long any watch of it is wanted; ``together`` is one that
    may tell what this node's own would."""

    def __init__(
        self,
        cluster: Cluster,
        node: str,
        selector: str,
        clock: Clock,
        until: float,
        together: PodsTogether | None = None,
    ) -> None:
        self._cluster = cluster
        self._together = together
        self._node = node
        self._selector = selector
        self._clock = clock
        self._until = until
        self._queue: queue.SimpleQueue[_Entry] = queue.SimpleQueue()
        self._generation = 0
        self._watcher: Watcher | Subscription | None = None
        self._version: str | None = None
        self._given: Watch[types.Pod] | None = None
        self._losses = 0

    def follow(self, resource_version: str, watch: Watch[types.Pod] | None = None) -> None:
        """Without one that is open, the watch is opened when somebody first waits: a node that is
        empty needs none."""
        self._stop_watcher()
        self._version, self._given = resource_version, watch
        # What an earlier watch has said and nobody has read yet is older than the new list.
        self._generation += 1

    def answered(self, answer: Answer) -> None:
        self._queue.put((None, answer))

    def wake(self) -> None:
        self._queue.put((None, Woken()))

    def items(self, seconds: float) -> Iterator[Item]:
        if self._watcher is None and self._version is not None:
            self._watcher = self._open(self._version)
        try:
            generation, item = self._queue.get(timeout=max(seconds, 0.001))
            while True:
                if isinstance(item, BaseException):
                    raise item
                if generation in (None, self._generation):
                    if isinstance(item, Lost):
                        self._losses += 1
                    yield item
                generation, item = self._queue.get_nowait()
        except queue.Empty:
            return

    def close(self) -> None:
        self._stop_watcher()

    def _open(self, version: str) -> Watcher | Subscription:
        watch = self._generation

        def into(said: PodEvent | Lost | BaseException) -> None:
            self._queue.put((watch, said))

        if self._together and (heard := self._together.subscribe(self._node, version, into)):
            return heard
        left = min(self._until - self._clock.monotonic(), LONGEST_WATCH)
        delay = min(1.0, 0.1 * 2 ** min(self._losses, 5)) if self._losses else 0.0

        def watch_from(version: str) -> Watch[types.Pod]:
            given, self._given = self._given, None
            if given:
                return given
            return self._cluster.watch_pods(
                node=self._node,
                selector=self._selector,
                resource_version=version,
                timeout_seconds=left,
            )

        return Watcher(watch_from, self._node, version, delay, into)

    def _stop_watcher(self) -> None:
        if self._watcher:
            self._watcher.stop()
            self._watcher = None
        if self._given:
            self._given.close()
            self._given = None
