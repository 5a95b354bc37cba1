"""When a team lets its nodes be drained for a maintenance that can be planned.

Windows come round each week. A cloud's deadline does not: where none comes before it is time, the
deadline holds. Pure: follows from the policy and the times given.
"""

import datetime as dt
import functools
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"\d\d:\d\d")
_DAY = timedelta(days=1)
_A_WEEK = range(8)
"""Days back in which each window has opened once at least."""


class Window(Protocol):
    @property
    def days(self) -> Sequence[str]: ...
    @property
    def opens(self) -> str: ...
    @property
    def closes(self) -> str: ...
    @property
    def zone(self) -> str: ...


def clock_time(text: str) -> dt.time:
    """``22:00``. Raises ValueError."""
    if not _CLOCK.fullmatch(text):
        raise ValueError(f"{text!r} is no time of day")
    return dt.time.fromisoformat(text)


@functools.cache
def zone(name: str) -> dt.tzinfo:
    """Raises LookupError or ValueError for a name that is none."""
    return dt.UTC if name == "UTC" else ZoneInfo(name)


def best(windows: Iterable[Window], latest: datetime, known: datetime) -> datetime:
    """When to drain for a maintenance, where ``latest`` is when it is time in any case and
    ``known`` is when it was first heard of.

    In the last window before ``latest``: it is the machine's working time that is kept. ``latest``
    itself where that lies in a window, or where none has been open since.
    """
    opened = max((span for one in windows for span in _before(one, latest)), default=None)
    if opened is None:
        return latest
    start, end = opened
    if end > latest:
        return latest
    return max(start, known) if end > known else latest


def _before(window: Window, latest: datetime) -> Iterable[tuple[datetime, datetime]]:
    """Each time that the window opened in the week before ``latest``, and when it closed."""
    where = zone(window.zone)
    opens, closes = clock_time(window.opens), clock_time(window.closes)
    today = latest.astimezone(where).date()
    for days in _A_WEEK:
        day = today - days * _DAY
        if DAYS[day.weekday()] not in window.days:
            continue
        start = datetime.combine(day, opens, where)
        last = day if closes > opens else day + _DAY
        if start <= latest:
            yield start, datetime.combine(last, closes, where)
