"""Second: who is accused by which check, and which checks are no longer believed."""

from collections.abc import Iterable
from datetime import datetime

from events.notice import Kind, Severity
from functions.rules import breaker
from functions.rules.cordoning.case import Case, Doubt
from functions.rules.incidents import Incident
from functions.rules.ledger import Ledger
from functions.rules.policy import Policy


def look_at_breakers(found: Ledger, policy: Policy, now: datetime) -> Ledger:
    """``found`` with the breakers closed that may close by now."""
    for name, check in found.checks.items():
        if check.is_open:
            found = found.with_check(name, breaker.look(check, found.size, policy.breaker, now))
    return found


def tell_breakers(
    heard: Iterable[Case], ledgers: dict[str, Ledger], policy: Policy, now: datetime
) -> None:
    """Count who is accused by which check, before anything is done about it. A machine no longer
    stands accused when none of its incidents says so: taken back, over, or dismissed."""
    by_pool: dict[str, list[Case]] = {}
    for case in heard:
        if case.view.pool in ledgers and not case.unreadable:
            by_pool.setdefault(case.view.pool, []).append(case)
    for pool, of_pool in by_pool.items():
        found = ledgers[pool]
        accused: dict[str, list[str]] = {name: [] for name in found.checks}
        cleared: dict[str, list[str]] = {name: [] for name in found.checks}
        for case in of_pool:
            machine = case.view.machine
            standing = {i.check for i in case.record.open if i.claimed is None and counts(i)}
            for name in standing:
                accused.setdefault(name, []).append(machine)
            for name, check in found.checks.items():
                if name not in standing and machine in check.accused:
                    cleared[name].append(machine)
        for name, machines in accused.items():
            check = found.check(name)
            told = breaker.hear(
                check, machines, cleared.get(name, ()), found.size, policy.breaker, now
            )
            if told is not check:
                told = breaker.look(told, found.size, policy.breaker, now)
                found = found.with_check(name, told)
        ledgers[pool] = found


def doubts_of(found: Ledger, policy: Policy, now: datetime) -> dict[str, Doubt]:
    """Once for all nodes: the numbers are counted over thousands of them."""
    doubts: dict[str, Doubt] = {}
    for name, check in found.checks.items():
        if check.is_open:
            numbers = breaker.numbers(check, found.size, now, policy.breaker)
            closes = breaker.closes_at(check, policy.breaker) or now
            doubts[name] = Doubt(
                f"circuit breaker: {name} accuses {numbers}",
                max(closes, now + policy.breaker.quiet),
            )
    return doubts


def counts(incident: Incident) -> bool:
    """Whether many of them at once cast doubt on the check: what a provider announces is its own
    word about its own machines, and what is only watched asks for nothing."""
    return incident.kind is Kind.FAULT and incident.severity > Severity.WATCH


def in_doubt(incident: Incident, found: Ledger | None, policy: Policy) -> bool:
    """Whether the incident was opened while the breaker of its check was open, or about to."""
    check = found.check(incident.check) if found and counts(incident) else None
    return bool(
        check
        and check.opened
        and check.opened - policy.breaker.within <= incident.first
        and (check.is_open or (check.closed and incident.first <= check.closed))
    )
