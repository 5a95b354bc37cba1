"""Carrying out what was decided about drains: node by node, side by side where time is real."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.exchange import Watch
from functions.rules import drain_order, drain_plan, drain_state, drain_times, draining
from functions.rules.decision import Action, Decision
from functions.rules.drain_state import DrainState, State, same_news
from functions.rules.draining import Ended, NodeFacts
from functions.rules.policy import Policy
from functions.steps import drain_mark, mark, owners, pods, volumes, warn
from functions.steps.drain_call import Call
from functions.steps.drain_target import Page, Target, kubelet_lost
from functions.steps.evict import evict
from functions.steps.evict_wait import Wait

AT_ONCE = 64
"""Nodes that one call works on side by side."""
MANY_LINGER_SECONDS = 1.0
"""With more than that, how long each of them is waited for when nothing moves: most pods are gone
in a moment, which saves a write and a look; those that are not must not keep others waiting."""
MOST_HURRIED = 3
"""Drains that a call begins at once: see `_hurried`. Where they are many, each is written down
first, which also keeps the next call from beginning them, too."""
MOST_WARNINGS = 3
_TOO_LATE_SECONDS = 1.0
"""With less than this left, no further drain is begun: it could do nothing yet."""
_LATER = "the pods of other nodes leave first, as fast as the policy and the API server allow"
_LOST_RACE = (errors.TestFailed, errors.NotFound, errors.Conflict)


@dataclass(frozen=True, kw_only=True)
class Done:
    """What was done about one node."""

    node: str
    decisions: tuple[Decision, ...]
    news: tuple[Decision, ...] = ()
    """Those that the Events on the node are to tell."""
    state: DrainState | None = None
    drained: bool = False
    """It became so in this call."""
    blocked: bool = False
    """It became so in this call, or by something else than before."""
    late: bool = False
    """The call's time was over before it was begun."""
    problem: errors.KubernetesError | None = None


def carry_out(
    call: Call,
    policy: Policy,
    nodes: Mapping[str, types.Node],
    facts: Mapping[str, NodeFacts],
    decisions: Sequence[Decision],
    read_at: float | None = None,
) -> list[Done]:
    """``read_at`` is when ``nodes`` were read, by the monotonic clock; as the call began by
    default. Raises `errors.KubernetesError` when nothing at all could be done."""
    hurried = _hurried(call, facts, decisions)
    begins = {d.node for d in decisions if d.action is Action.START_DRAIN}
    if begins - hurried and not call.patiently(_may_evict(call)):
        decisions = [_not_allowed(d) if d.action is Action.START_DRAIN else d for d in decisions]
    jobs: list[_OneNode] = []
    done: list[Done] = []
    for decision in decisions:
        node, fact = nodes[decision.node], facts[decision.node]
        if decision.action in (Action.START_DRAIN, Action.EVICT):
            job = _OneNode(call, policy, node, fact, decision, read_at)
            job.hurries = decision.node in hurried
            jobs.append(job)
        elif decision.action is Action.STOP_DRAIN:
            done.append(_stop(call, node, fact, decision))
        else:
            done.append(Done(node=decision.node, decisions=(decision,)))
    worked = _side_by_side(call, jobs) if call.threaded else _in_turn(call, jobs)
    problems = [d.problem for d in worked if d.problem]
    if problems and len(problems) == len(worked):
        raise problems[0]
    return done + worked


def _hurried(
    call: Call, facts: Mapping[str, NodeFacts], decisions: Sequence[Decision]
) -> frozenset[str]:
    """Nodes whose first eviction waits for nothing: their machines go in minutes whatever we do,
    and the incident on them says why pods leave. That we may evict is said by the evictions, and
    the drain is written down when something has come of it (see `_OneNode._is_told_first`). If we
    die before, the next look finds what is left of the pods, and begins as if nothing had been."""
    begun = [d.node for d in decisions if d.action is Action.START_DRAIN]
    if len(begun) > MOST_HURRIED:
        return frozenset()
    now = call.now()
    return frozenset(name for name in begun if drain_order.is_urgent(facts[name].view, now))


