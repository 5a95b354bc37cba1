"""Which message comes next, and what is kept hidden."""

import threading
from time import monotonic

import pytest

from functions.edge.held import NOTHING, NOTICES, URGENT, Book, Held


class Time:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


def held(name: str, rank: int = NOTHING, **given: float) -> Held:
    made = Held(message_id=name, handle=f"handle of {name}", events=(), rank=rank, size=10)
    made.deadline = given.get("deadline", 0.0)
    made.hidden_until = given.get("hidden_until", 0.0)
    return made


def taken(book: Book, most: int = 10, **given: bool) -> list[str]:
    return [one.message_id for one in book.take(most, 0.0, **given)]


def test_interruptions_come_first_and_the_nearest_deadline_first_of_all(time: Time) -> None:
    book = Book(time)
    for one in (
        held("nothing"),
        held("maintenance", NOTICES),
        held("in a minute", URGENT, deadline=60.0),
        held("at once", URGENT, deadline=5.0),
        held("more of nothing"),
    ):
        book.add(one)
    assert taken(book) == ["at once", "in a minute"]
    assert taken(book) == ["maintenance"]
    assert taken(book) == ["nothing", "more of nothing"]
    assert taken(book) == []


def test_who_takes_only_what_is_urgent_leaves_the_rest(time: Time) -> None:
    book = Book(time)
    book.add(held("nothing"))
    assert taken(book, urgent_only=True) == []
    book.add(held("spot", URGENT))
    assert taken(book, urgent_only=True) == ["spot"]
    assert taken(book) == ["nothing"]


def test_a_lone_interruption_waits_for_no_other(time: Time) -> None:
    book = Book(time)
    book.add(held("spot", URGENT))
    assert taken(book) == ["spot"]


def patience(monkeypatch: pytest.MonkeyPatch, *, more: float, gather: float) -> None:
    monkeypatch.setattr("functions.edge.held.MORE_SECONDS", more)
    monkeypatch.setattr("functions.edge.held.GATHER_SECONDS", gather)


LONG, A_WHILE = 30.0, 10.0
"""Seconds: what nothing should wait for, and what a slow machine may take to show it."""


def test_those_of_the_next_polls_are_taken_together_where_a_poll_was_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience(monkeypatch, more=LONG, gather=LONG)
    book = Book(monotonic)
    book.expect_more()
    book.add(held("first", URGENT))
    later = threading.Timer(0.05, lambda: book.add(held("second", URGENT)))
    later.start()
    assert taken(book, 2) == ["first", "second"]
    later.join()


def test_more_is_not_waited_for_when_not_many_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    patience(monkeypatch, more=LONG, gather=LONG)
    book, began = Book(monotonic), monotonic()
    book.expect_more()
    book.add(held("first", URGENT))
    assert taken(book, 1) == ["first"]
    assert monotonic() - began < A_WHILE


def test_more_is_not_waited_for_when_it_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    patience(monkeypatch, more=0.05, gather=LONG)
    book, began = Book(monotonic), monotonic()
    book.expect_more()
    book.add(held("first", URGENT))
    assert taken(book, 10) == ["first"]
    assert monotonic() - began < A_WHILE


def test_polls_that_are_full_for_ever_hold_an_interruption_only_a_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience(monkeypatch, more=LONG, gather=0.1)
    book, began = Book(monotonic), monotonic()
    book.expect_more()
    book.add(held("spot", URGENT))
    assert taken(book) == ["spot"]
    assert 0.05 < monotonic() - began < A_WHILE


def test_what_is_put_back_comes_again_when_its_time_is_over(time: Time) -> None:
    book = Book(time)
    book.add(held("a"))
    (one,) = book.take(1, 0.0)
    book.put_back([one], 5.0)
    assert taken(book) == []
    time.seconds += 5.0
    assert taken(book) == ["a"]
    assert one.attempts == 1


def test_what_is_to_be_tried_alone_is_given_without_company(time: Time) -> None:
    book = Book(time)
    for name in ("a", "b", "c"):
        book.add(held(name))
    helds = book.take(3, 0.0)
    helds[0].alone = helds[1].alone = True
    book.put_back(helds, 0.0)
    assert [taken(book) for _ in range(3)] == [["a"], ["b"], ["c"]]


def test_a_message_that_is_here_already_gets_its_newest_handle(time: Time) -> None:
    book = Book(time)
    one = held("a")
    assert not book.known("a", "second", 1.0)
    book.add(one)
    assert book.known("a", "second", 150.0)
    assert (one.handle, one.hidden_until) == ("second", 150.0)
    assert taken(book) == ["a"]
    assert taken(book) == []


def test_nothing_more_is_received_while_it_is_full(time: Time) -> None:
    book = Book(time, most_messages=2, most_bytes=1000)
    book.add(held("a"))
    assert book.wait_for_room(0.0)
    book.add(held("b"))
    assert not book.wait_for_room(0.0)
    book.drop(book.take(1, 0.0))
    assert book.wait_for_room(0.0)


def test_large_messages_fill_it_by_their_bytes(time: Time) -> None:
    book = Book(time, most_messages=100, most_bytes=25)
    for name in ("a", "b", "c"):
        assert book.wait_for_room(0.0)
        book.add(held(name))
    assert not book.wait_for_room(0.0)


def test_what_will_soon_be_visible_is_named_whether_it_waits_or_is_worked_on(time: Time) -> None:
    book = Book(time)
    book.add(held("waits", hidden_until=110.0))
    book.add(held("in work", URGENT, hidden_until=110.0))
    book.add(held("later", hidden_until=200.0))
    book.take(1, 0.0)
    assert {one.message_id for one in book.to_hide(120.0)} == {"waits", "in work"}
    assert [one.message_id for one in book.in_work()] == ["in work"]
    assert {one.message_id for one in book.idle()} == {"waits", "later"}


def test_who_waits_for_a_message_is_woken_by_it_and_by_the_end(time: Time) -> None:
    book = Book(time)
    got: list[list[Held]] = []
    waiting = threading.Thread(target=lambda: got.append(book.take(1, 20.0)))
    waiting.start()
    book.add(held("a"))
    waiting.join(5.0)
    assert [one.message_id for one in got[0]] == ["a"]
    waiting = threading.Thread(target=lambda: got.append(book.take(1, 20.0)))
    waiting.start()
    book.close()
    waiting.join(5.0)
    assert got[1] == []
    assert not book.wait_for_room(0.0)
