"""Lengths of time and shares, as people write them."""

from datetime import timedelta

import pytest

from functions.rules.quantities import Duration


@pytest.mark.parametrize(
    ("text", "length"),
    [("90s", timedelta(seconds=90)), ("1h30m", timedelta(minutes=90)), ("7d", timedelta(days=7))],
)
def test_durations_are_as_kubernetes_users_write_them(text: str, length: timedelta) -> None:
    parsed = Duration.parse(text)
    assert parsed == length
    assert Duration.parse(str(parsed)) == length
