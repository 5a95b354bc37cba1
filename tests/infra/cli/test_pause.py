"""``groundcrew pause``: everything but recoveries stops, for a time and with a reason."""

from datetime import timedelta

import pytest

from functions.steps import active
from tests.support.fleet import NAMESPACE, Fleet, Shell, words

PAUSE = ("pause", "--for", "2h", "--reason", "driver roll-out, INC-1")


def test_stops_the_functions_until_the_time_is_over(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    assert groundcrew(*PAUSE)[0] == 0
    fleet.say("a-01")
    assert not fleet.server.get("nodes", "", "a-01")["spec"].get("unschedulable")
    fleet.pass_time(hours=2, minutes=1)
    fleet.resync()
    assert fleet.server.get("nodes", "", "a-01")["spec"]["unschedulable"]


def test_says_what_is_stopped_until_when_and_how_to_end_it(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    code, out, _ = groundcrew(*PAUSE, "--pool", "a")
    assert code == 0
    assert "pool a, 20 nodes, until 2026-03-02 14:00Z (in 2h)" in out
    assert "driver roll-out, INC-1 (by jane)" in out
    assert "cordons, evictions and terminations; recoveries go on" in out
    assert "groundcrew resume --pool a" in out


def test_names_the_drains_that_stop_where_they_are(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    for node in ("a-01", "b-01"):
        fleet.change(
            node,
            lambda n: (
                n["metadata"]["labels"].update({"groundcrew.dev/state": "evict"}),
                n["metadata"]["annotations"].update(
                    {
                        "groundcrew.dev/drain": '{"v":1,"state":"draining",'
                        '"started":"2026-03-02T11:00:00Z","changed":"2026-03-02T11:00:00Z"}'
                    }
                ),
            ),
        )
    out = groundcrew(*PAUSE, "--pool", "a")[1]
    assert "stopped where they are: a-01\n" in out
    assert "a-01, b-01" in groundcrew(*PAUSE)[1]


def test_pauses_of_pools_and_cluster_stand_beside_each_other(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.resync()
    groundcrew(*PAUSE)
    groundcrew(*PAUSE, "--pool", "a")
    assert set(fleet.pauses()) == {"cluster", "pool.a"}


def test_a_second_pause_replaces_the_first_and_says_so(groundcrew: Shell, fleet: Fleet) -> None:
    groundcrew(*PAUSE)
    code, out, _ = groundcrew("pause", "--for", "1h", "--reason", "shorter")
    assert code == 0
    assert "instead  of the one until 2026-03-02 14:00Z: driver roll-out" in out
    assert fleet.pauses()["cluster"].until == fleet.now + timedelta(hours=1)


def test_a_pause_replaces_one_of_the_same_place_that_cannot_be_read(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.config_map(active.PAUSE_NAME, "pause", {"cluster": "until tomorrow"})
    assert groundcrew(*PAUSE)[0] == 0
    assert fleet.pauses()["cluster"].reason == "driver roll-out, INC-1"


def test_pauses_that_are_over_are_cleared_away(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    groundcrew("pause", "--pool", "a", "--for", "1m", "--reason", "short")
    fleet.pass_time(minutes=2)
    groundcrew(*PAUSE)
    assert set(fleet.pauses()) == {"cluster"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--for", "2h"), "--reason"),
        (("--for", "2h", "--reason", "  "), "say why"),
        (("--reason", "x"), "--for"),
        (("--for", "2 hours", "--reason", "x"), "no duration; write 90s"),
        (("--for", "0s", "--reason", "x"), "not between"),
        (("--for", "31d", "--reason", "x"), "not between 1s and 30d"),
    ],
)
def test_wrong_usage_writes_nothing(
    groundcrew: Shell, fleet: Fleet, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = groundcrew("pause", *arguments)
    assert code == 2
    assert said in err
    assert fleet.pauses() == {}


def test_a_pool_that_nobody_knows_is_refused_with_those_that_there_are(
    groundcrew: Shell, fleet: Fleet
) -> None:
    # A pause of a pool that is spelled wrong would stop nothing, and nobody would notice.
    fleet.resync()
    code, _, err = groundcrew(*PAUSE, "--pool", "A")
    assert code == 2
    assert "there are: a, b" in err
    assert fleet.pauses() == {}


def test_a_config_map_that_lost_its_label_is_found_by_the_functions_again(
    groundcrew: Shell, fleet: Fleet
) -> None:
    fleet.config_map(active.PAUSE_NAME, "", {})
    assert groundcrew(*PAUSE)[0] == 0
    assert active.read(groundcrew.cluster, NAMESPACE).paused("a", fleet.now)


def test_keeps_a_pause_that_cannot_be_read_as_it_is(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.config_map(active.PAUSE_NAME, "pause", {"pool.b": "until tomorrow"})
    assert groundcrew(*PAUSE)[0] == 0
    assert fleet.data(active.PAUSE_NAME)["pool.b"] == "until tomorrow"


def test_a_pause_without_a_time_zone_is_one_that_cannot_be_read(
    groundcrew: Shell, fleet: Fleet
) -> None:
    naive = '{"until": "2026-03-02T18:00:00", "reason": "by hand"}'
    fleet.config_map(active.PAUSE_NAME, "pause", {"cluster": naive})
    fleet.say("a-01")
    assert not fleet.server.get("nodes", "", "a-01")["spec"].get("unschedulable")
    assert "groundcrew resume" in words(groundcrew("status")[1])


def test_a_missing_namespace_is_named_with_the_next_step(groundcrew: Shell) -> None:
    code, _, err = groundcrew(*PAUSE, "-n", "elsewhere")
    assert code == 2
    assert "kubectl create namespace elsewhere" in err
