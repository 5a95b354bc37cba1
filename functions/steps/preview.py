"""What a drain would do with each pod, tried against the server, with nothing written."""

from collections.abc import Sequence
from dataclasses import dataclass

from functions.gateways.kubernetes import errors
from functions.rules import drain_plan
from functions.rules.drain_plan import Step, Verdict
from functions.steps import eviction_answers
from functions.steps.drain_call import Call
from functions.steps.drain_target import Page, Target, around, list_pods
from functions.steps.node_pods import NodePods


@dataclass(frozen=True)
class Planned:
    """What would be done with a pod, and what the server says to it now."""

    step: Step
    refused: str = ""


def plan(call: Call, target: Target, listed: Page | None = None) -> list[Step]:
    """The plan of a drain of ``target`` as its pods are now, or were when ``listed``."""
    known = NodePods(returned=dict(target.returned))
    known.take_list(listed or list_pods(call, target))
    found = around(call, target, known)
    return drain_plan.plan(known.found.values(), found, call.policy, call.now())


def preview(call: Call, steps: Sequence[Step]) -> list[Planned]:
    """``steps`` with every eviction tried as a dry run. That uses up no budget: of several pods
    under one budget, each is answered as if it went alone."""

    def tried(step: Step) -> Planned:
        if step.verdict is not Verdict.EVICT:
            return Planned(step)
        pod = step.pod
        try:
            call.cluster.evict(pod.namespace, pod.name, uid=pod.uid, dry_run=True)
        except errors.KubernetesError as problem:
            return Planned(step, eviction_answers.read(problem).why)
        return Planned(step)

    return list(call.senders.map(tried, steps) if call.senders else map(tried, steps))