def _side_by_side(call: Call, jobs: Sequence["_OneNode"]) -> list[Done]:
    if not jobs:
        return []
    call.read_together([job.node.name for job in jobs], labels=mark.UNSETTLED)
    with ThreadPoolExecutor(min(AT_ONCE, len(jobs))) as threads:
        linger = MANY_LINGER_SECONDS if len(jobs) > AT_ONCE else float("inf")
        return list(threads.map(lambda job: job(None, linger), jobs))


def _in_turn(call: Call, jobs: Sequence["_OneNode"]) -> list[Done]:
    """On a simulated clock: each has its share of the time that is left."""
    done = []
    for number, job in enumerate(jobs):
        done.append(job(call.left() / (len(jobs) - number), float("inf")))
    return done


@dataclass(frozen=True)
class _Read:
    listed: Page
    warned: warn.Warned
    lost_at: datetime | None
    last_resort_at: datetime | None


class _OneNode:
    """Begin or go on with one node's drain, and write down what came of it."""

    def __init__(
        self,
        call: Call,
        policy: Policy,
        node: types.Node,
        facts: NodeFacts,
        decision: Decision,
        read_at: float | None,
    ) -> None:
        self.call = call
        self.policy = policy
        self.node = node
        self.view = facts.view
        self.decision = decision
        self.begins = decision.action is Action.START_DRAIN
        self.warns = False
        """Something is lost with its pods, and the decision says what."""
        self.hurries = False
        self.unwritten = self.begins
        self.watch: Watch[types.Pod] | None = None
        """Of its pods, from when they were read on."""
        self.seen_at = call.began if read_at is None else read_at
        self.turn = call.turns.turn()
        found, _ = draining.state_of(facts)
        self.state = (
            draining.begin(facts.view, policy.drain, call.now())
            if self.begins or found is None
            else found
        )

    def __call__(self, seconds: float | None, linger: float) -> Done:
        try:
            if not self.begins or not self.call.threaded:
                return self._work(self._read(), seconds, linger)
            with self.call.turns.beginning(self._is_late) as begun:
                if not begun:
                    return replace(self._said(_otherwise(self.decision, _LATER)), late=True)
                read = self._read()
                self.turn.line_up(len(read.listed.items or ()))
            return self._work(read, seconds, linger)
        except _LOST_RACE:
            return self._said(_otherwise(self.decision, "somebody was faster: read again"))
        except errors.KubernetesError as problem:
            said = _otherwise(self.decision, f"the API server: {problem}")
            return self._said(said, problem)
        finally:
            if self.watch:
                self.watch.close()
            self.turn.give()

    def _is_late(self) -> bool:
        return self.call.left() < max(_TOO_LATE_SECONDS, 3 * self.call.turns.answer_seconds)

    def _read(self) -> "_Read":
        """The node's pods, the gangs among them warned. A drain that begins is written down."""
        call, node = self.call, self.node
        listed, self.watch = call.pods_watched(node.name)
        if self.begins:
            self._look_before(listed)
            if not self.hurries or self._is_told_first(listed):
                self.node = drain_mark.write(call.cluster, node, self.state, begins=True)
                self.seen_at = call.clock.monotonic()
                self.unwritten = False
        lost = drain_times.lost_at(self.view)
        last_resort = drain_times.last_resort_at(self.state.started, lost, call.policy)
        warned = warn.warn(
            call,
            self.node.name,
            map(pods.pod, listed.items or ()),
            started=self.state.started,
            notice=call.policy.gang_notice,
            latest=last_resort,
            reason=f"node {self.node.name} is being drained",
        )
        return _Read(listed, warned, lost, last_resort)

    def _work(self, read: "_Read", seconds: float | None, linger: float) -> Done:
        call = self.call
        target = Target(
            node=self.node.name,
            uid=self.view.uid,
            kubelet_lost=kubelet_lost(self.node),
            notice=read.warned.notice,
            returned=self.state.returned,
            last_resort_at=read.last_resort_at,
            lost_at=read.lost_at,
            seen_at=self.seen_at,
            asks_first=self.hurries,
        )
        watch, self.watch = self.watch, None
        result = evict(
            call,
            target,
            lambda node: draining.refusal(mark.view(node, self.policy)),
            seconds=seconds,
            wait=Wait(linger=linger),
            listed=read.listed,
            watch=watch,
            turn=self.turn,
        )
        if result.ended is Ended.EMPTY and self.state.volumes:
            held = volumes.attached(call, self.node.name, self.state.volumes)
            result = draining.still_attached(result, held)
        return self._conclude(result, read.warned.fresh)

    def _look_before(self, listed: Page) -> None:
        """What will be lost is told, and which volumes the pods take along is noted."""
        call, around = self.call, drain_plan.Around(node=self.node.name)
        found = map(pods.pod, listed.items or ())
        moved = [p for p in found if not p.finished and not drain_plan.ignored(p, around)]
        mounted = volumes.of(call, moved)
        self.state = msgspec.structs.replace(
            self.state, volumes=tuple(sorted(mounted))[: drain_state.MAX_VOLUMES]
        )
        if said := [*owners.warnings(call, moved), *volumes.warnings(call, moved, mounted)]:
            more = f" and {len(said) - MOST_WARNINGS} more" if len(said) > MOST_WARNINGS else ""
            reason = f"{self.decision.reason}; {'; '.join(said[:MOST_WARNINGS])}{more}"
            self.decision = msgspec.structs.replace(self.decision, reason=reason)
            self.warns = True

    def _is_told_first(self, listed: Page) -> bool:
        """Whether something is to be known of this drain that its pods do not say themselves once
        they are gone: volumes that they take along, what is lost, gangs that are warned."""
        gangs = any(drain_plan.gang_of(pods.pod(pod)) for pod in listed.items or ())
        return bool(self.state.volumes or self.warns or gangs)

    def _conclude(self, result: draining.Result, fresh: Sequence[str]) -> Done:
        now = self.call.now()
        before = self.state
        state, said = draining.conclude(self.view, before, result, fresh, now)
        if result.ended is Ended.NODE_GONE:
            return self._said(said)
        if self.unwritten or not same_news(before, state):
            # Of one that was not written down yet: not on a node that somebody gave back meanwhile.
            first = self.unwritten and result.ended is not Ended.STOPPED
            drain_mark.write(self.call.unbounded, self.node, state, begins=first)
        if result.ended is Ended.STOPPED and state.warned:
            _withdraw(self.call, self.node.name)
        drained = state.state is State.DRAINED and before.state is not State.DRAINED
        blocked = state.state is State.BLOCKED and (
            before.state is not State.BLOCKED or before.blocked_by != state.blocked_by
        )
        # A drain that is over in the call that began it is one story, not two, unless there was
        # something to warn of.
        news = [self.decision] if self.begins and (self.warns or not drained) else []
        if drained or blocked or state.state is State.STOPPED or fresh:
            news.append(said)
        return Done(
            node=self.node.name,
            decisions=(self.decision, said) if self.begins else (said,),
            news=tuple(news),
            state=state,
            drained=drained,
            blocked=blocked,
        )

    def _said(self, said: Decision, problem: errors.KubernetesError | None = None) -> Done:
        return Done(node=said.node, decisions=(said,), problem=problem)


