"""Whose pods are asked to leave next."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from functions.steps.turns import BEGIN_AT_ONCE, Turns

AT_ONCE = 4


def never() -> bool:
    return False


@pytest.fixture
def turns() -> Turns:
    return Turns(AT_ONCE)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(BEGIN_AT_ONCE + 2) as pool:
        yield pool


def waits(future: "Future[Any]") -> bool:
    try:
        future.result(timeout=0.3)
    except TimeoutError:
        return True
    return False


def test_nodes_have_their_turn_in_the_order_in_which_they_asked(
    turns: Turns, threads: ThreadPoolExecutor
) -> None:
    first, second, third = turns.turn(), turns.turn(), turns.turn()
    order: list[str] = []

    def take(name: str, turn: Callable[[], int]) -> None:
        turn()
        order.append(name)

    assert first.take(1, never)
    later = threads.submit(take, "second", lambda: second.take(1, never))
    assert waits(later)
    last = threads.submit(take, "third", lambda: third.take(1, never))
    assert waits(last)
    assert first.take(1, never), "who has the turn keeps it"
    first.give()
    later.result(timeout=2)
    second.give()
    last.result(timeout=2)
    assert order == ["second", "third"]


def test_the_next_node_waits_until_the_server_has_answered(
    turns: Turns, threads: ThreadPoolExecutor
) -> None:
    first, second = turns.turn(), turns.turn()
    assert first.take(AT_ONCE, never)
    for _ in range(AT_ONCE):
        turns.sent()
    first.give()
    later = threads.submit(second.take, 1, never)
    assert waits(later)
    turns.answered(0.5)
    assert later.result(timeout=2)
    assert turns.answer_seconds == 0.5
    assert second.take(1, never) == 1
    turns.answered(1.5)
    assert 0.5 < turns.answer_seconds < 1.5


def test_nobody_waits_for_a_turn_longer_than_it_is_worth(turns: Turns) -> None:
    first, second = turns.turn(), turns.turn()
    assert first.take(1, never)
    over = threading.Event()
    threading.Timer(0.1, over.set).start()
    assert not second.take(1, over.is_set)
    second.give()
    first.give()
    assert second.take(1, never)


def test_no_more_nodes_are_begun_than_the_server_keeps_up_with(
    turns: Turns, threads: ThreadPoolExecutor
) -> None:
    leave = threading.Event()
    begun: list[bool] = []

    def begin() -> bool:
        with turns.beginning(never) as now:
            begun.append(now)
            leave.wait(5)
            return now

    some = [threads.submit(begin) for _ in range(BEGIN_AT_ONCE + 1)]
    assert waits(some[-1])
    assert begun == [True] * BEGIN_AT_ONCE
    leave.set()
    assert all(one.result(timeout=2) for one in some)

    turn = turns.turn()
    assert turn.take(2 * AT_ONCE, never)
    later = threads.submit(begin)
    assert waits(later)
    assert len(begun) == BEGIN_AT_ONCE + 1, "pods of nodes that were begun wait to be asked"
    turn.give()
    assert later.result(timeout=2)


def test_a_node_is_not_begun_when_the_time_is_over(turns: Turns) -> None:
    assert turns.turn().take(2 * AT_ONCE, never)
    with turns.beginning(lambda: True) as begun:
        assert not begun
    with turns.beginning(lambda: True) as begun:
        assert not begun
