"""What the nodes of one call share: its time, its pace, and what was read for all of them."""

import functools
import threading
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.exchange import Watch
from functions.rules.drain_plan import Budget
from functions.rules.policy import Drain
from functions.steps.budgets import Budgets, Listener
from functions.steps.pace import Pace
from functions.steps.pod_watch import LONGEST_WATCH
from functions.steps.read_together import NodesTogether, PodsTogether, worth
from functions.steps.turns import Turns

T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0
UNKNOWN_SECONDS = 10.0
"""How long a server that does not know us is asked again, each time with the credentials as they
are then."""


class Call:
    """One call of a function, or one command. Ends after ``seconds``, whatever it is doing.

    A server that does not answer is waited for to the end, or for ``outage_seconds`` at a time; one
    that does not know us any more for `UNKNOWN_SECONDS`.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        policy: Drain,
        seconds: float,
        own_namespace: str,
        *,
        outage_seconds: float = float("inf"),
        pace: Pace | None = None,
    ) -> None:
        """``pace`` is one that other calls keep, too."""
        self.clock = clock
        self.policy = policy
        self.own_namespace = own_namespace
        self.outage_seconds = outage_seconds
        self.ends = clock.monotonic() + seconds
        self.cluster = cluster.bounded(self.left)
        self.unbounded = cluster
        """For what is written down when the time is over."""
        self.pace = pace or Pace(clock, policy.evictions_per_second)
        self.turns = Turns(policy.parallel)
        self.began = clock.monotonic()
        # Only a real clock goes on while a thread waits; on any other, all is done in turn.
        self.threaded = isinstance(clock, SystemClock)
        self.senders = ThreadPoolExecutor(policy.parallel) if self.threaded else None
        self._lock = threading.RLock()
        self._budgets = Budgets(self.cluster, self._list_budgets, self.left)
        self._read: dict[Hashable, Any] = {}
        self._reading: defaultdict[Hashable, threading.Lock] = defaultdict(threading.Lock)
        self._daemon_sets: frozenset[str] | None = None
        self._hidden = False
        """We may not list DaemonSets."""
        self.together: PodsTogether | None = None
        self._nodes: NodesTogether | None = None
        self._cancelled = threading.Event()
        self._listeners: set[Listener] = set()

    def __enter__(self) -> "Call":
        return self

    def __exit__(self, *_: object) -> None:
        self._budgets.close()
        if self.together:
            self.together.close()
        if self.senders:
            self.senders.shutdown(cancel_futures=True)

    def now(self) -> datetime:
        """The time of day as the API server has it: what it wrote on pods, and what we write for
        others to read, is compared with that, however wrong our own clock is."""
        return self.clock.now() + self.cluster.skew

    def left(self) -> float:
        return self.ends - self.clock.monotonic()

    # the end before its time

    @property
    def cancelled(self) -> bool:
        """Nothing new is to be asked. What is under way is still waited for."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """End the call now. From any thread."""
        self._cancelled.set()
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.wake()
        self.turns.wake()

    def listen(self, listener: Listener) -> None:
        """``listener`` is woken when the call is cancelled, or when budgets change."""
        with self._lock:
            self._listeners.add(listener)
        self._budgets.listen(listener)

    def ignore(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)
        self._budgets.ignore(listener)

    def sleep(self, seconds: float) -> None:
        """Until then, or until the call is cancelled."""
        if self.threaded:
            self._cancelled.wait(seconds)
        else:
            self.clock.sleep(seconds)

    def patiently(self, ask: Callable[[], T]) -> T:
        """``ask``, again and again while the server is away, to the end of the call."""
        tries, since = 0, self.clock.monotonic()
        while True:
            try:
                return ask()
            except errors.AWAY as problem:
                tries += 1
                wait = pause(tries, "", getattr(problem, "retry_after_seconds", None))
                away = self.clock.monotonic() - since + wait
                if wait >= self.left() or away > self._patience(problem) or self.cancelled:
                    raise
                self.sleep(wait)

    def _patience(self, problem: errors.KubernetesError) -> float:
        unknown = isinstance(problem, errors.Unauthorized)
        return min(UNKNOWN_SECONDS, self.outage_seconds) if unknown else self.outage_seconds

    # what was read for all

    def read_together(self, nodes: Collection[str], *, pods: str = "", labels: str = "") -> None:
        """From here on, read ``nodes`` and their pods together if that is worth it. ``pods`` is a
        selector of pods, ``labels`` one that chooses those nodes, if there is one."""
        many = functools.partial(worth, self.cluster, len(nodes), selected=bool(labels))
        if self.threaded and self.patiently(many):
            self._nodes = NodesTogether(self.cluster, self.clock, labels)
            self.together = self.patiently(
                lambda: PodsTogether(self.cluster, nodes, pods, self.left)
            )

    def node(self, name: str) -> tuple[types.Node, float]:
        """The node, and when it was so, by the monotonic clock. Raises `errors.NotFound`."""
        if self._nodes:
            return self.patiently(functools.partial(self._nodes.get, name))
        now = self.clock.monotonic()
        return self.patiently(lambda: self.cluster.get_node(name)), now

    def pods(self, node: str, selector: str = "") -> types.Page[types.Pod]:
        """Those of one node, as they are now; the first time, as they were read together."""
        if self.together and (page := self.together.page(node)):
            return page
        return self.patiently(lambda: self.cluster.list_pods(node=node, selector=selector))

    def pods_watched(self, node: str) -> tuple[types.Page[types.Pod], Watch[types.Pod] | None]:
        """The same, and the watch that goes on from there, where one request gives both. Whoever
        takes it closes it."""
        if self.threaded and not self.together:

            def ask() -> tuple[types.Page[types.Pod], Watch[types.Pod]] | None:
                seconds = min(self.left(), LONGEST_WATCH)
                return self.cluster.pods_watched(node=node, timeout_seconds=seconds)

            if found := self.patiently(ask):
                return found
        return self.pods(node), None

    def once(self, key: Hashable, ask: Callable[[], T]) -> T:
        """What ``ask`` answers, asked once for all nodes. An error is not kept."""
        with self._lock:
            reading = self._reading[key]
        with reading:
            if key not in self._read:
                self._read[key] = self.patiently(ask)
            found: T = self._read[key]
            return found

    def daemon_sets(self, *, read: bool = True) -> frozenset[str] | None:
        """``namespace/name`` of all. None if they are not known: not to be ``read`` now, or we may
        not list them, and then every pod is believed to have its DaemonSet."""
        with self._lock:
            if self._daemon_sets is None and read and not self._hidden:
                try:
                    found = self.patiently(self.cluster.list_daemon_sets)
                except errors.Forbidden:
                    self._hidden = True
                    return None
                self._daemon_sets = frozenset(
                    f"{d.metadata.namespace}/{d.metadata.name}" for d in found
                )
            return self._daemon_sets

    def budgets(self, namespaces: Collection[str], *, read: bool = True) -> tuple[Budget, ...]:
        """The disruption budgets there: see `Budgets.of`."""
        return self._budgets.of(namespaces, read=read)

    @property
    def all_budgets(self) -> Budgets:
        return self._budgets

    def _list_budgets(self, namespace: str) -> types.Page[types.PodDisruptionBudget]:
        return self.patiently(lambda: self.cluster.list_pdbs(namespace))


def pause(tries: int, salt: str, wanted: float | None) -> float:
    """How long until the next try: what the server asks for, else twice as long each time, and a
    little different for each ``salt`` so that they do not all come back at once."""
    if wanted is not None:
        return max(wanted, _FIRST_PAUSE)
    spread = 0.75 + (zlib.crc32(f"{salt}{tries}".encode()) % 100) / 200
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(tries - 1, 10)) * spread)
