"""Guards that ask whether it is a fault, and whether all that is milder is behind it."""

from collections.abc import Sequence
from datetime import datetime

from functions.rules.incidents import Incident
from functions.rules.policy import Policy
from functions.rules.replacing import clock
from functions.rules.replacing.book import Entry
from functions.rules.replacing.facts import Guard, MachineFacts, Verdict
from functions.rules.replacing.guards.touch import shadow


def fault(one: MachineFacts, found: Sequence[Incident]) -> Verdict:
    if not found:
        return Verdict(Guard.FAULT, False, "nothing is wrong with it")
    said = [incident for incident in found if clock.is_said(incident)]
    if said:
        first = said[0]
        says = f"{first.source} says {first.check}: {first.evidence or first.reason}"
        return Verdict(Guard.FAULT, True, says)
    worst = found[0]
    how = "it booted anew and was not" if worst.rebooted else "it is not"
    says = f"{how} accused of {worst.check} since: a test or a person says whether it is well"
    return Verdict(Guard.FAULT, False, says)


def not_recovering(one: MachineFacts, found: Sequence[Incident]) -> Verdict:
    """Before a reboot. Whether it helps is not asked; one that is about to be given back, by the
    word of sources that test all the time, has no need of it."""
    waits = [i for i in found if i.claimed and not i.latched and i.severity.value == "cordon"]
    if found and len(waits) < len(found):
        return Verdict(Guard.FAULT, True, f"{found[0].source} says {found[0].check}")
    return Verdict(Guard.FAULT, False, "its sources no longer say it: it is about to be given back")


def evidence(
    one: MachineFacts, entry: Entry, found: Sequence[Incident], policy: Policy, *, forced: bool
) -> Verdict:
    if proof := clock.confirmed(found, policy.terminate.confirmed_by):
        return Verdict(Guard.EVIDENCE, True, proof)
    if not forced:
        wanted = ", ".join(policy.terminate.confirmed_by) or "nothing"
        return Verdict(
            Guard.EVIDENCE, False, f"one source alone says so; {wanted} would confirm it"
        )
    boot = one.view.boot_id if one.view else ""
    if leftover := clock.stale(found, entry.first_boot, boot):
        return Verdict(Guard.EVIDENCE, False, leftover)
    return Verdict(Guard.EVIDENCE, True, "not confirmed, and said for seven days")


def ladder(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    policy: Policy,
    now: datetime,
    *,
    forced: bool,
) -> Verdict:
    rungs = rungs_of(found, one.pool, policy)
    if "replace" not in rungs:
        return Verdict(Guard.LADDER, False, "the policy's ladder does not end with replace")
    recent = [at for at in entry.reboots if now - at < policy.reboots.within]
    booted = bool(entry.boots) or any(incident.rebooted for incident in found)
    behind = {*entry.tried, *(entry.would if not shadow(one, found, policy).passed else ())}
    if booted or len(recent) >= policy.reboots.most or not (one.view and one.view.boot_id):
        behind.add("reboot")
    left = [rung for rung in rungs if rung != "replace" and rung not in behind]
    if left and not forced:
        return Verdict(Guard.LADDER, False, f"{left[0]} comes first")
    if entry.boots and not forced and now - entry.boots[-1] < policy.reboots.watched:
        return Verdict(
            Guard.LADDER,
            False,
            f"booted anew at {entry.boots[-1]:%H:%M}Z, and watched for {policy.reboots.watched}",
        )
    done = ", ".join(entry.tried)
    return Verdict(
        Guard.LADDER, True, f"behind it: {done}" if done else "replace is its first rung"
    )


def rungs_of(found: Sequence[Incident], pool: str, policy: Policy) -> tuple[str, ...]:
    """The ladder of the worst that it is accused of, and of the oldest of these."""
    if not found:
        return ()
    worst = found[0]
    return policy.ladder_of(worst.source, worst.check, worst.reason, worst.cause.value, pool)
