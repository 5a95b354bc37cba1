"""Reading for many nodes together what is otherwise read node by node.

Emptying fifty nodes takes fifty lists and watches of pods, and looks at fifty nodes each second.
Where those nodes are a good part of the cluster, one list, one watch and one look are cheaper for
everybody. Where they are not, that would be the pods of thousands of other nodes: the server finds
the pods of one node by an index, so there each node is read by itself.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection

from functions.gateways.clock import Clock
from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.exchange import Watch
from functions.steps.pod_watch import LONGEST_WATCH, Into, Lost, PodEvent, Watcher

FROM_NODES = 8
"""For fewer nodes it is not even asked how large the cluster is."""
NODES_EACH = 4
PODS_EACH = 100
"""At most so many nodes and pods in the cluster for each node that is emptied. How many nodes there
are does not matter where a label selects those that are read."""
_FRESH_SECONDS = 0.5


def worth(cluster: Cluster, count: int, *, selected: bool = False) -> bool:
    """Whether ``count`` nodes are so many of this cluster's that they are read together. Two
    requests, one where a label has them ``selected``, none where they are few."""
    if count < FROM_NODES:
        return False
    try:
        nodes = 0 if selected else cluster.count("nodes")
        pods = cluster.count("pods")
    except errors.Forbidden:
        return False
    return nodes <= NODES_EACH * count and pods <= PODS_EACH * count


class NodesTogether:
    """The nodes as they are now, or were a moment ago."""

    def __init__(self, cluster: Cluster, clock: Clock, selector: str = "") -> None:
        self._cluster = cluster
        self._clock = clock
        self._selector = selector
        self._lock = threading.Lock()
        self._found: dict[str, types.Node] = {}
        self._at = float("-inf")

    def get(self, name: str) -> tuple[types.Node, float]:
        """It, and when that was by the monotonic clock. Raises `errors.NotFound`."""
        with self._lock:
            if self._clock.monotonic() - self._at > _FRESH_SECONDS:
                at = self._clock.monotonic()
                self._found = {n.name: n for n in self._cluster.list_nodes(self._selector)}
                self._at = at
            if name in self._found:
                return self._found[name], self._at
        # Gone, or no longer one that is selected.
        now = self._clock.monotonic()
        return self._cluster.get_node(name), now


class PodsTogether:
    """The pods of ``nodes``: one list, and one watch from there. When the watch is lost, each node
    goes on by itself."""

    def __init__(
        self, cluster: Cluster, nodes: Collection[str], selector: str, left: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._selector = selector
        self._left = left
        self._nodes = frozenset(nodes)
        self._lock = threading.Lock()
        self._watcher: Watcher | None = None
        self._lost = False
        self._said: defaultdict[str, list[PodEvent]] = defaultdict(list)
        """By node: what the watch said since its pods were listed."""
        self._into: dict[str, Into] = {}
        found: dict[str, list[types.Pod]] = {name: [] for name in nodes}
        meta = types.ListMeta()
        for page in cluster.pods_by_page(selector):
            meta = page.metadata
            for pod in page.items or ():
                if pod.spec.node_name in found:
                    found[pod.spec.node_name].append(pod)
        self._version = meta.resource_version
        self._pages = {name: types.Page(items=pods, metadata=meta) for name, pods in found.items()}

    def page(self, node: str) -> types.Page[types.Pod] | None:
        """Its pods as they were listed, once: whoever asks again wants to know how they are now."""
        with self._lock:
            return self._pages.pop(node, None)

    def subscribe(self, node: str, version: str, into: Into) -> "Subscription | None":
        """Tell ``into`` what happens to the node's pods after ``version``. None when that can only
        be heard by a watch of its own."""
        with self._lock:
            if self._lost:
                return None
            if self._watcher is None:
                self._watcher = Watcher(self._watch, "all", self._version, 0.0, self._hear)
            kept = [e for e in self._said[node] if _is_newer(e, version)]
            self._said[node] = kept
            for event in kept:
                into(event)
            self._into[node] = lambda said: _pass(said, version, into)
        return Subscription(self, node)

    def close(self) -> None:
        if self._watcher:
            self._watcher.stop()

    def forget(self, node: str) -> None:
        with self._lock:
            self._into.pop(node, None)

    def _watch(self, version: str) -> Watch[types.Pod]:
        return self._cluster.watch_pods(
            selector=self._selector,
            resource_version=version,
            timeout_seconds=min(self._left(), LONGEST_WATCH),
        )

    def _hear(self, said: PodEvent | Lost | BaseException) -> None:
        """In the watch's thread."""
        with self._lock:
            if isinstance(said, types.WatchEvent):
                node = said.object.spec.node_name
                if node in self._nodes:
                    self._said[node].append(said)
                    if into := self._into.get(node):
                        into(said)
                return
            self._lost = True
            problem = said if isinstance(said, Lost) else Lost(said)
            listeners = list(self._into.values())
        for tell in listeners:
            tell(problem)


class Subscription:
    def __init__(self, pods: PodsTogether, node: str) -> None:
        self._pods = pods
        self._node = node

    def stop(self) -> None:
        self._pods.forget(self._node)


def _pass(said: PodEvent | Lost | BaseException, version: str, into: Into) -> None:
    if not isinstance(said, types.WatchEvent) or _is_newer(said, version):
        into(said)


def _is_newer(event: PodEvent, version: str) -> bool:
    """Versions are numbers that grow (KEP-5504; before, because they are etcd's)."""
    try:
        return int(event.object.metadata.resource_version) > int(version)
    except ValueError:
        return True
