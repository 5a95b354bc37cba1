"""What the nodes of one call share: its time, its pace, and what was read for all of them."""

import threading
import zlib
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.rules.drain_plan import Budget
from functions.rules.policy import Drain
from functions.steps import pods

T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0


class Pace:
    """At most ``per_second`` in any second, over all threads that share it."""

    def __init__(self, clock: Clock, per_second: int) -> None:
        self._clock = clock
        self._taken: deque[float] = deque(maxlen=per_second)
        self._lock = threading.Lock()

    def wait(self) -> float:
        """0.0 and the place is taken, or how many seconds until there is one."""
        with self._lock:
            now = self._clock.monotonic()
            if len(self._taken) == self._taken.maxlen and now - self._taken[0] < 1.0:
                return self._taken[0] + 1.0 - now
            self._taken.append(now)
            return 0.0


class Call:
    """One call of a function, or one command. Ends after ``seconds``, whatever it is doing."""

    def __init__(
        self, cluster: Cluster, clock: Clock, policy: Drain, seconds: float, own_namespace: str
    ) -> None:
        self.clock = clock
        self.policy = policy
        self.own_namespace = own_namespace
        self.ends = clock.monotonic() + seconds
        self.cluster = cluster.bounded(self.left)
        self.unbounded = cluster
        """For what is written down when the time is over."""
        self.pace = Pace(clock, policy.evictions_per_second)
        # Only a real clock goes on while a thread waits; on any other, all is done in turn.
        self.threaded = isinstance(clock, SystemClock)
        self.senders = ThreadPoolExecutor(policy.parallel) if self.threaded else None
        self._lock = threading.RLock()
        self._budgets: dict[str, dict[str, Budget]] = {}
        """By namespace and key."""
        self._daemon_sets: frozenset[str] | None = None

    def __enter__(self) -> "Call":
        return self

    def __exit__(self, *_: object) -> None:
        if self.senders:
            self.senders.shutdown(cancel_futures=True)

    def left(self) -> float:
        return self.ends - self.clock.monotonic()

    def patiently(self, ask: Callable[[], T]) -> T:
        """``ask``, again and again while the server is away, to the end of the call."""
        tries = 0
        while True:
            try:
                return ask()
            except (errors.Unreachable, errors.ServerError, errors.TooManyRequests) as problem:
                tries += 1
                wait = pause(tries, "", getattr(problem, "retry_after_seconds", None))
                if wait >= self.left():
                    raise
                self.clock.sleep(wait)

    def daemon_sets(self, *, read: bool = True) -> frozenset[str] | None:
        """``namespace/name`` of all. None if they are not known and not to be ``read`` now."""
        with self._lock:
            if self._daemon_sets is None and read:
                found = self.patiently(self.cluster.list_daemon_sets)
                self._daemon_sets = frozenset(
                    f"{d.metadata.namespace}/{d.metadata.name}" for d in found
                )
            return self._daemon_sets

    def budgets(self, namespaces: Collection[str], *, read: bool = True) -> tuple[Budget, ...]:
        """The disruption budgets there, as last read, less what was used up since. Those of a
        new namespace are read first, unless nothing is to be ``read`` any more."""
        with self._lock:
            for namespace in sorted(set(namespaces) - self._budgets.keys()) if read else ():
                self.read_budgets(namespace)
            return tuple(b for n in sorted(namespaces) for b in self._budgets.get(n, {}).values())

    def read_budgets(self, namespace: str) -> bool:
        """Read the budgets of ``namespace`` anew. Whether any allows more than before."""
        found = [pods.budget(b) for b in self.patiently(lambda: self.cluster.list_pdbs(namespace))]
        with self._lock:
            before = self._budgets.get(namespace, {})
            self._budgets[namespace] = {b.key: b for b in found}
        return any(b.allowed > (before[b.key].allowed if b.key in before else 0) for b in found)

    def allows(self, budgets: Collection[str]) -> bool:
        """Whether every one of these has a disruption left."""
        with self._lock:
            return all((b := self._find(key)) is not None and b.allowed > 0 for key in budgets)

    def take(self, budgets: Collection[str]) -> bool:
        """Use up one disruption of each, if all have one."""
        with self._lock:
            if not self.allows(budgets):
                return False
            for key in budgets:
                self._set(key, lambda allowed: allowed - 1)
            return True

    def exhausted(self, budgets: Collection[str]) -> None:
        """The server says that nothing is left of them."""
        with self._lock:
            for key in budgets:
                self._set(key, lambda _: 0)

    def _find(self, key: str) -> Budget | None:
        return self._budgets.get(key.partition("/")[0], {}).get(key)

    def _set(self, key: str, change: Callable[[int], int]) -> None:
        if budget := self._find(key):
            found = msgspec.structs.replace(budget, allowed=change(budget.allowed))
            self._budgets[budget.namespace][key] = found


def pause(tries: int, salt: str, wanted: float | None) -> float:
    """How long until the next try: what the server asks for, else twice as long each time, and a
    little different for each ``salt`` so that they do not all come back at once."""
    if wanted is not None:
        return max(wanted, _FIRST_PAUSE)
    spread = 0.75 + (zlib.crc32(f"{salt}{tries}".encode()) % 100) / 200
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(tries - 1, 10)) * spread)
