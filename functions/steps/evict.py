"""Emptying one node through the eviction API, for as long as one call may take.

Re-entrant: nothing is kept between calls, what is left to do follows from the pods as they are.
The node must be cordoned before. That it is empty is shown by a list taken after that, and by the
watch that goes on from it: it tells all changes in the server's own order, so that a bind which was
under way is seen, too, and the last pod's end is a moment at which there was none. Where the watch
broke, or only an answer said that a pod is gone, another list shows it.

Each eviction carries the pod's UID, and none a grace period, unless somebody chose one or the
machine will be gone before the pod's own is over. A budget that refuses is not asked again before
its status allows something. Nothing is asked of a node that is no longer ours to drain.
"""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.exchange import Watch
from functions.rules.drain_plan import Step, Verdict
from functions.rules.draining import Ended, Result
from functions.steps import drain_result
from functions.steps.drain_call import Call
from functions.steps.drain_target import Page, Target, list_pods
from functions.steps.evict_ask import ask
from functions.steps.evict_plan import NodePlan
from functions.steps.evict_wait import LONGEST_WAIT, Wait, Waiting
from functions.steps.eviction_answers import Meaning
from functions.steps.node_check import NodeCheck
from functions.steps.node_pods import NodePods
from functions.steps.pod_feed import Answer, InlineFeed, Item, PodFeed, ThreadedFeed
from functions.steps.pod_watch import Lost
from functions.steps.turns import Place

_LONG_AGO_SECONDS = 0.05
"""After a wait as long as this for our turn, what happened meanwhile is heard first."""
_TOO_LATE_SECONDS = 0.2
"""With less than this left, nothing new is asked for: the answer would not be heard."""
_REPORT_SECONDS = 0.2


def evict(
    call: Call,
    target: Target,
    stop: Callable[[types.Node], str],
    *,
    seconds: float | None = None,
    wait: Wait | None = None,
    listed: Page | None = None,
    watch: Watch[types.Pod] | None = None,
    before_cordon: bool = False,
    turn: Place | None = None,
    report: Callable[[Result], None] | None = None,
) -> Result:
    """Empty ``target`` as far as ``seconds`` (by default what the call has left) allow.

    ``stop`` looks at the node as just read and says why it is not ours to drain any more, or
    nothing. ``listed`` are its pods, if they were listed in this call, with the ``watch`` that goes
    on from there, if one is open: it is closed in any case. If ``before_cordon``, they are watched
    from there, and only another list can show that the node is empty. ``turn`` is the node's own,
    if it lined up already. ``report`` is told now and then how far it is.

    Raises `errors.KubernetesError` when the server cannot be asked, or says that we may not.
    """
    drain = _Drain(call, target, stop, seconds, wait or Wait(), turn, report)
    return drain.run(listed, watch, fresh=not before_cordon)


