"""Empties a namespace that ends, and then lets it go."""

from infra.local.cluster.deletion import DeleteOptions, delete
from infra.local.cluster.objects import is_terminating, name_of, namespace_of
from infra.local.cluster.resources import NAMESPACES, RESOURCES
from infra.local.cluster.store import Change
from infra.local.cluster.world import World


class Namespaces:
    def __init__(self, world: World) -> None:
        self._world = world
        world.store.subscribe(self._noticed)

    def _noticed(self, change: Change) -> None:
        name = ""
        if change.resource is NAMESPACES and change.new and is_terminating(change.new.item):
            name = name_of(change.new.item)
        elif change.new is None and change.old:
            name = namespace_of(change.old.item)
        if name:
            self._world.soon(("namespaces", name), lambda: self._empty(name))

    def _empty(self, name: str) -> None:
        namespace = self._world.store.get(NAMESPACES, "", name)
        if namespace is None or not is_terminating(namespace):
            return
        left = 0
        for resource in RESOURCES:
            if not resource.namespaced or not resource.stored:
                continue
            for stored in self._world.store.all(resource, name):
                if not is_terminating(stored.item):
                    delete(self._world, resource, stored.item, DeleteOptions())
            left += len(self._world.store.all(resource, name))
        if not left:
            self._world.store.remove(NAMESPACES, "", name)
