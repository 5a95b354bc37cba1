"""At most one end of a machine for an incident, in every interleaving: a process that dies before
or after any of its requests (to the API server or the cloud), two at once, and the incident closed
meanwhile."""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from functions.gateways.kubernetes import errors
from functions.rules import hold
from functions.rules.replacing.book import Phase
from functions.steps import active
from functions.steps.replacing.crew import Lost
from tests.support.ending_world import MINUTE, Died, EndingWorld, Mortal

READY = 16
"""Looks until all speaks for the end: the next one asks."""


def ready() -> EndingWorld:
    world = EndingWorld()
    world.minutes(READY)
    assert world.cloud.asked == []
    world.wait(MINUTE)
    return world


def die(world: EndingWorld, request: int, *, after: bool) -> bool:
    """One call that dies at that request; whether it came so far."""
    mortal = Mortal(world, request, after=after)
    try:
        world.call(mortal, aws=mortal)
    except Died:
        return True
    return False


def requests_of_an_end() -> list[str]:
    """What a call that ends a machine asks for, in order."""
    world = ready()
    mortal = Mortal(world, 0, after=False)
    world.call(mortal, aws=mortal)
    assert len(world.cloud.ended) == 1
    return mortal.said


REQUESTS = requests_of_an_end()
PLACES = [(number + 1, after) for number in range(len(REQUESTS)) for after in (False, True)]


def _name(place: tuple[int, bool]) -> str:
    number, after = place
    return f"{'after' if after else 'before'} {number} {REQUESTS[number - 1]}"


def test_an_end_is_written_down_before_it_is_asked_for() -> None:
    """The places that are enumerated below are those that matter."""
    writes = [r for r in REQUESTS if r.startswith(("PATCH", "terminate"))]
    assert [w.partition(" ")[0] for w in writes[:4]] == [
        "PATCH",
        "PATCH",
        "PATCH",
        "terminate_in_group",
    ]
    assert writes[0].endswith("configmaps/groundcrew-ledger")  # the place under the caps
    assert writes[1].endswith("configmaps/groundcrew-ledger-gpu")  # the intent
    assert writes[2].endswith("nodes/n0")  # the last test
    assert writes[4].endswith("configmaps/groundcrew-ledger-gpu")  # what came of it


@pytest.mark.parametrize("place", PLACES, ids=_name)
def test_whoever_dies_anywhere_the_machine_ends_once(place: tuple[int, bool]) -> None:
    world = ready()
    assert die(world, place[0], after=place[1])
    world.minutes(12)
    assert len(world.cloud.ended) == 1
    assert len(world.cloud.asked) == 1
    assert world.entry().phase is Phase.ENDED


@pytest.mark.parametrize("place", PLACES, ids=_name)
def test_an_incident_that_closes_while_nobody_lives_ends_nothing_that_was_not_asked(
    place: tuple[int, bool],
) -> None:
    world = ready()
    assert die(world, place[0], after=place[1])
    asked = len(world.cloud.asked)
    world.closed()
    world.minutes(30)
    assert len(world.cloud.asked) == asked <= 1
    if not asked:
        assert world.entry().over
        # A place under the caps that nobody came to use counts for a day: fewer end, never more.
        assert len(world.book("").ends) <= 1


@pytest.mark.parametrize("place", PLACES, ids=_name)
def test_a_second_death_at_the_same_place_changes_nothing(place: tuple[int, bool]) -> None:
    world = ready()
    for _ in range(3):
        die(world, place[0], after=place[1])
        world.wait(MINUTE * 3)
    world.minutes(12)
    assert len(world.cloud.ended) == 1
    assert len(world.cloud.asked) == 1


@pytest.mark.parametrize("place", PLACES, ids=_name)
def test_another_instance_at_any_moment_of_ours_changes_nothing(place: tuple[int, bool]) -> None:
    """The other one makes a whole call, and its next one a minute later, while ours stands still
    before or after a request."""
    number, after = place
    world = ready()

    def other() -> None:
        world.call()

    between = Between(world, number, other, after=after)
    world.call(between, aws=between)
    world.minutes(12)
    assert len(world.cloud.ended) == 1
    assert len(world.cloud.asked) == 1


