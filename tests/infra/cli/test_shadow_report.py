"""What would have been ended where it is only told: to read before a pool is let act."""

import json

import pytest

from functions.rules import policy
from functions.steps import active
from tests.support.fleet import Fleet, Shell, words

RULES = "version: 1\nladder: [{rungs: [replace]}]\nterminate: {settle: 10m}"


@pytest.fixture
def told(fleet: Fleet) -> Fleet:
    """A machine of pool a that would have ended, had the policy named that pool."""
    data = active.policy_data(policy.parse(RULES), "a test")
    fleet.config_map(active.POLICY_NAME, "policy", data)
    fleet.resync()
    fleet.replace()
    fleet.pass_time(hours=2)
    fleet.say("a-03", in_log=True)
    fleet.say("a-04")  # one source alone: it would not have
    for act, minutes in ((fleet.resync, 0), (fleet.drain, 1), (fleet.replace, 1)):
        act()
        fleet.pass_time(minutes=minutes)
    for minute in range(24):
        fleet.pass_time(minutes=1)
        if minute % 4 == 0:
            fleet.resync()
        fleet.replace()
    return fleet


def test_a_machine_that_would_have_ended_is_counted_and_named_with_all(
    told: Fleet, groundcrew: Shell
) -> None:
    out = words(groundcrew("status")[1])
    assert "1 machine would have ended in the last 30 days" in out
    out = words(groundcrew("status", "--all")[1])
    assert "WOULD HAVE ENDED" in out
    assert "a-03 26m kubernetes.event/xid-79 sick yet" in out
    assert f"{told.provider_id('a-03')}, pool a" in out


def test_what_became_of_it_is_told_when_nothing_else_shows_it_any_more(
    told: Fleet, groundcrew: Shell
) -> None:
    told.change("a-03", lambda node: node["spec"].pop("unschedulable"))
    told.resync()
    told.replace()
    told.pass_time(hours=24 * 20)
    (found,) = json.loads(groundcrew("status", "-o", "json")[1])["would_have_ended"]
    assert (found["node"], found["machine"]) == ("a-03", told.provider_id("a-03"))
    assert found["became"] == "recovered: xid-79 is dismissed: uncordoned by somebody else"


def test_where_nothing_would_have_ended_nothing_is_said(fleet: Fleet, groundcrew: Shell) -> None:
    fleet.resync()
    assert "would have ended" not in words(groundcrew("status", "--all")[1])


def test_a_book_that_cannot_be_read_is_told_and_not_taken_for_one_without_machines(
    told: Fleet, groundcrew: Shell
) -> None:
    name = active.ledger_name("a")
    told.config_map(name, "ledger", told.data(name) | {"replacements": "{"})
    code, out, _ = groundcrew("status", "--all")
    assert code == 1
    assert "the book of pool a cannot be read" in words(out)
    assert f"delete the key `replacements` of ConfigMap {name}" in words(out)
