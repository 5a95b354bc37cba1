"""The cluster as one thing: a server, its controllers, and a clock that drives them.

Simulated time passes only when somebody says so: a request first does what has fallen due by the
clock's time, and `EmbeddedCluster.advance` does what is due up to a time. Nothing happens by
itself; a server over HTTP (`infra.local.cluster.http`) has a thread that keeps calling.
"""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from infra.local.cluster import api
from infra.local.cluster.call import Answer, Call
from infra.local.cluster.controllers.disruption import Disruption
from infra.local.cluster.controllers.kubelet import Kubelets
from infra.local.cluster.controllers.namespaces import Namespaces
from infra.local.cluster.controllers.node_lifecycle import NodeLifecycle
from infra.local.cluster.controllers.scheduler import Scheduler
from infra.local.cluster.controllers.workloads import Workloads
from infra.local.cluster.defaults import first_status, with_defaults
from infra.local.cluster.deletion import DeleteOptions, delete
from infra.local.cluster.faults import ConnectionDropped, Faults
from infra.local.cluster.forms import formed
from infra.local.cluster.objects import Object, deep_copy, metadata, timestamp, with_condition
from infra.local.cluster.resources import BY_KIND, NAMESPACES, NODES, resource_named
from infra.local.cluster.watch import WatchStream
from infra.local.cluster.world import Clock, Delays, World

SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True)
class Seen:
    """A request that was answered, for tests that look at who asked for what, in order."""

    verb: str
    path: str
    status: int
    dry_run: bool
    at: datetime
    body: bytes = b""


