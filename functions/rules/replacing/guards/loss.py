"""Guards that ask what would be lost: work, volumes, capacity, and what the cloud says."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from functions.rules import keys
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import Guard, MachineFacts, Seen, Verdict
from functions.rules.replacing.guards.touch import pools


def time(case: Case) -> Verdict:
    limit, empty = case.limit, case.entry.empty
    if limit and case.is_at_limit:
        return Verdict(Guard.TIME, True, f"the seven days were over at {limit:%Y-%m-%d %H:%M}Z")
    passed = empty is not None and case.now - empty >= case.settle
    until = f"; the seven days end at {limit:%Y-%m-%d %H:%M}Z" if limit and not passed else ""
    return Verdict(Guard.TIME, passed, settling(empty, case.settle) + until)


def settling(empty: datetime | None, settle: timedelta) -> str:
    if empty is None:
        return f"it has to be empty for {settle} first"
    return f"empty since {empty:%Y-%m-%d %H:%M}Z, for at least {settle}"


def work(case: Case, *, forced: bool) -> Verdict:
    one, entry = case.one, case.entry
    if one.closer is None:
        return Verdict(
            Guard.WORK,
            entry.empty is not None or forced,
            "no workload was left when it was looked at last"
            if entry.empty
            else "workload is left, or nobody has looked",
        )
    if not one.closer.pods:
        return Verdict(Guard.WORK, True, "no workload is left")
    names = _few(one.closer.pods)
    if forced:
        return Verdict(Guard.WORK, True, f"the seven days are over; {names} would end with it")
    return Verdict(Guard.WORK, False, f"{names} is still there")


def volumes(case: Case) -> Verdict:
    closer = case.one.closer
    if closer is None or not closer.volumes:
        return Verdict(Guard.VOLUMES, True, "no volume is attached")
    names = _few(closer.volumes)
    if case.is_at_limit:
        return Verdict(Guard.VOLUMES, True, f"the seven days are over; {names} is still attached")
    return Verdict(Guard.VOLUMES, False, f"{names} is still attached")


def reserved(case: Case) -> Verdict:
    one = case.one
    named = (pool for pool in pools(one) if case.policy.is_reserved(pool))
    told = one.closer.reserved if one.closer else one.entry.reserved if one.entry else ""
    why = one.reserved or told or next((f"pool {p} is reserved capacity" for p in named), "")
    if not why:
        return Verdict(Guard.RESERVED, True, "not reserved capacity")
    if one.approved:
        return Verdict(Guard.RESERVED, True, f"{why}, and a person has agreed")
    if one.closer and one.closer.spares:
        return Verdict(
            Guard.RESERVED, True, f"{why}, and idle {one.closer.spares[0]} stands in for it"
        )
    return Verdict(
        Guard.RESERVED,
        False,
        f"{why}, and may not come back: groundcrew approve NODE agrees to it, or an idle node of "
        f"its pool labelled {keys.SPARE}=true stands in for it",
    )


def cloud(one: MachineFacts, *, to_end: bool) -> Verdict:
    closer = one.closer
    if one.leaving:
        return Verdict(Guard.CLOUD, False, one.leaving)
    if closer is None:
        return Verdict(Guard.CLOUD, True, "asked when all else speaks for it")
    if closer.seen is not Seen.RUNNING:
        return Verdict(Guard.CLOUD, False, closer.says or f"the cloud says {closer.seen.value}")
    if to_end and closer.protected:
        return Verdict(Guard.CLOUD, False, closer.protected)
    return Verdict(Guard.CLOUD, True, closer.says or "running")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