@pytest.mark.parametrize("place", PLACES, ids=_name)
def test_one_that_sleeps_for_minutes_and_wakes_up_ends_nothing_a_second_time(
    place: tuple[int, bool],
) -> None:
    """As a process does that is stopped for a while: meanwhile another one has done it all, and
    the machine's replacement serves under its name."""
    number, after = place
    world = ready()

    def others() -> None:
        world.minutes(12)

    between = Between(world, number, others, after=after)
    with contextlib.suppress(errors.Unreachable):  # its time is over, and it asks nothing more
        world.call(between, aws=between)
    world.minutes(12)
    assert len(world.cloud.ended) == 1
    assert len(world.cloud.asked) <= 1 + (
        REQUESTS[number - 1] == "terminate_in_group" and not after
    )


@pytest.mark.parametrize("after", [False, True])
def test_whoever_dies_where_a_reboot_is_asked_for_costs_no_machine_its_life(after: bool) -> None:
    """The reboot that was not asked for is asked for later, and one that was is not asked twice
    while it may come."""
    world = EndingWorld("replace: {act_in: ['*']}\n")
    world.minutes(READY - 1)
    for _ in range(3):
        world.wait(MINUTE)
        mortal = Dying(world, "reboot", after=after)
        with contextlib.suppress(Died):
            world.call(mortal, aws=mortal)
        if mortal.died:
            break
    asked = [f"reboot {world.machine().rpartition('/')[2]}"]
    assert world.cloud.asked == (asked if after else [])
    world.minutes(29)
    assert world.cloud.asked == (asked if after else [])
    world.minutes(5)
    assert world.cloud.asked == (asked * 2 if after else asked)
    assert world.cloud.ended == []


class Dying(Mortal):
    """It dies at its first request of that name."""

    def __init__(self, world: EndingWorld, name: str, *, after: bool) -> None:
        super().__init__(world, 0, after=after)
        self._name = name
        self.died = False

    def _pass(self, name: str, act: Callable[[], Any]) -> Any:
        if name == self._name:
            self.died = True
            if self._after:
                act()
            raise Died
        return super()._pass(name, act)


LAST_LOOK = max(i for i, r in enumerate(REQUESTS) if r.startswith("GET") and "configmaps" in r) + 1


@pytest.mark.parametrize("word", ["pause", "hold", "policy", "closed"])
def test_a_word_that_comes_after_the_intent_is_heard_at_the_last_look(word: str) -> None:
    world = ready()

    def say() -> None:
        if word == "pause":
            text = '{"until": "2027-01-01T00:00:00Z", "reason": "x"}'
            world.config_map(active.PAUSE_NAME, "pause", {"cluster": text})
        elif word == "hold":
            world.config_map(active.HOLD_NAME, "hold", {hold.key(world.machine()): "{"})
        elif word == "policy":
            world.set_policy("replace: {act_in: []}\n")
        else:
            world.closed()

    between = Between(world, LAST_LOOK, say, after=False)
    world.call(between, aws=between)
    assert world.book("").ends == {}
    world.minutes(30)
    assert world.cloud.asked == []


def test_what_another_call_has_decided_about_a_machine_is_not_written_over() -> None:
    world = ready()
    before = world.entry()
    world.call()
    with pytest.raises(Lost):
        world.crew().put("gpu", world.machine(), before, msgspec.structs.replace(before, warned=9))
    assert world.entry().warned != 9


class Between(Mortal):
    """Somebody else acts before or after one of our requests."""

    def __init__(self, world: EndingWorld, at: int, act: Callable[[], Any], *, after: bool) -> None:
        super().__init__(world, 0, after=after)
        self._at, self._act = at, act

    def _pass(self, name: str, act: Callable[[], Any]) -> Any:
        now = self.count + 1 == self._at
        if now and not self._after:
            self._at = 0
            self._act()
        done = super()._pass(name, act)
        if now and self._after:
            self._at = 0
            self._act()
        return done
