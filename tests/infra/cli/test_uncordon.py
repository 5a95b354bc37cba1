"""``groundcrew uncordon``: a node goes back into service, and what that means is said."""

import pytest

from functions.rules import keys
from tests.support.fleet import Fleet, Shell

NODE = "a-01"


def cordoned(fleet: Fleet, name: str = NODE) -> bool:
    found = fleet.server.get("nodes", "", name) or {}
    return bool(found["spec"].get("unschedulable"))


def state(fleet: Fleet) -> str:
    found = fleet.server.get("nodes", "", NODE) or {}
    return str(found["metadata"]["labels"].get(keys.STATE, ""))


def test_what_drain_cordoned_is_given_back_without_a_trace(groundcrew: Shell, fleet: Fleet) -> None:
    groundcrew("drain", NODE)
    assert cordoned(fleet)
    code, out, err = groundcrew("uncordon", NODE)
    assert (code, out, err) == (0, f"{NODE}: uncordoned\n", "")
    assert not cordoned(fleet)
    found = fleet.server.get("nodes", "", NODE) or {}
    assert keys.CORDONED_BY not in found["metadata"]["annotations"]


def test_the_cordon_of_an_incident_is_given_back_as_a_dismissal(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.resync()
    fleet.say(NODE)
    assert state(fleet) == "evict"
    code, out, _ = groundcrew("uncordon", NODE)
    assert code == 0
    assert "dismisses kubernetes.event/xid-79" in out
    fleet.resync()
    assert (state(fleet), cordoned(fleet)) == ("dismissed", False)
    fleet.resync()
    assert not cordoned(fleet)


def test_a_node_in_service_is_not_written(groundcrew: Shell, fleet: Fleet) -> None:
    before = fleet.written()
    assert groundcrew("uncordon", NODE)[1] == f"{NODE}: is in service already\n"
    assert fleet.written() == before


def test_a_dry_run_writes_nothing(groundcrew: Shell, fleet: Fleet) -> None:
    groundcrew("drain", NODE)
    before = fleet.written()
    for how in ("--dry-run", "--dry-run=server"):
        code, out, _ = groundcrew("uncordon", how, NODE)
        assert (code, out) == (0, f"{NODE}: would be uncordoned\n")
    assert fleet.written() == before


def test_a_patch_that_is_lost_is_sent_again(groundcrew: Shell, fleet: Fleet) -> None:
    groundcrew("drain", NODE)
    fleet.server.faults.fail("patch", f"/nodes/{NODE}", 500)
    fleet.server.faults.drop("patch", f"/nodes/{NODE}", carried_out=True)
    assert groundcrew("uncordon", NODE)[0] == 0
    assert not cordoned(fleet)


def test_whoever_cordons_at_the_same_time_is_not_written_over(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.resync()
    groundcrew("drain", NODE)

    def other(_: object) -> None:
        fleet.change(NODE, lambda n: n["metadata"]["annotations"].update({keys.INCIDENTS: "{}"}))

    fleet.server.faults.before("patch", f"/nodes/{NODE}", other)
    assert groundcrew("uncordon", NODE)[0] == 0
    assert not cordoned(fleet)
    found = fleet.server.get("nodes", "", NODE) or {}
    assert found["metadata"]["annotations"][keys.INCIDENTS] == "{}"


def test_a_node_that_may_not_be_patched_is_named(groundcrew: Shell, fleet: Fleet) -> None:
    groundcrew("drain", NODE, "a-02")
    fleet.server.faults.fail("patch", f"/nodes/{NODE}", 403, times=100)
    code, out, _ = groundcrew("uncordon", NODE, "a-02")
    assert code == 1
    assert f"{NODE}: not uncordoned" in out
    assert (cordoned(fleet), cordoned(fleet, "a-02")) == (True, False)


@pytest.mark.parametrize("argv", [(), (NODE, "-l", "a=b"), ("no-such-node",)])
def test_wrong_usage_changes_nothing(
    groundcrew: Shell, fleet: Fleet, argv: tuple[str, ...]
) -> None:
    before = fleet.written()
    assert groundcrew("uncordon", *argv)[0] == 2
    assert fleet.written() == before
