"""Warning a gang before its first member is evicted.

Each member, on whatever node it runs, gets `keys.EVICT_AFTER` and `keys.EVICT_REASON`, which the
workload sees through the downward API or a watch. It answers with `keys.READY_TO_EVICT` on each of
its pods, or is not waited for any longer than the notice. What was promised is on the pods, so a
second call, another instance and the drain of another member's node keep to it.
"""

import contextlib
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from functions.gateways.kubernetes import errors
from functions.rules import drain_plan, keys
from functions.rules.drain_plan import Around, Pod
from functions.steps import pods
from functions.steps.drain_call import Call

_LOST = (errors.NotFound, errors.Conflict, errors.TestFailed)
"""The member went, or is another pod by now."""


@dataclass
class Warned:
    notice: dict[str, datetime] = field(default_factory=dict)
    """By gang: from when on its members may go."""
    fresh: list[str] = field(default_factory=list)
    """Gangs that got their first warning just now."""


def warn(
    call: Call,
    node: str,
    on_node: Iterable[Pod],
    *,
    started: datetime,
    notice: timedelta,
    latest: datetime | None,
    reason: str,
) -> Warned:
    """Warn the gangs that have members among ``on_node``.

    ``started`` is when this drain began: a promise from before has nothing to do with it, unless
    it lies ahead. ``latest`` is when they have to go in any case.
    """
    now = call.now()
    gangs = _members(call, node, on_node)
    done = Warned()
    for gang, members in sorted(gangs.items()):
        if len(members) == 1 and not drain_plan.declared(gang):
            done.notice[gang] = now
            continue
        if all(member.ready_to_evict for member in members):
            done.notice[gang] = now
            continue
        promised = [at for m in members if (at := _promise(m)) and at >= min(started, now)]
        until = min(promised, default=_whole(now + notice))
        if latest is not None:
            until = min(until, max(latest, _whole(now)))
        if not promised:
            done.fresh.append(gang)
        late = [m for m in members if (at := _promise(m)) not in promised or at > until]
        _annotate(call, late, _rfc3339(until), reason)
        done.notice[gang] = until
    return done


def withdraw(call: Call, node: str, on_node: Iterable[Pod]) -> None:
    """Take back the warnings of gangs with members among ``on_node``: the drain has stopped."""
    for members in _members(call, node, on_node).values():
        _annotate(call, [m for m in members if m.evict_after is not None], None, None)


def _members(call: Call, node: str, on_node: Iterable[Pod]) -> Mapping[str, list[Pod]]:
    """The live members of the gangs that have some on the node, wherever they run."""
    around = Around(node=node)
    wanted: dict[str, set[str]] = defaultdict(set)
    for pod in on_node:
        gang = drain_plan.gang_of(pod)
        if gang and pod.gone_by is None and not drain_plan.ignored(pod, around):
            wanted[pod.namespace].add(gang)
    members: dict[str, list[Pod]] = defaultdict(list)
    for namespace, gangs in wanted.items():
        listed = call.patiently(functools.partial(call.cluster.list_pods, namespace=namespace))
        for pod in map(pods.pod, listed.items or ()):
            gang = drain_plan.gang_of(pod)
            if gang in gangs and pod.gone_by is None and not drain_plan.ignored(pod, around):
                members[gang].append(pod)
    return members


def _annotate(call: Call, members: Iterable[Pod], until: str | None, reason: str | None) -> None:
    notes = {keys.EVICT_AFTER: until, keys.EVICT_REASON: reason}

    def annotate(pod: Pod) -> None:
        merge = {"metadata": {"uid": pod.uid, "annotations": notes}}
        ask = functools.partial(call.cluster.patch_pod, pod.namespace, pod.name, merge)
        with contextlib.suppress(*_LOST):
            call.patiently(ask)

    # A gang may have hundreds of members.
    for _ in call.senders.map(annotate, members) if call.senders else map(annotate, members):
        pass


def _promise(pod: Pod) -> datetime | None:
    if pod.evict_after is None:
        return None
    try:
        at = datetime.fromisoformat(pod.evict_after)
    except ValueError:
        return None
    return at if at.tzinfo else None


def _whole(at: datetime) -> datetime:
    """Rounded up to a second, which is what an annotation says."""
    return at.replace(microsecond=0) + timedelta(seconds=1 if at.microsecond else 0)


def _rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
