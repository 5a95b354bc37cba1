"""What another policy would change, before it is applied."""

from typing import Any

import pytest

from events.notice import Severity
from functions.rules import policy, policy_change
from functions.rules.cordoning import NodeFacts
from functions.rules.policy import Policy
from functions.rules.policy_change import LOOSE_WORDS, LOOSER, changes, loosened, moved, too_many
from tests.support.facts import NOW, node, notice

DEFAULT = policy.default()


def made(text: str) -> Policy:
    return policy.parse("version: 1\n" + text)


def fleet(sick: int, size: int = 100, check: str = "DiskPressure") -> list[NodeFacts]:
    facts = []
    for number in range(size):
        said = (notice(check, severity=Severity.WATCH),) if number < sick else ()
        facts.append(NodeFacts(node(f"n{number}"), said))
    return facts


def outcomes(facts: list[NodeFacts], new: Policy, old: Policy = DEFAULT) -> dict[str, Any]:
    return dict(moved((facts, facts), {}, (old, new), NOW))


def test_says_each_field_that_differs_and_no_other() -> None:
    new = made(
        "budget: {pool: 20%}\ndrain: {deadline: 2h}\nseverity: [{check: a, severity: evict}]"
    )
    assert [str(change) for change in changes(DEFAULT, new)] == [
        "severity: new: {check: a, severity: evict}",
        "budget.pool: 10% -> 20%",
        "drain.deadline: none -> 2h",
    ]
    assert changes(new, new) == []


def test_says_which_rules_of_a_list_went_and_which_came() -> None:
    old = made("shadow: [{check: a}, {check: b}]")
    new = made("shadow: [{check: b}, {check: c}]")
    assert [str(change) for change in changes(old, new)] == [
        "shadow: gone: {check: a}",
        "shadow: new: {check: c}",
    ]


def test_says_that_rules_changed_places_since_the_first_that_matches_decides() -> None:
    first, second = "{check: a, severity: evict}", "{check: '*', severity: watch}"
    old, new = made(f"severity: [{first}, {second}]"), made(f"severity: [{second}, {first}]")
    assert len(changes(old, new)) == 1


@pytest.mark.parametrize(
    ("field", "looser", "tighter"),
    [
        ("budget.pool", "11%", "9%"),
        ("budget.cluster", "6%", "4%"),
        ("budget.reservation", "1m", "3m"),
        ("breaker.share", "21%", "19%"),
        ("breaker.within", "9m", "11m"),
        ("breaker.more_than", "3", "1"),
        ("breaker.day_share", "31%", "29%"),
        ("breaker.quiet", "29m", "31m"),
        ("recovery.quiet", "14m", "16m"),
        ("recovery.releases", "3", "1"),
        ("recovery.releases_within", "6d", "8d"),
        ("application_faults.jobs", "2", "4"),
        ("application_faults.within", "25h", "23h"),
        ("dismissed.override", "23h", "25h"),
        ("drain.deadline", "4h", "null"),
        ("drain.before_loss", "61s", "59s"),
        ("drain.gang_notice", "4m", "6m"),
        ("reboots.most", "3", "1"),
        ("reboots.within", "6d", "8d"),
        ("reboots.settle", "9m", "11m"),
        ("seven_days.limit", "6d13h", "8d"),
        ("terminate.settle", "59m", "61m"),
        ("terminate.settle_cordon", "23h", "25h"),
        ("terminate.per_hour", "3", "1"),
        ("terminate.per_day", "11", "9"),
        ("terminate.pool_per_day", "6%", "4%"),
        ("terminate.after_silence", "14m", "16m"),
        ("drain.past_deadline", "delete", "keep"),
        ("drain.bare_pods", "evict", "block"),
        ("drain.empty_dir", "evict", "block"),
    ],
)
def test_knows_in_which_direction_a_field_protects_less(
    field: str, looser: str, tighter: str
) -> None:
    section, name = field.split(".")
    loose = made(f"{section}: {{{name}: {looser}}}")
    tight = made(f"{section}: {{{name}: {tighter}}}")
    assert [change.path for change in loosened(tight, loose)] == [field]
    assert loosened(loose, tight) == []


