"""drain: empties nodes that are out of service, through the eviction API.

Woken by ``nodes.cordoned`` of severity evict, and by a clock (resync). A maintenance window that
draws near and an interruption reach it as that severity, which cordon gives the node. Answers
``nodes.drained`` or, when what blocks has changed, ``drain.blocked``.

May write: the annotation ``groundcrew.dev/drain``, evictions, at a deadline that the policy sets
deletions, the warnings on the pods of a gang, Events. Never: cordons or uncordons, touches a
DaemonSet, mirror or balloon pod, evicts from a node that is not cordoned by our mark.

Each call does what it can in its time; the pods and the annotation hold all that the next one
needs, so two instances on one node do no harm and a crash loses nothing. A drained node costs a
read now and then, and no write.
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import msgspec

from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from functions.edge.context import Answer, Context, Outcome
from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import drain_order, draining, keys
from functions.rules.decision import Action, Decision
from functions.rules.drain_times import TICK
from functions.rules.draining import NodeFacts
from functions.rules.policy import default as default_policy
from functions.steps import active, drain_mark, drain_nodes, mark
from functions.steps.active import Active
from functions.steps.drain_call import Call
from functions.steps.drain_nodes import Done
from functions.steps.handed import Handed
from functions.steps.pace import Pace
from functions.steps.tell import tell

log = logging.getLogger(__name__)

PING = "dev.knative.sources.ping"
CORDONED = "dev.groundcrew.nodes.cordoned"
DRAINED = "dev.groundcrew.nodes.drained"
BLOCKED = "dev.groundcrew.drain.blocked"

MOST_IN_ANSWER = 100
MOST_TAKEN_OFF = 30
"""Annotations of nodes that are back in service, in one call; the others are for the next."""
WRITING_SECONDS = 0.6
"""Kept back from the call's time for writing down what came of it."""
TAKING_OFF_SECONDS = 0.3
"""What there is for that in any case, so that drains which use up each call do not put it off for
ever."""

decide = draining.decide


def handle(event: CloudEvent, context: Context) -> Outcome:
    if event.type == PING:
        return drain(context)
    if event.type == CORDONED:
        said = _said(event)
        named = frozenset(n.node for n in said.nodes if n.severity == "evict")
        if not named:
            return Outcome(declined="none of these nodes is to be emptied")
        now = context.clock.now()
        urgent = any(drain_order.is_soon(n.deadline, now) for n in said.nodes)
        if said.cordoned_lately >= drain_order.MANY and not urgent:
            # What would come of reading the cluster, in a storm that leaves no time for it.
            why = drain_order.waits(said.cordoned_lately)
            return Outcome(declined=f"no drain is begun yet: {why}", look_again=now + TICK)
        return drain(context, named)
    return Outcome(declined=f"drain has nothing to do with {event.type}")


def drain(context: Context, named: frozenset[str] = frozenset()) -> Outcome:
    """Go on with every drain that is due; with the nodes that an event ``named`` alone, if one
    did. What is true is read from the cluster either way."""
    cluster, settings = context.cluster, context.settings
    read_at = context.clock.monotonic()
    ends = read_at + settings.call_seconds
    if given := _given(context, named):
        marked, read_at = dict(given.nodes), given.at
    else:
        marked = {n.name: n for n in cluster.list_nodes(mark.UNSETTLED) if _concerns(n)}
    seen = [_facts(n) for n in marked.values()]
    given_back = [marked.pop(f.view.name) for f in seen if draining.is_leftover(f)]
    due = [f for f in seen if f.view.name in marked]
    try:
        glance = decide(due, default_policy().drain, _now(context), named)
        if any(d.action is not Action.NOTHING for d in glance):
            in_force = given.in_force if given else active.read(cluster, settings.namespace)
            outcome = _go_on(context, marked, named, in_force, read_at)
        else:
            # The usual tick: one request.
            looks = [d.look_again for d in glance if d.look_again]
            outcome = Outcome(
                declined=_nothing_due(glance, given_back), look_again=min(looks, default=None)
            )
    finally:
        # Last, since the drains are what cannot wait; and whatever has come of them.
        _take_off(context, given_back, ends)
    return replace(outcome, requests=dict(cluster.requests))


def _given(context: Context, named: frozenset[str]) -> Handed | None:
    """What need not be read, since it was a moment ago: all ``named`` nodes, if the machine of each
    goes in minutes, so that nothing else decides about its turn."""
    handed = context.handed
    if not isinstance(handed, Handed) or not handed.is_fresh(context.clock.monotonic()):
        return None
    nodes, now = handed.of(named), _now(context)
    if not nodes or not all(
        drain_order.is_urgent(_facts(node).view, now) for node in nodes.values()
    ):
        return None
    return replace(handed, nodes=nodes)


