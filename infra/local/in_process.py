"""The functions in this process, routed by the project's Triggers and woken by its PingSources, in
real time: what a small cluster runs in place of Knative.

Events come in through `act`. What a function answers goes to the functions that wait for it in
threads of its own, so that whoever brought the event does not wait for a drain. What follows waits
a little for events that are being handled: pods that leave before all nodes that will go are out of
service may come up on one of these.
"""

import functools
import importlib
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from events.cloudevent import CloudEvent
from functions import poll as polling
from functions.edge import log
from functions.edge.call import Function, Reply
from functions.edge.context import Settings
from functions.edge.sqs_options import Result
from functions.gateways.aws import client as aws_client
from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes.client import Cluster
from infra.local import manifests
from infra.local.broker import Broker, Call, Delivery
from infra.local.clock import PING, Ticks
from infra.local.one_at_a_time import OneAtATime

FOLLOWING = 4
"""Answers that are passed on at once."""
TICK_SECONDS = 0.5
EVENTS_FIRST_SECONDS = 2.0
"""How long what follows waits at most for events that are being handled."""
MINUTE = timedelta(minutes=1)


class InProcess:
    def __init__(
        self,
        functions: Mapping[str, Function],
        *,
        clock: Clock | None = None,
        ticks: Ticks | None = None,
        poll: Function | None = None,
    ) -> None:
        """``poll`` asks the cloud each minute what no event told (`functions.poll`)."""
        self._poll = poll
        self._functions = {
            name: functools.partial(self._call, one) for name, one in functions.items()
        }
        self._handed: dict[str, object] = {}
        """By the ID of an answer that is under way, what goes with it (`Reply.handed`)."""
        self._broker = Broker(self._functions)
        self._clock = clock or SystemClock()
        self._ticks = ticks or Ticks()
        self._behind = Broker(self._one_at_a_time())
        self._handling = 0
        self._handled = threading.Condition()
        self._following = ThreadPoolExecutor(FOLLOWING, thread_name_prefix="follow")
        self._stopping = threading.Event()
        self._pings = threading.Thread(target=self._tick, name="ticks", daemon=True)

    def start(self) -> None:
        """Wake the functions by their clocks from now on."""
        self._pings.start()

    def stop(self) -> None:
        """Returns when no function runs any more."""
        self._stopping.set()
        if self._pings.is_alive():
            self._pings.join()
        self._following.shutdown(cancel_futures=True)

    def act(self, events: Sequence[CloudEvent]) -> list[Result]:
        """Have ``events`` handled, all of them in one call of each function; a result for each.
        What follows from the answers goes on when this has returned."""
        with self._handled:
            self._handling += 1
        try:
            return self._act(events, self._follow)
        finally:
            with self._handled:
                self._handling -= 1
                self._handled.notify_all()

    def act_and_follow(
        self, events: Sequence[CloudEvent], left: Callable[[], float] = lambda: 0.0
    ) -> list[Result]:
        """The same, where nothing runs between calls (Lambda): what follows has happened when this
        returns, and whoever had no time for all of it was woken again while there are seconds
        ``left``."""
        behind: list[Delivery] = []
        results = self._act(events, lambda event: behind.extend(self.publish(event)))
        while left() > 0 and (names := {one.subscriber for one in behind if one.reply.more}):
            behind = [again for tick in self._ticks_of(names) for again in self.publish(tick)]
        return results

    def publish(self, event: CloudEvent) -> list[Delivery]:
        """Have ``event`` handled by whoever waits for it, and all that follows from it."""
        return _published(self._broker, event)

    def poll(self) -> None:
        """Ask the cloud, and have handled what it says; whatever goes wrong is in the log, and the
        next minute asks again."""
        if self._poll is None:
            return
        now = self._clock.now()
        tick = CloudEvent(
            id=f"poll-{now.isoformat()}", source="/pingsources/poll", type=PING, data=b"{}"
        )
        if found := self._poll([tick]).event:
            self.act_and_follow([found])

    def _act(
        self, events: Sequence[CloudEvent], follow: Callable[[CloudEvent], object]
    ) -> list[Result]:
        results = [Result(204)] * len(events)
        for trigger in self._broker.triggers:
            taken = [place for place, event in enumerate(events) if trigger.takes(event)]
            if not taken:
                continue
            reply = self._functions[trigger.subscriber]([events[place] for place in taken])
            if reply.event:
                if reply.handed is not None:
                    self._handed[reply.event.id] = reply.handed
                follow(reply.event)
            for place in taken:
                results[place] = _worse(results[place], _result(reply))
        return results

    def _follow(self, answer: CloudEvent) -> None:
        # Lost with the process, it is found by the resync of whoever waits for it.
        self._following.submit(self._publish_behind, answer)

    def _publish_behind(self, event: CloudEvent) -> None:
        with self._handled:
            self._handled.wait_for(lambda: not self._handling, EVENTS_FIRST_SECONDS)
        _published(self._behind, event)
        self._handed.pop(event.id, None)

    def _call(self, function: Function, events: Sequence[CloudEvent]) -> Reply:
        handed = self._handed.pop(events[0].id, None) if events else None
        return function(events) if handed is None else function(events, handed)

    def _ticks_of(self, names: Collection[str]) -> list[CloudEvent]:
        """A tick for each of these functions, now."""
        now = self._clock.now()
        made = [self._ticks.out_of_turn(one.name, now).event for one in self._ticks.sources]
        return [
            tick
            for tick in made
            if any(t.subscriber in names and t.takes(tick) for t in self._broker.triggers)
        ]

    def _one_at_a_time(self) -> Mapping[str, Call]:
        made: dict[str, Call] = dict(self._functions)
        for source in self._ticks.sources:
            tick = self._ticks.out_of_turn(source.name, self._clock.now()).event
            for name in {t.subscriber for t in self._broker.triggers if t.takes(tick)}:
                again = functools.partial(self._resync, source.name)
                made[name] = OneAtATime(self._functions[name], again)
        return made

    def _resync(self, source: str) -> None:
        if not self._stopping.is_set():
            tick = self._ticks.out_of_turn(source, self._clock.now())
            self._following.submit(self._publish_behind, tick.event)

    def _tick(self) -> None:
        last = self._clock.now()
        running: dict[str, Future[Any]] = {}
        polled = last
        while not self._stopping.wait(TICK_SECONDS):
            now = self._clock.now()
            # A resync that takes longer than its interval misses ticks, and they are not made up
            # for: the next one reads all that this one would have.
            due = {tick.source.name: tick for tick in self._ticks.due(last, now)}
            for name, tick in due.items():
                if name not in running or running[name].done():
                    running[name] = self._following.submit(_published, self._behind, tick.event)
            if now - polled >= MINUTE and ("poll" not in running or running["poll"].done()):
                polled, running["poll"] = now, self._following.submit(self.poll)
            last = now


