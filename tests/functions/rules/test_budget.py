"""Budgets: never more nodes out than allowed, and always at least one of a pool."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.rules.budget import Place, Sizes, allot
from functions.rules.policy import parse

places = st.builds(
    Place,
    machine=st.integers(0, 40).map(str),
    pool=st.sampled_from("abc"),
    domains=st.sampled_from([(), ("zone=1",), ("zone=2",)]),
)
RULE = parse(
    "version: 1\nbudget: {pool: 20%, cluster: 15%, domains: [{label: zone, share: 10%}]}"
).budget


@given(
    st.lists(places, unique_by=lambda p: p.machine),
    st.lists(places, unique_by=lambda p: p.machine),
    st.fixed_dictionaries({p: st.integers(0, 60) for p in "abc"}),
    st.integers(0, 200),
)
def test_what_is_allotted_stays_within_every_limit(
    wanted: list[Place], out: list[Place], pools: dict[str, int], cluster: int
) -> None:
    zones = {"zone=1": 20, "zone=2": 0}
    answers = allot(wanted, out, Sizes(cluster, pools, zones), RULE)
    already = {place.machine for place in out}
    new = [p for p in wanted if not answers[p.machine] and p.machine not in already]
    if new:
        assert len(already) + len(new) <= max(1, int(cluster * 0.15 + 1e-9))
        by_pool = Counter(p.pool for p in out) + Counter(p.pool for p in new)
        for pool in {p.pool for p in new}:
            assert by_pool[pool] <= max(1, int(pools[pool] * 0.2 + 1e-9))
        by_zone = Counter(d for p in [*out, *new] for d in p.domains)
        for zone in {d for p in new for d in p.domains}:
            assert by_zone[zone] <= max(1, int(zones[zone] * 0.1))
    assert set(answers) == {p.machine for p in wanted}


@pytest.mark.parametrize(("size", "passes"), [(0, 1), (1, 1), (4, 1), (19, 1), (20, 2), (100, 10)])
def test_a_pools_share_rounds_down_and_lets_one_through(size: int, passes: int) -> None:
    wanted = [Place(str(n), "a") for n in range(20)]
    rule = parse("version: 1").budget
    answers = allot(wanted, (), Sizes(10_000, {"a": size}), rule)
    assert sum(1 for refused in answers.values() if not refused) == passes


def test_no_pools_floor_exceeds_the_clusters_share() -> None:
    wanted = [Place(f"{pool}", pool) for pool in "abcdef"]
    rule = parse("version: 1").budget
    answers = allot(wanted, (), Sizes(24, dict.fromkeys("abcdef", 4)), rule)
    assert sum(1 for refused in answers.values() if not refused) == 1
    assert "cluster: 1 of 1" in answers["f"]


def test_a_machine_that_is_out_already_needs_no_further_place() -> None:
    out = [Place("m", "a")]
    rule = parse("version: 1").budget
    assert allot(out, out, Sizes(10, {"a": 10}), rule) == {"m": ""}


def test_a_place_that_was_reserved_in_the_clusters_ledger_alone_is_none_in_the_pool() -> None:
    rule = parse("version: 1").budget
    full = [Place("a", "p"), Place("b", "p")]
    half = [Place("c", "p")]
    refused = allot([Place("c", "p")], full, Sizes(1000, {"p": 20}), rule, half)
    assert "pool p: 2 of 2" in refused["c"]


def test_it_counts_for_the_cluster_and_its_own_machine_needs_no_other() -> None:
    rule = parse("version: 1").budget
    half = [Place("c", "p")]
    answers = allot([Place("c", "p"), Place("d", "p")], [], Sizes(20, {"p": 20}), rule, half)
    assert answers["c"] == ""
    assert "cluster: 1 of 1" in answers["d"]
