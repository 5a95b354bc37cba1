"""From a queue to what handles its events: when a message is deleted, and when it is not."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, pairwise
from typing import Any

import pytest

from events import registry
from events.cloudevent import CloudEvent
from functions.edge.sqs_consumer import EMPTY_SECONDS, Consumer
from functions.edge.sqs_options import MORE, Act, Foreign, Options, Result
from functions.gateways.aws import errors
from functions.gateways.aws.queue import Message, Queue
from tests.support import aws as cloud
from tests.support.sqs import MemoryQueue, Time, running
from tests.support.waiting import eventually

OURS, OTHERS = "i-0123456789abcdef0", "i-0fedcba9876543210"


class Handled:
    """Handles events by saying what a test wants it to; remembers whose they were."""

    def __init__(self, *results: Result | Callable[[], Result]) -> None:
        self._results = list(results)
        self.machines: list[str] = []
        self.calls = 0
        self._lock = threading.Lock()

    def __call__(self, events: Sequence[CloudEvent]) -> list[Result]:
        with self._lock:
            self.calls += 1
            for event in events:
                notices = registry.read(event).notices
                self.machines.append(notices[0].identity.instance_id if notices else "")
            result = self._results.pop(0) if len(self._results) > 1 else self._results[0]
        made = result if isinstance(result, Result) else result()
        return [made] * len(events)


DONE = Result(204)


def after(go: threading.Event) -> Callable[[], Result]:
    """Done, when ``go`` is set."""

    def wait() -> Result:
        assert go.wait(20.0)
        return DONE

    return wait


@contextmanager
def consuming(
    queue: Queue, act: Act, options: Options | None = None, **more: Any
) -> Iterator[Consumer]:
    consumer = Consumer(queue, act, options or Options(receivers=2), **more)
    with running(consumer):
        yield consumer


def test_what_was_handled_is_deleted() -> None:
    queue, act = MemoryQueue(cloud.spot(OURS)), Handled(DONE)
    with consuming(queue, act) as consumer:
        eventually(lambda: queue.depth() == (0, 0))
        assert consumer.counts.deleted == 1
    assert act.machines == [OURS]


def test_what_is_being_handled_is_not_deleted_yet() -> None:
    go = threading.Event()
    queue = MemoryQueue(cloud.spot(OURS))
    act = Handled(after(go))
    with consuming(queue, act):
        eventually(lambda: act.calls == 1)
        assert queue.depth() == (0, 1)
        go.set()
        eventually(lambda: queue.depth() == (0, 0))


def test_an_empty_queue_that_answers_at_once_is_not_asked_without_a_pause() -> None:
    asked: list[float] = []

    class Empty(MemoryQueue):
        def receive(self, visibility_seconds: int) -> list[Message]:
            asked.append(time.monotonic())
            return []

    with consuming(Empty(), Handled(DONE), Options(receivers=1)):
        eventually(lambda: len(asked) == 4)
    assert min(b - a for a, b in pairwise(asked)) > EMPTY_SECONDS * 0.9


@pytest.mark.parametrize("status", [0, 429, 502, 503, 404, 403])
def test_what_could_not_be_handled_now_is_tried_again_without_being_received_again(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functions.edge.sqs_consumer.FIRST_WAIT_SECONDS", 0.01)
    queue = MemoryQueue(cloud.spot(OURS), receives=1)
    act = Handled(Result(status, problem="not now"), DONE)
    with consuming(queue, act) as consumer:
        eventually(lambda: queue.depth() == (0, 0))
        assert consumer.counts.received == 1
    assert act.machines == [OURS, OURS]


@pytest.mark.parametrize("body", ["no JSON", cloud.state_change(OURS, "")])
def test_what_cannot_be_read_ends_as_a_dead_letter_and_holds_nobody_up(body: str) -> None:
    clock = Time()
    queue, act = MemoryQueue(body, receives=1, clock=clock), Handled(DONE)
    with consuming(queue, act) as consumer:
        eventually(lambda: consumer.counts.unreadable == 1)
        queue.put(cloud.spot(OURS))
        eventually(lambda: act.machines == [OURS])
        clock.pass_by(Options.visibility_seconds)
        eventually(lambda: queue.dead == [body])


def test_what_is_refused_for_good_is_left_to_the_dead_letter_policy() -> None:
    queue = MemoryQueue(cloud.spot(OURS))
    with consuming(queue, Handled(Result(400, problem="no such thing"))) as consumer:
        eventually(lambda: consumer.counts.refused == 1)
    assert queue.depth() == (0, 1)


def test_what_makes_a_function_fail_is_tried_some_times_and_then_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("functions.edge.sqs_consumer.FIRST_WAIT_SECONDS", 0.01)
    queue, act = MemoryQueue(cloud.spot(OURS)), Handled(Result(500, problem="a mistake of ours"))
    with consuming(queue, act) as consumer:
        eventually(lambda: consumer.counts.refused == 1)
    assert act.calls == 3


def test_behind_a_broker_whose_functions_are_busy_it_is_tried_for_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("functions.edge.sqs_consumer.FIRST_WAIT_SECONDS", 0.0001)
    busy = Result(500, problem="a trigger was not served")
    queue, act = MemoryQueue(cloud.spot(OURS)), Handled(*[busy] * 9, DONE)
    with consuming(queue, act, Options(receivers=1, failures=10)) as consumer:
        eventually(lambda: queue.depth() == (0, 0))
    assert (act.calls, consumer.counts.received) == (10, 1)


def test_one_that_is_refused_in_company_takes_nobody_with_it() -> None:
    queue = MemoryQueue(cloud.spot(OTHERS), cloud.spot(OURS), cloud.spot(OTHERS))

    def act(events: Sequence[CloudEvent]) -> list[Result]:
        told = [registry.read(event).notices[0].identity.instance_id for event in events]
        bad = Result(400, problem="one of them")
        return [bad if OURS in told else DONE] * len(events)

    options = Options(receivers=1, workers=1, urgent_workers=0, together=10)
    with consuming(queue, act, options) as consumer:
        eventually(lambda: consumer.counts.refused == 1 and consumer.counts.deleted == 2)
    assert queue.depth() == (0, 1)


@pytest.mark.parametrize(
    ("fails", "calls"), [(1, [3, 3]), (2, [3, 3, 1, 1, 1]), (3, [3, 3, 1, 1, 1, 1])]
)
def test_what_fails_together_is_tried_together_once_more_and_then_one_by_one(
    fails: int, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functions.edge.sqs_consumer.FIRST_WAIT_SECONDS", 0.01)
    queue = MemoryQueue(*(cloud.spot(f"i-{n:017x}") for n in range(3)))
    sizes: list[int] = []

    def act(events: Sequence[CloudEvent]) -> list[Result]:
        sizes.append(len(events))
        return [Result(500, problem="busy") if len(sizes) <= fails else DONE] * len(events)

    options = Options(receivers=1, workers=1, urgent_workers=0, together=3)
    with consuming(queue, act, options):
        eventually(lambda: queue.depth() == (0, 0))
    assert sizes == calls


def test_a_mistake_of_ours_ends_no_worker_and_loses_no_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("functions.edge.sqs_consumer.MOST_WAIT_SECONDS", 0.01)

    def fail() -> Result:
        raise RuntimeError("nobody thought of this")

    queue, act = MemoryQueue(cloud.spot(OURS)), Handled(fail, DONE)
    with consuming(queue, act, Options(receivers=1, workers=1, urgent_workers=0)):
        eventually(lambda: queue.depth() == (0, 0))
    assert act.calls == 2


def test_an_interruption_overtakes_a_thousand_state_changes() -> None:
    changes = [cloud.state_change(f"i-{n:017x}") for n in range(1000)]
    all_here = threading.Event()
    told: list[bool] = []

    def act(events: Sequence[CloudEvent]) -> list[Result]:
        assert all_here.wait(30.0)
        told.extend(bool(registry.read(event).notices) for event in events)
        return [DONE] * len(events)

    queue = MemoryQueue(*changes, cloud.spot(OURS))
    options = Options(receivers=1, workers=1, urgent_workers=0)
    with consuming(queue, act, options) as consumer:
        eventually(lambda: len(consumer.book) == 1001)
        all_here.set()
        eventually(lambda: True in told)
    assert told.index(True) <= 1, "only what was in work already was before it"


def test_interruptions_that_come_together_are_handled_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One read of the cluster for thirty of them, and not one for each poll's ten."""
    for name in ("MORE_SECONDS", "GATHER_SECONDS"):  # whatever else this machine does meanwhile
        monkeypatch.setattr(f"functions.edge.held.{name}", 20.0)
    act = Handled(DONE)
    spots = [cloud.spot(f"i-{n:017x}") for n in range(30)]
    queue = MemoryQueue(*spots[:10])
    with consuming(queue, act, Options(receivers=1, together=30)) as consumer:
        for start in (10, 20):
            eventually(lambda start=start: consumer.counts.received == start)  # type: ignore[misc]
            time.sleep(0.05)  # long enough for a worker that would not wait
            queue.put(*spots[start : start + 10])
        eventually(lambda: len(act.machines) == 30)
    assert act.calls == 1


