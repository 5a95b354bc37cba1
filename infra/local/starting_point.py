"""Taking a cluster as the starting point of a history.

Every list is read page by page and written object by object, masked and trimmed, so that a
cluster of thousands of nodes needs no more memory than one page. The file gets its name only when
it is whole.

What tells teams apart is in it as far as the embedded cluster knows of it: labels and taints of
nodes, tolerations and node selectors of pods, labels of namespaces. Quotas are not: nothing that
is played is created anew by a person, who alone could run into one.

Rights: `list` on nodes, namespaces, pods, poddisruptionbudgets, deployments, replicasets,
statefulsets, daemonsets and jobs in the cluster, and on configmaps in groundcrew's namespace.
"""

import contextlib
import gzip
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from functions.gateways.kubernetes.client import Cluster
from functions.rules import keys
from infra.local import history, segments
from infra.local.masking import Masker


class Listed(NamedTuple):
    title: str
    kind: str
    api_version: str
    path: str
    selector: str = ""


LISTS = (
    # What others stand on comes first: a replay reads the file from the top.
    Listed("nodes", "Node", "v1", "/api/v1/nodes"),
    Listed("namespaces", "Namespace", "v1", "/api/v1/namespaces"),
    Listed("config maps of groundcrew", "ConfigMap", "v1",
           "/api/v1/namespaces/{namespace}/configmaps", keys.PART),
    Listed("deployments", "Deployment", "apps/v1", "/apis/apps/v1/deployments"),
    Listed("replica sets", "ReplicaSet", "apps/v1", "/apis/apps/v1/replicasets"),
    Listed("stateful sets", "StatefulSet", "apps/v1", "/apis/apps/v1/statefulsets"),
    Listed("daemon sets", "DaemonSet", "apps/v1", "/apis/apps/v1/daemonsets"),
    Listed("jobs", "Job", "batch/v1", "/apis/batch/v1/jobs"),
    Listed("disruption budgets", "PodDisruptionBudget", "policy/v1",
           "/apis/policy/v1/poddisruptionbudgets"),
    Listed("pods", "Pod", "v1", "/api/v1/pods"),
)  # fmt: skip


@dataclass
class Taken:
    path: Path
    counts: dict[str, int] = field(default_factory=dict)
    """By title of the list."""


def take(
    cluster: Cluster,
    folder: Path,
    masker: Masker,
    now: datetime,
    *,
    namespace: str,
    packed: bool = False,
    progress: Callable[[str, int, bool], None] = lambda title, count, done: None,
) -> Taken:
    """Write ``cluster.json[.gz]`` to ``folder``, in place of the one that is there. ``progress``
    hears how many objects of a list there are by now, and whether that is all.

    Raises an error of `functions.gateways.kubernetes.errors`, and OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (history.CLUSTER + (".gz" if packed else ""))
    half = folder / f"{path.name}.tmp"
    taken = Taken(path)
    try:
        with open(half, "wb", opener=segments.opener) as raw, _packed(raw, packed) as file:
            stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            file.write((history.HEAD % stamp).encode())
            separator = b"\n"
            for one in LISTS:
                count = 0
                for item in _items(cluster, one, namespace):
                    file.write(separator + msgspec.json.encode(_mended(item, masker.object(item))))
                    separator = b",\n"
                    count += 1
                    progress(one.title, count, False)
                taken.counts[one.title] = count
                progress(one.title, count, True)
            file.write(b"\n]}\n")
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    for other in (history.CLUSTER, f"{history.CLUSTER}.gz"):
        if other != path.name:
            (folder / other).unlink(missing_ok=True)
    return taken


def _items(cluster: Cluster, one: Listed, namespace: str) -> Iterator[Mapping[str, Any]]:
    path = one.path.format(namespace=namespace)
    for item in cluster.list_objects(path, one.selector):
        if one.kind == "ReplicaSet" and not (item.get("spec") or {}).get("replicas"):
            continue  # a Deployment keeps ten of the past
        yield {"apiVersion": one.api_version, "kind": one.kind, **item}


@contextlib.contextmanager
def _packed(raw: BinaryIO, packed: bool) -> Iterator[BinaryIO]:
    if packed:
        with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
            yield cast("BinaryIO", file)
    else:
        yield raw
    raw.flush()
    os.fsync(raw.fileno())


def _mended(item: Mapping[str, Any], masked: dict[str, Any]) -> dict[str, Any]:
    """``masked`` with a fingerprint that fits, where ``item`` is a policy whose own did: one whose
    text was masked is not one that somebody edited by hand."""
    before, after = item.get("data") or {}, masked.get("data") or {}
    text = before.get("policy.json")
    if isinstance(text, str) and before.get("sha256") == _hash(text):
        masked = {**masked, "data": {**after, "sha256": _hash(after["policy.json"])}}
    return masked


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
