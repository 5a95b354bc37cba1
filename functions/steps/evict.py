"""Emptying one node through the eviction API, for as long as one call may take.

Re-entrant: nothing is kept between calls, what is left to do follows from the pods as they are.
The node must be cordoned before; its pods are listed after that, and watched from there, so that
a bind that was under way is seen, too.

Each eviction carries the pod's UID, and none a grace period, unless somebody chose one or the
machine will be gone before the pod's own is over. A budget that refuses is not asked again before
its status allows something. Nothing is asked of a node that is no longer ours to drain.
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.rules import drain_plan
from functions.rules.drain_plan import Around, Step, Verdict
from functions.rules.draining import Ended, Result
from functions.steps import drain_result
from functions.steps.drain_call import AWAY, Call
from functions.steps.drain_target import Page, Target, around, kubelet_lost, list_pods
from functions.steps.eviction_answers import Meaning
from functions.steps.node_pods import NodePods
from functions.steps.pod_feed import Answer, InlineFeed, Item, Lost, PodFeed, ThreadedFeed

EVICTION_SECONDS = 15.0
"""The server itself may take 10 s over one: it retries conflicts on the budget's status."""
_CHECK_SECONDS = 1.0
"""How old our knowledge that the node is ours may be when a pod is asked to leave."""
_CHECK_IDLE_SECONDS = 5.0
"""And while nothing is asked, where the drain stays until the end."""
_FIRST_POLL, _LONGEST_POLL = 0.25, 1.0
_POLL_BEHIND_WATCH = 5.0
_TOO_LATE_SECONDS = 0.2
"""With less than this left, nothing new is asked for: the answer would not be heard."""
_RETURN_SECONDS = 2.0
"""How long a controller has to put its pod back on the node."""
_REPORT_SECONDS = 0.2
_LONGEST_WAIT = 60.0
_ASKS = (Verdict.EVICT, Verdict.DELETE)


@dataclass(frozen=True, kw_only=True)
class Wait:
    """What is worth waiting for."""

    patience: float = 1.0
    """Seconds, when nothing moves but a disruption budget might."""
    linger: bool = True
    """False: nothing is waited for at all."""
    stay: bool = False
    """True: whatever may still change is waited for, to the end of the call: budgets, pods that
    are overdue, webhooks that refuse. The node is looked at now and then meanwhile."""


def evict(
    call: Call,
    target: Target,
    stop: Callable[[types.Node], str],
    *,
    seconds: float | None = None,
    wait: Wait = Wait(),
    listed: Page | None = None,
    report: Callable[[Result], None] | None = None,
) -> Result:
    """Empty ``target`` as far as ``seconds`` (by default what the call has left) allow.

    ``stop`` looks at the node as just read and says why it is not ours to drain any more, or
    nothing. ``listed`` are its pods, if they were listed after the cordon in this call.
    ``report`` is told now and then how far it is.

    Raises `errors.KubernetesError` when the server cannot be asked, or says that we may not.
    """
    return _Drain(call, target, stop, seconds, wait, report).run(listed)


