"""The resources that the embedded cluster serves, as discovery tells them."""

from collections.abc import Mapping
from dataclasses import dataclass

ALL_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, eq=False)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    generation: bool = False
    """metadata.generation counts changes of the spec."""
    answers_deleted: bool = False
    """DELETE answers with the object rather than with a Status."""
    unconditional_update: bool = True
    """PUT without a resourceVersion is taken."""
    create_on_update: bool = False
    """PUT to a name that is not there makes the object."""
    stored: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As error messages name it: ``poddisruptionbudgets.policy``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


NODES = Resource("", "v1", "nodes", "Node", False, ("no",), ("status",))
PODS = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    short=("po",),
    subresources=("status", "eviction", "binding"),
    generation=True,
    answers_deleted=True,
)
NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", False, ("ns",), ("status",), answers_deleted=True
)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", short=("cm",))
EVENTS = Resource("", "v1", "events", "Event", short=("ev",), create_on_update=True)
PDBS = Resource(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    short=("pdb",),
    subresources=("status",),
    generation=True,
    unconditional_update=False,
)
LEASES = Resource(
    "coordination.k8s.io",
    "v1",
    "leases",
    "Lease",
    unconditional_update=False,
    create_on_update=True,
)
DEPLOYMENTS = Resource(
    "apps",
    "v1",
    "deployments",
    "Deployment",
    short=("deploy",),
    subresources=("status",),
    generation=True,
)
REPLICA_SETS = Resource(
    "apps",
    "v1",
    "replicasets",
    "ReplicaSet",
    short=("rs",),
    subresources=("status",),
    generation=True,
)
STATEFUL_SETS = Resource(
    "apps",
    "v1",
    "statefulsets",
    "StatefulSet",
    short=("sts",),
    subresources=("status",),
    generation=True,
)
DAEMON_SETS = Resource(
    "apps",
    "v1",
    "daemonsets",
    "DaemonSet",
    short=("ds",),
    subresources=("status",),
    generation=True,
)
JOBS = Resource("batch", "v1", "jobs", "Job", subresources=("status",), generation=True)
VOLUME_CLAIMS = Resource(
    "",
    "v1",
    "persistentvolumeclaims",
    "PersistentVolumeClaim",
    short=("pvc",),
    subresources=("status",),
)
VOLUMES = Resource(
    "",
    "v1",
    "persistentvolumes",
    "PersistentVolume",
    namespaced=False,
    short=("pv",),
    subresources=("status",),
)
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False
)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
    stored=False,
)

RESOURCES = (
    NODES,
    PODS,
    NAMESPACES,
    CONFIG_MAPS,
    EVENTS,
    PDBS,
    LEASES,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    VOLUME_CLAIMS,
    VOLUMES,
    VOLUME_ATTACHMENTS,
    ACCESS_REVIEWS,
)

BY_PATH: Mapping[tuple[str, str, str], Resource] = {
    (one.group, one.version, one.plural): one for one in RESOURCES
}
BY_KIND: Mapping[tuple[str, str], Resource] = {
    (one.api_version, one.kind): one for one in RESOURCES
}


def resource_named(kind: str) -> Resource:
    """By kind, plural or short name (``Pod``, ``pods``, ``po``)."""
    for one in RESOURCES:
        if kind in (one.kind, one.plural, one.kind.lower(), *one.short):
            return one
    raise KeyError(f"the embedded cluster serves no {kind!r}")
