"""The rate of evictions, as the server sees it."""

import random

import pytest

from functions.gateways.clock import SystemClock
from functions.steps.pace import Pace


class Clock(SystemClock):
    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize("seed", range(20))
def test_no_second_sees_more_whenever_requests_reach_the_server(seed: int) -> None:
    """Each is answered after a while, and reaches the server at any moment before."""
    dice = random.Random(seed)
    clock = Clock()
    pace = Pace(clock, 5)
    under_way: list[float] = []
    reached: list[float] = []
    while len(reached) < 60:
        if not pace.wait():
            sent = clock.seconds
            answered = sent + dice.choice([0.0, 0.01, 0.1, 1.5])
            under_way.append(answered)
            reached.append(dice.choice([sent, answered, dice.uniform(sent, answered)]))
        clock.seconds += dice.choice([0.0, 0.0, 0.01, 0.3])
        while under_way and min(under_way) <= clock.seconds:
            under_way.remove(min(under_way))
            pace.answered()
    reached.sort()
    for first, sixth in zip(reached, reached[5:], strict=False):
        assert sixth - first >= 1.0


def test_all_of_a_second_may_go_at_once_and_the_next_ones_a_second_after_their_answers() -> None:
    clock = Clock()
    pace = Pace(clock, 2)
    assert [pace.wait(), pace.wait()] == [0.0, 0.0]
    assert 0 < pace.wait() < 0.1, "nothing is known until one of them is answered"
    clock.seconds += 0.25
    pace.answered()
    assert pace.wait() == 1.0
    clock.seconds += 0.75
    pace.answered()
    assert pace.wait() == 0.25
    clock.seconds += 0.25
    assert pace.wait() == 0.0
    assert pace.wait() == 0.75
