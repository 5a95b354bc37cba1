"""The volumes of pods that are moved: which of them stay on the node, and which are still attached.

A volume that is still attached to the old node cannot be mounted on the new one, so a machine that
is drained should not be taken away before (Karpenter and Cluster API wait for it, too). Only the
volumes of pods that we moved count: those of DaemonSets stay attached, and are nobody's wait.
"""

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from functions.gateways.kubernetes import errors
from functions.rules.drain_plan import Pod
from functions.steps.drain_call import Call


def of(call: Call, pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """The PersistentVolumes behind the claims of ``pods``, and whose they are. Empty where we may
    not list claims: then nobody waits for them."""
    claims: dict[str, dict[str, list[Pod]]] = defaultdict(lambda: defaultdict(list))
    for pod in pods:
        for claim in pod.claims:
            claims[pod.namespace][claim].append(pod)
    volumes: dict[str, list[Pod]] = defaultdict(list)
    for namespace, wanted in sorted(claims.items()):
        try:
            ask = functools.partial(call.cluster.list_claims, namespace)
            found = call.once(("claims", namespace), ask)
        except errors.Forbidden:
            continue
        for bound in found:
            if bound.spec.volume_name and bound.metadata.name in wanted:
                volumes[bound.spec.volume_name] += wanted[bound.metadata.name]
    return dict(volumes)


def local(call: Call, volumes: Iterable[str]) -> set[str]:
    """Those that are a directory or disk of one node: their data does not move with the pod."""

    def is_local(name: str) -> bool:
        try:
            ask = functools.partial(call.cluster.get_volume, name)
            spec = call.once(("volume", name), ask).spec
        except (errors.Forbidden, errors.NotFound):
            return False
        return spec.local is not None or spec.host_path is not None

    names = sorted(volumes)
    answers = call.senders.map(is_local, names) if call.senders else map(is_local, names)
    return {name for name, yes in zip(names, answers, strict=True) if yes}


def attached(call: Call, node: str, volumes: Collection[str]) -> list[str]:
    """Those of ``volumes`` that are still attached to ``node``; none where we may not look."""
    if not volumes:
        return []
    try:
        found = call.patiently(call.cluster.list_attachments)
    except errors.Forbidden:
        return []
    here = [a.spec.source.persistent_volume_name for a in found if a.spec.node_name == node]
    return sorted({name for name in here if name in volumes and name})


def warnings(call: Call, pods: Iterable[Pod], volumes: Mapping[str, list[Pod]]) -> list[str]:
    """What pods leave behind on the node, in sentences."""
    said = [
        f"{pod.key} keeps data on the node (hostPath {', '.join(pod.host_paths)})"
        for pod in pods
        if pod.host_paths
    ]
    for name in sorted(local(call, volumes)):
        said += [f"{pod.key} keeps data on the node (local volume {name})" for pod in volumes[name]]
    return said
