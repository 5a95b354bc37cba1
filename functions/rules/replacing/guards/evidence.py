"""Guards that ask whether it is a fault, and whether all that is milder is behind it."""

from functions.rules.replacing import clock
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import Guard, Verdict
from functions.rules.replacing.guards.touch import shadow


def fault(case: Case) -> Verdict:
    found = case.found
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


def not_recovering(case: Case) -> Verdict:
    """Before a reboot. Whether it helps is not asked; one that is about to be given back, by the
    word of sources that test all the time, has no need of it."""
    found = case.found
    waits = [i for i in found if i.claimed and not i.latched and i.severity.value == "cordon"]
    if found and len(waits) < len(found):
        return Verdict(Guard.FAULT, True, f"{found[0].source} says {found[0].check}")
    return Verdict(Guard.FAULT, False, "its sources no longer say it: it is about to be given back")


def evidence(case: Case) -> Verdict:
    proofs = case.policy.terminate.confirmed_by
    if proof := clock.confirmed(case.found, proofs):
        return Verdict(Guard.EVIDENCE, True, proof)
    if not case.is_at_limit:
        wanted = ", ".join(proofs) or "nothing"
        return Verdict(
            Guard.EVIDENCE, False, f"one source alone says so; {wanted} would confirm it"
        )
    boot = case.one.view.boot_id if case.one.view else ""
    if leftover := clock.stale(case.found, case.entry.first_boot, boot):
        return Verdict(Guard.EVIDENCE, False, leftover)
    return Verdict(Guard.EVIDENCE, True, "not confirmed, and said for seven days")


def ladder(case: Case) -> Verdict:
    entry, watched = case.entry, case.policy.reboots.watched
    if "replace" not in case.rungs:
        return Verdict(Guard.LADDER, False, "the policy's ladder does not end with replace")
    behind = {*entry.tried, *(() if shadow(case).passed else entry.would), "replace"}
    if not case.may_reboot:
        behind.add("reboot")
    left = [rung for rung in case.rungs if rung not in behind]
    if left and not case.is_at_limit:
        return Verdict(Guard.LADDER, False, f"{left[0]} comes first")
    if entry.boots and not case.is_at_limit and case.now - entry.boots[-1] < watched:
        says = f"booted anew at {entry.boots[-1]:%H:%M}Z, and watched for {watched}"
        return Verdict(Guard.LADDER, False, says)
    done = ", ".join(entry.tried)
    return Verdict(
        Guard.LADDER, True, f"behind it: {done}" if done else "replace is its first rung"
    )
