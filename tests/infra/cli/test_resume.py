"""``groundcrew resume``: a pause ends, and whatever was no pause does too."""

import pytest

from functions.steps import active
from tests.support.fleet import NAMESPACE, Fleet, Shell


@pytest.fixture(autouse=True)
def paused(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.resync()
    groundcrew("pause", "--for", "2h", "--reason", "all of it")
    groundcrew("pause", "--for", "3h", "--reason", "pool a", "--pool", "a")


def test_ends_the_pause_of_the_cluster_and_names_those_that_are_left(
    groundcrew: Shell, fleet: Fleet
) -> None:
    code, out, _ = groundcrew("resume")
    assert code == 0
    assert "resumed: the whole cluster" in out
    assert "all of it" in out
    assert "still paused: pool a" in out
    assert "groundcrew resume --pool a" in out
    assert set(fleet.pauses()) == {"pool.a"}


def test_ends_the_pause_of_one_pool(groundcrew: Shell, fleet: Fleet) -> None:
    out = groundcrew("resume", "--pool", "a")[1]
    assert "resumed: pool a" in out
    assert "still paused: the whole cluster" in out
    assert set(fleet.pauses()) == {"cluster"}


def test_ends_all_of_them(groundcrew: Shell, fleet: Fleet) -> None:
    assert groundcrew("resume", "--all")[0] == 0
    assert fleet.pauses() == {}


def test_pauses_that_are_over_go_with_it(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.pass_time(hours=2, minutes=30)
    out = groundcrew("resume", "--pool", "a")[1]
    assert "still paused" not in out
    assert fleet.pauses() == {}


def test_clears_what_cannot_be_read_and_stops_everything(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.config_map(active.PAUSE_NAME, "pause", {"pool.b": "until tomorrow"})
    assert active.read(groundcrew.cluster, NAMESPACE).paused("a", fleet.now)
    code, out, _ = groundcrew("resume")
    assert code == 0
    assert "'pool.b' that could not be read is gone" in out
    assert not active.read(groundcrew.cluster, NAMESPACE).paused("a", fleet.now)


def test_what_is_not_paused_is_said_and_not_written(groundcrew: Shell, fleet: Fleet) -> None:
    groundcrew("resume", "--all")
    before = fleet.written()
    code, out, _ = groundcrew("resume", "--pool", "b")
    assert (code, fleet.written()) == (0, before)
    assert "pool b was not paused" in out
    assert groundcrew("resume", "--all")[1] == "nothing was paused\n"


def test_where_nobody_ever_paused_there_is_nothing_to_end(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.server.delete("configmaps", NAMESPACE, active.PAUSE_NAME)
    before = fleet.written()
    assert groundcrew("resume")[0] == 0
    assert fleet.written() == before


def test_a_pool_and_all_are_not_asked_for_together(groundcrew: Shell) -> None:
    assert groundcrew("resume", "--all", "--pool", "a")[0] == 2
