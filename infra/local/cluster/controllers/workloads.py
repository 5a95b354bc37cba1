"""When the controllers of pods look: whenever an object of theirs, or a pod of it, changed."""

from collections.abc import Callable

from infra.local.cluster.controllers.daemon_sets import keep_daemon_set, takes_others
from infra.local.cluster.controllers.deployments import keep_deployment, keep_replica_set
from infra.local.cluster.controllers.jobs import keep_job
from infra.local.cluster.controllers.stateful_sets import keep_stateful_set
from infra.local.cluster.deletion import DeleteOptions, delete
from infra.local.cluster.objects import (
    Object,
    controller_of,
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
)
from infra.local.cluster.resources import (
    BY_KIND,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from infra.local.cluster.store import Change
from infra.local.cluster.world import World


class Workloads:
    def __init__(self, world: World) -> None:
        self._world = world
        self._keepers: dict[Resource, Callable[[World, Object], None]] = {
            DEPLOYMENTS: keep_deployment,
            REPLICA_SETS: keep_replica_set,
            STATEFUL_SETS: keep_stateful_set,
            JOBS: keep_job,
            DAEMON_SETS: keep_daemon_set,
        }
        world.store.subscribe(self._noticed)

    def _noticed(self, change: Change) -> None:
        if change.resource in self._keepers:
            if change.new:
                self._look_soon(change.resource, change.new.item)
            elif change.old:
                uid = uid_of(change.old.item)
                self._world.soon(("garbage", uid), lambda: self._collect(uid))
        if change.resource in (PODS, REPLICA_SETS):
            for side in (change.old, change.new):
                owner = controller_of(side.item) if side else None
                if side and owner:
                    self._owner_soon(owner, namespace_of(side.item))
                    break
        elif change.resource is NODES and takes_others(change):
            for stored in self._world.store.all(DAEMON_SETS):
                self._look_soon(DAEMON_SETS, stored.item)

    def _owner_soon(self, owner: Object, namespace: str) -> None:
        resource = BY_KIND.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        if resource in self._keepers and resource:
            found = self._world.store.get(resource, namespace, owner["name"])
            if found is not None and uid_of(found) == owner.get("uid"):
                self._look_soon(resource, found)

    def _look_soon(self, resource: Resource, item: Object) -> None:
        namespace, name = namespace_of(item), name_of(item)

        def look() -> None:
            found = self._world.store.get(resource, namespace, name)
            if found is not None and not is_terminating(found):
                self._keepers[resource](self._world, found)

        self._world.soon(("workloads", resource.plural, namespace, name), look)

    def _collect(self, uid: str) -> None:
        """The garbage collector: what a deleted owner controlled goes too."""
        for resource, stored in self._world.store.owned_by(uid):
            if not is_terminating(stored.item):
                delete(self._world, resource, stored.item, DeleteOptions())
