"""What each agent means by its node conditions: which status is bad, what clears it, and how bad.

The polarity differs (kubelet's ``Ready`` and EKS' ``...Ready`` are bad when False, everybody
else's are bad when True), and so does what "good again" is worth: several agents turn a
condition good whenever they start, without a test. All of it is data, in `conditions.csv`.
"""

import csv
import fnmatch
import functools
import importlib.resources
import re

import msgspec

from events.notice import Cause, Kind, Severity

NEW_BOOT = "new boot ID"
"""Stands in the column ``clears`` where the message is the boot ID in which it was seen."""
ABSENT = "absent"
"""Stands in the column ``good`` where the agent takes the condition away when all is well."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]{0,316}")
"""What may be the type of a condition that we do not know by name (as names of labels are)."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One row: how a condition of this type (with this reason) is to be read."""

    type: str
    reason: str
    agent: str
    bad: frozenset[str]
    """Statuses that say that something is wrong."""
    good: frozenset[str]
    """Statuses that say that nothing is. What is in neither says nothing at all."""
    latched: bool
    """Going good again proves nothing: the agent cannot clear it, or clears it without a test."""
    clears: str
    kind: Kind
    severity: Severity
    cause: Cause
    in_log: bool


class Table:
    """The rows, looked up by type; a type is matched against the globs once."""

    def __init__(self, rows: list[Rule]) -> None:
        self._exact = {r.type: r for r in rows if not r.reason and "*" not in r.type}
        self._globs = [r for r in rows if not r.reason and "*" in r.type]
        self._refined: dict[str, list[Rule]] = {}
        for row in rows:
            if row.reason:
                self._refined.setdefault(row.type, []).append(row)
        self.absent_is_good = tuple(r.type for r in self._exact.values() if ABSENT in r.good)
        self.of_type = functools.lru_cache(maxsize=256)(self._of_type)

    def _of_type(self, condition: str) -> Rule | None:
        if rule := self._exact.get(condition):
            return rule
        if not _NAME.fullmatch(condition):
            return None
        return next((r for r in self._globs if fnmatch.fnmatchcase(condition, r.type)), None)

    def of_reason(self, condition: str, reason: str) -> Rule | None:
        """The row that refines ``condition`` for this reason; None when there is none."""
        return next(
            (r for r in self._refined.get(condition, ()) if fnmatch.fnmatchcase(reason, r.reason)),
            None,
        )


@functools.cache
def table() -> Table:
    """`conditions.csv`, read on first use."""
    text = (importlib.resources.files("events") / "conditions.csv").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return Table([_rule(line) for line in csv.DictReader(lines)])


@functools.cache
def gpu_counts() -> dict[str, int]:
    """GPUs of an instance type (the node label), from `gpu_counts.csv`. Read on first use."""
    text = (importlib.resources.files("events") / "gpu_counts.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row["instance_type"]: int(row["gpus"]) for row in rows}


def _rule(line: dict[str, str]) -> Rule:
    return Rule(
        type=line["type"],
        reason=line["reason"],
        agent=line["agent"],
        bad=frozenset(line["bad"].split()),
        good=frozenset(line["good"].split()),
        latched=line["latched"] == "true",
        clears=line["clears"],
        kind=Kind(line["kind"]),
        severity=Severity(line["severity"]),
        cause=Cause(line["cause"]),
        in_log=line["in_log"] == "true",
    )
