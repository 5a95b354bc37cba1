"""How long one call waits on a node, and for what: pods that leave, budgets that may free, notices
that end. Where nothing is worth waiting for the next look finds the rest."""

from collections.abc import Iterator
from dataclasses import dataclass

from functions.rules.drain_plan import Step, Verdict
from functions.steps.drain_call import Call
from functions.steps.node_check import IDLE_SECONDS
from functions.steps.node_pods import NodePods

LONGEST_WAIT = 60.0
_FIRST_POLL, _LONGEST_POLL = 0.25, 1.0
_POLL_BEHIND_WATCH = 5.0
_RETURN_SECONDS = 2.0
"""How long a controller has to put its pod back on the node."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """What is worth waiting for."""

    patience: float = 1.0
    """Seconds, when nothing moves but a disruption budget might."""
    linger: float = float("inf")
    """Seconds, when nothing moves but pods are leaving. 0: nothing is waited for at all."""
    stay: bool = False
    """True: whatever may still change is waited for, to the end of the call: budgets, pods that
    are overdue, webhooks that refuse. The node is looked at now and then meanwhile."""


class Waiting:
    def __init__(self, call: Call, known: NodePods, wait: Wait, ends: float) -> None:
        self._call = call
        self._known = known
        self._wait = wait
        self._ends = ends
        self._moved = call.clock.monotonic()
        """When something last went on."""
        self._poll_at = self._moved
        self._polls = 0

    def moved(self) -> None:
        """Something went on."""
        self._moved = self._call.clock.monotonic()

    def freed(self) -> None:
        """A pod is gone, so that a budget may soon allow another one."""
        self._polls = 0

    @property
    def left(self) -> float:
        return 0.0 if self._call.cancelled else self._ends - self._call.clock.monotonic()

    def settling(self) -> float:
        """How long an empty node is looked at because what left may come back to it."""
        if not self._known.may_return or not self._wait.linger:
            return 0.0
        settled = self._moved + _RETURN_SECONDS
        return max(0.0, min(settled - self._call.clock.monotonic(), self.left))

    def until(
        self, steps: list[Step], *, leaving: bool, pace_at: float, checked: float
    ) -> float | None:
        """How long to wait for something to happen; None when nothing is worth waiting for.

        ``leaving``: pods are; ``pace_at``: from when on the rate lets another one go;
        ``checked``: when the node was looked at."""
        now = self._call.clock.monotonic()
        times = [pace_at] if pace_at > now else []
        worth = bool(self._known.flying)
        if self._lingers(now):
            again = self._known.again
            worth = worth or leaving
            times += [at for s in steps if now < (at := again.get(s.pod.uid, now)) < self._ends]
            if self._for_budgets(steps, leaving=leaving):
                times.append(max(self._poll_at, now + _FIRST_POLL / 10))
        if not times and not worth:
            return None
        times.append(now + LONGEST_WAIT)
        if self._lingers(now):
            times.append(self._moved + self._wait.linger)
        if self._wait.stay:
            times.append(checked + IDLE_SECONDS)
            times += self._ends_of_notice(steps)
        if not self._call.threaded:
            # The wait of a simulated watch is over before it says what happened meanwhile.
            times.append(now + _LONGEST_POLL)
        return max(0.0, min([*times, self._ends]) - now)

    def _lingers(self, now: float) -> bool:
        return now - self._moved < self._wait.linger

    # budgets

    def poll_is_due(self, steps: list[Step], *, leaving: bool) -> bool:
        if not self._lingers(self._call.clock.monotonic()):
            return False
        if not self._for_budgets(steps, leaving=leaving):
            return False
        gated = self._gated(steps)
        if self._call.threaded and self._call.all_budgets.watch(gated):
            self._poll_at = self._call.clock.monotonic() + _POLL_BEHIND_WATCH
        if self._call.all_budgets.unsettled(gated):
            # What the server counts now does not count these yet.
            return False
        return self._call.clock.monotonic() >= self._poll_at

    def poll(self, steps: list[Step]) -> None:
        budgets, gated = self._call.all_budgets, self._gated(steps)
        more = [budgets.read(n) for n in sorted(gated)]
        self._polls = 0 if any(more) else self._polls + 1
        wait = min(_LONGEST_POLL, _FIRST_POLL * 2 ** min(self._polls, 4))
        if budgets.watched(gated):
            wait = _POLL_BEHIND_WATCH
        self._poll_at = self._call.clock.monotonic() + wait

    def _gated(self, steps: list[Step]) -> set[str]:
        """Namespaces whose budgets keep pods back."""
        return {
            s.pod.namespace
            for s in steps
            if s.verdict is Verdict.EVICT and s.budgets and s.pod.uid not in self._known.flying
        }

    def _for_budgets(self, steps: list[Step], *, leaving: bool) -> bool:
        """Whether a budget may still change in this call, as far as one can tell: we have moved
        pods, which come up elsewhere, or something was going on a moment ago."""
        if not self._gated(steps):
            return False
        if self._wait.stay or self._known.evicted or self._known.flying or leaving:
            return True
        return self._call.clock.monotonic() - self._moved < self._wait.patience

    def _ends_of_notice(self, steps: list[Step]) -> Iterator[float]:
        now, here = self._call.now(), self._call.clock.monotonic()
        for step in steps:
            if step.verdict is Verdict.HELD and step.until is not None:
                yield here + (step.until - now).total_seconds()
