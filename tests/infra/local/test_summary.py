"""What a play comes to, in words."""

from datetime import timedelta

import pytest

from infra.local.summary import span


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(days=3, hours=4, minutes=5), "3 d 4 h"),
        (timedelta(days=3, seconds=1), "3 d"),
        (timedelta(seconds=40), "40 s"),
        (timedelta(0), "0 s"),
    ],
)
def test_a_length_is_told_in_its_two_largest_units(length: timedelta, words: str) -> None:
    assert span(length) == words