def _stop(call: Call, node: types.Node, facts: NodeFacts, decision: Decision) -> Done:
    state, _ = draining.state_of(facts)
    if state is None:
        return Done(node=node.name, decisions=(decision,))
    stopped = draining.stop(state, call.now())
    try:
        drain_mark.write(call.unbounded, node, stopped)
    except _LOST_RACE:
        return Done(node=node.name, decisions=(_otherwise(decision, "somebody was faster"),))
    if state.warned:
        _withdraw(call, node.name)
    return Done(node=node.name, decisions=(decision,), news=(decision,), state=stopped)


def _withdraw(call: Call, node: str) -> None:
    listed = call.unbounded.list_pods(node=node)
    warn.withdraw(call, node, map(pods.pod, listed.items or ()))


def _may_evict(call: Call) -> Callable[[], bool]:
    return lambda: call.cluster.can_i("create", "pods", subresource="eviction")


def _not_allowed(decision: Decision) -> Decision:
    lacks = "may not create pods/eviction: give our service account that right"
    return msgspec.structs.replace(
        _otherwise(decision, f"the drain does not begin: we {lacks}"), blocked_by=(lacks,)
    )


def _otherwise(decision: Decision, reason: str) -> Decision:
    return msgspec.structs.replace(decision, action=Action.HOLD, reason=reason)
