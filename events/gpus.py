"""What a node's own count of GPUs says: too few, none, or some that the device plugin gave up on.

``status.capacity`` is what the device plugin found, ``status.allocatable`` what it still hands
out. Only the full devices (``nvidia.com/gpu``) are judged: a node with MIG slices or renamed
shared GPUs is not counted this way.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from events.conditions import gpu_counts
from events.node_facts import NodeLike
from events.notice import Cause, Identity, Kind, Notice, Severity

GPU = "nvidia.com/gpu"
VENDOR = "nvidia.com/"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
PLUGIN_LABELS = ("cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator")
PLUGIN_SWITCH = "nvidia.com/gpu.deploy.device-plugin"
"""Labels of nodes on which a device plugin is meant to run; the switch is the GPU operator's. An
instance type is no such label: where DRA hands out the GPUs there is no device plugin."""

Quantities = Mapping[str, str | int] | Mapping[str, str]


class Finding(NamedTuple):
    check: str
    bad: bool
    severity: Severity
    cause: Cause
    latched: bool
    text: str

    def notice(self, source: str, kind: Kind, identity: Identity) -> Notice:
        return Notice(
            kind=kind,
            severity=self.severity if kind is Kind.FAULT else Severity.WATCH,
            cause=self.cause,
            source=source,
            check=self.check,
            identity=identity,
            latched=self.latched,
            evidence=self.text,
        )


def findings(node: NodeLike, *, good: bool = True) -> Iterator[Finding]:
    """What can be judged of this node's GPUs; nothing for a node without. Not ``good``: only what
    is bad, of which most nodes have nothing."""
    status, labels = node.status, node.metadata.labels or {}
    if status is None:
        return
    there, usable = _count(status.capacity), _count(status.allocatable)
    if not there:
        if _expects_plugin(labels, status.capacity) and _is_ready(node):
            yield _plugin(there)
        return
    if good:
        yield _plugin(there)
    if (expected := gpu_counts().get(labels.get(INSTANCE_TYPE, ""))) and (good or there < expected):
        # A GPU that is missing after boot: the driver never saw it, so that nothing is logged.
        yield Finding(
            "gpu-count", there < expected, Severity.CORDON, Cause.HARDWARE, True,
            f"{there} of {expected} GPUs of a {labels[INSTANCE_TYPE]}",
        )  # fmt: skip
    if usable is not None and (good or usable < there):
        # The device plugin takes a GPU away for almost any XID and until it is restarted, and
        # gives it back then without a test: worth a look, and no more unless an XID backs it.
        yield Finding(
            "gpu-allocatable", usable < there, Severity.WATCH, Cause.UNKNOWN, True,
            f"{usable} of {there} GPUs are handed out",
        )  # fmt: skip


def _plugin(there: int | None) -> Finding:
    # NVIDIA/k8s-device-plugin #1228, #1698: none at all is the plugin, not eight broken GPUs.
    said = "no nvidia.com/gpu" if there is None else f"{there} nvidia.com/gpu"
    return Finding(
        "gpu-plugin", not there, Severity.WATCH, Cause.SOFTWARE, False, f"{said} in capacity"
    )


def _expects_plugin(labels: Mapping[str, str], capacity: Quantities | None) -> bool:
    if any(key.startswith(VENDOR) and key != GPU for key in capacity or ()):
        return False
    if GPU in (capacity or ()):
        return True
    if switch := labels.get(PLUGIN_SWITCH):
        return switch == "true"
    return any(key in labels for key in PLUGIN_LABELS)


def _is_ready(node: NodeLike) -> bool:
    """A node that is still starting, or has lost its kubelet, is not judged by its plugin."""
    said = (node.status.conditions if node.status else None) or ()
    return any(c.type == "Ready" and c.status == "True" for c in said)


def _count(quantities: Quantities | None) -> int | None:
    value = (quantities or {}).get(GPU)
    if value is None or isinstance(value, int):
        return value
    return int(value) if value.isascii() and value.isdigit() else None
