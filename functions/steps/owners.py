"""Pods whose controller is gone: they are evicted like others, and nobody makes them anew.

The garbage collector deletes such pods in a moment, so there are none as long as it works. It may
stand still, because of one API (of an APIService or a conversion webhook) that does not answer it.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import CONTROLLERS
from functions.rules.drain_plan import Owner, Pod
from functions.steps.drain_call import Call

ONE_BY_ONE = 8
"""Controllers of one kind and namespace that are asked for each by its name; more are listed. A
namespace may hold thousands of finished Jobs, and a node a hundred pods of as many ReplicaSets."""


def warnings(call: Call, pods: Iterable[Pod]) -> list[str]:
    """A sentence for each controller that is gone, with its pods. Kinds that we do not know are
    believed to be there, and so is what we may not read."""
    by_owner: dict[Owner, list[Pod]] = defaultdict(list)
    for pod in pods:
        owner = pod.owner
        if owner and owner.kind in CONTROLLERS and CONTROLLERS[owner.kind][0] == owner.group:
            by_owner[owner].append(pod)
    groups: dict[tuple[str, str], list[Owner]] = defaultdict(list)
    for owner, found in by_owner.items():
        groups[owner.kind, found[0].namespace].append(owner)
    gone: list[Owner] = []
    for (kind, namespace), owners in sorted(groups.items()):
        try:
            gone += _gone(call, kind, namespace, owners)
        except errors.Forbidden:
            continue
    return [_sentence(owner, by_owner[owner]) for owner in gone]


def _gone(call: Call, kind: str, namespace: str, owners: Sequence[Owner]) -> list[Owner]:
    if len(owners) > ONE_BY_ONE:
        ask = functools.partial(call.cluster.list_controllers, kind, namespace)
        there = {c.metadata.uid for c in call.once(("controllers", kind, namespace), ask)}
        return [owner for owner in owners if owner.uid not in there]

    def is_gone(owner: Owner) -> bool:
        ask = functools.partial(call.cluster.get_controller, kind, namespace, owner.name)
        try:
            found = call.once(("controller", kind, namespace, owner.name), ask)
        except errors.NotFound:
            return True
        # A new one of its name owns none of its pods.
        return found.metadata.uid != owner.uid

    answers = call.senders.map(is_gone, owners) if call.senders else map(is_gone, owners)
    return [owner for owner, gone in zip(owners, answers, strict=True) if gone]


def _sentence(owner: Owner, pods: Sequence[Pod]) -> str:
    names = sorted(pod.key for pod in pods)
    if len(names) > 2:
        which = f"{len(names)} pods ({', '.join(names[:2])}, ...) belong"
    else:
        which = f"{' and '.join(names)} {'belong' if len(names) == 2 else 'belongs'}"
    return f"{which} to {owner.kind} {owner.name}, which is gone: nobody makes a new one"
