"""What a function is handed, and what it hands back.

A function of the product is ``handle(event, context) -> Outcome``. It keeps nothing between
calls: what it needs it reads through the context, what it did stands in the outcome, on the
node and in the ledger.
"""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.together import Together
from functions.rules.decision import Decision

if TYPE_CHECKING:
    from functions.gateways.aws.client import Aws


@dataclass(frozen=True)
class Settings:
    """What differs between deployments and is no policy. From the environment."""

    namespace: str = "groundcrew-system"
    """Where the ledger, the active policy and the pause stand. GROUNDCREW_NAMESPACE."""
    call_seconds: float = 4.0
    """How long one event-woken call may take before it leaves the rest to the resync: below the
    5 s after which a slow function would hold up the events behind it. GROUNDCREW_CALL_SECONDS."""
    max_in_flight: int = 14
    """Calls that one process works on at once; the next one is told 429. Below the server's
    THREADS, so that a thread is left to say so. GROUNDCREW_MAX_IN_FLIGHT, or THREADS less two."""
    parallel: int = 8
    """Node patches in flight. One alone gives some 50 a second on a quiet API server, eight about
    130, more gain nothing. 1 makes a replay deterministic. GROUNDCREW_PARALLEL."""
    regions: tuple[str, ...] = ()
    """AWS regions of the cluster's machines, for what is asked of AWS beside a machine's own.
    GROUNDCREW_REGIONS (commas between), else AWS_REGION, which EKS sets in a pod with a role."""
    sender_key: str = field(default="", repr=False)
    """With it our parts sign what they send (`functions.edge.sender`). GROUNDCREW_SENDER_KEY."""
    ingress_token: str = field(default="", repr=False)
    """Who shows it may post raw bodies as one of us. GROUNDCREW_INGRESS_TOKEN."""
    pod_name: str = ""
    pod_node: str = ""
    """Ourselves, by the downward API (POD_NAME, NODE_NAME): our node is drained last."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Raises ValueError that names the variable."""
        threads = max(3.0, _number(environ, "THREADS", cls.max_in_flight + 2))
        return cls(
            namespace=environ.get("GROUNDCREW_NAMESPACE") or cls.namespace,
            call_seconds=_number(environ, "GROUNDCREW_CALL_SECONDS", cls.call_seconds),
            max_in_flight=max(1, int(_number(environ, "GROUNDCREW_MAX_IN_FLIGHT", threads - 2))),
            parallel=int(environ.get("GROUNDCREW_PARALLEL") or cls.parallel),
            regions=tuple(
                filter(
                    None,
                    (environ.get("GROUNDCREW_REGIONS") or environ.get("AWS_REGION", "")).split(","),
                )
            ),
            sender_key=environ.get("GROUNDCREW_SENDER_KEY", ""),
            ingress_token=environ.get("GROUNDCREW_INGRESS_TOKEN", ""),
            pod_name=environ.get("POD_NAME", ""),
            pod_node=environ.get("NODE_NAME", ""),
        )


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not number > 0:
        raise ValueError(f"{name}={text!r} is no number above 0")
    return number


class Context:
    """Everything outside, reached on use: a declined event connects to nothing."""

    def __init__(
        self,
        connect: Callable[[], Cluster],
        clock: Clock | None = None,
        settings: Settings | None = None,
        *,
        aws: "Callable[[], Aws] | None" = None,
        together: Together | None = None,
        handed: object | None = None,
    ) -> None:
        self._connect = connect
        self._aws = aws
        self.together = together or Together()
        """Shared by the calls of one function in one process."""
        self.handed = handed
        """`Outcome.handed` of the call whose answer woke this one, where one process runs both."""
        self.clock = clock or SystemClock()
        self.settings = settings or Settings.from_environment()

    @functools.cached_property
    def cluster(self) -> Cluster:
        return self._connect()

    @functools.cached_property
    def aws(self) -> "Aws":
        from functions.gateways.aws import client

        return self._aws() if self._aws else client.connect(self.clock)

    @property
    def requests(self) -> Mapping[str, int]:
        """What this call has sent to the API server, by verb and resource."""
        return self.cluster.requests if "cluster" in self.__dict__ else {}


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
    reads_all_again: datetime | None = None
    """When it next looks at everything, in case an event was lost; if the cluster has not changed
    by then it finds nothing. Apart from `look_again`, which comes due whatever changes."""
    acts_at: datetime | None = None
    """When it may next act on what another function has last read: for a simulated clock, which
    skips readings that find nothing, but not those that somebody waits for."""
    more: bool = False
    """Its time was over before all was begun: who can wakes it again at once."""
    declined: str = ""
    """Why nothing was done, when nothing was."""
    requests: Mapping[str, int] = field(default_factory=dict)
    handed: object | None = None
    """What whoever hears the answer in this process, in a moment, need not read again
    (`functions.steps.handed`)."""
    unknown: frozenset[str] = frozenset()
    """Machines that the events were about and no node stands for (`Identity.names`): another
    cluster's of the same account, or not registered yet."""


Handler = Callable[[Any, Context], Outcome]
"""``handle(event: events.cloudevent.CloudEvent, context) -> Outcome``."""

Many = Callable[[Sequence[Any], Context], Sequence[Outcome]]
"""``handle_many(events, context)``, of a function that handles many events in one go with fewer
requests than one after another; an outcome for each."""
