"""Calls of one process that are done by one of them."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from functions.gateways import together as module
from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.errors import KubernetesError
from functions.gateways.together import Together, Turn

SECONDS = 60.0
Does = Callable[[Sequence[int], Turn, float], Sequence[int | KubernetesError]]


class Clock:
    """Stands still unless it is moved."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Work:
    """Doubles numbers; remembers who was done together."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.refuses: dict[int, Exception] = {}

    def __call__(self, asks: Sequence[int], turn: Turn, waited: float) -> list[int]:
        self.batches.append(sorted(asks))
        for ask in asks:
            if ask in self.refuses:
                raise self.refuses[ask]
        return [ask * 2 for ask in asks]


def _at_once(together: Together, work: Does, asks: Sequence[int]) -> list[Future[int]]:
    """Calls that come while another has its turn, and are over when this returns."""
    turn = together.turn()
    assert turn.take(SECONDS)
    with ThreadPoolExecutor(len(asks)) as pool:
        calls = [pool.submit(together.run, ask, work, SECONDS) for ask in asks]
        _until(lambda: together.waiting == len(asks))
        turn.leave()
    return calls


def _until(reached: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < ends
        time.sleep(0.001)


def test_a_call_alone_is_done_alone() -> None:
    work = Work()
    assert Together().run(3, work, SECONDS) == 6
    assert work.batches == [[3]]


def test_those_that_wait_are_done_by_the_first_whose_turn_comes() -> None:
    work = Work()
    calls = _at_once(Together(), work, range(5))
    assert [call.result() for call in calls] == [0, 2, 4, 6, 8]
    assert work.batches == [[0, 1, 2, 3, 4]]


def test_more_than_one_call_can_do_are_done_by_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    work = Work()
    calls = _at_once(Together(), work, range(5))
    assert [call.result() for call in calls] == [0, 2, 4, 6, 8]
    assert sorted(map(len, work.batches)) == [1, 2, 2]


def test_when_the_api_server_is_lost_all_of_them_are_told() -> None:
    work = Work()
    work.refuses[1] = errors.Unreachable("gone")
    for call in _at_once(Together(), work, range(3)):
        assert isinstance(call.exception(), errors.Unreachable)
    assert len(work.batches) == 1


def test_what_one_of_them_breaks_the_others_do_alone() -> None:
    work = Work()
    work.refuses[1] = ZeroDivisionError()
    calls = _at_once(Together(), work, range(3))
    assert isinstance(calls[1].exception(), ZeroDivisionError)
    assert [calls[0].result(), calls[2].result()] == [0, 4]


def test_what_goes_wrong_with_one_of_them_alone_is_told_to_that_one() -> None:
    def work(asks: Sequence[int], turn: Turn, waited: float) -> list[int | KubernetesError]:
        return [errors.Contended("neither done nor kept") if ask == 1 else ask for ask in asks]

    calls = _at_once(Together(), work, range(3))
    assert isinstance(calls[1].exception(), errors.Contended)
    assert [calls[0].result(), calls[2].result()] == [0, 2]


def test_one_that_is_tried_alone_has_waited_all_the_while() -> None:
    clock, heard = Clock(), list[float]()

    def work(asks: Sequence[int], turn: Turn, waited: float) -> list[int]:
        heard.append(waited)
        if len(asks) > 1:
            clock.seconds += 1.5
            raise ZeroDivisionError
        return list(asks)

    for call in _at_once(Together(clock), work, range(2)):
        call.result()
    assert heard == [0.0, 1.5, 1.5]


def test_one_whose_turn_does_not_come_is_not_done_later() -> None:
    together, work = Together(), Work()
    turn = together.turn()
    assert turn.take(SECONDS)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(together.run, 1, work, 0.01)
        assert isinstance(call.exception(), errors.Contended)
    turn.leave()
    assert together.run(2, work, SECONDS) == 4
    assert work.batches == [[2]]


def test_a_turn_that_is_left_early_lets_the_next_begin() -> None:
    together, left, first_is_over = Together(), threading.Event(), threading.Event()

    def slow(asks: Sequence[int], turn: Turn, waited: float) -> list[int]:
        turn.leave()
        left.set()
        assert first_is_over.wait(SECONDS)
        return list(asks)

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(together.run, 1, slow, SECONDS)
        assert left.wait(SECONDS)
        assert together.run(2, Work(), SECONDS) == 4
        assert not call.done()
        first_is_over.set()
        assert call.result() == 1


def test_those_that_are_answered_early_do_not_wait_for_the_rest() -> None:
    together, go_on = Together(), threading.Event()

    def work(asks: Sequence[int], turn: Turn, waited: float) -> list[int]:
        turn.leave()
        turn.answer([ask * 2 for ask in asks])
        assert go_on.wait(SECONDS)
        return [ask * 3 for ask in asks]

    turn = together.turn()
    assert turn.take(SECONDS)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(together.run, ask, work, SECONDS) for ask in range(1, 4)]
        _until(lambda: together.waiting == 3)
        turn.leave()
        _until(lambda: sum(call.done() for call in calls) == 2)
        [ours] = [number for number, call in enumerate(calls, 1) if not call.done()]
        assert [c.result() for n, c in enumerate(calls, 1) if n != ours] == [
            n * 2 for n in range(1, 4) if n != ours
        ]
        go_on.set()
        assert calls[ours - 1].result() == ours * 3


@pytest.mark.parametrize("problem", [errors.Unreachable("gone"), ZeroDivisionError()])
def test_what_fails_after_they_were_answered_is_no_matter_of_theirs(problem: Exception) -> None:
    together = Together()

    def work(asks: Sequence[int], turn: Turn, waited: float) -> list[int]:
        turn.answer([ask * 2 for ask in asks])
        raise problem

    calls = _at_once(together, work, [1, 2, 3])
    failed = [call for call in calls if call.exception()]
    assert len(failed) == 1
    assert sum(call.result() for call in calls if call not in failed) in (6, 8, 10)


def test_it_is_said_how_long_the_oldest_of_them_has_waited() -> None:
    clock, heard = Clock(), list[float]()
    together = Together(clock)

    def work(asks: Sequence[int], turn: Turn, waited: float) -> list[int]:
        heard.append(waited)
        return list(asks)

    turn = together.turn()
    assert turn.take(SECONDS)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(together.run, 1, work, SECONDS)
        _until(lambda: together.waiting == 1)
        clock.seconds += 0.34
        turn.leave()
        call.result()
    assert together.run(2, work, SECONDS) == 2
    assert heard == [0.3, 0.0]