def test_the_table_of_directions_names_only_fields_that_exist_and_the_test_above_all_of_it() -> (
    None
):
    tested = test_knows_in_which_direction_a_field_protects_less.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {row[0] for row in tested} == {*LOOSER, *LOOSE_WORDS}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("budget: {domains: [{label: zone, share: 10%}]}", ""),
        (
            "budget: {domains: [{label: zone, share: 10%}]}",
            "budget: {domains: [{label: zone, share: 20%}]}",
        ),
        ("", "waits: []"),
        ("waits: [{check: Ready, wait: 5m}]", "waits: [{check: Ready, wait: 1m}]"),
        ("shadow: [{check: 'xid-*'}]", "shadow: [{check: 'xid-7*'}]"),
        ("recovery: {gpus: {mine: 8}}", "recovery: {gpus: {mine: 7}}"),
        ("recovery: {gpus: {mine: 8}}", ""),
        ("", "replace: {act_in: [h100]}"),
        ("replace: {act_in: ['h100-*']}", "replace: {act_in: ['h*']}"),
        ("replace: {reserved: ['h*']}", "replace: {reserved: [h100]}"),
        ("", "replace: {beside: [nvsentinel]}"),
        ("terminate: {confirmed_by: [active-test]}", ""),
        ("ladder: [{rungs: [reboot]}]", ""),
        ("ladder: [{check: a, rungs: []}, {rungs: [replace]}]", "ladder: [{rungs: [replace]}]"),
        ("ladder: []", "ladder: [{pool: h100, rungs: [reboot]}]"),
    ],
)
def test_a_rule_that_protected_and_is_gone_or_weaker_is_looser(old: str, new: str) -> None:
    assert len(loosened(made(old), made(new))) >= 1
    assert loosened(made(old), made(old)) == []


def test_a_wider_rule_covers_the_one_that_it_replaces() -> None:
    assert loosened(made("shadow: [{check: xid-79}]"), made("shadow: [{check: 'xid-*'}]")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("replace: {act_in: ['h*']}", "replace: {act_in: [h100]}"),
        ("replace: {reserved: [h100]}", "replace: {reserved: ['h*']}"),
        ("replace: {beside: [nvsentinel]}", ""),
        ("ladder: [{rungs: [reboot, replace]}]", "ladder: [{rungs: [reboot]}]"),
        ("", "terminate: {confirmed_by: [active-test]}"),
    ],
)
def test_what_lets_fewer_machines_end_is_not_looser(old: str, new: str) -> None:
    assert loosened(made(old), made(new)) == []


def test_nodes_that_would_be_cordoned_are_counted() -> None:
    new = made("severity: [{check: DiskPressure, severity: cordon}]")
    assert outcomes(fleet(sick=2), new) == {
        "n0": ("watch", "cordon"),
        "n1": ("watch", "cordon"),
    }


def test_nodes_that_would_be_accused_and_held_back_are_counted_too() -> None:
    # The breaker would hold them. It is no reason to put such a rule in force unseen.
    new = made("severity: [{check: DiskPressure, severity: evict}]")
    assert set(outcomes(fleet(sick=60), new).values()) == {("watch", "held")}


def test_a_waiting_time_hides_nothing() -> None:
    new = made(
        "severity: [{check: DiskPressure, severity: cordon}]\n"
        "waits: [{check: DiskPressure, wait: 6h}]"
    )
    assert outcomes(fleet(sick=1), new) == {"n0": ("watch", "cordon")}


def test_a_policy_that_decides_the_same_moves_nothing() -> None:
    assert outcomes(fleet(sick=3), made("budget: {pool: 50%}")) == {}


def test_more_than_five_percent_is_too_many() -> None:
    assert not too_many(5, 100)
    assert too_many(6, 100)
    assert DEFAULT.budget.cluster == policy_change.MOST_MOVED