class _Drain:
    def __init__(
        self,
        call: Call,
        target: Target,
        stop: Callable[[types.Node], str],
        seconds: float | None,
        wait: Wait,
        report: Callable[[Result], None] | None,
    ) -> None:
        self.call = call
        self.target = target
        self.stop = stop
        self.wait = wait
        self.report = report
        now = call.clock.monotonic()
        self.ends = call.ends if seconds is None else min(call.ends, now + seconds)
        self.feed: PodFeed = (
            ThreadedFeed(call.cluster, target.node, target.selector, call.clock, self.ends)
            if call.threaded
            else InlineFeed(call.cluster, target.node, target.selector)
        )
        self.known = NodePods(returned=dict(target.returned))
        self.over = False
        """Nothing is asked any more."""
        self.checked = now
        self.moved = now
        """When something last went on."""
        self.poll_at = now
        self.polls = 0
        self.pace_at = now
        self.reported = now - _REPORT_SECONDS

    def run(self, listed: Page | None) -> Result:
        self.call.listen(self.feed)
        try:
            self._take_list(listed or self._list())
            ended, why = self._loop()
        except AWAY as problem:
            if not self.known.listed:
                raise
            # The server went away, or the time is over. What is known is told all the same; the
            # next call finds the rest.
            ended, why = Ended.UNFINISHED, _lost(problem)
        finally:
            self._finish()
            self.call.ignore(self.feed)
            self.over = True
        return self._result(self._steps(), ended, why)

    def _loop(self) -> tuple[Ended, str]:
        while True:
            steps = self._steps()
            if all(s.verdict is Verdict.IGNORE for s in steps) and not self.known.flying:
                if (settling := self._until_settled()) and self._listen(settling):
                    continue
                if self.known.fresh:
                    # Empty because it was emptied, and not uncordoned meanwhile.
                    return (self._not_ours() if self.known.went else None) or (Ended.EMPTY, "")
                if self._left() > 0:
                    self._take_list(self._list())
                    continue
            if self._left() <= 0:
                return Ended.UNFINISHED, ""
            if self._idle_check_is_due() and (stopped := self._not_ours()):
                return stopped
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
            self._tell(steps)
            wait = self._wait(steps)
            if wait is None:
                wait = self._until_settled() or None
            if wait is None or not self._listen(wait):
                return Ended.UNFINISHED, ""

    def _listen(self, seconds: float) -> bool:
        """Wait for something to happen. False in a simulated world in which nothing more will
        happen by itself."""
        before, happened = self.call.clock.monotonic(), False
        for item in self.feed.items(seconds):
            happened = True
            self._hear(item)
            if not self.call.threaded and not self._any_leaves():
                break
        return happened or self.call.clock.monotonic() > before

    def _until_settled(self) -> float:
        """How long an empty node is looked at because what left may come back to it."""
        if not self.known.may_return or not self.wait.linger:
            return 0.0
        settled = self.moved + _RETURN_SECONDS
        return max(0.0, min(settled - self.call.clock.monotonic(), self._left()))

    # what is to be done

    def _around(self) -> Around:
        return around(self.call, self.target, self.known, read=not self.over)

    def _steps(self) -> list[Step]:
        found = self._around()
        now = self.call.now()
        steps = drain_plan.plan(self.known.found.values(), found, self.call.policy, now)
        return [self._known(s, found) for s in steps]

    def _known(self, step: Step, found: Around) -> Step:
        """The step, in the light of what was asked and answered in this call."""
        if step.verdict not in _ASKS:
            return step
        if step.pod.uid in self.known.asked:
            return msgspec.structs.replace(step, verdict=Verdict.LEAVING, why="was asked to leave")
        said = self.known.said.get(step.pod.uid)
        if found.last_resort and said and said.heard:
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
            if self._is_flying(uid) or self.known.again.get(uid, now) > now:
                continue
            if self.known.never(step):
                continue
            gate = step.budgets if step.verdict is Verdict.EVICT else ()
            if not self.call.all_budgets.allow(gate):
                continue
            if wait := self.call.pace.wait():
                self.pace_at = now + wait
                break
            if self.call.all_budgets.take(gate):
                due.append(step)
        return due

    def _is_flying(self, uid: str) -> bool:
        return uid in self.known.flying

    def _stage(self, steps: list[Step]) -> int:
        """The lowest stage in which something still goes on."""
        return min((s.stage for s in steps if self._goes_on(s)), default=0)

    def _goes_on(self, step: Step) -> bool:
        if step.verdict is Verdict.LEAVING:
            return not self._overdue(step)
        if self._is_flying(step.pod.uid):
            return True
        return step.verdict in _ASKS and not self.known.never(step)

    def _overdue(self, step: Step) -> str:
        return drain_result.overdue(step, self.target.kubelet_lost, self.call.now())

    def _leaving(self, steps: list[Step]) -> bool:
        leaving = [s for s in steps if s.verdict is Verdict.LEAVING]
        return any(self.wait.stay or not self._overdue(s) for s in leaving)

    def _any_leaves(self) -> bool:
        return any(pod.gone_by or uid in self.known.asked for uid, pod in self.known.found.items())

    def _gated(self, steps: list[Step]) -> set[str]:
        """Namespaces whose budgets keep pods back."""
        return {
            s.pod.namespace
            for s in steps
            if s.verdict is Verdict.EVICT and s.budgets and not self._is_flying(s.pod.uid)
        }

    def _waits_for_budgets(self, steps: list[Step]) -> bool:
        """Whether a budget may still change in this call, as far as one can tell: we have moved
        pods, which come up elsewhere, or something was going on a moment ago."""
        if not self._gated(steps):
            return False
        if self.wait.stay or self.known.evicted or self.known.flying or self._leaving(steps):
            return True
        return self.call.clock.monotonic() - self.moved < self.wait.patience

    def _poll_is_due(self, steps: list[Step]) -> bool:
        if not self.wait.linger or not self._waits_for_budgets(steps):
            return False
        gated = self._gated(steps)
        if self.call.threaded and self.call.all_budgets.watch(gated):
            self.poll_at = self.call.clock.monotonic() + _POLL_BEHIND_WATCH
        if self.call.all_budgets.unsettled(gated):
            # What the server counts now does not count these yet.
            return False
        return self.call.clock.monotonic() >= self.poll_at

    def _poll(self, namespaces: set[str]) -> None:
        budgets = self.call.all_budgets
        more = [budgets.read(n) for n in sorted(namespaces)]
        self.polls = 0 if any(more) else self.polls + 1
        wait = min(_LONGEST_POLL, _FIRST_POLL * 2 ** min(self.polls, 4))
        if budgets.watched(namespaces):
            wait = _POLL_BEHIND_WATCH
        self.poll_at = self.call.clock.monotonic() + wait

    def _wait(self, steps: list[Step]) -> float | None:
        """How long to wait for something to happen; None when nothing is worth waiting for."""
        now = self.call.clock.monotonic()
        times = [self.pace_at] if self.pace_at > now else []
        worth = bool(self.known.flying)
        if self.wait.linger:
            again = self.known.again
            worth = worth or self._leaving(steps)
            times += [at for s in steps if now < (at := again.get(s.pod.uid, now)) < self.ends]
            if self._waits_for_budgets(steps):
                times.append(max(self.poll_at, now + _FIRST_POLL / 10))
        if not times and not worth:
            return None
        times.append(now + _LONGEST_WAIT)
        if self.wait.stay:
            times.append(self.checked + _CHECK_IDLE_SECONDS)
            times += self._ends_of_notice(steps)
        if not self.call.threaded:
            # The wait of a simulated watch is over before it says what happened meanwhile.
            times.append(now + _LONGEST_POLL)
        return max(0.0, min([*times, self.ends]) - now)

    def _ends_of_notice(self, steps: list[Step]) -> Iterator[float]:
        now, here = self.call.now(), self.call.clock.monotonic()
        for step in steps:
            if step.verdict is Verdict.HELD and step.until is not None:
                yield here + (step.until - now).total_seconds()

    # asking

    def _idle_check_is_due(self) -> bool:
        idle = self.call.clock.monotonic() - self.checked
        return self.wait.stay and idle >= _CHECK_IDLE_SECONDS

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
        self.target = replace(self.target, kubelet_lost=kubelet_lost(node))
        return None

    def _send(self, step: Step) -> None:
        uid = step.pod.uid
        self.known.flying[uid] = step
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
        grace = self._grace(pod.grace_seconds)
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

    def _grace(self, own: int) -> int | None:
        """Another grace than the pod's own: chosen by somebody, or shorter because the machine
        will not be there for as long."""
        chosen = self.target.grace_seconds
        if self.target.lost_at is not None:
            left = int((self.target.lost_at - self.call.now()).total_seconds())
            if left < (own if chosen is None else chosen):
                chosen = left
        return None if chosen is None else max(1, chosen)

    # hearing

    def _hear(self, item: Item) -> None:
        went, arrived = self.known.went, self.known.arrived
        match item:
            case Answer():
                self._hear_answer(item)
            case Lost():
                self._take_list(self._list())
            case types.WatchEvent():
                self.known.take_change(item)
        if self.known.went > went:
            self.moved = self.call.clock.monotonic()
            self.polls = 0
        if self.known.arrived > arrived:
            # Although the node is cordoned, or because it is no longer.
            self.checked = self.call.clock.monotonic() - _CHECK_SECONDS

    def _hear_answer(self, answer: Answer) -> None:
        step = self.known.flying[answer.uid]
        gate = step.budgets if step.verdict is Verdict.EVICT else ()
        try:
            _, said = self.known.take_answer(answer, self.call.clock.monotonic())
        except BaseException:
            self.call.all_budgets.settle(gate)
            raise
        self.call.all_budgets.settle(gate, exhausted=said.meaning is Meaning.BUDGET)
        if said.meaning is Meaning.ACCEPTED:
            self.moved = self.call.clock.monotonic()

    def _list(self) -> Page:
        return list_pods(self.call, self.target)

    def _take_list(self, listed: Page) -> None:
        self.known.take_list(listed)
        self.feed.follow(listed.metadata.resource_version)

    # the end

    def _left(self) -> float:
        return 0.0 if self.call.cancelled else self.ends - self.call.clock.monotonic()

    def _finish(self) -> None:
        """Leave no request of ours running: each ends by the call's own deadline."""
        while self.known.flying and self.call.left() > 0:
            for item in self.feed.items(min(self.call.left(), _LONGEST_WAIT)):
                if isinstance(item, Answer):
                    with contextlib.suppress(errors.KubernetesError):
                        self._hear_answer(item)
        self.feed.close()

    def _tell(self, steps: list[Step]) -> None:
        now = self.call.clock.monotonic()
        if self.report and now - self.reported >= _REPORT_SECONDS:
            self.reported = now
            self.report(self._result(steps, Ended.UNFINISHED, ""))

    def _result(self, steps: list[Step], ended: Ended, why: str) -> Result:
        budgets = self._around().budgets
        lost = self.target.kubelet_lost
        return drain_result.make(steps, self.known, budgets, ended, why, lost, self.call.now())


def _lost(problem: errors.KubernetesError) -> str:
    if isinstance(problem, errors.Unauthorized):
        return f"the API server does not know us any more: log in anew ({problem})"
    return f"the API server stays away: {problem}"
