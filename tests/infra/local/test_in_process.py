"""The functions in one process: what is handled together, what follows, and what wakes them."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from events.cloudevent import CloudEvent
from functions.edge.call import Function
from functions.edge.context import Answer, Context, Outcome, Settings
from functions.edge.sqs_options import Result
from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes.client import Cluster
from infra.local.clock import PING, Ticks
from infra.local.in_process import InProcess, functions
from infra.local.manifests import PingSource
from tests.support.edge import Silent
from tests.support.waiting import eventually

SPOT = "aws.ec2.EC2 Spot Instance Interruption Warning"
CORDONED = "dev.groundcrew.nodes.cordoned"
DRAINED = "dev.groundcrew.nodes.drained"


def event(name: str, kind: str = SPOT) -> CloudEvent:
    return CloudEvent(id=name, source="/test", type=kind, data=b"{}")


class Recorder:
    def __init__(self, answer: Answer | None = None) -> None:
        self.calls: list[list[str]] = []
        self.called = threading.Event()
        self._answer = answer

    def handle(self, event: CloudEvent, context: Context) -> Outcome:
        return self.many([event], context)[0]

    def many(self, events: Sequence[CloudEvent], context: Context) -> list[Outcome]:
        self.calls.append([one.id for one in events])
        self.called.set()
        return [Outcome(answer=self._answer, unknown=frozenset({one.id})) for one in events]


def function(name: str, handle: Callable[..., Outcome], **more: Any) -> Function:
    made = Function(name, handle, lambda: Cluster(Silent()), SystemClock(), Settings())
    return Function(**{**vars(made), **more})


@pytest.fixture(autouse=True)
def _unread(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is in the events is none of this file's business.
    monkeypatch.setattr("functions.edge.call._read", lambda event: None)


def test_events_for_one_function_are_one_call_and_the_answer_goes_on() -> None:
    cordon = Recorder(Answer(CORDONED, {"nodes": [{"node": "n1"}]}))
    drain = Recorder()
    crew = InProcess(
        {
            "cordon": function("cordon", cordon.handle, many=cordon.many),
            "drain": function("drain", drain.handle),
        }
    )
    results = crew.act([event("a"), event("x", "t.of.nobody"), event("b")])
    assert cordon.calls == [["a", "b"]]
    assert [result.done for result in results] == [True] * 3
    assert results[0].unknown == {"a", "b"}
    assert results[1] == Result(204)
    assert drain.called.wait(5.0)
    crew.stop()


def test_what_a_call_hands_over_goes_with_its_answer_and_no_further() -> None:
    got: list[object] = []
    heard = threading.Event()

    def cordon(event: CloudEvent, context: Context) -> Outcome:
        got.append(context.handed)
        answer = Answer(CORDONED, {"nodes": [{"node": event.id}]})
        return Outcome(answer=answer, handed=f"of {event.id}")

    def drain(event: CloudEvent, context: Context) -> Outcome:
        got.append(context.handed)
        heard.set()
        return Outcome(answer=Answer(DRAINED, {"nodes": [{"node": "n1"}]}))

    def replace(event: CloudEvent, context: Context) -> Outcome:
        got.append(context.handed)
        return Outcome()

    made = {"cordon": cordon, "drain": drain, "replace": replace}
    crew = InProcess({name: function(name, handle) for name, handle in made.items()})
    crew.act([event("a")])
    assert heard.wait(5.0)
    crew.stop()
    assert got[:2] == [None, "of a"]
    assert set(got[2:]) == {None}
    got.clear()
    crew.act_and_follow([event("b")])
    assert got[:2] == [None, "of b"]
    assert set(got[2:]) == {None}
    got.clear()
    crew.act_and_follow([event("c"), event("d")])
    assert set(got) == {None}, "of two answers, neither's"


@pytest.mark.parametrize(("seconds", "calls"), [(10.0, 4), (0.0, 1)])
def test_where_nothing_runs_between_calls_what_is_left_is_gone_on_with(
    seconds: float, calls: int
) -> None:
    cordon = Recorder(Answer(CORDONED, {"nodes": [{"node": "n1"}]}))
    heard: list[str] = []

    def drain(event: CloudEvent, context: Context) -> Outcome:
        heard.append(event.type)
        return Outcome(more=len(heard) < 4)

    crew = InProcess(
        {
            "cordon": function("cordon", cordon.handle, many=cordon.many),
            "drain": function("drain", drain),
        }
    )
    assert crew.act_and_follow([event("a")], lambda: seconds) == [
        Result(200, unknown=frozenset({"a"}))
    ]
    assert heard == [CORDONED, *[PING] * (calls - 1)]
    assert len(cordon.calls) == 1


def test_an_api_server_that_is_not_reached_is_said_of_those_it_was_needed_for() -> None:
    def needs_the_cluster(event: CloudEvent, context: Context) -> Outcome:
        context.cluster.get_node("n1")
        return Outcome()

    crew = InProcess({"cordon": function("cordon", needs_the_cluster)})
    one, other = crew.act([event("a"), event("x", "t.of.nobody")])
    assert (one.status, one.retry_after_seconds > 0, other.status) == (503, True, 204)
    assert "cannot be reached" in one.problem


def test_functions_are_woken_by_their_clocks() -> None:
    cordon = Recorder()
    every_second = PingSource("resync-cordon", "ns", "* * * * * *", "UTC", "", "Broker/groundcrew")
    crew = InProcess({"cordon": function("cordon", cordon.handle)}, ticks=Ticks([every_second]))
    crew.start()
    assert cordon.called.wait(5.0)
    crew.stop()


def test_what_the_cloud_says_is_handled_like_an_event() -> None:
    cordon = Recorder()
    found = Answer("dev.groundcrew.from.aws-poll", {"Answers": []})
    crew = InProcess(
        {"cordon": function("cordon", cordon.handle)},
        poll=function("poll", lambda event, context: Outcome(answer=found)),
    )
    crew.poll()
    assert len(cordon.calls) == 1
    InProcess({"cordon": function("cordon", cordon.handle)}).poll()
    assert len(cordon.calls) == 1


def test_a_resync_that_takes_longer_than_its_interval_does_not_run_twice_at_once() -> None:
    go, begun = threading.Event(), []

    def slow(event: CloudEvent, context: Context) -> Outcome:
        begun.append(datetime.now(UTC))
        go.wait(10.0)
        return Outcome()

    every_second = PingSource("resync-cordon", "ns", "* * * * * *", "UTC", "", "Broker/groundcrew")
    crew = InProcess({"cordon": function("cordon", slow)}, ticks=Ticks([every_second]))
    crew.start()
    threading.Event().wait(2.6)
    assert len(begun) == 1
    go.set()
    crew.stop()


def test_all_functions_that_triggers_name_are_there() -> None:
    made = functions(lambda: Cluster(Silent()), Settings())
    assert {"cordon", "drain"} <= set(made)
    assert made["cordon"].many is not None


class Slow:
    """A function that waits, in its first call, until it is told to go on."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.begun, self.go = threading.Event(), threading.Event()

    def handle(self, event: CloudEvent, context: Context) -> Outcome:
        self.calls.append(event.type)
        self.begun.set()
        assert self.go.wait(10.0)
        return Outcome()


