"""The functions in this process, routed by the project's Triggers and woken by its PingSources, in
real time: what a small cluster runs in place of Knative.

Events come in through `act`. What a function answers goes to the functions that wait for it in
threads of its own, so that whoever brought the event does not wait for a drain.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from events.cloudevent import CloudEvent
from functions import poll as polling
from functions.edge import log
from functions.edge.call import Function, Reply
from functions.edge.context import Settings
from functions.edge.sqs_options import Result
from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes.client import Cluster
from infra.local import manifests
from infra.local.broker import Broker, Delivery
from infra.local.clock import PING, Ticks

FOLLOWING = 4
"""Answers that are passed on at once."""
TICK_SECONDS = 0.5
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
        self._functions = dict(functions)
        self._broker = Broker(functions)
        self._clock = clock or SystemClock()
        self._ticks = ticks or Ticks()
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
        return self._act(events, self._follow)

    def act_and_follow(self, events: Sequence[CloudEvent]) -> list[Result]:
        """The same, where nothing runs between calls (Lambda): what follows has happened when this
        returns."""
        return self._act(events, self.publish)

    def publish(self, event: CloudEvent) -> list[Delivery]:
        """Have ``event`` handled by whoever waits for it, and all that follows from it."""
        deliveries = self._broker.publish(event)
        for delivery in deliveries:
            if delivery.dead:
                log.write(logging.ERROR, f"not taken: {delivery.dead}", event_type=event.type)
        self._broker.dead_letters.clear()
        return deliveries

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
                follow(reply.event)
            for place in taken:
                results[place] = _worse(results[place], _result(reply))
        return results

    def _follow(self, answer: CloudEvent) -> None:
        # Lost with the process, it is found by the resync of whoever waits for it.
        self._following.submit(self.publish, answer)

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
                    running[name] = self._following.submit(self.publish, tick.event)
            if now - polled >= MINUTE and ("poll" not in running or running["poll"].done()):
                polled, running["poll"] = now, self._following.submit(self.poll)
            last = now


def functions(
    connect: Callable[[], Cluster], settings: Settings, clock: Clock | None = None
) -> dict[str, Function]:
    """All functions that the Triggers name, behind ``connect``."""
    made = {}
    for name in dict.fromkeys(trigger.subscriber for trigger in manifests.triggers()):
        module = importlib.import_module(f"functions.{name}")
        made[name] = Function(
            name,
            module.handle,
            connect,
            clock or SystemClock(),
            settings,
            many=getattr(module, "handle_many", None),
        )
    return made


def poll(
    connect: Callable[[], Cluster], settings: Settings, clock: Clock | None = None
) -> Function:
    return Function("poll", polling.handle, connect, clock or SystemClock(), settings)


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
