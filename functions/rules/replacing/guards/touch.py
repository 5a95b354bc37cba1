"""Guards that ask whether this node may be touched at all: whose it is, who has said no, and who
else acts on it."""

import itertools

from functions.rules import breaker as breakers
from functions.rules import claim, cordoning, keys
from functions.rules.policy import Policy
from functions.rules.replacing.case import Case
from functions.rules.replacing.facts import Guard, MachineFacts, Verdict


def node(one: MachineFacts) -> Verdict:
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


def cordoned(one: MachineFacts) -> Verdict:
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


def opt_out(one: MachineFacts) -> Verdict:
    out = one.view is not None and one.view.opted_out
    return Verdict(Guard.OPT_OUT, not out, "opted out by its label" if out else "not opted out")


def breaker(case: Case) -> Verdict:
    one, policy = case.one, case.policy
    ledgers = [led for pool in pools(one) if (led := case.facts.ledgers.get(pool))]
    for led, incident in itertools.product(ledgers, case.found):
        check = led.check(incident.check)
        if check.is_open:
            numbers = breakers.numbers(check, led.size, case.now, policy.breaker)
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


def pools(one: MachineFacts) -> tuple[str, ...]:
    """The pool in whose book it is, and the one to which somebody has moved its node: what is said
    of either keeps it."""
    return tuple(dict.fromkeys((one.pool, one.view.pool if one.view else one.pool)))


def pause(case: Case) -> Verdict:
    paused = next(filter(None, map(case.facts.paused, pools(case.one))), "")
    return Verdict(Guard.PAUSE, not paused, paused or "no pause")


def beside(one: MachineFacts, policy: Policy) -> str:
    """Who else acts on it that the policy does not name: two of them would do it twice."""
    known = one.closer.beside if one.closer else one.entry.beside if one.entry else ()
    return next((who for who in (*one.others, *known) if who not in policy.replace.beside), "")


def shadow(case: Case) -> Verdict:
    one, policy = case.one, case.policy
    if acting := beside(one, policy):
        says = (
            f"{acting} acts on this node, too: only told until the policy names it (replace.beside)"
        )
        return Verdict(Guard.SHADOW, False, says)
    if others := one.closer.others if one.closer else one.entry.others if one.entry else "":
        return Verdict(Guard.SHADOW, False, others)
    for pool in pools(one):
        if not policy.acts_in(pool):
            return Verdict(
                Guard.SHADOW, False, f"pool {pool} is not in the policy's replace.act_in: only told"
            )
    for i, pool in itertools.product(case.found, pools(one)):
        if policy.shadows(i.source, i.check, i.reason, i.cause.value, pool):
            return Verdict(Guard.SHADOW, False, f"the policy only watches {i.check}")
    return Verdict(Guard.SHADOW, True, "the policy lets groundcrew act in this pool")
