"""The guards before a reboot and before the end of a machine: each one passed or holding, with the
sentence that says why. All are evaluated, also where one already holds: a person wants to see them
together.

The record of those who had none of them is long: a pool killed by a health signal that was wrong
(Karpenter #2811), machines of another cluster deleted (Karpenter #5536), a reboot after the
recovery (NVSentinel #121), loops without end (NVSentinel #1543).
"""

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from functions.rules import breaker, claim, cordoning, keys
from functions.rules.incidents import Incident
from functions.rules.policy import Policy
from functions.rules.replacing import clock
from functions.rules.replacing.book import Book, End, Entry
from functions.rules.replacing.facts import Facts, Guard, MachineFacts, Seen, Verdict

CLOSER = frozenset({Guard.WORK, Guard.VOLUMES, Guard.CLOUD})
"""Those that need what is read last."""
LOOKED = timedelta(minutes=15)
"""Three of cordon's readings of all nodes."""
SKEW = timedelta(minutes=5)
"""How far our clock may be behind the one that wrote the book."""


def for_reboot(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    facts: Facts,
    policy: Policy,
    now: datetime,
) -> tuple[Verdict, ...]:
    recent = [at for at in entry.reboots if now - at < policy.reboots.within]
    empty = entry.empty
    settled = empty is not None and now - empty >= policy.reboots.settle
    return (
        *_common(one, found, facts, policy, now, ends=False),
        _not_recovering(one, found),
        Verdict(
            Guard.REBOOTS,
            len(recent) < policy.reboots.most,
            f"{len(recent)} of {policy.reboots.most} reboots within {policy.reboots.within}",
        ),
        Verdict(Guard.TIME, settled, _settling(empty, policy.reboots.settle)),
        _work(one, entry, forced=False),
        _cloud(one, to_end=False),
    )


def for_end(
    one: MachineFacts,
    entry: Entry,
    found: Sequence[Incident],
    facts: Facts,
    policy: Policy,
    now: datetime,
) -> tuple[Verdict, ...]:
    limit = at_limit(entry, policy)
    forced = limit is not None and now >= limit
    return (
        *_common(one, found, facts, policy, now, ends=True),
        _fault(one, found),
        _evidence(one, entry, found, policy, forced=forced),
        _ladder(one, entry, found, policy, now, forced=forced),
        _time(entry, found, policy, now, limit, forced=forced),
        _work(one, entry, forced=forced),
        _volumes(one, forced=forced),
        _reserved(one, policy),
        caps(one, facts.books.get(""), facts, policy, now),
        _cloud(one, to_end=True),
    )


def at_limit(entry: Entry, policy: Policy) -> datetime | None:
    return entry.began + policy.seven_days.limit if entry.began else None


def settle_of(found: Iterable[Incident], policy: Policy) -> timedelta:
    """How long a node is to be empty first, by the worst that it is accused of."""
    worst = next(iter(found), None)
    return (
        policy.terminate.settle
        if worst is None or worst.severity.value == "evict"
        else (policy.terminate.settle_cordon)
    )


def _common(
    one: MachineFacts,
    found: Sequence[Incident],
    facts: Facts,
    policy: Policy,
    now: datetime,
    *,
    ends: bool,
) -> tuple[Verdict, ...]:
    return (
        _node(one),
        _cordoned(one),
        _opt_out(one),
        _breaker(one, found, facts, policy, now),
        _pause(one, facts),
        Verdict(Guard.HOLD, not one.hold, one.hold or "nobody holds it"),
        shadow(one, found, policy),
        _memory(one, facts, policy, now, ends=ends),
        _looked(one, facts, now),
    )


def _node(one: MachineFacts) -> Verdict:
    view, closer = one.view, one.closer
    if view is None:
        return Verdict(Guard.NODE, False, "no Node stands for it: nothing ends without one")
    if not view.provider_id or view.provider_id != one.machine:
        says = f"the Node says machine {view.provider_id or 'none'}, not {one.machine}"
        return Verdict(Guard.NODE, False, says)
    if closer and closer.twins:
        names = ", ".join(closer.twins)
        return Verdict(Guard.NODE, False, f"{names} claims the same machine: one of them is wrong")
    return Verdict(Guard.NODE, True, f"it is the machine of node {view.name}")


def _cordoned(one: MachineFacts) -> Verdict:
    view, record = one.view, one.record
    if view is None or record is None:
        return Verdict(Guard.CORDONED, False, "whose cordon it is cannot be read")
    if not view.unschedulable:
        return Verdict(Guard.CORDONED, False, "the node takes work")
    if not record.cordoned_by_us:
        return Verdict(Guard.CORDONED, False, "it was cordoned by somebody else")
    if view.claim is not None:
        theirs = claim.decode(view.claim)
        who = theirs.by if theirs else f"somebody ({keys.CORDONED_BY}, which cannot be read)"
        return Verdict(Guard.CORDONED, False, f"{who} took it out of service by hand")
    if one.state not in cordoning.ACTED:
        return Verdict(Guard.CORDONED, False, "it is about to be given back")
    return Verdict(Guard.CORDONED, True, "cordoned by groundcrew")


