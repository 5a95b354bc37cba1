"""The names that we write on nodes and pods. One writer for each key, named beside it."""

INCIDENTS = "groundcrew.dev/incidents"
"""Node annotation, written by cordon: the incidents and our marks (`rules.incidents`)."""
STATE = "groundcrew.dev/state"
"""Node label, written by cordon: `State`, to select marked nodes by."""
HELD, DISMISSED, RELEASED = "held", "dismissed", "released"
"""Its values beside the severities: wants more than it may; somebody uncordoned it; only history
is left, of which nothing can come: those nodes are many, and no tick reads them."""
RETURNING = "returning"
"""Only history is left, and what drain wrote: it still has to stop, or to take that off."""
DRAIN = "groundcrew.dev/drain"
"""Node annotation, written by drain: how far it is (`rules.drain_state`)."""
LIFECYCLE = "groundcrew.dev/lifecycle"
"""Node annotation, written by replace: heartbeats and ends of lifecycle hooks (`rules.lifecycle`).
"""
REPLACEMENT = "groundcrew.dev/replacement"
"""Node annotation, written by replace: how far it is with this machine (`rules.replacing`)."""
APPROVED = "groundcrew.dev/replacement-approved"
"""Node annotation, written by people: the provider ID of the machine whose end they agree to,
although its capacity is reserved."""
HANDED_OVER = "groundcrew.dev/handed-over"
"""Node annotation, written by whoever owns the machines: the token of the request they took."""
GPU_UUIDS = "groundcrew.dev/gpu-uuids"
"""Node annotation, written by whoever tests the GPUs: their UUIDs, separated by commas."""
HOST = "groundcrew.dev/host"
"""Node label, written by whoever knows: the physical host that the machine runs on."""
SPARE = "groundcrew.dev/spare"
"""Node label, written by people: ``true`` on a node that is kept idle, to stand in for a machine of
its pool that ends and may not come back."""
CORDONED_BY = "groundcrew.dev/cordoned-by"
"""Node annotation, written by the operator's commands: who took the node out of service
(`rules.claim`)."""

INSTANCE = "groundcrew.dev/instance"
"""Node label, written by cordon's resync: the cloud's instance ID, so that the node of a notice
is found without reading all nodes (a LIST cannot select by provider ID)."""

OPT_OUT = "groundcrew.dev/managed"
"""Node label, written by people: ``false`` keeps every function off the node."""
EXCLUDE_FROM_LOAD_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
"""Kubernetes' own label; goes on and off with our cordon, and only if it was ours."""

EVICT_AFTER = "groundcrew.dev/evict-after"
EVICT_REASON = "groundcrew.dev/evict-reason"
"""Pod annotations, written by drain: a gang's warning. RFC 3339 time, and why."""
READY_TO_EVICT = "groundcrew.dev/ready-to-evict"
"""Pod annotation, written by the workload: ``true`` when it has saved what it needs."""
GANG = "groundcrew.dev/gang"
"""Pod label, written by people or by gangs: pods of one value are of use only together."""
BALLOON = "groundcrew.dev/balloon"
"""Pod label, written by balloons: a placeholder, no workload."""

EVIDENCE = "groundcrew.dev/evidence"
"""Pod and Job label, written by replace, in the namespace `EVIDENCE_NAMESPACE`: it collects what a
machine's failure left, and is no workload."""
EVIDENCE_NAMESPACE = "groundcrew-evidence"

PART = "groundcrew.dev/part"
"""Label of our own ConfigMaps: ``policy``, ``pause``, ``hold``, ``ledger`` or ``evidence``, to read
them all at once."""

TEAM = "openai.com/team"
"""Node taint (or label): the team that the node is of."""

GPU = "nvidia.com/gpu"
GPU_PARTS = ("nvidia.com/mig-", "nvidia.com/gpu.shared")
"""Prefixes of what a device plugin offers in place of `GPU` when it hands GPUs out in parts."""

ZONE = "topology.kubernetes.io/zone"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