def crew_of(drain: Slow, hold: threading.Event) -> InProcess:
    """cordon answers each event, the one called ``held`` not before ``hold``."""

    def handle(event: CloudEvent, context: Context) -> Outcome:
        assert event.id != "held" or hold.wait(10.0)
        return Outcome(answer=Answer(CORDONED, {"nodes": [{"node": event.id}]}))

    made = {"cordon": function("cordon", handle), "drain": function("drain", drain.handle)}
    yearly = PingSource("resync-drain", "ns", "0 0 1 1 *", "UTC", "", "Broker/groundcrew")
    return InProcess(made, ticks=Ticks([yearly]))


def test_what_comes_while_a_function_runs_is_one_more_resync_right_after() -> None:
    drain = Slow()
    crew = crew_of(drain, threading.Event())
    for name in ("a", "b", "c"):
        crew.act([event(name)])
        assert drain.begun.wait(5.0)
    threading.Event().wait(0.1)
    assert drain.calls == [CORDONED]
    drain.go.set()
    eventually(lambda: len(drain.calls) == 2)
    crew.stop()
    assert drain.calls == [CORDONED, PING]


def test_nothing_follows_while_events_are_being_handled() -> None:
    """A pod that leaves must not come up on a node of which the next event says that it goes."""
    drain, hold = Slow(), threading.Event()
    drain.go.set()
    crew = crew_of(drain, hold)
    other = threading.Thread(target=crew.act, args=([event("held")],))
    other.start()
    crew.act([event("a")])
    assert not drain.begun.wait(0.3)
    hold.set()
    assert drain.begun.wait(1.0)
    other.join()
    crew.stop()


def test_what_follows_waits_for_events_not_longer_than_a_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("infra.local.in_process.EVENTS_FIRST_SECONDS", 0.1)
    drain, hold = Slow(), threading.Event()
    drain.go.set()
    crew = crew_of(drain, hold)
    other = threading.Thread(target=crew.act, args=([event("held")],))
    other.start()
    crew.act([event("a")])
    assert drain.begun.wait(5.0)
    hold.set()
    other.join()
    crew.stop()