def functions(
    connect: Callable[[], Cluster], settings: Settings, clock: Clock | None = None
) -> dict[str, Function]:
    """All functions that the Triggers name, behind ``connect``."""
    made = {}
    # Clients take half a second to make, and keep their connections and credentials.
    aws = functools.cache(aws_client.connect)
    for name in dict.fromkeys(trigger.subscriber for trigger in manifests.triggers()):
        module = importlib.import_module(f"functions.{name}")
        made[name] = Function(
            name,
            module.handle,
            connect,
            clock or SystemClock(),
            settings,
            aws,
            many=getattr(module, "handle_many", None),
        )
    return made


def poll(
    connect: Callable[[], Cluster], settings: Settings, clock: Clock | None = None
) -> Function:
    aws = functools.cache(aws_client.connect)
    return Function("poll", polling.handle, connect, clock or SystemClock(), settings, aws)


def _published(broker: Broker, event: CloudEvent) -> list[Delivery]:
    deliveries = broker.publish(event)
    for delivery in deliveries:
        if delivery.dead:
            log.write(logging.ERROR, f"not taken: {delivery.dead}", event_type=event.type)
    broker.dead_letters.clear()
    return deliveries


def _result(reply: Reply) -> Result:
    return Result(
        reply.status,
        unknown=reply.unknown,
        problem=str(reply.problem.get("error", "")),
        retry_after_seconds=float(reply.retry_after_seconds or 0),
    )


def _worse(one: Result, other: Result) -> Result:
    if one.done and other.done:
        return other._replace(unknown=one.unknown | other.unknown)
    return other if one.done else one
