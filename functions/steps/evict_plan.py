"""What is to be done with the pods of one node now: the plan, in the light of what was asked and
answered in this call."""

import msgspec

from functions.rules import drain_plan
from functions.rules.drain_plan import Around, Budget, Step, Verdict
from functions.steps import drain_result
from functions.steps.drain_call import Call
from functions.steps.drain_target import Target, around
from functions.steps.node_pods import NodePods

ASKS = (Verdict.EVICT, Verdict.DELETE)


class NodePlan:
    def __init__(self, call: Call, known: NodePods) -> None:
        self._call = call
        self._known = known
        self.over = False
        """Nothing is asked any more."""
        self.pace_at = call.clock.monotonic()
        """From when on the rate lets another one go."""

    def steps(self, target: Target) -> list[Step]:
        found, now = self._around(target), self._call.now()
        steps = drain_plan.plan(self._known.found.values(), found, self._call.policy, now)
        return [self._in_light(step, found) for step in steps]

    def budgets(self, target: Target) -> tuple[Budget, ...]:
        return self._around(target).budgets

    def ready(self, steps: list[Step], target: Target) -> list[Step]:
        """What may be asked for now, as far as pods and budgets are concerned."""
        now = self._call.clock.monotonic()
        stage = self._stage(steps, target)
        return [
            step
            for step in steps
            if step.stage == stage
            and step.verdict in ASKS
            and step.pod.uid not in self._known.flying
            and self._known.again.get(step.pod.uid, now) <= now
            and not self._known.never(step)
            and self._call.all_budgets.allow(_gate(step))
        ]

    def take(self, ready: list[Step]) -> list[Step]:
        """Those of them that the rate lets go now. Uses up the rate and the budgets."""
        taken: list[Step] = []
        for step in ready:
            if not self._call.all_budgets.take(_gate(step)):
                continue
            if wait := self._call.pace.wait():
                self._call.all_budgets.put_back(_gate(step))
                self.pace_at = self._call.clock.monotonic() + wait
                break
            taken.append(step)
        return taken

    @property
    def paced(self) -> bool:
        """Whether the rate keeps us from asking now."""
        return self.pace_at > self._call.clock.monotonic()

    def leaving(self, steps: list[Step], target: Target, *, overdue: bool) -> bool:
        """Whether pods are leaving; those that are ``overdue`` count only if that says so."""
        return any(
            overdue or not self._overdue(step, target)
            for step in steps
            if step.verdict is Verdict.LEAVING
        )

    def _around(self, target: Target) -> Around:
        return around(self._call, target, self._known, read=not self.over)

    def _in_light(self, step: Step, found: Around) -> Step:
        if step.verdict not in ASKS:
            return step
        if step.pod.uid in self._known.asked:
            return msgspec.structs.replace(step, verdict=Verdict.LEAVING, why="was asked to leave")
        said = self._known.said.get(step.pod.uid)
        if found.last_resort and said and said.heard:
            return msgspec.structs.replace(step, verdict=Verdict.DELETE, why=said.why)
        return step

    def _stage(self, steps: list[Step], target: Target) -> int:
        """The lowest stage in which something still goes on."""
        return min((s.stage for s in steps if self._goes_on(s, target)), default=0)

    def _goes_on(self, step: Step, target: Target) -> bool:
        if step.verdict is Verdict.LEAVING:
            return not self._overdue(step, target)
        if step.pod.uid in self._known.flying:
            return True
        return step.verdict in ASKS and not self._known.never(step)

    def _overdue(self, step: Step, target: Target) -> str:
        return drain_result.overdue(step, target.kubelet_lost, self._call.now())


def _gate(step: Step) -> tuple[str, ...]:
    """The budgets that it uses up. A deletion at a deadline asks for none."""
    return step.budgets if step.verdict is Verdict.EVICT else ()
