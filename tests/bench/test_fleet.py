"""The days that are played to measure: the same each time, and as quiet as real ones."""

import hashlib

from events import recording
from tests.bench.fleet import NODES, Fleet


def test_the_same_day_comes_out_each_time() -> None:
    one, other = (hashlib.sha256(b"".join(Fleet().lines(1, 3_000))).hexdigest() for _ in range(2))
    assert one == other
    assert len(list(Fleet().objects())) > NODES


def test_of_a_hundred_events_one_needs_something() -> None:
    lines = list(Fleet().lines(1, 8_000))
    needed = sum(bool(recording.understand(recording.load(line)).notices) for line in lines)
    assert len(lines) == 8_000
    assert 0.005 < needed / len(lines) < 0.015
