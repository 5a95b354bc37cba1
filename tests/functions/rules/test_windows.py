"""The last window before it is time, and the deadline where there is none."""

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.rules import windows
from functions.rules.policy import WindowRule

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    """In March 2026, whose first day is a Sunday."""
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


def window(
    *days: Any, opens: str = "20:00", closes: str = "06:00", zone: str = "UTC"
) -> WindowRule:
    return WindowRule(days=list(days), opens=opens, closes=closes, zone=zone)


def test_without_a_window_it_is_when_it_is_time() -> None:
    assert windows.best([], at(12, 9), LONG_AGO) == at(12, 9)


def test_the_last_window_before_it_is_time_is_used_from_its_beginning() -> None:
    assert windows.best([window("sat", "sun")], at(12, 9), LONG_AGO) == at(8, 20)
    several = [window("sat"), window("tue", opens="01:00", closes="03:00")]
    assert windows.best(several, at(12, 9), LONG_AGO) == at(10, 1)


@pytest.mark.parametrize("latest", [at(8, 20), at(9, 2), at(9, 5, 59)])
def test_in_a_window_it_is_when_it_is_time(latest: datetime) -> None:
    assert windows.best([window("sun")], latest, LONG_AGO) == latest


def test_a_window_that_closes_when_it_is_time_is_over() -> None:
    assert windows.best([window("sun")], at(9, 6), LONG_AGO) == at(8, 20)


def test_of_a_window_that_is_open_when_it_is_heard_of_the_rest_is_used() -> None:
    assert windows.best([window("sun")], at(12, 9), at(9, 3)) == at(9, 3)


def test_where_all_windows_are_over_when_it_is_heard_of_the_deadline_holds() -> None:
    assert windows.best([window("sun")], at(12, 9), at(9, 7)) == at(12, 9)


def test_a_window_of_the_same_weekday_a_week_ago_counts() -> None:
    assert windows.best([window("thu")], at(12, 19), LONG_AGO) == at(5, 20)


def test_a_window_is_by_the_teams_own_clock_in_summer_and_winter() -> None:
    """Clocks in Berlin go forward on the 29th, an hour after midnight UTC."""
    rule = window("sat", "mon", opens="20:00", closes="23:00", zone="Europe/Berlin")
    assert windows.best([rule], at(29, 12), LONG_AGO) == at(28, 19)
    assert windows.best([rule], at(31, 12), LONG_AGO) == at(30, 18)
