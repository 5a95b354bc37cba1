"""How many nodes may be out of service on purpose at once. A budget paces; it does not stop.

Out of service are: nodes that carry our mark, read just now; reservations that still hold; and
nodes that others cordoned, as the last full read found them. A pool's share allows at least one
node (a pool of four with one sick GPU must be helped), the cluster's share bounds all pools,
and no floor exceeds it. Machines that the provider takes anyway use up budget and ask for none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from functions.rules import policy


class Place(msgspec.Struct, frozen=True):
    """One machine out of service, or one that is to be."""

    machine: str
    pool: str
    domains: tuple[str, ...] = ()


class Sizes(msgspec.Struct, frozen=True):
    cluster: int
    pools: Mapping[str, int]
    domains: Mapping[str, int] = {}


def allot(
    wanted: Iterable[Place],
    out: Iterable[Place],
    sizes: Sizes,
    rule: policy.Budget,
    cluster_only: Iterable[Place] = (),
) -> dict[str, str]:
    """For each wanted machine, in the order given: empty when it may go, else what is used up.

    A machine that is out already takes no further place. ``cluster_only`` are those whose place
    is reserved in the cluster's ledger and not (yet) in their pool's: whoever reserves writes
    the two one after the other, and may lose the second race.
    """
    taken = {place.machine: place for place in out}
    counted = {place.machine for place in cluster_only} | taken.keys()
    pools = Counter(place.pool for place in taken.values())
    domains = Counter(domain for place in taken.values() for domain in place.domains)
    shares = {domain.label: domain.share for domain in rule.domains}
    cluster_limit = rule.cluster.of(sizes.cluster, at_least=1)
    answers: dict[str, str] = {}
    for place in wanted:
        if place.machine in taken:
            answers[place.machine] = ""
            continue
        pool_limit = rule.pool.of(sizes.pools.get(place.pool, 0), at_least=1)
        refused = ""
        if place.machine not in counted and len(counted) >= cluster_limit:
            refused = f"budget of the cluster: {len(counted)} of {cluster_limit} nodes are out"
        elif pools[place.pool] >= pool_limit:
            refused = (
                f"budget of pool {place.pool}: {pools[place.pool]} of {pool_limit} nodes are out"
            )
        else:
            for domain in place.domains:
                share = shares.get(domain.partition("=")[0])
                if share is None:
                    continue
                limit = share.of(sizes.domains.get(domain, 0), at_least=1)
                if domains[domain] >= limit:
                    refused = f"budget of {domain}: {domains[domain]} of {limit} nodes are out"
                    break
        answers[place.machine] = refused
        if not refused:
            taken[place.machine] = place
            counted.add(place.machine)
            pools[place.pool] += 1
            domains.update(place.domains)
    return answers
