"""Who understands which event: one line a source, imported on first use.

To add a source: write ``events/sources/<name>.py`` with ``read(event) -> Reading``, add its line
here, and put recorded events with what they mean beside them in ``events/recorded/<name>/``. One
whose bodies come to ``POST /from/<raw>`` also has ``from_raw(headers, body) -> list[CloudEvent]``,
which gives them the type ``dev.groundcrew.from.<raw>``: the Triggers hear all that begin so.
"""

import functools
import importlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from events import decoding
from events.cloudevent import CloudEvent, check_size
from events.documents import TAKEN
from events.errors import UnknownSource
from events.notice import Reading


class Source(NamedTuple):
    name: str
    types: tuple[str, ...]
    """CloudEvent types that it reads, each exact or, ending in ``*``, by its beginning."""
    kind: str = ""
    """Only events about this kind of Kubernetes object."""
    raw: str = ""
    """``POST /from/<raw>`` takes its bodies, which are no CloudEvents."""

    @property
    def module(self) -> str:
        """Has ``read(event: CloudEvent) -> Reading``."""
        return f"events.sources.{self.name}"


_EC2 = "aws.ec2.EC2"
_SCALING = "aws.autoscaling"
_API_SERVER = ("dev.knative.apiserver.resource.*", "dev.knative.apiserver.ref.*")

SOURCES = (
    Source("aws_health", ("aws.health.*",)),
    Source("ec2_spot", (f"{_EC2} Spot Instance Interruption Warning",)),
    Source("ec2_rebalance", (f"{_EC2} Instance Rebalance Recommendation",)),
    Source("ec2_state", (f"{_EC2} Instance State-change Notification",)),
    Source(
        "ec2_capacity_reservation",
        (
            f"{_EC2} Capacity Reservation Instance Interruption Warning",
            f"{_EC2} Interruptible Capacity Reservation Instance Interruption Warning",
        ),
    ),
    Source(
        "ec2_capacity_block",
        (
            "aws.ec2.Capacity Block Reservation Expiration Warning",
            "aws.ec2.Capacity Block Expiration Warning",
            "aws.ec2.Capacity Block Reservation Delivered",
            "aws.ec2.Capacity Block Delivered",
        ),
    ),
    Source(
        "autoscaling",
        (
            f"{_SCALING}.EC2 Instance-terminate Lifecycle Action",
            f"{_SCALING}.EC2 Instance-launch Lifecycle Action",
            f"{_SCALING}.autoscaling:*",
        ),
    ),
    Source("imds", (f"{TAKEN}imds",), raw="imds"),
    Source("ec2_instance_status", (f"{TAKEN}ec2-instance-status",), raw="ec2-instance-status"),
    Source("aws_poll", (f"{TAKEN}aws-poll",)),
    Source("queue", (f"{TAKEN}queue",)),
    Source(
        "azure_scheduled_events", (f"{TAKEN}azure-scheduled-events",), raw="azure-scheduled-events"
    ),
    Source("gcp_instance", (f"{TAKEN}gcp-instance",), raw="gcp-instance"),
    Source("gcp_metadata", (f"{TAKEN}gcp-metadata",), raw="gcp-metadata"),
    Source("kubernetes_node", _API_SERVER, kind="Node"),
    Source("kubernetes_event", _API_SERVER, kind="Event"),
    Source("alertmanager", ("dev.groundcrew.alertmanager",), raw="alertmanager"),
    Source("returned_hardware", ("dev.groundcrew.hardware.returned",)),
    Source("sns_control", ("aws.sns.SubscriptionConfirmation", "aws.sns.UnsubscribeConfirmation")),
    Source("ping", ("dev.knative.sources.ping",)),
)

# What AWS delivers lies in envelopes of envelopes. Each name takes any of them in any nesting: a
# queue's owner knows that it is a queue, not what somebody will one day put in front of it.
_ENVELOPES = dict.fromkeys(("eventbridge", "lambda", "sns", "sqs"), "events.envelopes")

RAW = {
    **{source.raw: source.module for source in SOURCES if source.raw},
    **_ENVELOPES,
    "kubernetes": "events.sources.kubernetes_node",
}
"""Who makes CloudEvents of the bodies that come to ``POST /from/<name>``. The module has
``from_raw(headers, body) -> list[CloudEvent]``."""


def source_of(event: CloudEvent) -> Source:
    """The source that reads ``event``, by its type alone; nothing is imported.

    Raises `UnknownSource`.
    """
    kind = None
    for source in _readers(event.type):
        if not source.kind:
            return source
        if kind is None:
            kind = _kind(event)
        if source.kind == kind:
            return source
    if kind is not None:
        kinds = ", ".join(source.kind for source in SOURCES if source.kind)
        raise UnknownSource(f"type {event.type!r}: objects of kind {kind!r} are not read ({kinds})")
    known = ", ".join(repr(pattern) for pattern in dict.fromkeys(_known_types()))
    raise UnknownSource(f"type: nobody here reads {event.type!r}; known are {known}")


def read(event: CloudEvent) -> Reading:
    """How ``event`` is understood.

    Raises `UnknownSource` for a type that nobody reads, `MalformedEvent` for data that is not
    what its type says.
    """
    module = importlib.import_module(source_of(event).module)
    reading: Reading = module.read(event)
    return reading


def from_raw(name: str, headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The CloudEvents of a body in a source's own form (``POST /from/<name>``).

    The same body gives the same IDs. Raises `UnknownSource`, `EventTooLarge`, `MalformedEvent`.
    """
    check_raw(name)
    check_size(body)
    decoding.check_json(body, field="body")
    module = importlib.import_module(RAW[name])
    events: list[CloudEvent] = module.from_raw(headers, body)
    return events


def check_raw(name: str) -> None:
    """Raises `UnknownSource` unless ``POST /from/<name>`` is served."""
    if name not in RAW:
        raise UnknownSource(f"source: no {name!r}; known are {', '.join(sorted(RAW))}")


@functools.lru_cache(maxsize=256)
def _readers(kind: str) -> tuple[Source, ...]:
    """Who reads events of that type, if they are about the right kind of object."""
    return tuple(s for s in SOURCES if any(_matches(pattern, kind) for pattern in s.types))


def _matches(pattern: str, kind: str) -> bool:
    return kind.startswith(pattern[:-1]) if pattern[-1] == "*" else kind == pattern


def _known_types() -> list[str]:
    return [pattern for source in SOURCES for pattern in source.types]


class _Object(msgspec.Struct):
    kind: str = ""


_OBJECT = msgspec.json.Decoder(_Object)


def _kind(event: CloudEvent) -> str:
    """The kind of object by the attribute of newer adapters, or by the object's own word."""
    if kind := event.extensions.get("kind"):
        return kind
    return decoding.decode(_OBJECT, event.data).kind
