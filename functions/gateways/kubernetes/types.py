"""The fields of Kubernetes objects that we read, and no others.

A Node of 9 KB decodes in microseconds this way, and a LIST of 7,500 in a quarter of a second;
the official client's models take 20 to 100 times as long and refuse a whole list for one odd
item. Null equals absent everywhere (Kubernetes omits empty fields, other writers do not), and
names that end in ID or IP are spelled out, since camel-casing them silently misses.
"""

from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

Labels = dict[str, str]


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None

    def label(self, key: str) -> str:
        return (self.labels or {}).get(key, "")

    def annotation(self, key: str) -> str | None:
        return (self.annotations or {}).get(key)

    @property
    def controller(self) -> OwnerReference | None:
        return next((o for o in self.owner_references or () if o.controller), None)


class Taint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    key: str
    effect: str = ""
    value: str = ""
    time_added: str | None = None
    """Kept as text: taints are written back as they were read."""


class NodeCondition(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = "Unknown"
    reason: str | None = ""
    message: str | None = ""
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None


class NodeInfo(msgspec.Struct, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")


class NodeSpec(msgspec.Struct, frozen=True):
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: list[NodeCondition] | None = None
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    node_info: NodeInfo | None = None


class Node(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def provider_id(self) -> str:
        return self.spec.provider_id or ""

    @property
    def boot_id(self) -> str:
        return self.status.node_info.boot_id if self.status.node_info else ""

    @property
    def unschedulable(self) -> bool:
        return bool(self.spec.unschedulable)

    @property
    def ready(self) -> str:
        """What its condition Ready says: True, False or Unknown; empty where nobody said it yet."""
        found = self.condition("Ready")
        return found.status if found else ""

    def condition(self, kind: str) -> NodeCondition | None:
        return next((c for c in self.status.conditions or () if c.type == kind), None)


class Volume(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    empty_dir: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None


class Toleration(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    effect: str = ""
    value: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    termination_grace_period_seconds: int | None = None
    volumes: list[Volume] | None = None
    tolerations: list[Toleration] | None = None
    scheduling_group: dict[str, Any] | None = None


class PodCondition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = ""


class PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    conditions: list[PodCondition] | None = None


class Pod(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None


class LabelSelectorRequirement(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: Labels | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class PodDisruptionBudgetSpec(msgspec.Struct, frozen=True, rename="camel"):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


class PodDisruptionBudget(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    volume_name: str | None = None


class PersistentVolumeClaim(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: ClaimSpec = ClaimSpec()


class VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    local: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None


class PersistentVolume(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: VolumeSpec = VolumeSpec()


class AttachmentSource(msgspec.Struct, frozen=True, rename="camel"):
    persistent_volume_name: str | None = None


class AttachmentSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: AttachmentSpec = AttachmentSpec()


class DaemonSet(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()


class Controller(msgspec.Struct, frozen=True):
    """Of whatever kind: what pods belong to."""

    metadata: Meta = Meta()


class ConfigMap(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    data: dict[str, str] | None = None


class ObjectReference(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str | None = ""


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """A core/v1 Event, as ``kubectl describe`` shows it."""

    metadata: Meta = Meta()
    involved_object: ObjectReference = ObjectReference()
    type: str | None = ""
    reason: str | None = ""
    message: str | None = ""
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    reporting_component: str | None = ""


T = TypeVar("T")


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int = 0
    """Beyond this page; known where nothing was selected."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a LIST."""

    items: list[T] | None = None
    metadata: ListMeta = ListMeta()


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED with the object, BOOKMARK with its
    resourceVersion alone. An ERROR line never gets here: the client raises it."""

    type: str
    object: T
