"""Which ticks of the PingSources a play makes.

All ticks would be 130,000 in a week, so those are skipped in which a function could find nothing
that it has not found before. What a resync does depends on the cluster and on the time alone. So
its tick is skipped if

- nothing in the cluster has changed since its last run, and that run changed nothing itself
  (else it may have left something for the next one); and
- no time has come at which this function, in any run, said that it would look again.

A function that looks at everything now and then, in case an event was lost, finds nothing new in
a cluster that has not changed. Of such runs only the last one before something happens is made,
so that what it writes down about its own looking is as fresh as if all had been.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from functions.edge.context import Outcome
from infra.local.broker import Broker
from infra.local.clock import Tick, Ticks
from infra.local.world import World

_MOMENT = timedelta(microseconds=1)


@dataclass
class Look:
    """A function's next reading of everything."""

    at: datetime
    every: timedelta
    version: int


class Schedule:
    """Chooses by what has changed and by what the functions say."""

    def __init__(self, broker: Broker, world: World) -> None:
        self._world = world
        self._ticks = Ticks()
        self._hears: dict[str, set[str]] = {}
        """By PingSource, the functions that its ticks wake."""
        for source in self._ticks.sources:
            tick = self._ticks.next_after(world.clock.now(), source.name)
            assert tick is not None
            takers = {t.subscriber for t in broker.triggers if t.takes(tick.event)}
            self._hears[source.name] = takers
        self._clean: dict[str, int] = {}
        """By PingSource, the cluster's version after a run that changed nothing."""
        self._pending: dict[str, set[datetime]] = {}
        """By function, when it looks again."""
        self._acts: dict[str, datetime] = {}
        """By function, when it acts on what others have read."""
        self._looks: dict[str, Look] = {}
        self._known: dict[str, tuple[datetime, Tick]] = {}
        """By PingSource: no tick lies between that time and that tick."""
        self._due: list[Tick] = []
        self.made: list[tuple[datetime, str]] = []

    def next(self, now: datetime, before: datetime, *, skip: bool = True) -> datetime:
        """When the next tick is to be made; ``before`` (something else happens then) if none is
        until then. Without ``skip`` no reading of everything is left out: for those who cannot
        say when something happens next."""
        found: list[Tick] = []
        acts = min((at for at in self._acts.values() if at > now), default=before)
        for name, functions in self._hears.items():
            if self._clean.get(name) != self._world.version:
                found.append(self._after(name, now))
                continue
            for function in functions:
                if pending := self._pending.get(function):
                    found.append(self._from(name, max(min(pending), now), now))
                if look := self._looks.get(function):
                    at = look.at
                    until = min(before, acts)
                    if skip and look.version == self._world.version and at < until:
                        # Nothing to be found: of all the readings before then only the last.
                        # One at that very moment comes after what happens.
                        at += (until - at - _MOMENT) // look.every * look.every
                    found.append(self._from(name, max(at, now), now))
        at = min([before, *(tick.at for tick in found)])
        self._due = [tick for tick in found if tick.at == at]
        return at

    def due(self, at: datetime) -> list[Tick]:
        """The ticks to make at ``at``, in the order of the manifests."""
        found = {tick.source.name: tick for tick in self._due if tick.at == at}
        self._due = []
        for name in self._hears:
            # What has happened at this very moment may have woken one up.
            if self._clean.get(name) != self._world.version and (tick := self._at(name, at)):
                found[name] = tick
        return [found[name] for name in self._hears if name in found]

    def ran(self, tick: Tick, before: int, *, failed: bool) -> None:
        self.made.append((tick.at, tick.source.name))
        if self._world.version == before and not failed:
            self._clean[tick.source.name] = before

    def said(self, function: str, outcome: Outcome, now: datetime, version: int) -> None:
        kept = {at for at in self._pending.get(function, ()) if at > now}
        self._pending[function] = kept | ({outcome.look_again} if outcome.look_again else set())
        if outcome.acts_at:
            self._acts[function] = outcome.acts_at
        if outcome.reads_all_again:
            every = outcome.reads_all_again - now
            self._looks[function] = Look(outcome.reads_all_again, every, version)

    def count_all(self, began: datetime, until: datetime) -> int:
        """How many ticks there are in that time."""
        total = 0
        for name in self._hears:
            first = self._from(name, began, datetime.min.replace(tzinfo=UTC)).at
            second = self._from(name, first + timedelta(seconds=1), first).at
            total += (until - first) // (second - first) + 1
        return total

    def _after(self, name: str, now: datetime) -> Tick:
        """The first tick later than ``now``."""
        return self._from(name, now + _MOMENT, now)

    def _from(self, name: str, at: datetime, now: datetime) -> Tick:
        """The first tick not earlier than ``at``, and later than ``now``."""
        at = max(at, now + _MOMENT)
        known = self._known.get(name)
        if known is None or not known[0] <= at <= known[1].at:
            tick = self._ticks.next_after(at - _MOMENT, name)
            assert tick is not None
            known = self._known[name] = (at, tick)
        return known[1]

    def _at(self, name: str, at: datetime) -> Tick | None:
        tick = self._from(name, at, at - timedelta(seconds=1))
        return tick if tick.at == at else None


class Given(Schedule):
    """The ticks that another play has made."""

    def __init__(self, broker: Broker, world: World, given: Sequence[tuple[datetime, str]]) -> None:
        super().__init__(broker, world)
        self._given = list(given)

    def next(self, now: datetime, before: datetime, *, skip: bool = True) -> datetime:
        return min(before, self._given[0][0]) if self._given else before

    def due(self, at: datetime) -> list[Tick]:
        found = []
        while self._given and self._given[0][0] <= at:
            _, name = self._given.pop(0)
            if tick := self._at(name, at):
                found.append(tick)
        return found