def _go_on(
    context: Context,
    marked: Mapping[str, types.Node],
    named: frozenset[str],
    in_force: Active,
    read_at: float,
) -> Outcome:
    cluster, settings = context.cluster, context.settings
    seconds = max(0.5, settings.call_seconds - WRITING_SECONDS)
    policy, now = in_force.policy, _now(context)
    rate = policy.drain.evictions_per_second
    # Calls of this process that come beside this one have no rate of their own.
    pace = context.together.share(("pace", rate), lambda: Pace(context.clock, rate))
    with Call(cluster, context.clock, policy.drain, seconds, settings.namespace, pace=pace) as call:
        facts = _read(context, marked, in_force, now)
        decisions = decide(list(facts.values()), policy.drain, now, named)
        if named:
            decisions = [d for d in decisions if d.node in named]
        done = drain_nodes.carry_out(call, policy, marked, facts, decisions, read_at)
    uids = {name: node.metadata.uid for name, node in marked.items()}
    news = [d for one in done for d in one.news]
    tell(cluster, news, uids, _now(context), settings.parallel)
    said = [d for one in done for d in one.decisions]
    return Outcome(
        decisions=tuple(d for d in said if d.action is not Action.NOTHING),
        answer=_answer(done, facts),
        look_again=min((d.look_again for d in said if d.look_again), default=None),
        more=any(one.late for one in done),
    )


def _now(context: Context) -> datetime:
    """By the API server's clock, which is also the one that wrote the times on nodes and pods."""
    return context.clock.now() + context.cluster.skew


class _Cordoned(msgspec.Struct):
    node: str
    severity: str = ""
    deadline: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _CordonedData(msgspec.Struct):
    nodes: list[_Cordoned] = []
    cordoned_lately: int = 0


def _said(event: CloudEvent) -> _CordonedData:
    try:
        return msgspec.json.decode(event.data, type=_CordonedData)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise MalformedEvent("data", str(problem)) from problem


def _facts(node: types.Node) -> NodeFacts:
    return NodeFacts(
        view=mark.view(node, default_policy()), annotation=node.metadata.annotation(keys.DRAIN)
    )


def _nothing_due(glance: Sequence[Decision], given_back: Sequence[types.Node]) -> str:
    if waits := next((d.reason for d in glance if d.reason != draining.NOT_DUE), ""):
        return f"no drain is begun yet: {waits}"
    if not given_back:
        return "no drain is due"
    names = ", ".join(node.name for node in given_back[:3])
    return f"no drain is due; back in service, their last drain is forgotten: {names}"


def _take_off(context: Context, given_back: Sequence[types.Node], ends: float) -> None:
    """What is not taken off in time, or cannot be, is for the next tick."""
    clock, parallel = context.clock, context.settings.parallel
    until = max(ends, clock.monotonic() + TAKING_OFF_SECONDS)
    cluster = context.cluster.bounded(lambda: until - clock.monotonic())
    nodes = given_back[:MOST_TAKEN_OFF]
    if parallel == 1 or len(nodes) < 3:
        for node in nodes:
            _take_one_off(cluster, node)
        return
    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(lambda node: _take_one_off(cluster, node), nodes))


def _take_one_off(cluster: Cluster, node: types.Node) -> None:
    try:
        drain_mark.remove(cluster, node)
    except (errors.TestFailed, errors.NotFound):
        return  # cordoned again, or gone
    except errors.KubernetesError as problem:
        log.warning("the last drain of %s is not forgotten yet: %s", node.name, problem)


def _concerns(node: types.Node) -> bool:
    """Whether it is to be emptied, or its drain was begun."""
    return node.metadata.label(keys.STATE) == "evict" or (
        node.metadata.annotation(keys.DRAIN) is not None
    )


def _read(
    context: Context, marked: Mapping[str, types.Node], in_force: Active, now: datetime
) -> dict[str, NodeFacts]:
    carriers = {context.settings.pod_node}
    views = {name: mark.view(node, in_force.policy) for name, node in marked.items()}
    facts = {
        name: NodeFacts(
            view=view,
            annotation=marked[name].metadata.annotation(keys.DRAIN),
            paused=in_force.paused(view.pool, now),
        )
        for name, view in views.items()
    }
    if sum(map(draining.is_busy, facts.values())) > 1:
        # Whose turn it is depends on where we run ourselves.
        own = context.cluster.list_pods(namespace=context.settings.namespace)
        carriers |= {p.spec.node_name or "" for p in own.items or () if not p.finished}
    return {name: replace(fact, carries_us=name in carriers) for name, fact in facts.items()}


def _answer(done: list[Done], facts: Mapping[str, NodeFacts]) -> Answer | None:
    drained = [
        {"node": d.node, "evicted": d.state.evicted}
        | ({"leaves": True} if draining.leaves(facts[d.node].view) else {})
        for d in done
        if d.drained and d.state
    ]
    blocked = [
        {"node": d.node, "blocked_by": list(d.state.blocked_by)}
        for d in done
        if d.blocked and d.state
    ]
    # One answer a call: that nodes are drained is what others act on, and what blocks is told
    # again when it changes.
    kind, nodes = (DRAINED, drained) if drained else (BLOCKED, blocked)
    if not nodes:
        return None
    return Answer(kind, {"nodes": nodes[:MOST_IN_ANSWER], "count": len(nodes)})
