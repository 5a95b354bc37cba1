"""A node as the rules see it: the facts read just now, free of any client's types."""

from collections.abc import Mapping

import msgspec

from functions.rules import keys


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str
    provider_id: str = ""
    boot_id: str = ""
    pool: str = "default"
    labels: Mapping[str, str] = {}
    incidents: str | None = None
    """Text of our annotation, as read: a write tests that it is still this."""
    state: str = ""
    """Our label `keys.STATE`, as read."""
    claim: str | None = None
    """Text of the annotation `keys.CORDONED_BY`, as read."""
    lifecycle: str | None = None
    """Text of the annotation `keys.LIFECYCLE`, as read."""
    drain: str | None = None
    """Text of the annotation `keys.DRAIN`, as read."""
    unschedulable: bool = False
    gpus: int | None = None
    """``status.capacity`` of nvidia.com/gpu; None when the node does not offer any."""
    gpus_allocatable: int | None = None
    sliced: bool = False
    """Its GPUs are handed out in parts (MIG, shared): they cannot be counted."""
    no_annotations: bool = False
    no_labels: bool = False
    """The Node has no such map at all: a JSON Patch must make it first."""

    @property
    def machine(self) -> str:
        """What a hardware incident belongs to: the provider ID, which a machine keeps when it
        registers anew; where a cluster has none, the Node's UID."""
        return self.provider_id or f"uid:{self.uid}"

    @property
    def opted_out(self) -> bool:
        return self.labels.get(keys.OPT_OUT) == "false"

    @property
    def marked(self) -> bool:
        return self.incidents is not None or bool(self.state)
