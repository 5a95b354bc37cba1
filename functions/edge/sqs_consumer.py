"""Takes messages out of an SQS queue and has the events in them handled.

    receivers   several long polls at once, while there is room (`held.Book`)
    workers     hand events on, the most urgent first; some take nothing but what is urgent, so that
                a slow call about something else never holds up an interruption
    keeper      keeps hidden what is here: it waits or is worked on, and must not come twice

A message is deleted only after what it says was handled, with its newest receipt handle. What
becomes of it otherwise:

    busy, or not to be reached     kept here and tried again, for as long as it takes: given back it
                                   would be counted as received, and end as a dead letter
    refused for good, unreadable   left in the queue, whose dead-letter policy has it after some
                                   receptions; what could be read of it was handled
    about machines of others       `Foreign`: left for them, forwarded to their queue, or deleted

Duplicates are harmless: functions read the cluster, and a repeat changes nothing. On `stop` what is
in work is finished, and what waits is given back at once.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from functions.edge import log, sqs_reading
from functions.edge.held import URGENT, Book, Held
from functions.edge.sqs_options import MORE, REFUSED, Act, Counts, Foreign, Options, Result
from functions.gateways.aws import errors
from functions.gateways.aws.queue import Message, Queue, explained

FIRST_WAIT_SECONDS = 0.5
MOST_WAIT_SECONDS = 30.0
TICK_SECONDS = 1.0
EMPTY_SECONDS = 0.1
"""A poll that finds nothing takes this long at least. A long poll does by itself; a short one, or
a proxy that ends polls, would have each receiver ask a thousand times a second, at a price each."""
A_STORM = 3
"""Messages in one poll that are a sign of more. SQS gives what it finds at once, and not always as
many as it may."""
REPEAT_SECONDS = 60.0
"""The same trouble is told of once in this time."""
MOST_TOLD = 100


class Consumer:
    def __init__(
        self,
        queue: Queue,
        act: Act,
        options: Options | None = None,
        *,
        forward_to: Queue | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = Counts()
        self.act, self._queue, self._forward_to = act, queue, forward_to
        self.options = options or Options()
        self._monotonic = monotonic
        self.book = Book(monotonic)
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._told: dict[str, float] = {}
        self._telling = threading.Lock()

    def stop(self) -> None:
        """Ask for the end. May be called by a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        """Until `stop`; then returns when nothing is held any more."""
        options = self.options
        receivers = _threads("receive", options.receivers, self._receive)
        workers = _threads("work", options.workers, lambda: self._work(urgent_only=False))
        workers += _threads("urgent", options.urgent_workers, lambda: self._work(urgent_only=True))
        _threads("keep", 1, self._keep)
        self._stopping.wait()
        ends = self._monotonic() + options.grace_seconds
        # The keeper goes on until the end: what is here stays hidden until it is given back, and
        # that only when nobody receives any more, or our own last polls would have it again.
        self.book.close()
        for thread in (*receivers, *workers):
            thread.join(max(0.0, ends - self._monotonic()))
        # Also what is still in work: it will be done twice, which is harmless, and not late.
        self._ended.set()
        self._give_back([*self.book.idle(), *self.book.in_work()])

    # receivers

    def _receive(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            if not self.book.wait_for_room(TICK_SECONDS):
                continue
            asked = self._monotonic()
            try:
                messages = self._queue.receive(self.options.visibility_seconds)
            except errors.AwsError as problem:
                self._tell(explained(problem, self._queue.url))
                self._stopping.wait(_backoff(failures))
                failures += 1
                continue
            failures = 0
            if not messages:
                self._stopping.wait(asked + EMPTY_SECONDS - self._monotonic())
            if len(messages) >= A_STORM:
                self.book.expect_more()
            for message in messages:
                self._take_in(message, asked + self.options.visibility_seconds)

    def _take_in(self, message: Message, hidden_until: float) -> None:
        self.counts.add("received")
        if self.book.known(message.message_id, message.handle, hidden_until):
            self.counts.add("duplicates")
            return
        held = sqs_reading.read(message, keep_body=self.options.foreign is Foreign.FORWARD)
        held.hidden_until = hidden_until
        if held.refused:
            self.counts.add("unreadable")
        if held.events:
            self.book.add(held)

    # workers

    def _work(self, *, urgent_only: bool) -> None:
        while not self._stopping.is_set():
            helds = self.book.take(self.options.together, TICK_SECONDS, urgent_only=urgent_only)
            if helds:
                with self._held_whatever_comes(helds):
                    self._handle(helds)

    @contextmanager
    def _held_whatever_comes(self, helds: Sequence[Held]) -> Iterator[None]:
        """No mistake of ours ends a worker or loses a message."""
        try:
            yield
        except Exception:  # noqa: BLE001 - the last place
            log.write(
                logging.ERROR,
                "failed in a way nobody thought of; the messages are tried again",
                trace=True,
                messages=[held.message_id for held in helds],
            )
            self.book.put_back(helds, MOST_WAIT_SECONDS)

    def _handle(self, helds: Sequence[Held]) -> None:
        results = iter(self.act([event for held in helds for event in held.events]))
        company = len(helds) > 1
        done: list[Held] = []
        foreign: list[Held] = []
        again: dict[float, list[Held]] = {}
        draw = random.uniform(0.5, 1.0)
        for held in helds:
            mine = [next(results) for _ in held.events]
            worst = next((one for one in mine if not one.done), None)
            if worst is None:
                unknown = frozenset().union(*(one.unknown for one in mine))
                if held.machines & unknown:
                    foreign.append(held)
                elif MORE in unknown and company:
                    # Whether it is among them is not said: by itself it will be.
                    held.alone = True
                    held.attempts -= 1
                    again.setdefault(0.0, []).append(held)
                else:
                    done.append(held)
            elif (wait := self._failed(held, worst, company, draw)) is not None:
                again.setdefault(wait, []).append(held)
        for wait, some in again.items():
            self.book.put_back(some, wait)
        for held in (one for one in done if one.refused):
            self._leave(held)
        self._delete([held for held in done if not held.refused])
        self._settle_foreign(foreign)

    def _failed(self, held: Held, worst: Result, company: bool, draw: float) -> float | None:
        """Seconds until it is tried again; None when it is left to the queue."""
        twice = worst.status == 500 and held.attempts > 0
        if company and (worst.status in REFUSED or twice):
            # Which of them it was is not said: each by itself.
            held.alone = True
            held.attempts -= 1
            return 0.0
        if worst.status in REFUSED or (
            worst.status == 500 and held.attempts + 1 >= self.options.failures
        ):
            log.write(
                logging.WARNING,
                f"refused, and left to the queue's dead-letter policy: {worst.problem}",
                message_id=held.message_id,
                event=[event.id for event in held.events],
                status=worst.status,
            )
            self.counts.add("refused")
            self._leave(held)
            return None
        self._tell(f"not handled yet ({worst.status or 'no answer'}): {worst.problem}")
        return max(worst.retry_after_seconds, _backoff(held.attempts, draw))

    def _settle_foreign(self, helds: Sequence[Held]) -> None:
        match self.options.foreign:
            case Foreign.DELETE:
                self._delete([held for held in helds if not held.refused])
                self.book.drop(helds)
            case Foreign.FORWARD:
                for held in helds:
                    self._forward(held)
            case Foreign.LEAVE:
                for seconds, some in self._by_time_left(helds).items():
                    self._hide(some, seconds)
                self.counts.add("left", len(helds))
                self.book.drop(helds)

    def _by_time_left(self, helds: Sequence[Held]) -> dict[int, list[Held]]:
        """Those that are left to others, by the seconds for which they stay hidden."""
        found: dict[int, list[Held]] = {}
        for held in helds:
            seconds = self.options.left_seconds
            if held.rank != URGENT:
                longer = seconds * 2 ** min(held.receives - 1, 10)
                seconds = min(longer, self.options.left_most_seconds)
            found.setdefault(seconds, []).append(held)
        return found

    def _forward(self, held: Held) -> None:
        if held.forwarded or self._forward_to is None:
            # It would go round between two queues that each send to the other.
            self._tell("forwarded to us, and not ours either: left in the queue")
            self._leave(held)
            return
        try:
            self._forward_to.send(held.body)
        except errors.AwsError as problem:
            self._tell(explained(problem, self._forward_to.url))
            self.book.put_back([held], _backoff(held.attempts))
            return
        self.counts.add("forwarded")
        self._delete([held])

    def _leave(self, held: Held) -> None:
        """It becomes visible when its time is over, and is counted as received once more."""
        self.book.drop([held])

    def _delete(self, helds: Sequence[Held]) -> None:
        if not helds:
            return
        handles = {held.handle: held for held in helds}
        try:
            failed = self._queue.delete(list(handles))
        except errors.AwsError as problem:
            # Handled, and in the queue yet: it comes again, which changes nothing.
            self._tell(explained(problem, self._queue.url))
            failed = list(handles)
        self.counts.add("deleted", len(handles) - len(failed))
        self.book.drop(helds)

    # keeper

    def _keep(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            self.extend()

    def extend(self) -> None:
        """Hide for another while what would soon be visible to others."""
        seconds = self.options.visibility_seconds
        now = self._monotonic()
        soon = self.book.to_hide(now + seconds / 2)
        if soon and self._hide(soon, seconds):
            for held in soon:
                held.hidden_until = max(held.hidden_until, now + seconds)

    def _give_back(self, helds: Sequence[Held]) -> None:
        if helds:
            self._hide(helds, 0)
            self.book.drop(helds)

    def _hide(self, helds: Sequence[Held], seconds: int) -> bool:
        try:
            self._queue.hide([held.handle for held in helds], seconds)
        except errors.AwsError as problem:
            self._tell(explained(problem, self._queue.url))
            return False
        return True

    def _tell(self, text: str) -> None:
        """Once in a while: what lasts for hours must not fill the log."""
        now = self._monotonic()
        with self._telling:
            if now - self._told.get(text, float("-inf")) < REPEAT_SECONDS:
                return
            if len(self._told) > MOST_TOLD:
                self._told.clear()
            self._told[text] = now
        log.write(logging.WARNING, text, queue=self._queue.url)


def _backoff(attempts: int, draw: float | None = None) -> float:
    """Seconds, drawn from the upper half of a bound that doubles; or its share ``draw``."""
    bound = min(MOST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(attempts, 10))
    return bound * (random.uniform(0.5, 1.0) if draw is None else draw)


def _threads(name: str, count: int, run: Callable[[], None]) -> list[threading.Thread]:
    # Daemons: a call that hangs past the grace must not keep the process.
    made = [
        threading.Thread(target=run, name=f"{name}-{place}", daemon=True) for place in range(count)
    ]
    for thread in made:
        thread.start()
    return made
