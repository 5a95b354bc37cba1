"""Playing a history under several policies at once: it is read once, and each of its events
happens in every policy's world before the next one is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from functions.rules import policy as policies
from functions.rules.policy import Policy
from infra.local.backtest.book import Book
from infra.local.clock import SimulatedClock
from infra.local.history import History
from infra.local.past import filling
from infra.local.past.course import Course
from infra.local.past.reader import Reader
from infra.local.player import WARM_UP, play
from infra.local.scenario import Scenario
from infra.local.world import EmbeddedWorld

Progress = Callable[[str, datetime, int], None]
"""Hears the name of the history, the time in it, and how many of its events are done."""


class Choice(NamedTuple):
    """One of the policies to compare. ``policy`` is None for none at all: nobody acts."""

    name: str
    policy: Policy | None


@dataclass
class Played:
    """One history, and what became of the fleet under each policy, in their order."""

    name: str
    kind: str
    """``recorded`` or ``scenario``."""
    start: datetime
    end: datetime
    books: list[Book]
    events: int = 0
    needed_nothing: int = 0
    refused: int = 0
    """Malformed or of an unknown source: refused now as then."""
    ours: int = 0
    """Answers, clocks and Events of our own, left out."""
    failures: int = 0
    """Calls that ended in an error."""
    notes: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        return max((book.sizes["all"] for book in self.books), default=0)


def play_scenario(scenario: Scenario, choices: Sequence[Choice], progress: Progress) -> Played:
    """Its own policy is replaced by each of the ``choices``. What it expects is not judged."""
    done = Played(scenario.name, "scenario", scenario.start, scenario.end, [])
    for choice in choices:
        book = _book(scenario.start, choice, choices)
        if choice.policy is not None:
            world = EmbeddedWorld(SimulatedClock(scenario.start - WARM_UP))
            text = policies.dump(choice.policy).decode()
            played = play(
                scenario,
                world,
                policy=text,
                on_time=lambda now: progress(scenario.name, now, 0),
                witness=book,
            )
            counts = played.counts
            done.events = max(done.events, counts.events)
            done.needed_nothing = max(done.needed_nothing, counts.events - counts.acted)
            done.failures += counts.failures
        book.close(scenario.end)
        done.books.append(book)
    return done


def play_history(history: History, choices: Sequence[Choice], progress: Progress) -> Played:
    """Raises `infra.local.history.HistoryError`."""
    name, start = history.path.name, history.start
    reader = Reader()
    items, notes = filling.beginning(history, history.objects(), reader)
    done = Played(name, "recorded", start, start, [], notes=list(notes))
    done.books = [_book(start, choice, choices) for choice in choices]
    courses = [
        Course(choice.policy, start, items, book)
        for choice, book in zip(choices, done.books, strict=True)
        if choice.policy is not None
    ]
    for event in history.events():
        heard = reader.hear(event)
        for course in courses:
            course.hear(heard)
        done.end = event.at
        if reader.counts.events % 1_000 == 0:
            progress(name, event.at, reader.counts.events)
    for course in courses:
        course.go_to(done.end)
    for book in done.books:
        book.close(done.end)
    counts = reader.counts
    done.events, done.refused, done.ours = counts.events, counts.refused, counts.ours
    done.needed_nothing = min((course.needed_nothing for course in courses), default=0)
    done.failures = sum(course.failures for course in courses)
    done.notes += history.notes
    return done


def _book(start: datetime, choice: Choice, choices: Sequence[Choice]) -> Book:
    """Pools have one name in all books, or they could not be compared."""
    naming = next((c.policy for c in choices if c.policy is not None), policies.default())
    return Book(start, naming.pool_of, acts=choice.policy is not None)
