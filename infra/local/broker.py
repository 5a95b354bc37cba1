"""The laptop's Knative broker: offers each event to the triggers whose filters it matches.

Two of one interface, `publish`:

- `Broker` calls the functions in process, one after another, on whatever clock it is given:
  the replay. It goes through the same code as the HTTP edge (`functions.edge.call`), so that
  an error is the same status here and there.
- `HttpBroker` posts to function servers, with a queue for each trigger and a thread for each
  event that is under way there, so that calls which hang delay no other event. Like Knative's it
  keeps no order.

What is tried again, how often and after which wait was measured on Knative's own broker with an
in-memory channel: no answer, 404, 408, 409, 429 and 5xx are tried again; every other refusal,
400 above all, is not. Retry-After is not heeded. What is given up becomes a dead letter; those
are kept here, where a cluster without a dead letter sink drops them.
"""

import functools
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from events.cloudevent import CloudEvent
from functions.edge.call import Reply
from functions.gateways.clock import Clock, SystemClock
from infra.local import manifests
from infra.local.manifests import Trigger

HOPS = 16
"""How often an answer may be answered. Knative allows 255, which a loop reaches at full speed."""
IN_PARALLEL = 16
"""Events of one trigger that `HttpBroker` has under way at once: two more than a function takes
(`functions.edge.context.Settings.max_in_flight`), so that it is the function which says "busy"."""
NO_ANSWER = 0
"""The status of an attempt that nobody answered: refused, reset, timed out."""

logger = logging.getLogger("groundcrew.broker")

Call = Callable[[Sequence[CloudEvent]], Reply]
"""A function, or what stands before it."""

Deliver = Callable[[Trigger, CloudEvent], Reply]
"""One attempt. Status `NO_ANSWER` when there was none; raises nothing."""


@dataclass(frozen=True)
class Delivery:
    """What became of one event at one trigger."""

    trigger: str
    subscriber: str
    event: CloudEvent
    reply: Reply
    """The last attempt's."""
    attempts: int
    dead: str = ""
    """Why it was given up; empty when it was taken."""


