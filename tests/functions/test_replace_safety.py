"""What people say, other instances and broken books, in the last moments before the cloud is asked,
against the embedded cluster."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from functions.rules import hold, keys
from functions.rules.replacing.book import End, Phase
from functions.steps import active
from functions.steps.replacing.act import _again
from functions.steps.replacing.crew import without_end
from functions.steps.terminate import LATER, SOON, Asked
from tests.support.ending_world import MINUTE, NAMESPACE, EndingWorld, Mortal
from tests.support.sick import book as a_book


@pytest.fixture
def world() -> EndingWorld:
    made = EndingWorld()
    made.minutes(14)
    assert made.cloud.asked == []
    return made


def pause(world: EndingWorld) -> None:
    text = '{"until": "2027-01-01T00:00:00Z", "reason": "x"}'
    world.config_map(active.PAUSE_NAME, "pause", {"cluster": text})


def hold_it(world: EndingWorld) -> None:
    machine = world.machine()
    until = world.clock.now() + timedelta(days=9)
    made = hold.Hold(machine=machine, node="n0", until=until, reason="mine")
    text = msgspec.json.encode(made).decode()
    world.config_map(active.HOLD_NAME, "hold", {hold.key(machine): text})


class Watching(Mortal):
    """Something happens just before the last request of one kind that comes before the end."""

    def __init__(self, world: EndingWorld, name: str, act: Callable[[], Any]) -> None:
        super().__init__(world, 0, after=False)
        self._name, self._act, self._armed = name, act, False

    def _pass(self, name: str, act: Callable[[], Any]) -> Any:
        if name.startswith("PATCH") and "configmaps/groundcrew-ledger-gpu" in name:
            self._armed = True  # the intent: from here on it is the last moment
        if self._armed and name == self._name:
            self._armed = False
            self._act()
        return super()._pass(name, act)


@pytest.mark.parametrize("said", [pause, hold_it])
@pytest.mark.parametrize("moment", ["scaling_instances", "GET /api/v1/nodes/n0"])
def test_a_word_that_comes_while_the_cloud_or_the_node_is_read_is_heard(
    world: EndingWorld, moment: str, said: Callable[[EndingWorld], None]
) -> None:
    for _ in range(6):
        world.wait(MINUTE)
        watching = Watching(world, moment, lambda: said(world))
        world.call(watching, aws=watching)
    assert world.cloud.asked == []
    assert world.book("").ends == {}


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("labels", "groundcrew.dev/pool", "research"),
        ("labels", "dgxc.nvidia.com/nvsentinel-state", "draining"),
        ("labels", "eks.amazonaws.com/capacityType", "CAPACITY_BLOCK"),
        ("annotations", keys.DRAIN, "{}"),
        ("spec", "providerID", "aws:///us-east-1a/i-0000000000000beef"),
    ],
)
def test_what_changes_on_the_node_before_the_last_test_stops_it(
    world: EndingWorld, kind: str, key: str, value: str
) -> None:
    def change(_: object) -> None:
        found = world.node()
        (found if kind == "spec" else found["metadata"])[kind][key] = value
        world.server.apply(found)

    world.server.faults.before("patch", "/nodes/n0", change)
    world.minutes(3)
    assert world.cloud.asked == []


def test_a_machine_that_karpenter_begins_to_end_in_the_last_moment_is_left_to_it(
    world: EndingWorld,
) -> None:
    def begin() -> None:
        found = world.node()
        found["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
        world.server.apply(found)

    for _ in range(6):
        world.wait(MINUTE)
        watching = Watching(world, "GET /api/v1/nodes/n0", begin)
        world.call(watching, aws=watching)
    assert world.cloud.asked == []


def test_what_is_refused_for_long_is_asked_for_more_and_more_seldom() -> None:
    refused = Asked(done=False, says="throttled", again=SOON)
    waits = [_again(refused, "replace", tries) for tries in (0, 9, 10, 177, 178)]
    assert waits == [SOON, SOON, LATER, LATER, timedelta(days=1)]


def test_no_end_is_begun_in_a_call_whose_time_is_nearly_over(
    world: EndingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = world.cloud.instances
    slow = True

    def instances(*given: Any) -> Any:
        world.clock.sleep(2.5 * slow)
        return quick(*given)

    monkeypatch.setattr(world.cloud, "instances", instances)
    world.minutes(10)
    assert (world.cloud.asked, world.book("").ends) == ([], {})
    slow = False
    world.minutes(1)
    assert len(world.cloud.ended) == 1


def test_a_place_under_the_caps_is_given_back_by_whoever_took_it_alone() -> None:
    """One call takes its intent back, and sleeps; another has taken the machine over meanwhile."""
    mine = a_book(ends={"m": End(at=a_book().began, token="mine")})  # type: ignore[arg-type]
    assert without_end("m", "mine")(mine).ends == {}
    assert without_end("m", "theirs")(mine) is mine


def test_one_that_takes_its_intent_back_late_leaves_the_place_of_the_next(
    world: EndingWorld,
) -> None:
    """It is stopped by an uncordon that is undone at once; before it gives its place back another
    instance ends the machine."""
    counted: list[int] = []

    class Sleepy(Mortal):
        taking_back = False
        slept = False

        def _pass(self, name: str, act: Callable[[], Any]) -> Any:
            if name == "PATCH /api/v1/nodes/n0" and not self.taking_back and not self.slept:
                self.taking_back = True
                found = world.node()
                found["spec"]["unschedulable"] = False
                world.server.apply(found)
            elif (
                self.taking_back
                and not self.slept
                and name.startswith("PATCH")
                and name.endswith("configmaps/groundcrew-ledger")
            ):
                self.slept = True
                found = world.node()
                found["spec"]["unschedulable"] = True
                world.server.apply(found)
                world.call()
                counted.append(len(world.book("").ends))
            return super()._pass(name, act)

    for _ in range(4):
        world.wait(MINUTE)
        sleepy = Sleepy(world, 0, after=False)
        world.call(sleepy, aws=sleepy)
        if sleepy.slept:
            break
    assert len(world.cloud.ended) == 1
    assert counted == [1]
    assert len(world.book("").ends) == 1


def test_what_a_person_withdraws_after_the_cloud_has_taken_it_counts_all_the_same(
    world: EndingWorld,
) -> None:
    world.minutes(1)
    for _ in range(5):
        if world.cloud.ended:
            break
        world.minutes(1)
    instance = world.machine().rpartition("/")[2]
    world.cloud._states[instance] = "running"  # the cloud says so for long
    world.cloud._due.clear()
    hold_it(world)
    world.minutes(40)
    assert world.entry().phase is Phase.SICK
    assert list(world.book("").ends) == [world.machine()]


def test_a_book_that_cannot_be_written_keeps_no_other_pool_waiting(world: EndingWorld) -> None:
    """Say, too large for the API server, or taken away in that moment."""
    world.config_map(active.ledger_name("a100"), "ledger", {"pool": "a100"})
    name = active.ledger_name("a100")

    def gone(_: object) -> None:
        world.server.delete("configmaps", NAMESPACE, name)

    world.server.faults.before("patch", f"/configmaps/{name}", gone)
    world.wait(MINUTE)
    world.call()
    world.minutes(6)
    assert len(world.cloud.ended) == 1


@pytest.mark.parametrize("broken", ["{garbage", None])
def test_a_sick_machine_of_a_pool_without_a_book_is_said_and_not_called_well(broken: Any) -> None:
    world = EndingWorld()
    name = active.ledger_name("gpu")
    found = world.server.get("configmaps", NAMESPACE, name)
    assert found is not None
    if broken is None:
        world.server.delete("configmaps", NAMESPACE, name)
    else:
        world.config_map(name, "ledger", {**found["data"], "replacements": broken})
    outcome = world.call()
    assert not outcome.declined
    said = [d for d in outcome.decisions if d.node == "n0"]
    assert [d.blocked_by for d in said] == [("memory",)]
    assert "gpu" in said[0].reason
    assert json.dumps(world.cloud.asked) == "[]"


def test_the_risk_is_told_of_a_machine_whose_clock_no_book_keeps() -> None:
    world = EndingWorld()
    world.server.delete("configmaps", NAMESPACE, active.ledger_name("gpu"))
    world.clock.sleep((timedelta(days=3) - timedelta(hours=2, minutes=3)).total_seconds())
    said = []
    for _ in range(8):
        world.clock.sleep(60)
        said += [d for d in world.call().decisions if d.action.value == "at-risk"]
    assert 1 <= len(said) <= 2
    assert said[0].node == "n0"
    assert said[0].reason.startswith("4 d left of the seven days; memory: the book of pool gpu")
    assert set(world.answers()) == {"sla.at-risk"}


def test_a_reset_that_another_instance_has_asked_for_is_not_asked_for_twice() -> None:
    world = EndingWorld("replace: {act_in: ['*']}\nladder: [{rungs: [reset, replace]}]\n")
    asked = []

    class Twice(Mortal):
        """Another instance makes its whole call just before our intent is written."""

        done = False

        def _pass(self, name: str, act: Callable[[], Any]) -> Any:
            mine = name.startswith("PATCH") and name.endswith("configmaps/groundcrew-ledger-gpu")
            if mine and not self.done:
                self.done = True
                asked.append(world.call().answer)
            return super()._pass(name, act)

    world.minutes(14)
    for _ in range(6):
        world.wait(MINUTE)
        twice = Twice(world, 0, after=False)
        asked.append(world.call(twice, aws=twice).answer)
    wanted = [a for a in asked if a and a.type == "dev.groundcrew.gpu.reset-wanted"]
    assert len(wanted) == 1
    world.minutes(200)
    assert world.answers().count("gpu.reset-wanted") == 2, "asked for once more, and no third time"
    assert [what.partition(" ")[0] for what in world.cloud.asked] == ["terminate"]


def test_many_that_are_held_and_a_slow_cloud_keep_no_machine_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look asks the cloud, and one call has no time for all of them, nor for an end behind."""
    world = EndingWorld(nodes=9)
    for number in range(1, 9):
        world.sick(f"n{number}")
    for number in range(8):
        world.server.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": {"name": f"a{number}"},
                "spec": {
                    "attacher": "x",
                    "nodeName": f"n{number}",
                    "source": {"persistentVolumeName": f"pv-{number}"},
                },
                "status": {"attached": True},
            }
        )
    quick = world.cloud.instances

    def slow(*given: Any) -> Any:
        world.clock.sleep(0.5)
        return quick(*given)

    monkeypatch.setattr(world.cloud, "instances", slow)
    world.minutes(40)
    ended = [instance for _, instance in world.cloud.ended]
    assert ended == [world.machine("n8").rpartition("/")[2]]
