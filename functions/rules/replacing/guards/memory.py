"""Guards that ask whether what was done before is known, whether somebody looks, and whether not
too many end."""

from datetime import datetime, timedelta

from functions.rules.policy import Policy
from functions.rules.replacing.book import Book, End
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import Facts, Guard, MachineFacts, Verdict

LOOKED = timedelta(minutes=15)
"""Three of cordon's readings of all nodes."""
SKEW = timedelta(minutes=5)
"""How far our clock may be behind the one that wrote the book."""


def memory(case: Case, *, ends: bool) -> Verdict:
    one, facts, policy, now = case.one, case.facts, case.policy, case.now
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


def looked(case: Case) -> Verdict:
    led, now = case.facts.ledgers.get(case.one.pool), case.now
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


def turns(case: Case) -> list[datetime]:
    """When a guard that holds may pass by time alone, of those that stand in a book."""
    one, now = case.one, case.now
    rule, times = case.policy.terminate, []
    for pool in ("", one.pool):
        if book := case.facts.books.get(pool):
            times += [at + timedelta(hours=1) for at in (book.began,) if at]
            times += [at + rule.after_silence for at in (book.awake,) if at]
            times += [end.at + timedelta(hours=1) for end in book.ends.values()]
            times += [end.at + timedelta(days=1) for end in book.ends.values()]
    # An entry that is not written yet is written now.
    noted = one.entry.noted if one.entry and one.entry.noted else now
    return [at for at in (*times, noted + rule.after_silence) if at > now]


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