class EmbeddedCluster:
    """``clock`` has ``now()``. All methods may be called from any thread.

    ``faults`` makes the next requests fail; ``seen`` holds the last requests; ``held`` names
    controllers that do nothing for the moment (``disruption``, ``kubelet``, ``scheduler``,
    ``workloads``, ``node-lifecycle``).
    """

    def __init__(
        self,
        clock: Clock,
        *,
        delays: Delays | None = None,
        history: int = 10_000,
        seen: int = 50_000,
        seed: int = 1,
        watch_list: bool = True,
    ) -> None:
        """``watch_list``: see `World`."""
        self.clock = clock
        self.faults = Faults()
        self.seen: deque[Seen] = deque(maxlen=seen)
        self._world = World(clock, delays=delays, history=history, seed=seed, watch_list=watch_list)
        self._kubelets = Kubelets(self._world)
        self._node_lifecycle = NodeLifecycle(self._world)
        Disruption(self._world)
        Scheduler(self._world)
        Workloads(self._world)
        Namespaces(self._world)
        for name in SYSTEM_NAMESPACES:
            self._namespace(name)

    # time

    def now(self) -> datetime:
        with self._world.lock:
            return self._world.now()

    def advance(self, to: datetime) -> None:
        """Do everything that is due up to ``to``, in order, each at its own time."""
        with self._world.lock:
            self._world.advance(to)

    def next_due(self) -> datetime | None:
        """When something happens next by itself; None: never."""
        with self._world.lock:
            return self._world.agenda.next_due()

    @property
    def resource_version(self) -> int:
        """Changes if and only if something changed."""
        return self._world.store.version

    @property
    def held(self) -> set[str]:
        return self._world.agenda.held

    def subscribe(self, listener: Callable[[], None]) -> None:
        """``listener`` is called after every change, from the thread that made it."""
        self._world.store.subscribe(lambda change: listener())

    # requests

    def handle(self, call: Call) -> Answer:
        """Any request but a watch. Raises `ConnectionDropped` if a fault says so."""
        verb = api.verb(call)
        rules = self.faults.take(verb, call)
        for rule in rules:
            if rule.before:
                rule.before(call)
        answering = next((rule for rule in rules if rule.before is None), None)
        if answering and answering.drop and not answering.carried_out:
            self._note(verb, call, 0)
            raise ConnectionDropped
        if answering and answering.answer:
            self._note(verb, call, answering.answer.status)
            return answering.answer
        with self._world.lock:
            self._world.catch_up()
            answer = api.handle(self._world, call)
            self._world.catch_up()
            self._note(verb, call, answer.status)
        if answering and answering.drop:
            raise ConnectionDropped
        return answer

    def watch(self, call: Call) -> "WatchStream | Answer":
        """A watch, or the answer that refuses it."""
        rules = self.faults.take("watch", call)
        for rule in rules:
            if rule.before:
                rule.before(call)
        answering = next((rule for rule in rules if rule.before is None), None)
        if answering and answering.drop:
            self._note("watch", call, 0)
            raise ConnectionDropped
        if answering and answering.answer:
            self._note("watch", call, answering.answer.status)
            return answering.answer
        with self._world.lock:
            self._world.catch_up()
            found = api.watch(self._world, call)
        self._note("watch", call, found.status if isinstance(found, Answer) else 200)
        if answering and isinstance(found, WatchStream):
            found.cut_after = answering.cut_after
        return found

    def lines(self, stream: WatchStream) -> list[bytes]:
        """What a watch has to tell now. Raises `ConnectionDropped` if a fault cut it."""
        with self._world.lock:
            self._world.catch_up()
            return stream.lines()

    def bookmark(self, stream: WatchStream) -> list[bytes]:
        """The bookmark that is due now, if there is one."""
        with self._world.lock:
            return stream.bookmark()

    def requests(self, verb: str = "*", path: str = "") -> list[Seen]:
        """What was asked, oldest first: by verb (``*``: any) and regular expression of a path."""
        pattern = re.compile(path)
        return [
            one for one in list(self.seen) if verb in ("*", one.verb) and pattern.search(one.path)
        ]

    def _note(self, verb: str, call: Call, status: int) -> None:
        self.seen.append(Seen(verb, call.path, status, call.dry_run, self._world.now(), call.body))

    # filling it, past the API

    def apply(self, item: Object) -> Object:
        """Create the object, or replace the one of its name, status and all; a namespace that
        is not there is made. Returns it as stored."""
        resource = BY_KIND.get((str(item.get("apiVersion")), str(item.get("kind"))))
        if resource is None:
            raise KeyError(f"not served: {item.get('apiVersion')} {item.get('kind')}")
        with self._world.lock:
            self._world.catch_up()
            fresh = formed(resource, item)
            for field in ("kind", "apiVersion"):
                fresh.pop(field)
            meta = fresh["metadata"]
            if resource.namespaced:
                self._namespace(meta.setdefault("namespace", "default"))
            if not meta.get("name"):
                meta["name"] = self._world.generated_name(meta["generateName"])
            old = self._world.store.get(resource, meta.get("namespace", ""), meta["name"])
            if old is not None:
                for field in ("uid", "creationTimestamp"):
                    meta.setdefault(field, metadata(old)[field])
                if resource.generation:
                    meta["generation"] = metadata(old).get("generation", 1) + (
                        fresh.get("spec") != old.get("spec")
                    )
            if "status" not in fresh and (status := first_status(resource)) is not None:
                fresh["status"] = old["status"] if old else status
            made = self._world.add(resource, with_defaults(resource, fresh))
            self._world.catch_up()
            return deep_copy(made)  # type: ignore[no-any-return]

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """A copy of the object, by kind, plural or short name; ``namespace`` may be empty."""
        with self._world.lock:
            self._world.catch_up()
            found = self._world.store.get(resource_named(kind), namespace, name)
            return deep_copy(found) if found is not None else None

    def all(self, kind: str, namespace: str = "") -> list[Object]:
        """Copies of all objects of a kind."""
        with self._world.lock:
            self._world.catch_up()
            found = self._world.store.all(resource_named(kind), namespace)
            return [deep_copy(stored.item) for stored in found]

    def delete(
        self, kind: str, namespace: str, name: str, *, grace_seconds: int | None = None
    ) -> None:
        """As a DELETE. A KeyError if there is no such object."""
        resource = resource_named(kind)
        with self._world.lock:
            self._world.catch_up()
            found = self._world.store.get(resource, namespace, name)
            if found is None:
                raise KeyError(f"no {kind} {namespace}/{name}")
            delete(self._world, resource, found, DeleteOptions(grace_seconds=grace_seconds))
            self._world.catch_up()

    def set_condition(
        self, node: str, kind: str, status: str, *, reason: str = "", message: str = ""
    ) -> None:
        """What a node agent writes in a node's status."""
        with self._world.lock:
            self._world.catch_up()
            found = self._world.store.get(NODES, "", node)
            if found is None:
                raise KeyError(f"no node {node}")
            now = self._world.now()
            fresh = with_condition(found, kind, status, now, reason, message)
            for condition in fresh["status"]["conditions"]:
                if condition["type"] == kind:
                    condition["lastHeartbeatTime"] = timestamp(now)
            self._world.store.put(NODES, fresh)
            self._world.catch_up()

    def stop_kubelet(self, node: str) -> None:
        """Its pods neither start nor end from now on, and its node is lost some time later."""
        with self._world.lock:
            self._world.dead_kubelets.add(node)
            self._node_lifecycle.kubelet_stopped(node)

    def start_kubelet(self, node: str) -> None:
        with self._world.lock:
            self._world.dead_kubelets.discard(node)
            self._kubelets.revived(node)

    def deny(self, why: Callable[[Object], str]) -> None:
        """For SelfSubjectAccessReview: ``why(resourceAttributes)`` is empty for what is allowed."""
        self._world.denied = why

    def compact(self) -> None:
        """Forget all history: older watches and continue tokens get 410."""
        with self._world.lock:
            self._world.store.compact()
            self._world.pages.clear()

    def _namespace(self, name: str) -> None:
        if self._world.store.find(NAMESPACES, "", name) is None:
            self._world.add(NAMESPACES, with_defaults(NAMESPACES, {"metadata": {"name": name}}))
