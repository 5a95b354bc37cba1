"""What every part of the cluster works on: the store, the agenda, the time, names and UIDs."""

import random
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from infra.local.cluster.agenda import Action, ActionKey, Agenda
from infra.local.cluster.objects import Object, metadata, timestamp
from infra.local.cluster.resources import Resource
from infra.local.cluster.store import Store, Stored


class Clock(Protocol):
    def now(self) -> datetime: ...


@dataclass(frozen=True)
class Delays:
    """How long what surrounds the API server takes, where that matters to a drain."""

    schedule: timedelta = timedelta(milliseconds=100)
    start: timedelta = timedelta(seconds=2)
    """From bound to Running and Ready."""
    stop: timedelta = timedelta(seconds=1)
    """From the termination signal to gone, unless the grace is shorter or the pod says else."""
    node_lost: timedelta = timedelta(seconds=50)
    """From the kubelet's death to Ready=Unknown (--node-monitor-grace-period)."""
    orphan: timedelta = timedelta(seconds=40)
    """From a Node's deletion to that of its pods (the pod garbage collector's quarantine)."""
    job_retry: timedelta = timedelta(seconds=10)
    """From a Job's lost pod to its next."""
    disruption_timeout: timedelta = timedelta(minutes=2)
    """How long the disruption controller believes that an evicted pod is about to go."""


class World:
    """Time inside the cluster never goes back, and stands still while a request is answered."""

    def __init__(
        self,
        clock: Clock,
        *,
        delays: Delays | None = None,
        history: int = 10_000,
        seed: int = 1,
        watch_list: bool = True,
    ) -> None:
        self.clock = clock
        self.watch_list = watch_list
        """False: as a server whose WatchList feature is off (1.33), where clients fall back to
        LIST."""
        self.delays = delays or Delays()
        self.store = Store(history)
        self.agenda = Agenda()
        self.lock = threading.RLock()
        self.dead_kubelets: set[str] = set()
        self.denied: Callable[[Object], str] = lambda attributes: ""
        """For SelfSubjectAccessReview: why the attributes are denied; empty if they are not."""
        self.pages: dict[tuple[Resource, int], tuple[datetime, list[Stored]]] = {}
        """What the later pages of a LIST are read from, by resource and version."""
        self._random = random.Random(seed)
        self._reached = datetime.min.replace(tzinfo=UTC)
        self._acting = False

    def now(self) -> datetime:
        return self._reached if self._acting else max(self._reached, self.clock.now())

    def advance(self, to: datetime) -> None:
        """Do what is due by ``to``, in order, each at its own time."""
        if self._acting:
            return
        self._acting = True
        try:
            while entry := self.agenda.pop(max(to, self._reached)):
                due, action = entry
                self._reached = max(self._reached, due)
                action()
            self._reached = max(self._reached, to)
        finally:
            self._acting = False

    def catch_up(self) -> None:
        """Do what has fallen due by the clock's time."""
        self.advance(self.clock.now())

    def after(self, delay: timedelta, key: ActionKey, action: Action) -> None:
        self.agenda.at(self.now() + delay, key, action)

    def soon(self, key: ActionKey, action: Action) -> None:
        """Once the request or action that runs now is through."""
        self.agenda.at(self.now(), key, action)

    def timestamp(self) -> str:
        return timestamp(self.now())

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def generated_name(self, prefix: str) -> str:
        """As the server does for generateName: five letters that spell nothing."""
        suffix = "".join(self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        return prefix[:58] + suffix

    def add(self, resource: Resource, item: Object) -> Object:
        """Store a new object of a controller's making."""
        meta = dict(metadata(item))
        if not meta.get("name"):
            meta["name"] = self.generated_name(meta["generateName"])
        meta.setdefault("uid", self.new_uid())
        meta.setdefault("creationTimestamp", self.timestamp())
        if resource.generation:
            meta.setdefault("generation", 1)
        return self.store.put(resource, {**item, "metadata": meta})