def test_what_waits_long_stays_hidden_and_is_deleted_when_it_was_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("functions.edge.sqs_consumer.TICK_SECONDS", 0.01)
    go, clock = threading.Event(), Time()
    queue, act = MemoryQueue(cloud.spot(OURS), clock=clock), Handled(after(go))
    options = Options(receivers=1, workers=1, urgent_workers=0, visibility_seconds=30)
    consumer = Consumer(queue, act, options, monotonic=clock)
    with running(consumer):
        eventually(lambda: act.calls == 1)
        (held,) = consumer.book.in_work()
        for _ in range(4):  # two minutes, by half a visibility more than one each time
            until = clock() + options.visibility_seconds * 1.4
            clock.pass_by(options.visibility_seconds * 0.9)
            eventually(lambda until=until: held.hidden_until > until)  # type: ignore[misc]
            assert queue.depth() == (0, 1)
        go.set()
        eventually(lambda: queue.depth() == (0, 0))
    assert (consumer.counts.received, consumer.counts.deleted) == (1, 1)


def test_a_message_that_is_received_again_while_it_is_handled_is_handled_once() -> None:
    go = threading.Event()
    queue = MemoryQueue(cloud.spot(OURS))
    act = Handled(after(go))
    options = Options(receivers=1, workers=1, urgent_workers=0, visibility_seconds=600)
    with consuming(queue, act, options) as consumer:
        eventually(lambda: act.calls == 1)
        (held,) = consumer.book.in_work()
        first = held.handle
        queue.hide([first], 0)
        eventually(lambda: consumer.counts.duplicates == 1)
        assert held.handle != first
        go.set()
        eventually(lambda: queue.depth() == (0, 0))
    assert act.calls == 1


