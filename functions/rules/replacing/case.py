"""A sick machine as its guards and its ladder see it, at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.rules.incidents import Incident
from functions.rules.policy import Policy
from functions.rules.replacing.book import Entry
from functions.rules.replacing.facts import Facts, MachineFacts


@dataclass(frozen=True)
class Case:
    one: MachineFacts
    entry: Entry
    """With what was seen of it by now: ``one.entry`` is what stands in the book."""
    found: Sequence[Incident]
    """What it is accused of that a clock runs for, the worst and then the oldest first."""
    facts: Facts
    policy: Policy
    now: datetime

    @property
    def limit(self) -> datetime | None:
        return at_limit(self.entry, self.policy)

    @property
    def is_at_limit(self) -> bool:
        return self.limit is not None and self.now >= self.limit

    @property
    def settle(self) -> timedelta:
        """How long it is to be empty before its end, by the worst that it is accused of."""
        evict = not self.found or self.found[0].severity.value == "evict"
        return self.policy.terminate.settle if evict else self.policy.terminate.settle_cordon

    @property
    def rungs(self) -> tuple[str, ...]:
        """The ladder of the worst that it is accused of, and of the oldest of these."""
        if not self.found:
            return ()
        worst = self.found[0]
        return self.policy.ladder_of(
            worst.source, worst.check, worst.reason, worst.cause.value, self.one.pool
        )

    @property
    def recent_reboots(self) -> list[datetime]:
        """Those that the policy counts."""
        return [at for at in self.entry.reboots if self.now - at < self.policy.reboots.within]

    @property
    def may_reboot(self) -> bool:
        """Whether that rung is not behind it already. Whoever has rebooted it meanwhile: it was put
        to the test. And without boot IDs nobody would know that it was rebooted."""
        booted = bool(self.entry.boots) or any(incident.rebooted for incident in self.found)
        known = self.one.view is not None and bool(self.one.view.boot_id)
        return known and not booted and len(self.recent_reboots) < self.policy.reboots.most


def at_limit(entry: Entry, policy: Policy) -> datetime | None:
    """When the seven days of its clock are over; None: it does not run."""
    return entry.began + policy.seven_days.limit if entry.began else None
