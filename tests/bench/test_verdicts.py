"""The benches say what is not as it was wanted."""

from typing import Any

import pytest

from tests.bench import drain, storm

STORM = {
    "to_cordoned_s": {"p90": 14.0},
    "lost": 0,
    "most_out": 900,
    "budget": 900,
    "written_again": 0,
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"to_cordoned_s": {"p90": 20.1}}, "90 % cordoned after more than 20"),
        ({"to_cordoned_s": {}}, "90 % cordoned after more than 20"),
        ({"lost": 1}, "1 lost"),
        ({"most_out": 901}, "901 out under a budget of 900"),
        ({"written_again": 2}, "2 writes for the same events again"),
    ],
)
def test_a_storm_is_judged_by_all_that_was_wanted(changed: dict[str, Any], said: str) -> None:
    told = storm.verdict("cordon-ledger", STORM | changed)
    assert told.startswith(said)
    assert bool(told) is bool(said)


@pytest.mark.parametrize(
    ("case", "changed", "said"),
    [
        ("instant-110", {}, ""),
        ("instant-110", {"ratio": 0.13}, "ratio over 0.12"),
        ("instant-110", {"requests_per_pod": 1.4}, "over 1.3 requests a pod"),
        ("instant-10", {"requests_per_pod": 2.0}, ""),
        ("grace30-110", {"groundcrew_s": 31.3}, "over 31.2 s"),
        ("instant-250", {"most_evictions_a_second": 121}, "121 evictions within a second"),
    ],
)
def test_a_drain_is_judged_by_its_ratio_its_bound_its_requests_and_its_rate(
    case: str, changed: dict[str, Any], said: str
) -> None:
    found = {
        "ratio": 0.1,
        "bound_s": 30.0,
        "groundcrew_s": 31.0,
        "requests_per_pod": 1.1,
        "most_evictions_a_second": 100,
    }
    (chosen,) = (one for one in drain.CASES if one.name == case)
    assert drain.verdict(chosen, found | changed) == said
