"""What is read of a Node object, and nothing else of its 9 KB.

`NodeFacts` decodes straight from the JSON of a Node. `NodeLike` is the same shape as a protocol,
so that a caller who has decoded a Node already does not do it twice.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec


class MetaLike(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str] | None: ...
    @property
    def annotations(self) -> Mapping[str, str] | None: ...


class ConditionLike(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def message(self) -> str | None: ...
    @property
    def last_transition_time(self) -> datetime | None: ...


class TaintLike(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str | None: ...


class SpecLike(Protocol):
    @property
    def provider_id(self) -> str | None: ...
    @property
    def taints(self) -> Sequence[TaintLike] | None: ...


class NodeInfoLike(Protocol):
    @property
    def boot_id(self) -> str: ...


class StatusLike(Protocol):
    @property
    def conditions(self) -> Sequence[ConditionLike] | None: ...
    @property
    def capacity(self) -> Mapping[str, str | int] | Mapping[str, str] | None: ...
    @property
    def allocatable(self) -> Mapping[str, str | int] | Mapping[str, str] | None: ...
    @property
    def node_info(self) -> NodeInfoLike | None: ...


class NodeLike(Protocol):
    @property
    def metadata(self) -> MetaLike: ...
    @property
    def spec(self) -> SpecLike | None: ...
    @property
    def status(self) -> StatusLike | None: ...


class Meta(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class Taint(msgspec.Struct, frozen=True):
    key: str
    value: str | None = None


class Spec(msgspec.Struct, frozen=True):
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    taints: list[Taint] | None = None


class NodeInfo(msgspec.Struct, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")


class Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: list[Condition] | None = None
    capacity: dict[str, str | int] | None = None
    allocatable: dict[str, str | int] | None = None
    node_info: NodeInfo | None = None


class NodeFacts(msgspec.Struct, frozen=True):
    metadata: Meta
    kind: str = "Node"
    spec: Spec | None = None
    status: Status | None = None


DECODER = msgspec.json.Decoder(NodeFacts)