def test_on_the_end_what_is_in_work_is_finished_and_what_waits_is_given_back() -> None:
    go = threading.Event()
    queue = MemoryQueue(cloud.spot(OURS), cloud.state_change(OTHERS))
    act = Handled(after(go))
    options = Options(receivers=1, workers=1, urgent_workers=0, visibility_seconds=600)
    with consuming(queue, act, options) as consumer:
        eventually(lambda: len(consumer.book.in_work()) == 1 and len(consumer.book.idle()) == 1)
        consumer.stop()
        assert queue.depth() == (0, 2)
        go.set()
    assert queue.depth() == (1, 0)
    assert act.calls == 1


def test_what_hangs_past_the_grace_is_given_back_too() -> None:
    go = threading.Event()
    queue = MemoryQueue(cloud.spot(OURS))
    act = Handled(after(go))
    options = Options(receivers=1, workers=1, visibility_seconds=600, grace_seconds=0.2)
    with consuming(queue, act, options):
        eventually(lambda: act.calls == 1)
    assert queue.depth() == (1, 0)
    go.set()


def test_what_is_about_a_machine_of_others_is_left_for_them() -> None:
    queue = MemoryQueue(cloud.spot(OTHERS), receives=1000)
    options = Options(receivers=1, left_seconds=0)
    with consuming(queue, Handled(Result(204, frozenset({OTHERS}))), options) as consumer:
        eventually(lambda: consumer.counts.left >= 2)
        assert consumer.counts.deleted == 0
    assert sum(queue.depth()) == 1


@pytest.mark.parametrize(
    ("said", "hidden"),
    [(cloud.spot(OTHERS), [20, 20, 20]), (cloud.retirement(OTHERS), [20, 40, 80])],
    ids=["interruption", "retirement"],
)
def test_what_is_left_and_not_urgent_comes_back_less_and_less_often(
    said: str, hidden: list[int]
) -> None:
    clock = Time()
    queue = MemoryQueue(said, receives=1000, clock=clock)
    act = Handled(Result(204, frozenset({OTHERS})))
    with consuming(queue, act, Options(receivers=1, workers=1, urgent_workers=0)) as consumer:
        for place, seconds in enumerate(hidden):
            eventually(lambda place=place: consumer.counts.left == place + 1)  # type: ignore[misc]
            clock.pass_by(seconds - 1)
            assert queue.depth() == (0, 1)
            clock.pass_by(1)
        eventually(lambda: consumer.counts.left == len(hidden) + 1)


def test_or_forwarded_to_their_queue_and_from_there_no_further() -> None:
    queue, theirs = MemoryQueue(cloud.spot(OTHERS)), MemoryQueue()
    options = Options(receivers=1, foreign=Foreign.FORWARD)
    act = Handled(Result(204, frozenset({OTHERS})))
    with consuming(queue, act, options, forward_to=theirs) as consumer:
        eventually(lambda: consumer.counts.forwarded == 1 and queue.depth() == (0, 0))
    assert theirs.depth() == (1, 0)
    with consuming(theirs, act, options, forward_to=queue) as consumer:
        eventually(lambda: act.calls == 2 and not len(consumer.book))
        assert consumer.counts.forwarded == 0
    assert queue.depth() == (0, 0)
    assert sum(theirs.depth()) == 1