def _opt_out(one: MachineFacts) -> Verdict:
    out = one.view is not None and one.view.opted_out
    return Verdict(Guard.OPT_OUT, not out, "opted out by its label" if out else "not opted out")


def _breaker(
    one: MachineFacts, found: Sequence[Incident], facts: Facts, policy: Policy, now: datetime
) -> Verdict:
    ledgers = [led for pool in _pools(one) if (led := facts.ledgers.get(pool))]
    for led, incident in itertools.product(ledgers, found):
        check = led.check(incident.check)
        if check.is_open:
            numbers = breaker.numbers(check, led.size, now, policy.breaker)
            return Verdict(Guard.BREAKER, False, f"{incident.check} accuses {numbers}")
        if cordoning.in_doubt(incident, led, policy):
            return Verdict(
                Guard.BREAKER, False, f"{incident.check} was said while its breaker was open"
            )
    held = one.record.held if one.record else ()
    for category in ("breaker", "stale"):
        if category in held:
            return Verdict(Guard.BREAKER, False, "what was said of it was not believed at the time")
    return Verdict(Guard.BREAKER, True, "closed")


def _pools(one: MachineFacts) -> tuple[str, ...]:
    """The pool in whose book it is, and the one to which somebody has moved its node: what is said
    of either keeps it."""
    return tuple(dict.fromkeys((one.pool, one.view.pool if one.view else one.pool)))


def _pause(one: MachineFacts, facts: Facts) -> Verdict:
    paused = next(filter(None, map(facts.paused, _pools(one))), "")
    return Verdict(Guard.PAUSE, not paused, paused or "no pause")


def shadow(one: MachineFacts, found: Sequence[Incident], policy: Policy) -> Verdict:
    if one.others:
        return Verdict(Guard.SHADOW, False, one.others)
    for pool in _pools(one):
        if not policy.acts_in(pool):
            return Verdict(
                Guard.SHADOW, False, f"pool {pool} is not in the policy's replace.act_in: only told"
            )
    for i, pool in itertools.product(found, _pools(one)):
        if policy.shadows(i.source, i.check, i.reason, i.cause.value, pool):
            return Verdict(Guard.SHADOW, False, f"the policy only watches {i.check}")
    return Verdict(Guard.SHADOW, True, "the policy lets groundcrew act in this pool")


def _memory(
    one: MachineFacts, facts: Facts, policy: Policy, now: datetime, *, ends: bool
) -> Verdict:
    for pool in ("", one.pool):
        where = f"of pool {pool}" if pool else "of the cluster"
        if pool in facts.trouble:
            return Verdict(
                Guard.MEMORY,
                False,
                f"the book {where} cannot be read ({facts.trouble[pool]}): delete the key "
                "`replacements` of its ConfigMap",
            )
        book = facts.books.get(pool)
        if book is None or book.began is None:
            return Verdict(Guard.MEMORY, False, f"the book {where} is missing: the resync makes it")
        if book.seen and now < book.seen - SKEW:
            return Verdict(
                Guard.MEMORY, False, f"our clock is behind the book {where}, by {book.seen - now}"
            )
        if ends and now - book.began < timedelta(hours=1):
            return Verdict(
                Guard.MEMORY,
                False,
                f"the book {where} was begun at {book.began:%H:%M}Z: who ended in the hour before "
                "is not known",
            )
        if book.awake and now - book.awake < policy.terminate.after_silence:
            return Verdict(
                Guard.MEMORY,
                False,
                f"looking again since {book.awake:%H:%M}Z: everything has to be seen for "
                f"{policy.terminate.after_silence} first",
            )
    noted = one.entry.noted if one.entry else None
    if noted is None or now - noted < policy.terminate.after_silence:
        since = f"since {noted:%H:%M}Z" if noted else "just now"
        return Verdict(
            Guard.MEMORY,
            False,
            f"looked at {since}: it has to be for {policy.terminate.after_silence} first",
        )
    return Verdict(Guard.MEMORY, True, "what was done before is known")


def _looked(one: MachineFacts, facts: Facts, now: datetime) -> Verdict:
    led = facts.ledgers.get(one.pool)
    at = led.rebuilt if led else None
    if at is None:
        return Verdict(Guard.LOOKED, False, "cordon has not read this pool yet")
    if at - now > SKEW:
        says = f"cordon read all nodes at {at:%Y-%m-%d %H:%M}Z, which is to come: a clock is wrong"
        return Verdict(Guard.LOOKED, False, says)
    if now - at > LOOKED:
        says = f"cordon read all nodes last at {at:%Y-%m-%d %H:%M}Z: is it running?"
        return Verdict(Guard.LOOKED, False, says)
    return Verdict(Guard.LOOKED, True, f"cordon read all nodes at {at:%H:%M}Z")


