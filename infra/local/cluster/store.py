"""What the cluster holds, one counter over all of it, and the recent past for watches."""

import bisect
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from infra.local.cluster.objects import (
    Object,
    controller_of,
    metadata,
    name_of,
    namespace_of,
    node_of,
)
from infra.local.cluster.resources import PODS, RESOURCES, Resource

Key = tuple[str, str]
"""Namespace (empty for cluster-wide resources) and name."""


class Stored:
    """An object and, once somebody asked for it, its JSON without kind and apiVersion."""

    __slots__ = ("_body", "item", "key", "labels")

    def __init__(self, item: Object) -> None:
        self.item = item
        meta = item["metadata"]
        self.key: Key = (meta.get("namespace") or "", meta["name"])
        self.labels: Mapping[str, str] = meta.get("labels") or {}
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        """JSON as an item of a list: the kind and the API version are the list's."""
        if self._body is None:
            bare = {k: v for k, v in self.item.items() if k not in ("kind", "apiVersion")}
            self._body = msgspec.json.encode(bare)
        return self._body

    def whole(self, resource: Resource) -> bytes:
        """JSON of the object alone."""
        head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}"'
        body = self.body
        return head.encode() + (b"," + body[1:] if len(body) > 2 else b"}")


class Change(NamedTuple):
    version: int
    resource: Resource
    old: Stored | None
    new: Stored | None
    last: Stored | None = None
    """For a deletion: the object as it was last, under the deletion's resourceVersion."""


class TooOldError(Exception):
    """The history no longer reaches back to where the watch wants to begin."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"the oldest version kept is {oldest}")
        self.oldest = oldest


class _Shelf:
    """All objects of one resource, in the order in which a LIST gives them."""

    def __init__(self) -> None:
        self.stored: dict[Key, Stored] = {}
        self.keys: list[Key] = []
        self.history: list[Change] = []
        self.forgotten = 0
        """The version of the newest change that the history has dropped."""


class Store:
    def __init__(self, history: int = 10_000) -> None:
        self.version = 1
        self._shelves = {resource: _Shelf() for resource in RESOURCES}
        self._history = history
        self._pods_by_node: dict[str, dict[Key, Stored]] = {}
        self._owned: dict[str, dict[tuple[Resource, Key], Stored]] = {}
        self._listeners: list[Callable[[Change], None]] = []

    def subscribe(self, listener: Callable[[Change], None]) -> None:
        """Called after every change, before the one who made it goes on."""
        self._listeners.append(listener)

    # reading

    def find(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        return self._shelves[resource].stored.get((namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        found = self._shelves[resource].stored.get((namespace, name))
        return found.item if found else None

    def all(self, resource: Resource, namespace: str = "") -> list[Stored]:
        """Sorted by namespace and name, as the real server's keys are."""
        shelf = self._shelves[resource]
        if not namespace:
            return [shelf.stored[key] for key in shelf.keys]
        first = bisect.bisect_left(shelf.keys, (namespace, ""))
        last = bisect.bisect_left(shelf.keys, (namespace + "\0", ""))
        return [shelf.stored[key] for key in shelf.keys[first:last]]

    def pods_on(self, node: str) -> list[Stored]:
        found = self._pods_by_node.get(node)
        return [found[key] for key in sorted(found)] if found else []

    def owned_by(self, uid: str) -> Iterator[tuple[Resource, Stored]]:
        """What names the object of this UID as its controller."""
        for (resource, _), stored in list(self._owned.get(uid, {}).items()):
            yield resource, stored

    def changes_since(self, resource: Resource, version: int) -> list[Change]:
        shelf = self._shelves[resource]
        if version < shelf.forgotten:
            raise TooOldError(shelf.forgotten)
        start = bisect.bisect_right(shelf.history, version, key=lambda change: change.version)
        return shelf.history[start:]

    def last_change(self, resource: Resource) -> int:
        """The version of the newest change of the resource; 0 if nothing ever changed."""
        shelf = self._shelves[resource]
        return shelf.history[-1].version if shelf.history else shelf.forgotten

    def compact(self) -> None:
        """Forget the history, as etcd does after five minutes: older watches must list again."""
        for shelf in self._shelves.values():
            shelf.history.clear()
            shelf.forgotten = self.version

    # writing

    def put(self, resource: Resource, item: Object) -> Object:
        """Keep ``item``, which now belongs to the store, under the next version."""
        key = (namespace_of(item), name_of(item))
        shelf = self._shelves[resource]
        old = shelf.stored.get(key)
        self.version += 1
        item["metadata"] = {**metadata(item), "resourceVersion": str(self.version)}
        new = Stored(item)
        if old is None:
            bisect.insort(shelf.keys, key)
        shelf.stored[key] = new
        self._reindex(resource, key, old, new)
        self._record(Change(self.version, resource, old, new))
        return item

    def remove(self, resource: Resource, namespace: str, name: str) -> Object:
        shelf = self._shelves[resource]
        key = (namespace, name)
        old = shelf.stored.pop(key)
        del shelf.keys[bisect.bisect_left(shelf.keys, key)]
        self.version += 1
        meta = {**metadata(old.item), "resourceVersion": str(self.version)}
        last = Stored({**old.item, "metadata": meta})
        self._reindex(resource, key, old, None)
        self._record(Change(self.version, resource, old, None, last))
        return last.item

    def _reindex(
        self, resource: Resource, key: Key, old: Stored | None, new: Stored | None
    ) -> None:
        if resource is PODS:
            before, after = node_of(old.item) if old else "", node_of(new.item) if new else ""
            if before and before != after:
                self._pods_by_node[before].pop(key, None)
            if after and new:
                self._pods_by_node.setdefault(after, {})[key] = new
        before_owner = controller_of(old.item) if old else None
        after_owner = controller_of(new.item) if new else None
        if before_owner and before_owner != after_owner:
            self._owned.get(str(before_owner.get("uid")), {}).pop((resource, key), None)
        if after_owner and new:
            self._owned.setdefault(str(after_owner.get("uid")), {})[resource, key] = new

    def _record(self, change: Change) -> None:
        shelf = self._shelves[change.resource]
        shelf.history.append(change)
        if len(shelf.history) > 2 * self._history:
            dropped = len(shelf.history) - self._history
            shelf.forgotten = shelf.history[dropped - 1].version
            del shelf.history[:dropped]
        for listener in self._listeners:
            listener(change)