def test_or_deleted_where_nobody_else_reads_the_queue() -> None:
    queue = MemoryQueue(cloud.spot(OTHERS))
    options = Options(receivers=1, foreign=Foreign.DELETE)
    with consuming(queue, Handled(Result(204, frozenset({OTHERS}))), options):
        eventually(lambda: queue.depth() == (0, 0))


def test_what_is_about_ours_and_others_is_left_for_the_others_after_it_was_handled() -> None:
    queue = MemoryQueue(cloud.retirement(OURS, OTHERS))
    act = Handled(Result(204, frozenset({OTHERS})))
    with consuming(queue, act) as consumer:
        eventually(lambda: consumer.counts.left == 1)
    assert act.machines == [OURS]
    assert queue.depth() == (0, 1)


def test_of_a_batch_with_a_bad_part_the_good_one_is_handled_and_the_message_left() -> None:
    queue = MemoryQueue(json.dumps([json.loads(cloud.spot(OURS)), {"bad": 1}]))
    act = Handled(DONE)
    with consuming(queue, act) as consumer:
        eventually(lambda: act.calls == 1 and not len(consumer.book))
    assert act.machines == [OURS]
    assert queue.depth() == (0, 1)


class Troubled(MemoryQueue):
    """A queue that refuses half of all calls."""

    def __init__(self, problem: errors.AwsError, *bodies: str, clock: Time) -> None:
        super().__init__(*bodies, receives=1000, clock=clock)
        self._problem, self._calls, self.refused = problem, count(), 0

    def receive(self, visibility_seconds: int) -> list[Message]:
        self._refuse_half()
        return super().receive(visibility_seconds)

    def delete(self, handles: Sequence[str]) -> list[str]:
        self._refuse_half()
        return super().delete(handles)

    def _refuse_half(self) -> None:
        if next(self._calls) % 2 == 0:
            self.refused += 1
            raise self._problem


@pytest.mark.parametrize(
    "problem",
    [
        errors.Throttled("sqs:ReceiveMessage", "RequestThrottled", ""),
        errors.CredentialsExpired("sqs:ReceiveMessage", "ExpiredToken", ""),
        errors.NotFound("sqs:ReceiveMessage", "QueueDoesNotExist", ""),
        errors.Unreachable("sqs:ReceiveMessage: refused"),
    ],
)
def test_a_queue_that_refuses_half_of_all_calls_is_emptied_all_the_same(
    problem: errors.AwsError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("functions.edge.sqs_consumer.FIRST_WAIT_SECONDS", 0.01)
    clock, act = Time(), Handled(DONE)
    queue = Troubled(problem, *(cloud.spot(f"i-{n:017x}") for n in range(20)), clock=clock)
    options = Options(receivers=1, workers=1, urgent_workers=0)

    def emptied() -> bool:
        clock.pass_by(options.visibility_seconds)  # what could not be deleted comes again
        return queue.depth() == (0, 0)

    with caplog.at_level("WARNING", "groundcrew"), consuming(queue, act, options):
        eventually(emptied)
    assert queue.refused > 2
    assert len(set(act.machines)) == 20
    told = [record.getMessage() for record in caplog.records]
    assert told
    assert len(told) == len(set(told)), "the same trouble was told of again and again"


def test_of_many_machines_of_others_none_is_deleted_because_not_all_could_be_named() -> None:
    """What came of a batch names some of them, and says that there are more."""
    theirs = {f"i-{number:017x}" for number in range(4)}
    queue = MemoryQueue(*(cloud.spot(machine) for machine in (*sorted(theirs), OURS)))

    def act(events: Sequence[CloudEvent]) -> list[Result]:
        told = {registry.read(event).notices[0].identity.instance_id for event in events}
        unknown = sorted(told & theirs)
        named = frozenset([*unknown[:1], MORE] if len(unknown) > 1 else unknown)
        return [Result(204, unknown=named)] * len(events)

    consumer = Consumer(queue, act, Options())
    for message in queue.receive(30):
        consumer._take_in(message, float("inf"))
    while len(consumer.book):
        consumer._handle(consumer.book.take(10, 1.0))
    assert (consumer.counts.left, consumer.counts.deleted) == (4, 1)
    assert queue.depth() == (0, 4)
