"""Emptying one node through the eviction API, for as long as one call may take.

Re-entrant: nothing is kept between calls, what is left to do follows from the pods as they are.
The node must be cordoned before; its pods are listed after that, and watched from there, so that
a bind that was under way is seen, too.

Each eviction carries the pod's UID, and none a grace period, unless the machine will be gone
before the pod's own is over. A budget that refuses is not asked again before its status allows
something. Nothing is asked of a node that is no longer ours to drain.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.rules import drain_plan
from functions.rules.drain_plan import Around, Pod, Step, Verdict
from functions.rules.draining import Blocker, Ended, Result
from functions.steps import eviction_answers, pods
from functions.steps.drain_call import Call, pause
from functions.steps.eviction_answers import Meaning, Said
from functions.steps.pod_feed import Answer, InlineFeed, Item, Lost, PodFeed, ThreadedFeed

Page = types.Page[types.Pod]
EVICTION_SECONDS = 15.0
"""The server itself may take 10 s over one: it retries conflicts on the budget's status."""
_CHECK_SECONDS = 1.0
"""How old our knowledge that the node is ours may be when a pod is asked to leave."""
_FIRST_POLL, _LONGEST_POLL = 0.25, 1.0
_TOO_LATE_SECONDS = 0.2
"""With less than this left, nothing new is asked for: the answer would not be heard."""
_ASKS = (Verdict.EVICT, Verdict.DELETE)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A node, and what is known about its drain."""

    node: str
    uid: str
    kubelet_lost: bool = False
    notice: Mapping[str, datetime] = field(default_factory=dict)
    """See `drain_plan.Around.notice`."""
    returned: Mapping[str, int] = field(default_factory=dict)
    last_resort_at: datetime | None = None
    """From when on blocked pods are deleted."""
    lost_at: datetime | None = None
    """When the machine is gone: no grace lasts longer than that."""


def evict(
    call: Call,
    target: Target,
    stop: Callable[[types.Node], str],
    *,
    seconds: float | None = None,
    patience: float = 1.0,
    linger: bool = True,
    listed: Page | None = None,
) -> Result:
    """Empty ``target`` as far as ``seconds`` (by default what the call has left) allow.

    ``stop`` looks at the node as just read and says why it is not ours to drain any more, or
    nothing. ``patience`` is how long to wait when nothing moves but a disruption budget might;
    without ``linger`` nothing is waited for at all. ``listed`` are its pods, if they were listed
    after the cordon in this call.

    Raises `errors.KubernetesError` when the server cannot be asked, or says that we may not.
    """
    return _Drain(call, target, stop, seconds, patience, linger).run(listed)


@dataclass(frozen=True)
class Planned:
    """What would be done with a pod, and what the server says to it now."""

    step: Step
    refused: str = ""


def preview(call: Call, target: Target, listed: Page | None = None) -> list[Planned]:
    """The plan of a drain, with every eviction tried as a dry run; nothing is written. A dry run
    uses up no budget: of several pods under one budget, each is answered as if it went alone."""
    drain = _Drain(call, target, lambda node: "", None, 0.0, False)
    drain._take_list(listed or drain._list())
    return [_tried(call, step) for step in drain._steps()]


def _tried(call: Call, step: Step) -> Planned:
    if step.verdict is not Verdict.EVICT:
        return Planned(step)
    pod = step.pod
    try:
        call.cluster.evict(pod.namespace, pod.name, uid=pod.uid, dry_run=True)
    except errors.KubernetesError as problem:
        return Planned(step, eviction_answers.read(problem).why)
    return Planned(step)


class _Drain:
    def __init__(
        self,
        call: Call,
        target: Target,
        stop: Callable[[types.Node], str],
        seconds: float | None,
        patience: float,
        linger: bool,
    ) -> None:
        self.call = call
        self.target = target
        self.stop = stop
        self.patience = patience
        self.linger = linger
        now = call.clock.monotonic()
        self.ends = call.ends if seconds is None else min(call.ends, now + seconds)
        self.feed: PodFeed = (
            ThreadedFeed(call.cluster, target.node, call.clock, self.ends)
            if call.threaded
            else InlineFeed(call.cluster, target.node)
        )
        self.pods: dict[str, Pod] = {}
        self.listed = False
        self.over = False
        """Nothing is asked any more."""
        self.fresh = False
        """Whether the pods are those of a list after which nothing has changed."""
        self.checked = now
        self.flying: dict[str, Step] = {}
        """Asked, and not answered yet."""
        self.asked: set[str] = set()
        self.said: dict[str, Said] = {}
        """The last refusal of each pod."""
        self.tries: dict[str, int] = {}
        self.again: dict[str, float] = {}
        self.evicted: list[str] = []
        self.deleted: list[str] = []
        self.evicted_owners: set[str] = set()
        self.returned = dict(target.returned)
        self.went = 0
        self.moved = now
        """When something last went on."""
        self.poll_at = now
        self.polls = 0
        self.pace_at = now

    def run(self, listed: Page | None) -> Result:
        try:
            self._take_list(listed or self._list())
            ended, why = self._loop()
        except errors.Unreachable:
            if not self.listed:
                raise
            # The server went away, or the time is over. What is known is told all the same; the
            # next call finds the rest.
            ended, why = Ended.UNFINISHED, ""
        finally:
            self._finish()
            self.over = True
        return self._result(ended, why)

    def _loop(self) -> tuple[Ended, str]:
        clock = self.call.clock
        while True:
            steps = self._steps()
            if all(s.verdict is Verdict.IGNORE for s in steps) and not self.flying:
                if self.fresh:
                    # Empty because it was emptied, and not uncordoned meanwhile.
                    return (self._not_ours() if self.went else None) or (Ended.EMPTY, "")
                if self._left() > 0:
                    self._take_list(self._list())
                    continue
            if self._left() <= 0:
                return Ended.UNFINISHED, ""
            due = self._due(steps) if self._left() > _TOO_LATE_SECONDS else []
            if due:
                if stopped := self._not_ours():
                    return stopped
                for step in due:
                    self._send(step)
                continue
            if self._poll_is_due(steps):
                self._poll(self._gated(steps))
                continue
            wait = self._wait(steps)
            if wait is None:
                return Ended.UNFINISHED, ""
            before, happened = clock.monotonic(), False
            for item in self.feed.items(wait):
                happened = True
                self._hear(item)
                if not self.call.threaded and not self._any_leaves():
                    break
            if not happened and clock.monotonic() <= before:
                # A simulated world in which nothing more will happen by itself.
                return Ended.UNFINISHED, ""

    # what is to be done

    def _around(self) -> Around:
        alive = [p for p in self.pods.values() if not p.finished and p.gone_by is None]
        owned = any(p.owner and p.owner.kind == "DaemonSet" for p in alive)
        at = self.target.last_resort_at
        around = Around(
            node=self.target.node,
            daemon_sets=self.call.daemon_sets(read=not self.over) if owned else None,
            kubelet_lost=self.target.kubelet_lost,
            own_namespace=self.call.own_namespace,
            notice=self.target.notice,
            returned=self.returned,
            last_resort=at is not None and self.call.clock.now() >= at,
        )
        namespaces = {p.namespace for p in alive if not drain_plan.ignored(p, around)}
        return msgspec.structs.replace(
            around, budgets=self.call.budgets(namespaces, read=not self.over)
        )

    def _steps(self) -> list[Step]:
        around = self._around()
        now = self.call.clock.now()
        steps = drain_plan.plan(self.pods.values(), around, self.call.policy, now)
        return [self._known(s, around) for s in steps]

    def _known(self, step: Step, around: Around) -> Step:
        """The step, in the light of what was asked and answered in this call."""
        if step.verdict not in _ASKS:
            return step
        if step.pod.uid in self.asked:
            return msgspec.structs.replace(step, verdict=Verdict.LEAVING, why="was asked to leave")
        said = self.said.get(step.pod.uid)
        if around.last_resort and said and said.heard:
            return msgspec.structs.replace(step, verdict=Verdict.DELETE, why=said.why)
        return step

    def _due(self, steps: list[Step]) -> list[Step]:
        """What may be asked for now. Uses up the pace and the budgets."""
        now = self.call.clock.monotonic()
        stage = self._stage(steps)
        due: list[Step] = []
        for step in steps:
            uid = step.pod.uid
            if step.stage != stage or step.verdict not in _ASKS:
                continue
            if uid in self.flying or self.again.get(uid, now) > now or self._never(step):
                continue
            gate = step.budgets if step.verdict is Verdict.EVICT else ()
            if not self.call.allows(gate):
                continue
            if wait := self.call.pace.wait():
                self.pace_at = now + wait
                break
            if self.call.take(gate):
                due.append(step)
        return due

    def _stage(self, steps: list[Step]) -> int:
        """The lowest stage in which something still goes on."""
        return min((s.stage for s in steps if self._goes_on(s)), default=0)

    def _goes_on(self, step: Step) -> bool:
        if step.verdict is Verdict.LEAVING:
            return not self._overdue(step)
        return step.pod.uid in self.flying or (step.verdict in _ASKS and not self._never(step))

    def _never(self, step: Step) -> bool:
        """Refused for good. A deletion at a deadline is another question than an eviction."""
        said = self.said.get(step.pod.uid)
        return step.verdict is Verdict.EVICT and said is not None and said.meaning is Meaning.NEVER

    def _overdue(self, step: Step) -> str:
        if step.verdict is not Verdict.LEAVING:
            return ""
        around = Around(node=self.target.node, kubelet_lost=self.target.kubelet_lost)
        return drain_plan.overdue(step.pod, around, self.call.clock.now())

    def _leaving(self, steps: list[Step]) -> bool:
        return any(s.verdict is Verdict.LEAVING and not self._overdue(s) for s in steps)

    def _any_leaves(self) -> bool:
        return any(pod.gone_by or uid in self.asked for uid, pod in self.pods.items())

    def _gated(self, steps: list[Step]) -> set[str]:
        """Namespaces whose budgets keep pods back."""
        return {
            s.pod.namespace
            for s in steps
            if s.verdict is Verdict.EVICT and s.budgets and s.pod.uid not in self.flying
        }

    def _waits_for_budgets(self, steps: list[Step]) -> bool:
        """Whether a budget may still change in this call, as far as one can tell: we have moved
        pods, which come up elsewhere, or something was going on a moment ago."""
        if not self._gated(steps):
            return False
        recently = self.call.clock.monotonic() - self.moved < self.patience
        return recently or bool(self.evicted or self.flying) or self._leaving(steps)

    def _poll_is_due(self, steps: list[Step]) -> bool:
        if any(step.budgets for step in self.flying.values()):
            # What the server counts now does not count these yet.
            return False
        now = self.call.clock.monotonic()
        return self.linger and now >= self.poll_at and self._waits_for_budgets(steps)

    def _poll(self, namespaces: set[str]) -> None:
        more = [self.call.read_budgets(n) for n in sorted(namespaces)]
        self.polls = 0 if any(more) else self.polls + 1
        wait = min(_LONGEST_POLL, _FIRST_POLL * 2 ** min(self.polls, 4))
        self.poll_at = self.call.clock.monotonic() + wait

    def _wait(self, steps: list[Step]) -> float | None:
        """How long to wait for something to happen; None when nothing is worth waiting for."""
        now = self.call.clock.monotonic()
        times = [self.pace_at] if self.pace_at > now else []
        worth = bool(self.flying)
        if self.linger:
            worth = worth or self._leaving(steps)
            times += [at for s in steps if now < (at := self.again.get(s.pod.uid, now)) < self.ends]
            if self._waits_for_budgets(steps):
                times.append(max(self.poll_at, now + _FIRST_POLL / 10))
        if not times and not worth:
            return None
        if not self.call.threaded:
            # The wait of a simulated watch is over before it says what happened meanwhile.
            times.append(now + _LONGEST_POLL)
        return max(0.0, min([*times, self.ends]) - now)

    # asking

    def _not_ours(self) -> tuple[Ended, str] | None:
        now = self.call.clock.monotonic()
        if now - self.checked < _CHECK_SECONDS:
            return None
        try:
            node = self.call.patiently(lambda: self.call.cluster.get_node(self.target.node))
        except errors.NotFound:
            return Ended.NODE_GONE, "the node was deleted"
        self.checked = now
        if node.metadata.uid != self.target.uid:
            return Ended.NODE_GONE, "another node has its name"
        if why := self.stop(node):
            return Ended.STOPPED, why
        return None

    def _send(self, step: Step) -> None:
        uid = step.pod.uid
        self.flying[uid] = step
        if self.call.senders is None:
            problem: BaseException | None = None
            try:
                self._ask(step)
            except errors.KubernetesError as refused:
                problem = refused
            self._hear(Answer(uid, problem))
            return

        def done(future: "Future[None]") -> None:
            if not future.cancelled():
                self.feed.answered(Answer(uid, future.exception()))

        self.call.senders.submit(self._ask, step).add_done_callback(done)

    def _ask(self, step: Step) -> None:
        pod, cluster = step.pod, self.call.cluster
        grace = self._grace(pod)
        if step.verdict is Verdict.DELETE:
            seconds = max(1, pod.grace_seconds if grace is None else grace)
            cluster.delete_pod(pod.namespace, pod.name, uid=pod.uid, grace_seconds=seconds)
        else:
            cluster.evict(
                pod.namespace,
                pod.name,
                uid=pod.uid,
                grace_seconds=grace,
                timeout_seconds=EVICTION_SECONDS,
            )

    def _grace(self, pod: Pod) -> int | None:
        """A shorter grace than the pod's own, where the machine will not be there for as long."""
        if self.target.lost_at is None:
            return None
        left = int((self.target.lost_at - self.call.clock.now()).total_seconds())
        return max(1, left) if left < pod.grace_seconds else None

    # hearing

    def _hear(self, item: Item) -> None:
        match item:
            case Answer():
                self._hear_answer(item)
            case Lost():
                self._take_list(self._list())
            case types.WatchEvent():
                self._hear_change(item)

    def _hear_change(self, event: types.WatchEvent[types.Pod]) -> None:
        pod = pods.pod(event.object)
        self.fresh = False
        if event.type == "DELETED":
            self._gone(pod.uid)
            return
        if pod.uid not in self.pods:
            self._arrived(pod)
        self.pods[pod.uid] = pod

    def _hear_answer(self, answer: Answer) -> None:
        step = self.flying.pop(answer.uid)
        problem = answer.problem
        if isinstance(problem, errors.Unauthorized) or (
            problem is not None and not isinstance(problem, errors.KubernetesError)
        ):
            raise problem
        said = eviction_answers.read(problem)
        self.said[answer.uid] = said
        self.fresh = False
        match said.meaning:
            case Meaning.ACCEPTED:
                self._accepted(step)
            case Meaning.ENDING:
                self.asked.add(answer.uid)
            case Meaning.GONE:
                self._gone(answer.uid)
            case Meaning.BUDGET if step.budgets:
                self.call.exhausted(step.budgets)
            case Meaning.BUDGET | Meaning.LATER:
                tries = self.tries[answer.uid] = self.tries.get(answer.uid, 0) + 1
                wait = pause(tries, answer.uid, said.after_seconds)
                self.again[answer.uid] = self.call.clock.monotonic() + wait

    def _accepted(self, step: Step) -> None:
        self.moved = self.call.clock.monotonic()
        self.asked.add(step.pod.uid)
        self.again.pop(step.pod.uid, None)
        (self.deleted if step.verdict is Verdict.DELETE else self.evicted).append(step.pod.key)
        if step.pod.owner:
            self.evicted_owners.add(step.pod.owner.uid)

    def _gone(self, uid: str) -> None:
        if self.pods.pop(uid, None) is None:
            return
        self.went += 1
        self.moved = self.call.clock.monotonic()
        self.polls = 0

    def _arrived(self, pod: Pod) -> None:
        """A pod came to the node although it is cordoned, or because it is no longer."""
        self.checked = self.call.clock.monotonic() - _CHECK_SECONDS
        if pod.owner and pod.owner.uid in self.evicted_owners:
            self.returned[pod.owner.uid] = self.returned.get(pod.owner.uid, 0) + 1

    def _list(self) -> Page:
        return self.call.patiently(lambda: self.call.cluster.list_pods(node=self.target.node))

    def _take_list(self, listed: Page) -> None:
        found = {p.uid: p for p in map(pods.pod, listed.items or ())}
        for uid in self.pods.keys() - found.keys():
            self._gone(uid)
        for uid in found.keys() - self.pods.keys() if self.listed else ():
            self._arrived(found[uid])
        self.pods, self.listed = found, True
        self.fresh = True
        self.feed.follow(listed.metadata.resource_version)

    # the end

    def _left(self) -> float:
        return self.ends - self.call.clock.monotonic()

    def _finish(self) -> None:
        """Leave no request of ours running: each ends by the call's own deadline."""
        while self.flying and self.call.left() > 0:
            for item in self.feed.items(self.call.left()):
                if isinstance(item, Answer):
                    with contextlib.suppress(errors.KubernetesError):
                        self._hear_answer(item)
        self.feed.close()

    def _result(self, ended: Ended, why: str) -> Result:
        steps = [] if ended is Ended.NODE_GONE else self._steps()
        return Result(
            ended=ended,
            why=why,
            evicted=tuple(self.evicted),
            deleted=tuple(self.deleted),
            went=self.went,
            leaving=tuple(
                s.pod.key for s in steps if s.verdict is Verdict.LEAVING and not self._overdue(s)
            ),
            held={s.gang: s.until for s in steps if s.verdict is Verdict.HELD},
            blocked=tuple(self._blockers(steps)),
            returned=self.returned,
        )

    def _blockers(self, steps: list[Step]) -> Iterator[Blocker]:
        budgets = {b.key: b for b in self._around().budgets}
        for step in steps:
            key, said = step.pod.key, self.said.get(step.pod.uid)
            if step.verdict is Verdict.BLOCKED:
                yield Blocker(key, step.why, lasting=True)
            elif late := self._overdue(step):
                yield Blocker(key, late, lasting=True)
            elif step.verdict not in _ASKS:
                continue
            elif said and said.meaning is not Meaning.BUDGET:
                yield Blocker(key, said.why, lasting=said.meaning is Meaning.NEVER)
            elif step.budgets and step.budgets[0] in budgets:
                budget = budgets[step.budgets[0]]
                yield Blocker(
                    key, f"PodDisruptionBudget {budget.key} {budget.state()}", lasting=False
                )
            elif said:
                yield Blocker(key, said.why, lasting=False)
