"""One call of a function: from events to what the caller is told.

The same code stands behind the HTTP server and the local broker, so that an error means the
same to both. What the statuses make Knative's broker do: 400, 404 (from a source's path only),
413 and 415 are refusals for good; 429, 500 and 503 are tried again.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from events import registry
from events.cloudevent import CloudEvent
from events.errors import EventError, EventTooLarge, MalformedEvent, UnknownSource
from functions.edge import answers, log
from functions.edge.context import Context, Handler, Many, Outcome, Settings
from functions.gateways.aws.client import Aws
from functions.gateways.clock import Clock
from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.together import Together

RETRY_AFTER_SECONDS = 2
_TRY_AGAIN = (
    errors.Contended,
    errors.NotConfigured,
    errors.Unreachable,
    errors.ServerError,
    errors.TooManyRequests,
    errors.Unauthorized,
)
_OURS = "dev.groundcrew."


@dataclass(frozen=True)
class Reply:
    """What one call answers: a status, and an event or the reason of a refusal."""

    status: int
    event: CloudEvent | None = None
    """The answer of a 200."""
    problem: Mapping[str, str | int] = field(default_factory=dict)
    """The body of a refusal: ``error``, and where known ``field`` and ``index``."""
    retry_after_seconds: int | None = None
    outcomes: tuple[Outcome, ...] = ()
    """What the function said of each event, in their order. Never sent anywhere."""

    @property
    def unknown(self) -> frozenset[str]:
        """Machines that no node of this cluster stands for."""
        return frozenset().union(*(outcome.unknown for outcome in self.outcomes))

    @property
    def more(self) -> bool:
        """Whether there was no time for all of it (`Outcome.more`)."""
        return any(outcome.more for outcome in self.outcomes)

    @property
    def handed(self) -> object | None:
        """What goes with the answer to a function of the same process. None where the answer is
        that of several outcomes."""
        answering = [outcome for outcome in self.outcomes if outcome.answer]
        return answering[0].handed if len(answering) == 1 else None

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.problem) if self.problem else b""


@dataclass(frozen=True)
class Function:
    """A function of the product with what it needs of the world: ``handle(event, context)``."""

    name: str
    handle: Handler
    connect: Callable[[], Cluster]
    """Called at most once a call, on the first use of the cluster."""
    clock: Clock
    settings: Settings
    aws: Callable[[], Aws] | None = None
    """Called at most once a call, on the first use; by default AWS with the credentials that
    are found here, anew in each call."""
    together: Together = field(default_factory=Together, compare=False)

    many: Many | None = None
    """How several events are handled in one go; by default one after another."""

    def __call__(self, events: Sequence[CloudEvent], handed: object | None = None) -> Reply:
        """Handle ``events`` in their order with one context. Nothing is raised: what goes wrong
        is a status, and a line in the log. ``handed`` is what the call that answered with them
        hands over, where it was one of this process (`Reply.handed`).

        When the API server is lost at one event of a batch the caller is told to send all of
        them again: to handle an event twice changes nothing the second time.
        """
        started = time.perf_counter()
        context = Context(
            self.connect,
            self.clock,
            self.settings,
            aws=self.aws,
            together=self.together,
            handed=handed,
        )
        done: list[Outcome] = []
        batch = len(events) > 1
        at = 0  # the place of the event that a refusal is about
        try:
            if batch:
                for at, event in enumerate(events):  # noqa: B007
                    _read(event)
            if batch and self.many:
                done += self.many(events, context)
            else:
                for at, event in enumerate(events):  # noqa: B007
                    done.append(self.handle(event, context))
            answered = [(e, o.answer) for e, o in zip(events, done, strict=True) if o.answer]
            answer = answers.compose(self.name, answered, self.clock.now())
        except EventError as problem:
            return refuse(self.name, problem, events, index=at if batch else None)
        except _TRY_AGAIN as problem:
            return self._try_again(problem, events)
        except Exception:  # noqa: BLE001 - the last place: whatever it is becomes a 500
            log.write(
                logging.ERROR,
                "failed in a way nobody thought of",
                trace=True,
                function=self.name,
                event=[event.id for event in events],
            )
            return Reply(
                500, problem={"error": "internal error; the log of the function says more"}
            )
        milliseconds = (time.perf_counter() - started) * 1000
        log.outcomes(self.name, events, done, milliseconds, context.requests)
        return Reply(200 if answer else 204, event=answer, outcomes=tuple(done))

    def _try_again(self, problem: errors.KubernetesError, events: Sequence[CloudEvent]) -> Reply:
        wanted = getattr(problem, "retry_after_seconds", None)
        what = "the Kubernetes API server cannot be reached"
        if isinstance(problem, errors.Unauthorized):
            what = "the Kubernetes API server does not know us: is our token still good?"
        log.write(
            logging.WARNING,
            f"to be tried again: {what}: {problem}",
            function=self.name,
            event=[event.id for event in events],
        )
        return Reply(
            503,
            problem={"error": f"{what}; send the event again"},
            retry_after_seconds=int(wanted or RETRY_AFTER_SECONDS),
        )


def _read(event: CloudEvent) -> None:
    """Raise what is wrong with ``event``, so that a batch with a bad one is refused before the
    first is handled. An answer of another function has no source that reads it."""
    try:
        registry.read(event)
    except UnknownSource:
        if not event.type.startswith(_OURS):
            raise


def refuse(
    function: str,
    problem: EventError,
    events: Sequence[CloudEvent] = (),
    *,
    index: int | None = None,
    unknown: int = 400,
) -> Reply:
    """The refusal that ``problem`` is: done nothing, and will never do anything with it.

    ``index`` is the event's place in a batch, where the error does not say. ``unknown`` is the
    status of an `UnknownSource`: 404 where the source is named by the path.
    """
    body: dict[str, str | int] = {"error": str(problem)}
    status = 400
    if isinstance(problem, MalformedEvent):
        body["field"] = problem.field
        index = problem.index if problem.index is not None else index
        status = 415 if problem.field == "content-type" else 400
    elif isinstance(problem, EventTooLarge):
        status = 413
    elif isinstance(problem, UnknownSource):
        status = unknown
    if index is not None:
        body["index"] = index
    log.write(
        logging.WARNING,
        f"refused: {problem}",
        function=function,
        status=status,
        event=[event.id for event in events],
    )
    return Reply(status, problem=body)
