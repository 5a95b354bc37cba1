"""The timeline as a story, and what of it is the same in every world."""

from datetime import datetime, timedelta
from typing import Any

from functions.rules.decision import Action, Decision
from infra.local.story import Line, Story
from infra.local.timeline import (
    Checked,
    Did,
    Entry,
    Happened,
    Trouble,
    differences,
    normalised,
)
from tests.support.facts import NOW, minutes

LATER = NOW + minutes(1)


def did(action: Action, node: str = "n1", at: datetime = NOW, **more: Any) -> Did:
    made: dict[str, Any] = {"function": "cordon", "reason": f"because of {action.value}"}
    return Did(
        at=at,
        woken_by="a.b.c",
        decision=Decision(action=action, node=node, **(made | more)),
    )


def told(*entries: Entry) -> list[Line]:
    story = Story()
    return [line for entry in entries for line in story.add(entry)] + story.end()


def words(*entries: Entry) -> list[tuple[str, tuple[str, ...]]]:
    return [(line.word, line.nodes) for line in told(*entries)]


def test_nodes_of_which_the_same_is_said_are_one_line() -> None:
    many = [did(Action.CORDON, f"n{number}") for number in range(30)]
    ((word, nodes),) = words(*many)
    assert (word, len(nodes)) == ("cordoned", 30)


def test_what_is_held_back_for_one_cause_is_one_line_with_the_last_numbers() -> None:
    held = [
        did(Action.HOLD, f"n{n}", reason=f"breaker: {n} of 9", blocked_by=("breaker",))
        for n in (3, 4)
    ]
    other = did(Action.HOLD, "n9", reason="breaker: 1 of 2", blocked_by=("breaker",), pool="b")
    lines = told(*held, other)
    assert [(line.nodes, line.text) for line in lines] == [
        (("n3", "n4"), "breaker: 4 of 9"),
        (("n9",), "breaker: 1 of 2"),
    ]


def test_nodes_that_are_held_back_one_after_the_other_within_a_minute_are_one_line() -> None:
    def second(place: int, *actions: Action) -> list[Did]:
        at = NOW + timedelta(seconds=place)
        return [did(a, f"n{place}", at=at, blocked_by=("budget",)) for a in actions]

    both = (Action.OPEN, Action.HOLD)
    entries = [one for place in range(0, 90, 10) for one in second(place, *both)]
    assert [(word, len(nodes)) for word, nodes in words(*entries)] == [
        ("held back", 6),
        ("held back", 3),
    ]
    entries[5:5] = second(25, Action.CORDON)
    assert [(word, len(nodes)) for word, nodes in words(*entries)][:2] == [
        ("held back", 2),
        ("noted", 1),
    ]


def test_an_incident_that_led_to_a_cordon_at_once_needs_no_line_of_its_own() -> None:
    assert words(did(Action.OPEN), did(Action.CORDON)) == [("cordoned", ("n1",))]
    assert words(did(Action.OPEN, at=NOW), did(Action.CORDON, at=LATER)) == [
        ("noted", ("n1",)),
        ("cordoned", ("n1",)),
    ]
    assert words(did(Action.CLOSE), did(Action.UNCORDON)) == [("released", ("n1",))]


def test_of_a_drain_its_begin_its_blockers_and_its_end_are_told() -> None:
    def wait(second: int, *by: str) -> Did:
        return did(Action.WAIT, at=NOW + timedelta(seconds=second), blocked_by=by)

    entries = (
        did(Action.START_DRAIN),
        wait(0),
        wait(5),
        wait(10, "PodDisruptionBudget ml/job"),
        wait(600),
        wait(605),
        did(Action.DRAINED, at=NOW + timedelta(seconds=610)),
    )
    assert [word for word, _ in words(*entries)] == ["draining", "blocked", "goes on", "emptied"]


def test_a_drain_with_nothing_to_do_is_told_quietly() -> None:
    (line,) = told(did(Action.START_DRAIN), did(Action.DRAINED))
    assert (line.word, line.tone) == ("emptied", "quiet")


def test_what_happens_comes_before_what_is_decided_about_it() -> None:
    lines = told(did(Action.CORDON, at=NOW), Happened(at=LATER, says="x"), did(Action.OPEN))
    assert [line.text or line.word for line in lines][1] == "x"


def test_of_expectations_that_hold_the_rule_is_told_once_and_of_others_what_was_seen() -> None:
    def check(holds: bool, because: str, seen: str = "") -> Checked:
        return Checked(at=NOW, expected="e", holds=holds, because=because, seen=seen, line=7)

    lines = told(
        check(True, "a rule"), check(True, "a rule"), check(True, ""), check(False, "b", "s")
    )
    assert [(line.tone, line.text) for line in lines] == [
        ("holds", "a rule"),
        ("fails", "expected: e; seen: s (line 7)"),
    ]


def test_a_rule_of_which_one_expectation_failed_does_not_hold() -> None:
    lines = told(
        Checked(at=NOW, expected="e", holds=True, because="a rule"),
        Checked(at=NOW, expected="f", holds=False, because="a rule", seen="s"),
    )
    assert [line.tone for line in lines] == ["fails"]


def test_trouble_is_told() -> None:
    assert [line.tone for line in told(Trouble(at=NOW, says="refused"))] == ["fails"]


def test_what_depends_on_how_long_pods_take_is_left_out_of_the_comparison() -> None:
    entries: list[Entry] = [
        did(Action.CORDON, incident="s/check", severity="evict"),
        did(Action.WAIT),
        did(Action.EVICT),
        did(Action.DRAINED, at=LATER, function="drain"),
        Happened(at=NOW, says="x"),
    ]
    assert normalised(entries) == {
        "n1 cordon": ["cordon s/check evict"],
        "n1 drain": ["drained"],
    }


def test_differences_name_what_differs_and_what_is_missing() -> None:
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == ["b: 2 / 3", "c: nothing / 4"]
    assert differences({"a": [1]}, {"a": [1]}) == []
