"""Fourth: places out of service for those that are to be cordoned, within every budget."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from events.notice import Severity
from functions.rules import budget, ledger
from functions.rules.cordoning.asking import ask
from functions.rules.cordoning.case import Case, worst_of
from functions.rules.cordoning.facts import Facts, domains_of
from functions.rules.ledger import Ledger, Reservation
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy


def reserve(
    settled: Iterable[Case],
    facts: Facts,
    ledgers: dict[str, Ledger],
    policy: Policy,
    now: datetime,
) -> tuple[dict[str, str], Ledger | None, bool]:
    """Places for the nodes that are to be cordoned now: machine -> empty, or what is used up; and
    whether any of them had to be asked for.

    One that the provider takes anyway is written down in its pool's ledger alone, where whoever
    asks for a place finds it: the cluster's is what those who ask agree by.
    """
    asking: list[tuple[Case, bool]] = []
    for case in settled:
        found = ledgers.get(case.view.pool)
        worst, voluntary = ask(case, found, facts, policy, now)
        if case.view.opted_out:
            continue  # nothing will be done about it: it needs no place
        if worst >= Severity.CORDON and not case.view.unschedulable:
            asking.append((case, voluntary))
    if not asking:
        return {}, facts.cluster, False
    places = {case.view.machine: _place(case.view, policy) for case, _ in asking}
    out = list(facts.out)
    for found in ledgers.values():
        out += _places(ledger.live(found, now))
        # Whoever asks is in service as read just now, whatever the last full read found.
        out += (budget.Place(m, found.pool) for m in found.others if m not in places)
    out += (place for place in facts.remembered if place.machine not in places)
    half = _places(ledger.live(facts.cluster, now)) if facts.cluster else []
    forced = [places[e.view.machine] for e, voluntary in asking if not voluntary]
    free = [(e, v) for e, v in asking if v]
    sizes = budget.Sizes(
        cluster=sum(led.size for led in ledgers.values()),
        pools={pool: led.size for pool, led in ledgers.items()},
        domains={d: n for led in ledgers.values() for d, n in led.domains.items()},
    )
    answers = {place.machine: "" for place in forced}
    ready = [e for e, _ in free if _rebuilt(ledgers.get(e.view.pool)) and facts.cluster is not None]
    for case, _ in free:
        if facts.cluster is None or not _rebuilt(ledgers.get(case.view.pool)):
            answers[case.view.machine] = (
                f"the ledger of pool {case.view.pool} is missing or not rebuilt yet: "
                "the next resync does it"
            )
    ready.sort(key=lambda e: (-worst_of(e).rank, min(i.first for i in e.record.open)))
    answers |= budget.allot(
        [places[e.view.machine] for e in ready], [*out, *forced], sizes, policy.budget, half
    )
    cluster = _without_unused(facts.cluster, answers, out)
    marked = {p.machine for p in facts.out}
    made: dict[str, dict[str, Reservation]] = {}
    asked: dict[str, Reservation] = {}
    for case, voluntary in asking:
        machine, pool = case.view.machine, case.view.pool
        if answers[machine] or machine in marked:
            continue
        reserved = Reservation(
            node=case.view.name,
            until=now + policy.budget.reservation,
            pool=pool,
            domains=places[machine].domains,
        )
        made.setdefault(pool, {})[machine] = reserved
        if voluntary or pool not in ledgers:
            asked[machine] = reserved
    for pool, by_machine in made.items():
        if pool in ledgers:
            ledgers[pool] = _with_reservations(ledgers[pool], by_machine, now)
    if cluster is not None and asked:
        cluster = _with_reservations(cluster, asked, now)
    return answers, cluster, bool(free)


def _with_reservations(found: Ledger, made: Mapping[str, Reservation], now: datetime) -> Ledger:
    return msgspec.structs.replace(found, reservations={**ledger.live(found, now), **made})


def _places(reservations: Mapping[str, Reservation]) -> list[budget.Place]:
    return [budget.Place(machine, r.pool, r.domains) for machine, r in reservations.items()]


def _without_unused(
    cluster: Ledger | None, answers: Mapping[str, str], out: Iterable[budget.Place]
) -> Ledger | None:
    """The cluster's ledger without the places that we took in an earlier try and may not use:
    refused now, and out of service for no other reason."""
    if cluster is None:
        return None
    used = {place.machine for place in out}
    unused = {m for m in cluster.reservations if answers.get(m) and m not in used}
    if not unused:
        return cluster
    kept = {m: r for m, r in cluster.reservations.items() if m not in unused}
    return msgspec.structs.replace(cluster, reservations=kept)


def _place(view: NodeView, policy: Policy) -> budget.Place:
    return budget.Place(view.machine, view.pool, domains_of(view, policy))


def _rebuilt(found: Ledger | None) -> bool:
    return found is not None and found.rebuilt is not None
