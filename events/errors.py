"""Why an event is refused.

One tree, so that the edge can answer every one of them with 400 and nothing done:

    EventError
    ├── MalformedEvent      the envelope or the body is not what its format says
    ├── EventTooLarge       the body is over the limit
    └── UnknownSource       no source of that name, or none for that event type

An event that is well-formed and needs nothing is not an error: it is a `Reading` without notices.
"""


class EventError(ValueError):
    """The event can never be understood as it is: refused for good, nothing done."""


class MalformedEvent(EventError):
    """A field is missing, empty, or not of the form that the format gives it.

    ``field`` names it the way its sender would look for it (``ce-id``, ``detail.statusCode``);
    ``index`` is the place of the bad event in a batch.
    """

    def __init__(self, field: str, problem: str, *, index: int | None = None) -> None:
        self.field = field
        self.problem = problem
        self.index = index
        where = field if index is None else f"event {index} of the batch: {field}"
        super().__init__(f"{where}: {problem}")

    def at(self, index: int) -> "MalformedEvent":
        """The same refusal, for the event at ``index`` of a batch (counted from 0)."""
        return MalformedEvent(self.field, self.problem, index=index)


class EventTooLarge(EventError):
    """The body is larger than the edge takes (1 MiB, the limit that Knative sets too)."""


class UnknownSource(EventError):
    """Nobody here knows what this event says."""
