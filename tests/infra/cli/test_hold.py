"""``groundcrew hold`` and ``approve``: a person's word on one machine."""

import pytest

from functions.rules import hold, keys
from functions.steps import active
from tests.support.fleet import NAMESPACE, Fleet, Shell


def why(groundcrew: Shell, fleet: Fleet, node: str = "a-01") -> str:
    found = active.read(groundcrew.cluster, NAMESPACE)
    return hold.why(found.holds, fleet.provider_id(node), fleet.now)


def test_a_machine_is_held_until_then_and_released(groundcrew: Shell, fleet: Fleet) -> None:
    code, out, _ = groundcrew("hold", "a-01", "--until", "2d", "--reason", "vendor looks at GPU 5")
    assert code == 0
    assert "a-01: held until" in out
    assert fleet.provider_id("a-01") in out
    assert "vendor looks at GPU 5" in why(groundcrew, fleet)
    assert why(groundcrew, fleet, "a-02") == ""
    assert "vendor looks at GPU 5" in groundcrew("hold")[1]
    fleet.pass_time(days=2, minutes=1)
    assert why(groundcrew, fleet) == ""
    assert "no machine is held" in groundcrew("hold")[1]
    groundcrew("hold", "a-01", "--until", "2d", "--reason", "again")
    assert groundcrew("hold", "a-01", "--release")[0] == 0
    assert why(groundcrew, fleet) == ""


def test_a_hold_is_the_machines_and_outlives_its_node(groundcrew: Shell, fleet: Fleet) -> None:
    groundcrew("hold", "a-01", "--until", "2d", "--reason", "mine")
    machine = fleet.provider_id("a-01")
    fleet.server.delete("nodes", "", "a-01")
    found = active.read(groundcrew.cluster, NAMESPACE)
    assert hold.why(found.holds, machine, fleet.now)
    assert groundcrew("hold", "a-01", "--release")[0] == 0
    assert not active.read(groundcrew.cluster, NAMESPACE).holds


@pytest.mark.parametrize(
    "argv",
    [
        ("a-01", "--until", "2d"),
        ("a-01", "--reason", "x"),
        ("a-01", "--until", "yesterday", "--reason", "x"),
        ("a-01", "--until", "2020-01-01T00:00Z", "--reason", "x"),
        ("a-01", "--until", "91d", "--reason", "x"),
        ("nobody", "--until", "1d", "--reason", "x"),
    ],
)
def test_what_is_no_hold_is_refused_and_nothing_is_written(
    groundcrew: Shell, fleet: Fleet, argv: tuple[str, ...]
) -> None:
    fleet.resync()
    before = fleet.written()
    assert groundcrew("hold", *argv)[0] == 2
    assert fleet.written() == before


def test_a_hold_that_cannot_be_read_holds_and_is_said(groundcrew: Shell, fleet: Fleet) -> None:
    key = hold.key(fleet.provider_id("a-01"))
    fleet.config_map(active.HOLD_NAME, "hold", {key: "{"})
    assert "cannot be read" in why(groundcrew, fleet)
    assert "cannot be read" in groundcrew("hold")[1]


def test_approval_is_for_this_machine_and_can_be_taken_back(
    groundcrew: Shell, fleet: Fleet
) -> None:
    assert groundcrew("approve", "a-01")[0] == 0
    assert groundcrew.cluster.get_node("a-01").metadata.annotation(keys.APPROVED) == (
        fleet.provider_id("a-01")
    )
    assert groundcrew("approve", "a-01", "--take-back")[0] == 0
    assert groundcrew.cluster.get_node("a-01").metadata.annotation(keys.APPROVED) is None
    assert groundcrew("approve", "nobody")[0] == 2
