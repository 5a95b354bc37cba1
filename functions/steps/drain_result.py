"""What came of the work on one node, from its pods as they are and what was answered about them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from functions.rules import drain_plan
from functions.rules.drain_plan import Around, Budget, Step, Verdict
from functions.rules.draining import Blocker, Ended, Leaving, Result
from functions.steps.eviction_answers import Meaning
from functions.steps.node_pods import NodePods


def make(
    steps: Sequence[Step],
    known: NodePods,
    budgets: Iterable[Budget],
    ended: Ended,
    why: str,
    kubelet_lost: bool,
    now: datetime,
) -> Result:
    if ended is Ended.NODE_GONE:
        steps = []
    leaving = [s for s in steps if s.verdict is Verdict.LEAVING]
    by_key = {b.key: b for b in budgets}
    return Result(
        ended=ended,
        why=why,
        evicted=tuple(known.evicted),
        deleted=tuple(known.deleted),
        went=known.went,
        leaving=tuple(s.pod.key for s in leaving if not overdue(s, kubelet_lost, now)),
        longest=_longest(leaving),
        held={s.gang: s.until for s in steps if s.verdict is Verdict.HELD},
        blocked=tuple(_blockers(steps, known, by_key, kubelet_lost, now)),
        returned=known.returned,
        left=tuple(s.pod.key for s in steps if s.verdict is not Verdict.IGNORE),
        ignored={s.pod.key: s.why for s in steps if s.verdict is Verdict.IGNORE},
    )


def overdue(step: Step, kubelet_lost: bool, now: datetime) -> str:
    """Why a pod that was asked to leave is late; empty when it is not."""
    if step.verdict is not Verdict.LEAVING:
        return ""
    around = Around(node=step.pod.node, kubelet_lost=kubelet_lost)
    return drain_plan.overdue(step.pod, around, now)


def _longest(leaving: Sequence[Step]) -> Leaving | None:
    asked = [(s.pod.asked_at, s.pod) for s in leaving if s.pod.asked_at]
    if not asked:
        return None
    at, pod = min(asked, key=lambda one: one[0])
    return Leaving(pod.key, at, pod.gone_by or at)


def _blockers(
    steps: Sequence[Step],
    known: NodePods,
    budgets: Mapping[str, Budget],
    kubelet_lost: bool,
    now: datetime,
) -> Iterator[Blocker]:
    for step in steps:
        key, said = step.pod.key, known.said.get(step.pod.uid)
        if step.verdict is Verdict.BLOCKED:
            yield Blocker(key, step.why, lasting=True)
        elif late := overdue(step, kubelet_lost, now):
            yield Blocker(key, late, lasting=True, leaving=True)
        elif step.verdict not in (Verdict.EVICT, Verdict.DELETE):
            continue
        elif said and said.meaning is not Meaning.BUDGET:
            yield Blocker(key, said.why, lasting=said.meaning is Meaning.NEVER)
        elif step.budgets and step.budgets[0] in budgets:
            budget = budgets[step.budgets[0]]
            yield Blocker(key, f"PodDisruptionBudget {budget.key} {budget.state()}", lasting=False)
        elif said:
            yield Blocker(key, said.why, lasting=False)
