"""One call of replace: its time, what is in force, the books, and its hands."""

import functools
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from functions.gateways.aws.client import Aws
from functions.gateways.clock import Clock
from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.rules import replacing
from functions.rules.policy import Policy
from functions.rules.replacing import book
from functions.rules.replacing.book import Book, Entry
from functions.steps import active
from functions.steps.active import Active

log = logging.getLogger(__name__)

ACTING_SECONDS = 2.0
"""Less than this is no time to begin a reboot or an end in."""
TRIES = 12
"""Lost races for one book in a row: cordon writes the same objects."""


class Lost(Exception):
    """Somebody else has changed what was decided on: decide again at the next look."""


def books(in_force: Active) -> tuple[dict[str, Book], dict[str, str]]:
    """By pool: the books, and why one cannot be read."""
    found: dict[str, Book] = {}
    trouble: dict[str, str] = {}
    for pool, config_map in in_force.shelf.items():
        try:
            found[pool] = book.decode((config_map.data or {}).get(book.KEY))
        except book.Unreadable as problem:
            trouble[pool] = str(problem)
    return found, trouble


@dataclass
class Crew:
    cluster: Cluster
    clock: Clock
    namespace: str
    seconds: float
    aws: Callable[[], Aws]
    parallel: int = 8
    active: Active = field(init=False)
    books: dict[str, Book] = field(init=False)
    """By pool, as they are now; a pool without a ConfigMap has none."""
    trouble: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._ends = self.clock.monotonic() + self.seconds
        self.unbounded = self.cluster
        """For what has to be written down when the time is over."""
        self.cluster = self.cluster.bounded(self.left)
        self.read()

    @property
    def policy(self) -> Policy:
        return self.active.policy

    def now(self) -> datetime:
        """By the API server's clock: ours may be wrong, and seven days hang on it."""
        return self.clock.now() + self.cluster.skew

    def left(self) -> float:
        return self._ends - self.clock.monotonic()

    def read(self) -> None:
        """What is in force, and the books. One request."""
        self.active = active.read(self.cluster, self.namespace)
        self.books, self.trouble = books(self.active)

    def edit(self, pool: str, change: Callable[[Book], Book]) -> Book:
        """Write ``change`` of the book of ``pool`` by compare-and-set, read anew after each lost
        race. ``change`` raises `Lost` when what it stands on is no longer so."""
        for attempt in range(TRIES):
            if attempt:
                self.clock.sleep(random.uniform(0, 0.02 * 2 ** min(attempt, 4)))
                self.read()
            old = self.books.get(pool)
            if old is None:
                raise Lost(f"the book of pool {pool or 'of the cluster'} is not there")
            new = change(old)
            if new == old:
                return old
            try:
                self.active = active.write_book(self.unbounded, self.active, pool, new)
            except active.LOST_RACE:
                continue
            self.books[pool] = new
            return new
        raise Lost(f"others write the book of pool {pool} all the time")

    def put(self, pool: str, machine: str, before: Entry | None, after: Entry | None) -> None:
        """``after`` in place of ``before``. Raises `Lost` when it is another by now."""

        def change(old: Book) -> Book:
            if old.machines.get(machine) != before:
                raise Lost(f"{machine} was decided about by another call")
            return book.with_entry(old, machine, after)

        self.edit(pool, change)

    def attend(self) -> None:
        """Note that we look, begin books where there are none, and drop what is long over."""
        for pool in list(self.books):
            now = self.now()

            def change(old: Book, now: datetime = now) -> Book:
                return replacing.attend(book.tidy(old, now), now)

            if change(self.books[pool]) == self.books[pool]:
                continue
            try:
                self.edit(pool, change)
            except (Lost, errors.ApiError) as problem:
                # One pool's book is not the others': its guard of memory holds there.
                log.warning("the book of pool %s was not written: %s", pool or "(cluster)", problem)

    @functools.cached_property
    def fleet(self) -> list[tuple[str, str, str]]:
        """Name, provider ID and UID of every Node: read at most once a call, and only when a
        machine is about to be rebooted or to end."""
        every = self.cluster.list_nodes()
        return [(node.name, node.provider_id, node.metadata.uid) for node in every]

    def token(self) -> str:
        """Of one intent: no two calls have the same."""
        import secrets

        return secrets.token_hex(8)


def without_end(machine: str, token: str) -> Callable[[Book], Book]:
    """The change of the cluster's book that gives a place under the caps back, if it still is that
    call's: another one may have taken it over to end the machine after all."""

    def change(old: Book) -> Book:
        found = old.ends.get(machine)
        if found is None or found.token != token:
            return old
        ends = {m: end for m, end in old.ends.items() if m != machine}
        return msgspec.structs.replace(old, ends=ends)

    return change
