"""Which nodes are drained, stopped or left alone, and what one call's work makes of a drain.

Pure. What is done with each pod is for `rules.drain_plan`; doing it is for `steps.evict`.
"""

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from events.notice import Kind, Severity
from functions.rules import drain_order, drain_state, incidents, keys
from functions.rules.decision import Action, Decision
from functions.rules.drain_state import DrainState, State
from functions.rules.drain_times import TICK, Looks
from functions.rules.node_view import NodeView
from functions.rules.policy import Drain

FUNCTION = "drain"
NOT_DUE = "not due yet"
PATIENCE = timedelta(seconds=30)
"""How long a disruption budget may hold everything up before the drain is said to be blocked:
replacements take a while to be ready."""


class Ended(enum.StrEnum):
    EMPTY = "empty"
    """Nothing is left but what is ignored, as a list and the watch from there have shown."""
    UNFINISHED = "unfinished"
    STOPPED = "stopped"
    """The node is not ours to drain any more: see `Result.why`."""
    NODE_GONE = "node gone"


@dataclass(frozen=True)
class Blocker:
    pod: str
    why: str
    lasting: bool
    """It will not change by waiting."""
    leaving: bool = False
    """It was asked to leave, and is late."""


@dataclass(frozen=True)
class Leaving:
    pod: str
    asked: datetime
    gone_by: datetime
    """When its grace ends. Both by the API server's clock."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of one call's work on a node."""

    ended: Ended
    why: str = ""
    evicted: tuple[str, ...] = ()
    """Pods whose eviction was accepted in this call."""
    deleted: tuple[str, ...] = ()
    """Pods deleted past their budgets in this call."""
    went: int = 0
    """Pods that were there and are gone."""
    leaving: tuple[str, ...] = ()
    longest: Leaving | None = None
    """The pod that was asked to leave the longest ago."""
    held: Mapping[str, datetime | None] = field(default_factory=dict)
    """Gangs that wait for their notice, and until when."""
    blocked: tuple[Blocker, ...] = ()
    returned: Mapping[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    """Pods that are still there and hold the drain up."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Pods that do not, and why."""

    @property
    def moved(self) -> bool:
        return bool(self.evicted or self.deleted or self.went)


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    view: NodeView
    annotation: str | None = None
    """Our annotation, as read."""
    carries_us: bool = False
    """Pods of our own namespace run there."""
    paused: str = ""
    """Why nothing may be done there now."""


def state_of(node: NodeFacts) -> tuple[DrainState | None, str]:
    """The drain of this boot of this machine, if there is one, and what was wrong with the
    annotation, if something was."""
    if node.annotation is None:
        return None, ""
    try:
        found = drain_state.decode(node.annotation)
    except drain_state.Unreadable as problem:
        return None, f"the annotation was unreadable ({problem}), so it begins anew"
    view = node.view
    if not found.belongs_to(provider_id=view.provider_id, uid=view.uid, boot=view.boot_id):
        return None, ""
    return found, ""


def refusal(view: NodeView) -> str:
    """Why the node is not to be drained; empty when it is: out of service by our mark, with an
    incident that asks for eviction."""
    if view.opted_out:
        return "the node is opted out"
    if not view.unschedulable:
        return "the node was uncordoned"
    if view.state != Severity.EVICT.value:
        return f"nothing asks for it any more (state {view.state or 'none'})"
    try:
        record = incidents.read(view)
    except incidents.Unreadable as problem:
        return f"the incidents annotation is unreadable: {problem}"
    return "" if record.cordon else "the node is not marked as cordoned for an incident"


def is_leftover(node: NodeFacts) -> bool:
    """Whether our annotation is about a drain that is over, on a node that is back in service. It
    must not be there when the next incident asks for a drain: "drained" would no longer be true.
    Why a drain was stopped is kept as long as the incident is dismissed, for who asks."""
    view = node.view
    if node.annotation is None or view.unschedulable or view.opted_out:
        return False
    state, _ = state_of(node)
    if state is None or state.state is State.DRAINED:
        return True
    asked_for = (Severity.EVICT.value, keys.DISMISSED)  # the second follows when cordon has looked
    return state.state is State.STOPPED and view.state not in asked_for


def decide(
    nodes: Sequence[NodeFacts], policy: Drain, now: datetime, woken_for: Iterable[str] = ()
) -> list[Decision]:
    """One decision for each node that a drain is about: START_DRAIN, EVICT (go on), STOP_DRAIN,
    HOLD, or NOTHING (not yet worth looking at again). Nodes that an event named are looked at."""
    named = frozenset(woken_for)
    busy_nodes = [n for n in nodes if is_busy(n)]
    busy = [n.view.name for n in busy_nodes if not n.carries_us]
    ours = [n.view.name for n in busy_nodes if n.carries_us]
    held = drain_order.held_for_cordons((n.view for n in busy_nodes), now)
    decisions = []
    for node in nodes:
        state, trouble = state_of(node)
        decision = _decide(node, state, trouble, now, node.view.name in named)
        if decision is None:
            continue
        if decision.action is Action.START_DRAIN and node.view.name in held:
            why = drain_order.waits(held[node.view.name])
            decision = _later(decision, Action.NOTHING, why, now)
        acts = decision.action in (Action.START_DRAIN, Action.EVICT)
        waits = acts and node.carries_us and not drain_order.is_urgent(node.view, now)
        if waits and (before := drain_order.before_ours(node.view.name, busy, ours)):
            why = f"groundcrew itself runs here: {len(before)} nodes go first"
            decision = _later(decision, Action.HOLD, why, now, *before[:3])
        decisions.append(decision)
    return decisions


def _later(
    decision: Decision, action: Action, why: str, now: datetime, *blocked_by: str
) -> Decision:
    return msgspec.structs.replace(
        decision, action=action, reason=why, blocked_by=blocked_by, look_again=now + TICK
    )


def _decide(
    node: NodeFacts, state: DrainState | None, trouble: str, now: datetime, named: bool
) -> Decision | None:
    view = node.view

    def decision(
        action: Action, reason: str, look_again: datetime | None = None, by: str = ""
    ) -> Decision:
        return Decision(
            function=FUNCTION,
            action=action,
            node=view.name,
            pool=view.pool,
            reason=reason,
            blocked_by=(by,) if by else (),
            look_again=look_again,
        )

    running = state is not None and state.state in (State.DRAINING, State.BLOCKED)
    if why := refusal(view):
        return decision(Action.STOP_DRAIN, f"the drain stops: {why}") if running else None
    begins = state is None or state.state is State.STOPPED
    if state is not None and not begins and not named:
        looks = Looks.of(state, view)
        if not looks.due(now):
            return decision(Action.NOTHING, NOT_DUE, looks.next(now))
    if node.paused:
        return decision(Action.HOLD, node.paused, now + TICK, by=node.paused)
    if begins:
        reason = "its incidents ask for eviction"
        return decision(Action.START_DRAIN, f"{reason}; {trouble}" if trouble else reason)
    return decision(Action.EVICT, "the drain goes on")


def leaves(view: NodeView) -> bool:
    """Whether the machine goes by itself (a spot interruption), nobody waits to be told that it is
    empty, and nothing about it is to be mended."""
    found = incidents.read(view).open
    return not view.lifecycle and all(one.kind is Kind.INTERRUPTION for one in found)


def is_busy(node: NodeFacts) -> bool:
    """Whether it asks for a drain and is not drained."""
    state, _ = state_of(node)
    return not refusal(node.view) and (state is None or state.state is not State.DRAINED)


def begin(view: NodeView, policy: Drain, now: datetime) -> DrainState:
    return DrainState(
        state=State.DRAINING,
        started=now,
        changed=now,
        provider_id=view.provider_id,
        uid=view.uid,
        boot=view.boot_id,
        deadline=now + policy.deadline if policy.deadline else None,
        look_again=now + TICK,
    )


def still_attached(result: Result, volumes: Sequence[str]) -> Result:
    """``result`` of a node that is empty, and to which these volumes are attached all the same."""
    held = tuple(
        Blocker(f"volume {name}", "is still attached to the node", lasting=False)
        for name in volumes
    )
    return replace(result, ended=Ended.UNFINISHED, blocked=held) if held else result


def stop(state: DrainState, now: datetime) -> DrainState:
    return msgspec.structs.replace(
        state, state=State.STOPPED, changed=now, look_again=None, blocked_by=()
    )


def conclude(
    view: NodeView, before: DrainState, result: Result, warned: Iterable[str], now: datetime
) -> tuple[DrainState, Decision]:
    """What the drain has become, and what is to be said about it. The state equals ``before``
    (but for times of looking) when nothing is new."""
    state = msgspec.structs.replace(
        before,
        evicted=before.evicted + len(result.evicted) + len(result.deleted),
        returned=dict(result.returned),
        warned=tuple(sorted({*before.warned, *warned})),
        changed=now if result.moved else before.changed,
    )
    decision = Decision(
        function=FUNCTION, action=Action.WAIT, node=view.name, pool=view.pool, reason=""
    )
    if result.ended is Ended.STOPPED:
        said = f"the drain stops: {result.why}"
        return stop(state, now), _say(decision, Action.STOP_DRAIN, said)
    if result.ended is Ended.NODE_GONE:
        return state, _say(decision, Action.NOTHING, result.why)
    if result.ended is Ended.EMPTY:
        if before.state is not State.DRAINED:
            state = msgspec.structs.replace(
                state, state=State.DRAINED, changed=now, blocked_by=(), volumes=()
            )
        look = Looks.of(state, view).next(now)
        state = msgspec.structs.replace(state, look_again=look)
        said = f"no workload is left; {_pods(state.evicted, 'was', 'were')} evicted"
        return state, _say(decision, Action.DRAINED, said, look_again=state.look_again)
    by = explain(result.blocked)
    if _is_blocked(result, before, now):
        new, said = State.BLOCKED, f"blocked: {'; '.join(by)}"
    else:
        new, said = State.DRAINING, _progress(result)
        by = explain(b for b in result.blocked if b.lasting)
    changed = now if new is not before.state else state.changed
    state = msgspec.structs.replace(state, state=new, changed=changed, blocked_by=by)
    look = Looks.of(state, view).next(now)
    look = min([look, *(u for u in result.held.values() if u and u > now)])
    state = msgspec.structs.replace(state, look_again=look)
    return state, _say(decision, Action.WAIT, said, blocked_by=by, look_again=look)


def explain(blocked: Iterable[Blocker]) -> tuple[str, ...]:
    """Sentences for people: each cause once, with the pods that it holds."""
    by_why: dict[str, list[str]] = defaultdict(list)
    for blocker in blocked:
        by_why[blocker.why].append(blocker.pod)
    return drain_state.blockers(f"{_some(found)} {why}" for why, found in by_why.items())


def _some(found: list[str]) -> str:
    names = sorted(found)
    if len(names) <= 2:
        return f"{' and '.join(names)}:"
    return f"{len(names)} pods ({', '.join(names[:2])}, ...):"


def _is_blocked(result: Result, before: DrainState, now: datetime) -> bool:
    if not result.blocked or result.moved or result.leaving or result.held:
        return False
    return (
        all(b.lasting for b in result.blocked)
        or before.state is State.BLOCKED
        or now - before.changed >= PATIENCE
    )


def _progress(result: Result) -> str:
    words = []
    if result.leaving:
        words.append(f"{_pods(len(result.leaving), 'is', 'are')} leaving")
    if result.held:
        until = min((u for u in result.held.values() if u), default=None)
        time = f" until {until:%H:%M:%S}Z" if until else ""
        words.append(f"{', '.join(sorted(result.held))} is warned{time}")
    if result.blocked:
        words.append(f"{_pods(len(result.blocked), 'may', 'may')} not go yet")
    return "; ".join(words) or "the rest is for the next look"


def _pods(count: int, one: str, many: str) -> str:
    return f"1 pod {one}" if count == 1 else f"{count or 'no'} pods {many}"


def _say(decision: Decision, action: Action, reason: str, **more: object) -> Decision:
    return msgspec.structs.replace(decision, action=action, reason=reason, **more)
