"""Before a drain changes anything: what is there, what may not be done, and what we may not do.

Everything is read side by side. A refusal found here leaves every node as it was.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import drain_plan, policy
from functions.rules.drain_plan import Step, Verdict
from functions.rules.policy import Drain
from functions.rules.quantities import Duration
from functions.steps import active, cordon_by_hand, owners, preview, read_together, volumes
from functions.steps.cordon_by_hand import Before
from functions.steps.drain_call import Call
from functions.steps.drain_target import Page, Target, kubelet_lost, list_pods
from infra.cli.connect import Refused, Session
from infra.cli.drain_options import Options
from infra.cli.drain_report import Blocker

A = TypeVar("A")
B = TypeVar("B")
AT_ONCE = 16
_FLAGS = {
    "emptyDir": "--delete-emptydir-data evicts it all the same",
    "": "--force evicts it all the same",
}


@dataclass(frozen=True)
class Prepared:
    node: types.Node
    steps: Sequence[Step]
    refused: Sequence[Blocker] = ()
    warnings: Sequence[str] = ()
    """What will be lost that no option is about."""
    listed: Page | None = None
    """Its pods, as they were before the cordon."""
    volumes: frozenset[str] = frozenset()
    """PersistentVolumes of the pods that are to leave."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def cordoned(self) -> Before:
        return cordon_by_hand.before(self.node)


def target_of(node: types.Node, options: Options) -> Target:
    return Target(
        node=node.name,
        uid=node.metadata.uid,
        kubelet_lost=kubelet_lost(node),
        selector=options.pod_selector,
        grace_seconds=options.grace_seconds,
        skip_after=options.skip_after,
    )


def drain_policy(cluster: Cluster, namespace: str, options: Options) -> Drain:
    """How fast, how wide and how long after a warning the policy wants drains; the rest is what
    the options say. A policy that cannot be read counts as the default."""
    text = ""
    try:
        found = cluster.get_config_map(namespace, active.POLICY_NAME)
        text = (found.data or {}).get("policy.json", "")
        drain = policy.parse(text).drain if text else policy.default().drain
    except (errors.ApiError, policy.PolicyError):
        drain = policy.default().drain
    notice = drain.gang_notice
    if options.gang_notice is not None:
        notice = Duration(seconds=options.gang_notice.total_seconds())
    return msgspec.structs.replace(
        drain,
        deadline=None,
        past_deadline="keep",
        before_loss=Duration(0),
        bare_pods="evict" if options.force else "block",
        empty_dir="evict" if options.delete_empty_dir else "block",
        gang_notice=drain.gang_notice
        if notice is None
        else Duration(seconds=notice.total_seconds()),
    )


def read(session: Session, options: Options) -> tuple[Drain, list[types.Node]]:
    """The policy, and the nodes that are meant."""
    cluster, namespace = session.cluster, session.namespace
    if not isinstance(session.clock, SystemClock):
        return drain_policy(cluster, namespace, options), nodes(cluster, options)
    with ThreadPoolExecutor(1) as pool:
        policy_read = pool.submit(drain_policy, cluster, namespace, options)
        found = nodes(cluster, options)
        return policy_read.result(), found


def nodes(cluster: Cluster, options: Options) -> list[types.Node]:
    """Those that are meant. Raises `Refused` when one of them, or all, are missing."""
    if options.selector:
        found = sorted(cluster.list_nodes(options.selector), key=lambda n: n.name)
        if not found:
            raise Refused(f"no node has the labels {options.selector}; nothing was changed")
        return found
    missing: list[str] = []
    found = []
    if read_together.worth(cluster, len(options.nodes)):
        every = {node.name: node for node in cluster.list_nodes()}
        asked = [(name, every.get(name)) for name in options.nodes]
    else:
        asked = side_by_side(options.nodes, lambda name: _get(cluster, name))
    for name, node in asked:
        if node is None:
            missing.append(name)
        else:
            found.append(node)
    if missing:
        raise Refused(
            f"no such node: {', '.join(missing)}; nothing was changed (kubectl get nodes)"
        )
    return found