class _Drain:
    def __init__(
        self,
        call: Call,
        target: Target,
        stop: Callable[[types.Node], str],
        seconds: float | None,
        wait: Wait,
        turn: Place | None,
        report: Callable[[Result], None] | None,
    ) -> None:
        self.call = call
        self.turn = turn or call.turns.turn()
        self.wait = wait
        self.report = report
        now = call.clock.monotonic()
        ends = call.ends if seconds is None else min(call.ends, now + seconds)
        self.feed: PodFeed = (
            ThreadedFeed(
                call.cluster, target.node, target.selector, call.clock, ends, call.together
            )
            if call.threaded
            else InlineFeed(call.cluster, target.node, target.selector)
        )
        self.known = NodePods(returned=dict(target.returned))
        self.node = NodeCheck(call, target, stop)
        self.plan = NodePlan(call, self.known)
        self.waiting = Waiting(call, self.known, wait, ends)
        self.reported = now - _REPORT_SECONDS

    @property
    def target(self) -> Target:
        return self.node.target

    def run(
        self, listed: Page | None, watch: Watch[types.Pod] | None = None, *, fresh: bool
    ) -> Result:
        self.call.listen(self.feed)
        try:
            self._take_list(listed or self._list(), watch)
            self.known.fresh = fresh or not listed
            ended, why = self._loop()
        except errors.AWAY as problem:
            if not self.known.listed:
                raise
            # The server went away, or the time is over. What is known is told all the same; the
            # next call finds the rest.
            ended, why = Ended.UNFINISHED, _lost(problem)
        finally:
            self.turn.give()
            self._finish()
            self.call.ignore(self.feed)
            self.plan.over = True
        return self._result(self.plan.steps(self.target), ended, why)

    def _loop(self) -> tuple[Ended, str]:
        waiting = self.waiting
        while True:
            steps = self.plan.steps(self.target)
            if all(s.verdict is Verdict.IGNORE for s in steps) and not self.known.flying:
                if (settling := waiting.settling()) and self._listen(settling):
                    continue
                if self.known.fresh:
                    # Empty because it was emptied, and not uncordoned meanwhile.
                    return (self.node.over() if self.known.went else None) or (Ended.EMPTY, "")
                if waiting.left > 0:
                    self._take_list(self._list())
                    continue
            if waiting.left <= 0:
                return Ended.UNFINISHED, ""
            if self.wait.stay and self.node.idle() and (over := self.node.over()):
                return over
            if ready := self.plan.ready(steps, self.target):
                before = self.call.clock.monotonic()
                if self._in_time() and (places := self._places(len(ready))):
                    if self.call.clock.monotonic() - before > _LONG_AGO_SECONDS:
                        self._listen(0.001)
                        continue
                    if over := self.node.over():
                        return over
                    for step in (taken := self.plan.take(ready[:places])):
                        self._send(step)
                    if taken:
                        continue
            if not ready or not self.plan.paced:
                self.turn.give()
            leaving = self.plan.leaving(steps, self.target, overdue=self.wait.stay)
            if waiting.poll_is_due(steps, leaving=leaving):
                waiting.poll(steps)
                continue
            self._tell(steps)
            seconds = waiting.until(
                steps, leaving=leaving, pace_at=self.plan.pace_at, checked=self.node.at
            )
            if seconds is None:
                seconds = waiting.settling() or None
            if seconds is None or not self._listen(seconds):
                return Ended.UNFINISHED, ""

    # asking

    def _in_time(self) -> bool:
        """Whether an answer would still be heard."""
        return self.waiting.left > max(_TOO_LATE_SECONDS, 1.5 * self.call.turns.answer_seconds)

    def _places(self, wants: int) -> int:
        """How many may be asked now. Waits for this node's turn."""
        if not self.call.threaded:
            return wants
        return self.turn.take(wants, over=lambda: not self._in_time())

    def _send(self, step: Step) -> None:
        uid, target = step.pod.uid, self.target
        self.known.flying[uid] = step
        if self.call.senders is None:
            problem: BaseException | None = None
            try:
                ask(self.call, target, step)
            except errors.KubernetesError as refused:
                problem = refused
            finally:
                self.call.pace.answered()
            self._hear(Answer(uid, problem))
            return

        sent = self.call.clock.monotonic()
        self.call.turns.sent()

        def done(future: "Future[None]") -> None:
            self.call.pace.answered()
            self.call.turns.answered(self.call.clock.monotonic() - sent)
            if not future.cancelled():
                self.feed.answered(Answer(uid, future.exception()))

        self.call.senders.submit(ask, self.call, target, step).add_done_callback(done)

    # hearing

    def _listen(self, seconds: float) -> bool:
        """Wait for something to happen. False in a simulated world in which nothing more will
        happen by itself."""
        before, happened = self.call.clock.monotonic(), False
        for item in self.feed.items(seconds):
            happened = True
            self._hear(item)
            if not self.call.threaded and not self.known.any_leaves():
                break
        return happened or self.call.clock.monotonic() > before

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
            self.waiting.moved()
            self.waiting.freed()
        if self.known.arrived > arrived:
            # Although the node is cordoned, or because it is no longer.
            self.node.doubt()

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
            self.waiting.moved()

    def _list(self) -> Page:
        return list_pods(self.call, self.target)

    def _take_list(self, listed: Page, watch: Watch[types.Pod] | None = None) -> None:
        self.known.take_list(listed)
        self.feed.follow(listed.metadata.resource_version, watch)

    # the end

    def _finish(self) -> None:
        """Leave no request of ours running: each ends by the call's own deadline."""
        while self.known.flying and self.call.left() > 0:
            for item in self.feed.items(min(self.call.left(), LONGEST_WAIT)):
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
        budgets, lost = self.plan.budgets(self.target), self.target.kubelet_lost
        return drain_result.make(steps, self.known, budgets, ended, why, lost, self.call.now())


def _lost(problem: errors.KubernetesError) -> str:
    if isinstance(problem, errors.Unauthorized):
        return f"the API server does not know us any more: log in anew ({problem})"
    return f"the API server stays away: {problem}"
