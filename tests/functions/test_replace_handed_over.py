"""A machine that is rebooted, or ends, by whoever owns it: the event that names it, its
acknowledgement, and its deadline."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from functions.rules import keys
from functions.rules.replacing.book import Phase
from functions.steps.terminate.handed_over import REBOOT_WANTED, WANTED
from tests.support.ending_world import MINUTE, POLICY, Died, EndingWorld, Mortal

HANDED = POLICY.replace("act_in", "ways: [{pool: '*', way: event}], act_in")
PATIENT = HANDED.replace("act_in", "handed_over_within: 2h, act_in")


def wanted(world: EndingWorld, kind: str = WANTED) -> list[dict[str, Any]]:
    """What was said of n0's machine to its owner, in order."""
    said = (o.answer for o in world.outcomes if o.answer and o.answer.type == kind)
    return [msgspec.to_builtins(answer.data)["nodes"][0] for answer in said]


def take(world: EndingWorld, token: str) -> None:
    node = world.node()
    node["metadata"]["annotations"][keys.HANDED_OVER] = token
    world.server.apply(node)


def test_its_owner_is_told_takes_it_and_lets_its_node_go() -> None:
    world = EndingWorld(HANDED)
    world.minutes(20)
    (said,) = wanted(world)
    assert (said["node"], said["machine"]) == ("n0", world.machine())
    assert "xid-79" in said["why"]
    intent = world.entry().intent
    assert intent is not None
    assert said["token"] == intent.token
    assert datetime.fromisoformat(said["by"]) - intent.at == timedelta(minutes=30)
    take(world, said["token"])
    world.minutes(90)
    assert len(wanted(world)) == 1
    world.server.delete("nodes", "", "n0")
    world.minutes(1)
    assert world.entry().phase is Phase.ENDED
    world.add("n7")
    world.minutes(2)
    assert world.answers() == ["vm.replacement-wanted", "vm.terminated", "vm.replaced"]


def test_who_does_not_take_it_in_its_time_is_asked_once_more_and_then_a_person_is_told() -> None:
    world = EndingWorld(PATIENT)
    world.minutes(17)
    (first,) = wanted(world)
    world.minutes(118)
    assert len(wanted(world)) == 1, "it has time until then, as it was told"
    world.minutes(4)
    (_, second) = wanted(world)
    assert second["token"] != first["token"]
    world.minutes(240)
    assert len(wanted(world)) == 2
    (told,) = [d.reason for o in world.outcomes for d in o.decisions if "asked" in d.blocked_by]
    assert told.startswith("asked to end 2 times by way of event, it runs on")


def test_who_takes_it_by_the_first_asking_after_the_second_has_taken_it() -> None:
    world = EndingWorld(HANDED)
    world.minutes(50)
    first, second = wanted(world)
    assert first["token"] != second["token"]
    take(world, first["token"])
    world.minutes(2)
    world.server.delete("nodes", "", "n0")
    world.minutes(1)
    assert world.entry().phase is Phase.ENDED


def test_a_word_that_is_no_token_of_ours_takes_nothing() -> None:
    world = EndingWorld(HANDED)
    world.minutes(17)
    take(world, "mine")
    world.minutes(1)
    world.server.delete("nodes", "", "n0")
    world.minutes(1)
    assert world.entry().phase is Phase.SICK
    assert world.answers() == ["vm.replacement-wanted"]


def test_what_died_before_it_could_say_so_is_said_by_another() -> None:
    """The intent stands in the book, and nobody was told."""
    world = EndingWorld(HANDED)
    world.minutes(15)
    for _ in range(3):
        world.wait(MINUTE)
        mortal = Dying(world)
        try:
            world.call(mortal, aws=mortal)
        except Died:
            break
    assert world.entry().phase is Phase.ENDING
    assert wanted(world) == []
    world.minutes(3)
    assert len(wanted(world)) == 1


LADDER = "replace: {act_in: ['*'], ways: [{pool: '*', way: event}]}\n"


def test_a_reboot_is_handed_over_and_another_boot_id_is_its_acknowledgement() -> None:
    world = EndingWorld(LADDER)
    world.minutes(17)
    (said,) = wanted(world, REBOOT_WANTED)
    intent = world.entry().intent
    assert intent is not None
    assert (said["node"], said["machine"]) == ("n0", world.machine())
    assert said["token"] == intent.token
    assert datetime.fromisoformat(said["by"]) - intent.at == timedelta(minutes=30)
    node = world.node()
    node["status"]["nodeInfo"]["bootID"] = "another"
    world.server.apply(node)
    world.minutes(1)
    assert world.answers() == ["vm.reboot-wanted", "vm.rebooted"]
    assert world.cloud.asked == []
    world.minutes(180)
    assert wanted(world) == [], "quiet since its boot: a test or a person says whether it is well"


def test_a_reboot_that_nobody_does_is_wanted_twice_before_the_machine_is_to_end() -> None:
    world = EndingWorld(LADDER)
    world.minutes(17 + 29)
    assert world.answers() == ["vm.reboot-wanted"]
    world.minutes(4)
    assert world.answers() == ["vm.reboot-wanted"] * 2
    world.minutes(90)
    assert world.answers()[:3] == [*["vm.reboot-wanted"] * 2, "vm.replacement-wanted"]
    assert world.answers().count("vm.reboot-wanted") == 2
    assert world.cloud.asked == []


class Dying(Mortal):
    """It dies when it has said on the node what it is about to ask."""

    def __init__(self, world: EndingWorld) -> None:
        super().__init__(world, 0, after=False)

    def _pass(self, name: str, act: Any) -> Any:
        done = super()._pass(name, act)
        if name == "PATCH /api/v1/nodes/n0" and any("ledger-gpu" in said for said in self.said):
            raise Died
        return done
