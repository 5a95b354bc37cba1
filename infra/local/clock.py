"""The laptop's PingSources, and time that is moved by hand.

`Ticks` reads the schedules of the project's PingSource manifests and says which ticks fall into
a stretch of time; `SimulatedClock` is the clock under which a replay lets that time pass.
"""

import heapq
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from events.cloudevent import CloudEvent
from infra.local import manifests
from infra.local.manifests import PingSource

PING = "dev.knative.sources.ping"


@dataclass(frozen=True)
class Tick:
    at: datetime
    event: CloudEvent
    sink: str
    """Kind and name of who gets it, ``Broker/groundcrew``."""
    source: PingSource


class Ticks:
    """The ticks of PingSources, those of the project's manifests unless others are given.

    Knative's adapter adds up to half a second of chance to each tick; here they are exact. Like
    there, a tick that nobody heard is not made up for.
    """

    def __init__(self, sources: Sequence[PingSource] | None = None) -> None:
        self.sources = list(manifests.ping_sources() if sources is None else sources)
        for source in self.sources:
            _check(source)

    def due(self, after: datetime, until: datetime, *names: str) -> Iterator[Tick]:
        """The ticks later than ``after`` and not later than ``until``, in their order; only of
        the sources ``names`` if any are given. Two at one time come in the manifests' order."""
        chosen = [s for s in self.sources if not names or s.name in names]
        streams = [_times(source, after, until, place) for place, source in enumerate(chosen)]
        for at, place in heapq.merge(*streams):
            yield _tick(chosen[place], at)

    def out_of_turn(self, name: str, at: datetime) -> Tick:
        """A tick of the source ``name`` at a time of our choice. Raises KeyError."""
        sources = {source.name: source for source in self.sources}
        return _tick(sources[name], at)

    def next_after(self, after: datetime, *names: str) -> Tick | None:
        """The first tick later than ``after``; None when there is no source."""
        chosen = [s for s in self.sources if not names or s.name in names]
        times = [(_next(source, after), place) for place, source in enumerate(chosen)]
        if not times:
            return None
        at, place = min(times)
        return _tick(chosen[place], at)


class SimulatedClock:
    """A clock that stands still unless it is moved.

    While a call runs the time of day stays as it was, so that the whole call happens at one
    moment of the scenario; what it waits for (a sleep, a watch on the embedded cluster) passes
    on the monotonic clock, against which its own deadline is measured.
    """

    def __init__(self, start: datetime) -> None:
        self._now = start.astimezone(UTC)
        self._monotonic = 0.0
        self._lock = threading.Lock()  # a drain waits in several threads

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._monotonic += max(0.0, seconds)

    def waited(self, seconds: float) -> None:
        """Somebody waited that long inside a call: what the embedded cluster reports of a watch
        on which nothing came."""
        self.sleep(seconds)

    def advance_to(self, when: datetime) -> None:
        """Let the time of day be ``when``. Raises ValueError for a time gone by."""
        passed = when - self._now
        if passed < timedelta(0):
            raise ValueError(f"the clock stands at {self._now}, {when} is before that")
        self._now = when.astimezone(UTC)
        self.sleep(passed.total_seconds())


def _tick(source: PingSource, at: datetime) -> Tick:
    stamp = at.isoformat().replace("+00:00", "Z")
    event = CloudEvent(
        id=f"{source.name}-{stamp}",
        source=source.source,
        type=PING,
        time=at,
        data=source.data.encode(),
    )
    return Tick(at=at, event=event, sink=source.sink, source=source)


def _times(
    source: PingSource, after: datetime, until: datetime, place: int
) -> Iterator[tuple[datetime, int]]:
    while (after := _next(source, after)) <= until:
        yield after, place


def _next(source: PingSource, after: datetime) -> datetime:
    start = after.astimezone(ZoneInfo(source.timezone))
    found: datetime = _schedule(source.schedule).get_next(datetime, start_time=start)
    return found.astimezone(UTC)


@lru_cache(maxsize=64)
def _schedule(text: str):  # type: ignore[no-untyped-def]
    """Parsed once: a play of months asks some hundred thousand times."""
    from croniter import croniter

    # As in Knative (robfig/cron): with six fields the first is the second.
    return croniter(text, second_at_beginning=len(text.split()) == 6)


def _check(source: PingSource) -> None:
    try:
        _next(source, datetime(2026, 1, 1, tzinfo=UTC))
    except (ValueError, KeyError) as problem:
        raise manifests.ManifestError(
            f"PingSource {source.name}: schedule {source.schedule!r}, "
            f"timezone {source.timezone!r}: {problem}"
        ) from problem
