"""The disruption budgets that one call knows of, as the server last said, less what it used up.

Shared by all nodes of the call. Once a budget keeps a pod back, the budgets of its namespace are
watched where time is real, so that a place that comes free is taken at once and not at the next
look; reading them now and then stays behind the watch.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.exchange import Watch
from functions.rules.drain_plan import Budget
from functions.steps import pods

MOST_WATCHED = 16
"""Namespaces watched at once: each is a connection and a thread. The others are read."""
_BETWEEN_SECONDS = 0.5
_TRY_AGAIN = (errors.Gone, errors.Unreachable, errors.ServerError, errors.TooManyRequests)

Found = dict[str, Budget]
"""By key."""


class Listener(Protocol):
    def wake(self) -> None: ...


class Budgets:
    """``list_them`` reads those of a namespace, as patiently as the call reads everything."""

    def __init__(
        self,
        cluster: Cluster,
        list_them: Callable[[str], types.Page[types.PodDisruptionBudget]],
        left: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._list = list_them
        self._left = left
        self._lock = threading.RLock()
        self._found: dict[str, Found] = {}
        self._versions: dict[str, str] = {}
        self._unanswered: Counter[str] = Counter()
        """By namespace: evictions that use up a budget there and were not answered yet."""
        self._news: dict[str, Found] = {}
        """Said by a watch, and not taken over yet."""
        self._watchers: dict[str, _Watcher] = {}
        self._listeners: set[Listener] = set()
        self.readable = True
        """False: we may not list them. The server then says what they allow, pod by pod."""

    def of(self, namespaces: Collection[str], *, read: bool = True) -> tuple[Budget, ...]:
        """Those of a new namespace are read first, unless nothing is to be ``read`` any more."""
        with self._lock:
            for namespace in sorted(set(namespaces) - self._found.keys()) if read else ():
                self.read(namespace)
            for namespace in namespaces:
                self._take_over(namespace)
            return tuple(b for n in sorted(namespaces) for b in self._found.get(n, {}).values())

    def read(self, namespace: str) -> bool:
        """Read those of ``namespace`` anew. Whether any allows more than before."""
        if not self.readable:
            self._found.setdefault(namespace, {})
            return False
        try:
            page = self._list(namespace)
        except errors.Forbidden:
            self.readable = False
            return self.read(namespace)
        read = {b.key: b for b in map(pods.budget, page.items or ())}
        with self._lock:
            before = self._found.get(namespace, {})
            self._found[namespace] = read
            self._versions[namespace] = page.metadata.resource_version
            self._news.pop(namespace, None)
        return any(b.allowed > (before[k].allowed if k in before else 0) for k, b in read.items())

    def allow(self, budgets: Collection[str]) -> bool:
        """Whether every one of these has a disruption left."""
        with self._lock:
            return all((b := self._find(key)) is not None and b.allowed > 0 for key in budgets)

    def take(self, budgets: Collection[str]) -> bool:
        """Use up one disruption of each, if all have one. `settle` when the server has answered."""
        with self._lock:
            if not self.allow(budgets):
                return False
            for key in budgets:
                self._set(key, lambda allowed: allowed - 1)
                self._unanswered[_namespace(key)] += 1
            return True

    def put_back(self, budgets: Collection[str]) -> None:
        """What was taken was not used after all."""
        with self._lock:
            for key in budgets:
                self._set(key, lambda allowed: allowed + 1)
                self._unanswered[_namespace(key)] -= 1

    def settle(self, budgets: Collection[str], *, exhausted: bool = False) -> None:
        """The server has answered what these were taken for; ``exhausted``: nothing is left."""
        with self._lock:
            for key in budgets:
                self._unanswered[_namespace(key)] -= 1
                if exhausted:
                    self._set(key, lambda _: 0)

    def unsettled(self, namespaces: Iterable[str]) -> bool:
        """Whether what the server counts there does not count all of ours yet."""
        with self._lock:
            return any(self._unanswered[n] > 0 for n in namespaces)

    # watching

    def listen(self, listener: Listener) -> None:
        """``listener`` is woken when a watch says something."""
        with self._lock:
            self._listeners.add(listener)

    def ignore(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    def watch(self, namespaces: Iterable[str]) -> bool:
        """From the last time that they were read. Whether a watch was begun just now."""
        begun = False
        with self._lock:
            for namespace in namespaces:
                known = namespace in self._watchers or namespace not in self._versions
                if known or not self.readable or len(self._watchers) >= MOST_WATCHED:
                    continue
                self._watchers[namespace] = _Watcher(self, self._cluster, namespace, self._left)
                begun = True
        return begun

    def watched(self, namespaces: Iterable[str]) -> bool:
        with self._lock:
            found = [self._watchers.get(n) for n in namespaces]
        return all(watcher is not None and watcher.alive for watcher in found)

    def close(self) -> None:
        with self._lock:
            watchers = list(self._watchers.values())
        for watcher in watchers:
            watcher.stop()

    def version(self, namespace: str) -> str:
        with self._lock:
            return self._versions.get(namespace, "")

    def heard(self, namespace: str, event: types.WatchEvent[types.PodDisruptionBudget]) -> None:
        """Called by the watch's thread."""
        with self._lock:
            self._versions[namespace] = event.object.metadata.resource_version
            if event.type == "BOOKMARK":
                return
            budget = pods.budget(event.object)
            news = self._news.setdefault(namespace, dict(self._found.get(namespace, {})))
            if event.type == "DELETED":
                news.pop(budget.key, None)
            else:
                news[budget.key] = budget
        self.tell()

    def tell(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.wake()

    def _take_over(self, namespace: str) -> None:
        """What a watch said holds once all of ours is counted in it."""
        if namespace in self._news and self._unanswered[namespace] <= 0:
            self._found[namespace] = self._news.pop(namespace)

    def _find(self, key: str) -> Budget | None:
        return self._found.get(_namespace(key), {}).get(key)

    def _set(self, key: str, change: Callable[[int], int]) -> None:
        if budget := self._find(key):
            found = msgspec.structs.replace(budget, allowed=change(budget.allowed))
            self._found[budget.namespace][key] = found


class _Watcher:
    """The thread that watches one namespace until it is stopped, or may not watch."""

    def __init__(
        self, budgets: Budgets, cluster: Cluster, namespace: str, left: Callable[[], float]
    ) -> None:
        self._budgets = budgets
        self._cluster = cluster
        self._namespace = namespace
        self._left = left
        self._stopped = threading.Event()
        self._watch: Watch[types.PodDisruptionBudget] | None = None
        self.alive = True
        self._thread = threading.Thread(
            target=self._run, name=f"watch-budgets-{namespace}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._watch:
            self._watch.close()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set() and self._left() > 0:
                try:
                    self._read_one()
                except errors.Gone:
                    self._budgets.read(self._namespace)
                    self._budgets.tell()
                except _TRY_AGAIN:
                    pass  # the drains read for themselves meanwhile
                self._stopped.wait(_BETWEEN_SECONDS)
        except errors.KubernetesError:
            # We may not watch them, or nothing more is to be asked: they are read instead.
            pass
        finally:
            self.alive = False

    def _read_one(self) -> None:
        with self._cluster.watch_pdbs(
            namespace=self._namespace,
            resource_version=self._budgets.version(self._namespace),
            timeout_seconds=min(self._left(), 600.0),
        ) as watch:
            self._watch = watch
            for event in watch:
                if self._stopped.is_set():
                    return
                self._budgets.heard(self._namespace, event)


def _namespace(key: str) -> str:
    return key.partition("/")[0]
