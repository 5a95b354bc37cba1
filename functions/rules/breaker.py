"""The circuit breaker: when one check accuses too many, the check is wrong rather than the nodes.

A monitor's roll-out, a driver upgrade, a partition: the public record of tools that cordoned or
terminated most of a fleet on one bad signal is long (Karpenter #2811, draino #89, NVSentinel
#1423). It opens for one check of one pool and stops what would be done on that check; recoveries
go on, and so does work whose cloud deadline falls due.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from functions.rules import policy
from functions.rules.quantities import Share

DAY = timedelta(days=1)


class Accusation(msgspec.Struct, frozen=True, omit_defaults=True):
    at: datetime
    """When the machine was first accused by this check."""
    cleared: datetime | None = None
    """When the check took it back. It still counts as having been said."""


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one check said about one pool, and whether we still believe it."""

    accused: dict[str, Accusation] = {}
    """By machine (provider ID)."""
    opened: datetime | None = None
    closed: datetime | None = None
    """When it last closed: what was opened before then needs to be seen anew to be acted on."""

    @property
    def is_open(self) -> bool:
        return self.opened is not None and (self.closed is None or self.closed < self.opened)


def hear(
    check: Check,
    accused: Iterable[str],
    cleared: Iterable[str],
    pool_size: int,
    rule: policy.Breaker,
    now: datetime,
) -> Check:
    """``check`` with the machines ``accused`` and ``cleared`` at ``now``; the same object if
    nothing is new. Of those that it accuses beyond what keeps it open none is kept: a monitor
    gone mad over thousands of nodes must not make the ledger too large to be written."""
    told = dict(clear(check, cleared, now).accused)
    recent, day, standing = _counts(told, rule, now)
    for machine in accused:
        known = told.get(machine)
        if known is not None and known.cleared is None:
            continue
        if (
            _over(recent, pool_size, rule.share, rule.more_than)
            or _over(day, pool_size, rule.day_share, rule.more_than)
            or (check.is_open and _over(standing, pool_size, rule.share, rule.more_than))
        ):
            break
        told[machine] = Accusation(at=now)
        recent, day, standing = recent + 1, day + 1, standing + 1
    return msgspec.structs.replace(check, accused=told) if told != check.accused else check


def clear(check: Check, machines: Iterable[str], now: datetime) -> Check:
    told = dict(check.accused)
    for machine in machines:
        known = told.get(machine)
        if known is not None and known.cleared is None:
            told[machine] = msgspec.structs.replace(known, cleared=now)
    return msgspec.structs.replace(check, accused=told) if told != check.accused else check


def look(check: Check, pool_size: int, rule: policy.Breaker, now: datetime) -> Check:
    """Open it, close it or leave it, by what was said until ``now``."""
    kept = {m: a for m, a in check.accused.items() if a.cleared is None or now - a.at < DAY}
    if len(kept) != len(check.accused):
        check = msgspec.structs.replace(check, accused=kept)
    if _too_many(kept, pool_size, rule, now):
        if not check.is_open:
            return msgspec.structs.replace(check, opened=now)
        return check
    if not check.is_open:
        return check
    newest = max((a.at for a in kept.values()), default=now - DAY)
    _, _, standing = _counts(kept, rule, now)
    if _over(standing, pool_size, rule.share, rule.more_than) or now - newest < rule.quiet:
        return check
    return msgspec.structs.replace(check, closed=now)


def closes_at(check: Check, rule: policy.Breaker) -> datetime | None:
    """The earliest time at which an open breaker may close by itself."""
    if not check.is_open:
        return None
    newest = max((a.at for a in check.accused.values()), default=check.opened)
    return newest + rule.quiet if newest else None


def numbers(check: Check, pool_size: int, now: datetime, rule: policy.Breaker) -> str:
    """For people: how many were accused, of how many."""
    recent = sum(1 for a in check.accused.values() if now - a.at < rule.within)
    day = sum(1 for a in check.accused.values() if now - a.at < DAY)
    return f"{recent} of {pool_size} nodes within {rule.within}, {day} within a day"


def _too_many(
    accused: Mapping[str, Accusation], pool_size: int, rule: policy.Breaker, now: datetime
) -> bool:
    recent, day, _ = _counts(accused, rule, now)
    return _over(recent, pool_size, rule.share, rule.more_than) or _over(
        day, pool_size, rule.day_share, rule.more_than
    )


def _counts(
    accused: Mapping[str, Accusation], rule: policy.Breaker, now: datetime
) -> tuple[int, int, int]:
    """How many were accused lately, within a day and not cleared, and ever and not cleared. The
    slow flood counts what still stands: what was taken back within the day does not keep a
    breaker open that has closed."""
    recent = sum(1 for a in accused.values() if now - a.at < rule.within)
    standing = [a for a in accused.values() if a.cleared is None]
    return recent, sum(1 for a in standing if now - a.at < DAY), len(standing)


def _over(count: int, pool_size: int, share: Share, more_than: int) -> bool:
    return count > more_than and count > share * pool_size