def prepare(call: Call, found: Sequence[types.Node], options: Options) -> list[Prepared]:
    """The plan of each node, with what the options do not allow."""

    def one(node: types.Node) -> Prepared:
        target = target_of(node, options)
        listed = list_pods(call, target)
        steps = preview.plan(call, target, listed)
        refused = tuple(_refusals(steps, options))
        if refused and not options.dry_run:
            return Prepared(node, steps, refused)
        moved = [s.pod for s in steps if s.verdict is not Verdict.IGNORE and not s.pod.finished]
        mounted = volumes.of(call, moved)
        warned = (*owners.warnings(call, moved), *volumes.warnings(call, moved, mounted))
        return Prepared(node, steps, refused, warned, listed, frozenset(mounted))

    return [prepared for _, prepared in side_by_side(found, one, threads=call.threaded)]


def missing_rights(call: Call, prepared: Sequence[Prepared]) -> list[str]:
    """What we may not do and would have to, asked of the server; nothing is tried."""
    may = call.cluster.can_i
    leave = [s for p in prepared for s in p.steps if s.verdict is not Verdict.IGNORE]
    patched = [p.name for p in prepared if p.cordoned in (Before.FREE, Before.INCIDENT)]
    namespaces = {s.pod.namespace for s in leave if s.pod.gone_by is None}
    gangs = {s.pod.namespace for s in leave if s.verdict is Verdict.HELD}

    def patch_nodes() -> Iterable[str]:
        if patched and not may("patch", "nodes"):
            for name in patched:
                if not may("patch", "nodes", name=name):
                    yield f"patch node {name}"

    def watch_pods() -> Iterable[str]:
        if leave and not may("watch", "pods"):
            yield "watch pods in all namespaces"

    def evict() -> Iterable[str]:
        yield from _in_namespaces(namespaces, "create", "pods", "eviction", may)

    def warn() -> Iterable[str]:
        yield from _in_namespaces(gangs, "patch", "pods", "", may)

    asked = side_by_side((patch_nodes, watch_pods, evict, warn), lambda ask: list(ask()),
                         threads=call.threaded)  # fmt: skip
    return [right for _, rights in asked for right in rights]


def side_by_side(
    items: Iterable[A], act: Callable[[A], B], *, threads: bool = True
) -> list[tuple[A, B]]:
    every = list(items)
    if len(every) <= 1 or not threads:
        return [(item, act(item)) for item in every]
    with ThreadPoolExecutor(min(AT_ONCE, len(every))) as pool:
        return list(zip(every, pool.map(act, every), strict=True))


def _in_namespaces(
    namespaces: set[str], verb: str, resource: str, subresource: str, may: Callable[..., bool]
) -> Iterable[str]:
    if not namespaces or may(verb, resource, subresource=subresource):
        return
    what = f"{resource}/{subresource}" if subresource else resource
    for namespace in sorted(namespaces):
        if not may(verb, resource, subresource=subresource, namespace=namespace):
            yield f"{verb} {what} in namespace {namespace}"


def _get(cluster: Cluster, name: str) -> types.Node | None:
    try:
        return cluster.get_node(name)
    except errors.NotFound:
        return None


def _refusals(steps: Sequence[Step], options: Options) -> Iterable[Blocker]:
    for step in steps:
        pod = step.pod
        if step.verdict is Verdict.BLOCKED and step.ours:
            flag = next(words for word, words in _FLAGS.items() if word in step.why)
            yield Blocker(pod.key, f"{step.why} ({flag})")
        elif not options.ignore_daemon_sets and drain_plan.of_daemon_set(step):
            yield Blocker(
                pod.key, f"is {step.why}, which would make it anew (--ignore-daemonsets leaves it)"
            )
