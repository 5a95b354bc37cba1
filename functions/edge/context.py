"""What a function is handed, and what it hands back.

A function of the product is ``handle(event, context) -> Outcome``. It keeps nothing between
calls: what it needs it reads through the context, what it did stands in the outcome, on the
node and in the ledger.
"""

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes.client import Cluster
from functions.rules.decision import Decision


@dataclass(frozen=True)
class Settings:
    """What differs between deployments and is no policy. From the environment."""

    namespace: str = "groundcrew-system"
    """Where the ledger, the active policy and the pause stand. GROUNDCREW_NAMESPACE."""
    call_seconds: float = 4.0
    """How long one event-woken call may take before it leaves the rest to the resync: below the
    5 s after which a slow function would hold up the events behind it. GROUNDCREW_CALL_SECONDS."""
    pod_name: str = ""
    pod_node: str = ""
    """Ourselves, by the downward API (POD_NAME, NODE_NAME): our node is drained last."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        return cls(
            namespace=environ.get("GROUNDCREW_NAMESPACE") or cls.namespace,
            call_seconds=float(environ.get("GROUNDCREW_CALL_SECONDS") or cls.call_seconds),
            pod_name=environ.get("POD_NAME", ""),
            pod_node=environ.get("NODE_NAME", ""),
        )


class Context:
    """Everything outside, reached on use: a declined event connects to nothing."""

    def __init__(
        self,
        connect: Callable[[], Cluster],
        clock: Clock | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._connect = connect
        self.clock = clock or SystemClock()
        self.settings = settings or Settings.from_environment()

    @functools.cached_property
    def cluster(self) -> Cluster:
        return self._connect()


@dataclass(frozen=True)
class Answer:
    """The one event that a call may answer with."""

    type: str
    """``dev.groundcrew.nodes.cordoned`` and the like; never the type that woke the function."""
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What one call did."""

    decisions: tuple[Decision, ...] = ()
    answer: Answer | None = None
    look_again: datetime | None = None
    """The earliest time at which the same function has something to do if nothing else happens:
    for the log, and for a simulated clock that skips the ticks in which nothing is due."""
    declined: str = ""
    """Why nothing was done, when nothing was."""
    requests: Mapping[str, int] = field(default_factory=dict)


Handler = Callable[[Any, Context], Outcome]
"""``handle(event: events.cloudevent.CloudEvent, context) -> Outcome``."""
