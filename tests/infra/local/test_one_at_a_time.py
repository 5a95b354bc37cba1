"""One call at a time, and one more for all who came meanwhile."""

from collections.abc import Sequence

import pytest

from events.cloudevent import CloudEvent
from functions.edge.call import Reply
from functions.edge.context import Outcome
from infra.local.one_at_a_time import OneAtATime

EVENT = CloudEvent(id="a", source="/test", type="t", data=b"{}")


def test_who_comes_meanwhile_is_answered_at_once_and_all_of_them_are_one_more() -> None:
    again: list[str] = []
    statuses: list[int] = []

    def call(events: Sequence[CloudEvent]) -> Reply:
        statuses.extend(alone([EVENT]).status for _ in range(3))
        assert again == [], "not before the call is over"
        return Reply(200, event=EVENT)

    alone = OneAtATime(call, lambda: again.append("again"))
    assert alone([EVENT]).event == EVENT
    assert (statuses, again) == ([204] * 3, ["again"])


def test_who_comes_alone_is_the_only_one() -> None:
    again: list[str] = []
    alone = OneAtATime(lambda events: Reply(204), lambda: again.append("again"))
    assert [alone([EVENT]).status for _ in range(2)] == [204, 204]
    assert again == []


def test_what_one_call_had_no_time_for_is_not_left_until_the_clock_comes_round() -> None:
    again: list[str] = []
    replies = iter([Reply(204, outcomes=(Outcome(), Outcome(more=True))), Reply(204)])
    alone = OneAtATime(lambda events: next(replies), lambda: again.append("again"))
    alone([EVENT])
    assert again == ["again"]
    alone([EVENT])
    assert again == ["again"]


def test_after_a_call_that_failed_the_next_one_runs() -> None:
    replies = iter((RuntimeError("a mistake of ours"), Reply(200)))

    def call(events: Sequence[CloudEvent]) -> Reply:
        if isinstance(reply := next(replies), Exception):
            raise reply
        return reply

    alone = OneAtATime(call, lambda: None)
    with pytest.raises(RuntimeError):
        alone([EVENT])
    assert alone([EVENT]).status == 200
