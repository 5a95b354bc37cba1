"""What the types of AWS Health events ask for: `aws_health.csv`, the first line that matches.

The codes are those of AWS's documentation and of public rule sets; AWS adds to them at any time,
so the table goes by parts of the code, and what it does not know is watched, never more.
"""

import csv
import fnmatch
import functools
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

from events.notice import Cause, Kind, Severity


class Meaning(NamedTuple):
    """One line of the table."""

    code: str
    category: str
    kind: Kind
    severity: Severity
    cause: Cause
    why: str


@functools.lru_cache(maxsize=256)
def meaning(code: str, category: str) -> Meaning:
    """What an event of this type asks for."""
    return next(
        line
        for line in _table()
        if fnmatch.fnmatchcase(code, line.code) and fnmatch.fnmatchcase(category, line.category)
    )


@functools.cache
def _table() -> tuple[Meaning, ...]:
    return tuple(_lines())


def _lines() -> Iterator[Meaning]:
    text = resources.files("events.sources").joinpath("aws_health.csv").read_text()
    for line in csv.DictReader(text.splitlines()):
        yield Meaning(
            line["code"],
            line["category"],
            Kind(line["kind"]),
            Severity(line["severity"]),
            Cause(line["cause"]),
            line["why"],
        )