def turns(one: MachineFacts, facts: Facts, policy: Policy, now: datetime) -> list[datetime]:
    """When a guard that holds may pass by time alone, of those that stand in a book."""
    rule, times = policy.terminate, []
    for pool in ("", one.pool):
        if book := facts.books.get(pool):
            times += [at + timedelta(hours=1) for at in (book.began,) if at]
            times += [at + rule.after_silence for at in (book.awake,) if at]
            times += [end.at + timedelta(hours=1) for end in book.ends.values()]
            times += [end.at + timedelta(days=1) for end in book.ends.values()]
    # An entry that is not written yet is written now.
    noted = one.entry.noted if one.entry and one.entry.noted else now
    return [at for at in (*times, noted + rule.after_silence) if at > now]


def _fault(one: MachineFacts, found: Sequence[Incident]) -> Verdict:
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


def _not_recovering(one: MachineFacts, found: Sequence[Incident]) -> Verdict:
    """Before a reboot. Whether it helps is not asked; one that is about to be given back, by the
    word of sources that test all the time, has no need of it."""
    waits = [i for i in found if i.claimed and not i.latched and i.severity.value == "cordon"]
    if found and len(waits) < len(found):
        return Verdict(Guard.FAULT, True, f"{found[0].source} says {found[0].check}")
    return Verdict(Guard.FAULT, False, "its sources no longer say it: it is about to be given back")


def _evidence(
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


def _ladder(
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


def _time(
    entry: Entry,
    found: Sequence[Incident],
    policy: Policy,
    now: datetime,
    limit: datetime | None,
    *,
    forced: bool,
) -> Verdict:
    if forced and limit:
        return Verdict(Guard.TIME, True, f"the seven days were over at {limit:%Y-%m-%d %H:%M}Z")
    settle = settle_of(found, policy)
    passed = entry.empty is not None and now - entry.empty >= settle
    until = f"; the seven days end at {limit:%Y-%m-%d %H:%M}Z" if limit and not passed else ""
    return Verdict(Guard.TIME, passed, _settling(entry.empty, settle) + until)


def _settling(empty: datetime | None, settle: timedelta) -> str:
    if empty is None:
        return f"it has to be empty for {settle} first"
    return f"empty since {empty:%Y-%m-%d %H:%M}Z, for at least {settle}"


def _work(one: MachineFacts, entry: Entry, *, forced: bool) -> Verdict:
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


def _volumes(one: MachineFacts, *, forced: bool) -> Verdict:
    if one.closer is None or not one.closer.volumes:
        return Verdict(Guard.VOLUMES, True, "no volume is attached")
    names = _few(one.closer.volumes)
    if forced:
        return Verdict(Guard.VOLUMES, True, f"the seven days are over; {names} is still attached")
    return Verdict(Guard.VOLUMES, False, f"{names} is still attached")


def _reserved(one: MachineFacts, policy: Policy) -> Verdict:
    pools = (pool for pool in _pools(one) if policy.is_reserved(pool))
    why = one.reserved or next((f"pool {pool} is reserved capacity" for pool in pools), "")
    if not why:
        return Verdict(Guard.RESERVED, True, "not reserved capacity")
    if one.approved:
        return Verdict(Guard.RESERVED, True, f"{why}, and a person has agreed")
    return Verdict(
        Guard.RESERVED, False, f"{why}, and may not come back: groundcrew approve NODE agrees to it"
    )


def caps(
    one: MachineFacts, book: Book | None, facts: Facts, policy: Policy, now: datetime
) -> Verdict:
    """Whether one more may end now, by what the cluster's book counts, and the pools' remember."""
    rule = policy.terminate
    known = {**facts.ends, **(book.ends if book else {})}
    others: list[End] = [e for m, e in known.items() if m != one.machine]
    hour = [e for e in others if now - e.at < timedelta(hours=1)]
    day = [e for e in others if now - e.at < timedelta(days=1)]
    led = facts.ledgers.get(one.pool)
    most = rule.pool_per_day.of(led.size if led else 0, at_least=1)
    pool = [e for e in day if e.pool == one.pool]
    words = (
        f"{len(hour)} of {rule.per_hour} within an hour, {len(day)} of {rule.per_day} within a "
        f"day, {len(pool)} of {most} of pool {one.pool}"
    )
    passed = len(hour) < rule.per_hour and len(day) < rule.per_day and len(pool) < most
    return Verdict(Guard.CAPS, passed, words)


def _cloud(one: MachineFacts, *, to_end: bool) -> Verdict:
    closer = one.closer
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