class Broker:
    """In process and in order: when `publish` returns, everything that follows from the event
    has happened, answers to answers included."""

    def __init__(
        self,
        functions: Mapping[str, Call],
        *,
        triggers: Sequence[Trigger] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``functions`` by name, those whose triggers are served: others' triggers are left
        out. ``triggers`` are those of the project's manifests unless given."""
        self._functions = dict(functions)
        chosen = manifests.triggers() if triggers is None else triggers
        self.triggers = [trigger for trigger in chosen if trigger.subscriber in self._functions]
        self._clock = clock or SystemClock()
        self.dead_letters: list[Delivery] = []

    def publish(self, event: CloudEvent) -> list[Delivery]:
        """Deliver ``event`` and what follows from it; the deliveries in their order."""
        deliveries: list[Delivery] = []
        waiting = deque([(event, HOPS)])
        while waiting:
            current, hops = waiting.popleft()
            for trigger in self.triggers:
                if not trigger.takes(current):
                    continue
                delivery = _offer(trigger, current, self._call, self._clock.sleep, hops)
                deliveries.append(delivery)
                if delivery.dead:
                    self.dead_letters.append(delivery)
                elif delivery.reply.event:
                    waiting.append((delivery.reply.event, hops - 1))
        return deliveries

    def _call(self, trigger: Trigger, event: CloudEvent) -> Reply:
        return self._functions[trigger.subscriber]([event])


class HttpBroker:
    """Posts to function servers. `publish` only puts the event into the queues of its triggers;
    ``on_delivery`` hears what became of it, in one of the trigger's threads."""

    def __init__(
        self,
        urls: Mapping[str, str],
        *,
        triggers: Sequence[Trigger] | None = None,
        clock: Clock | None = None,
        on_delivery: Callable[[Delivery], None] = lambda delivery: None,
        deliver: Deliver | None = None,
    ) -> None:
        """``urls`` by function, ``http://127.0.0.1:8081``. ``deliver`` is how one attempt is
        made, `post` unless given."""
        chosen = manifests.triggers() if triggers is None else triggers
        self.triggers = [trigger for trigger in chosen if trigger.subscriber in urls]
        self.dead_letters: list[Delivery] = []
        self._deliver = deliver or (lambda trigger, event: post(urls, trigger, event))
        self._clock = clock or SystemClock()
        self._on_delivery = on_delivery
        self._open = 0
        self._idle = threading.Condition()
        self._lanes = {
            trigger.name: _Lane(trigger.name, functools.partial(self._serve, trigger))
            for trigger in self.triggers
        }

    def publish(self, event: CloudEvent) -> list[Delivery]:
        """Queue ``event`` for each trigger that takes it. Nothing is delivered yet: the list is
        empty, and there for those who are given either broker."""
        self._put(event, HOPS)
        return []

    def wait_until_idle(self, timeout_seconds: float) -> bool:
        """Whether everything published, and all that followed, was settled within that time."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._open, timeout_seconds)

    def close(self) -> None:
        """Take nothing more. A delivery that is under way may end after this returns."""
        for lane in self._lanes.values():
            lane.close()

    def _put(self, event: CloudEvent, hops: int) -> None:
        for trigger in self.triggers:
            if trigger.takes(event):
                with self._idle:
                    self._open += 1
                self._lanes[trigger.name].put(event, hops)

    def _serve(self, trigger: Trigger, event: CloudEvent, hops: int) -> None:
        try:
            delivery = _offer(trigger, event, self._deliver, self._clock.sleep, hops)
            if delivery.dead:
                self.dead_letters.append(delivery)
            elif delivery.reply.event:
                self._put(delivery.reply.event, hops - 1)
            self._on_delivery(delivery)
        except Exception:
            # A mistake of ours, or of who listens: the lane's thread has other events to serve.
            logger.exception("%s: the delivery of %s went wrong", trigger.name, event.id)
        finally:
            with self._idle:
                self._open -= 1
                self._idle.notify_all()


class _Lane:
    """One trigger's queue and its threads: begun when an event finds none free, then kept."""

    def __init__(self, name: str, serve: Callable[[CloudEvent, int], None]) -> None:
        self._name = name
        self._serve = serve
        self._waiting: queue.SimpleQueue[tuple[CloudEvent, int] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unserved = 0
        """Events that wait or are under way."""

    def put(self, event: CloudEvent, hops: int) -> None:
        with self._lock:
            self._unserved += 1
            begin = self._threads < min(self._unserved, IN_PARALLEL)
            self._threads += begin
        self._waiting.put((event, hops))
        if begin:
            name = f"trigger {self._name}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def close(self) -> None:
        with self._lock:
            for _ in range(self._threads):
                self._waiting.put(None)

    def _run(self) -> None:
        while item := self._waiting.get():
            self._serve(*item)
            with self._lock:
                self._unserved -= 1


@functools.cache
def _connections() -> Any:
    """Kept open, as many to one function as may be called at once: urllib3's own pool keeps one,
    and warns of each that it drops."""
    import urllib3

    return urllib3.PoolManager(maxsize=IN_PARALLEL)


def post(urls: Mapping[str, str], trigger: Trigger, event: CloudEvent) -> Reply:
    """One attempt over HTTP, in binary mode, as Knative's filter makes it."""
    import urllib3

    from events import cloudevent
    from events.errors import EventError
    from functions.edge import answers

    headers, body = answers.to_http(event)
    timeout = trigger.delivery.timeout.total_seconds() if trigger.delivery.timeout else None
    try:
        response = _connections().request(
            "POST",
            urls[trigger.subscriber],
            body=body,
            headers={**headers, "Prefer": "reply"},
            timeout=urllib3.Timeout(total=timeout),
            retries=False,
            redirect=False,
        )
    except urllib3.exceptions.HTTPError as problem:
        return Reply(NO_ANSWER, problem={"error": str(problem)})
    if not 200 <= response.status < 300:
        return Reply(
            response.status, problem={"error": response.data[:500].decode(errors="replace")}
        )
    if not response.data and "ce-specversion" not in response.headers:
        return Reply(response.status)
    try:
        (answer,) = cloudevent.parse(dict(response.headers.items()), response.data)
    except (EventError, ValueError) as problem:
        # Knative's filter answers 502 to it, and so tries again: the function ran, and runs again.
        return Reply(502, problem={"error": f"answered with a body that is no event: {problem}"})
    return Reply(response.status, event=answer)


def _offer(
    trigger: Trigger,
    event: CloudEvent,
    deliver: Deliver,
    sleep: Callable[[float], None],
    hops: int,
) -> Delivery:
    """Offer ``event`` to ``trigger`` until it is taken, refused, or no retry is left."""
    attempts = 0
    while True:
        reply = deliver(trigger, event)
        attempts += 1
        if not _again(reply.status) or attempts > trigger.delivery.retries:
            break
        sleep(trigger.delivery.wait_before(attempts))
    dead = ""
    if not 200 <= reply.status < 300:
        dead = f"{reply.status or 'no answer'}: {reply.problem.get('error', 'no reason given')}"
    elif reply.event and trigger.takes(reply.event):
        dead = f"a loop: the answer {reply.event.type} matches the trigger that it comes from"
    elif reply.event and not hops:
        dead = f"a loop: answers were answered more than {HOPS} times"
    if dead:
        logger.error("dead letter: %s %s at %s: %s", event.type, event.id, trigger.name, dead)
    return Delivery(trigger.name, trigger.subscriber, event, reply, attempts, dead)


def _again(status: int) -> bool:
    return status in (NO_ANSWER, 404, 408, 409, 429) or status >= 500
