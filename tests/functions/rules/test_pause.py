"""A pause: of the cluster or of one pool, for a time, said with its reason."""

from functions.rules.pause import Pause, key, why
from tests.support.facts import NOW, minutes

UPGRADE = Pause(until=NOW + minutes(10), reason="upgrade", by="ann")


def test_a_pause_of_the_cluster_holds_in_every_pool() -> None:
    for pool in ("a", "b", "cluster"):
        assert why({key(): UPGRADE}, pool, NOW) == "paused until 2026-03-02 09:10Z by ann: upgrade"


def test_a_pause_of_a_pool_holds_in_that_pool_alone() -> None:
    assert why({key("a"): UPGRADE}, "a", NOW)
    assert not why({key("a"): UPGRADE}, "b", NOW)


def test_a_pool_called_cluster_is_not_the_cluster() -> None:
    assert not why({key("cluster"): UPGRADE}, "b", NOW)


def test_it_ends_when_its_time_is_over() -> None:
    assert why({key(): UPGRADE}, "a", NOW + minutes(10) - minutes(1 / 60))
    assert not why({key(): UPGRADE}, "a", NOW + minutes(10))


def test_one_that_is_over_does_not_hide_one_that_holds() -> None:
    over = Pause(until=NOW, reason="done")
    assert "upgrade" in why({key(): over, key("a"): UPGRADE}, "a", NOW)


def test_one_without_a_name_is_told_without_one() -> None:
    assert " by " not in why({key(): Pause(until=NOW + minutes(1), reason="r")}, "a", NOW)
