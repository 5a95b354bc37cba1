"""Looking closer where the rules ask for it, and deciding about those machines once more."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from functions.gateways.kubernetes import errors
from functions.rules import replacing
from functions.rules.replacing import Act, Facts, Step
from functions.rules.replacing.facts import TICK
from functions.steps.replacing import closer, gather
from functions.steps.replacing.crew import ACTING_SECONDS, Crew

log = logging.getLogger(__name__)


def look_closer(crew: Crew, facts: Facts, nodes: gather.Nodes, steps: Sequence[Step]) -> list[Step]:
    """``steps``, with what a closer look makes of those that ask for one.

    A slow cloud leaves time for a few of many: each minute it is another one's turn to be the
    first, and when one may end or be rebooted, the time that is left is for that.
    """
    wanted = [s for s in steps if s.act in (Act.LOOK_CLOSER, Act.LOOK_AT_CLOUD)]
    if wanted:
        first = int(crew.now().timestamp() // TICK.total_seconds()) % len(wanted)
        wanted = [*wanted[first:], *wanted[:first]]
    acting: list[str] = []
    took = [0.0]

    def one(step: Step) -> Step:
        before = crew.left()
        if before <= (ACTING_SECONDS + max(took) if acting else 0):
            return replace(step, act=Act.NONE, look_again=crew.now() + TICK)
        only = step.act is Act.LOOK_AT_CLOUD
        try:
            seen = closer.look(crew, step.facts, nodes.get(step.facts.machine), cloud_only=only)
        except errors.KubernetesError as problem:
            log.warning("%s: no closer look: %s", step.facts.machine, problem)
            return replace(step, act=Act.NONE, look_again=crew.now() + TICK)
        (again,) = replacing.decide(replace(facts, machines=(seen,)), crew.policy, crew.now())
        took.append(before - crew.left())
        if again.act in (Act.REBOOT, Act.TERMINATE):
            acting.append(seen.machine)
        return again

    if crew.parallel > 1 and len(wanted) > 1:
        with ThreadPoolExecutor(min(crew.parallel, len(wanted))) as pool:
            looked = list(pool.map(one, wanted))
    else:
        looked = [one(step) for step in wanted]
    by_machine = {step.facts.machine: step for step in looked}
    return [by_machine.get(step.facts.machine, step) for step in steps]
