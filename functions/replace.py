"""replace: sees to it that a sick machine is mended, or replaced within seven days.

Woken by ``nodes.drained``, and by a clock (resync, each minute). Climbs the policy's ladder (reset,
reboot, replace), keeps the seven-day clock of each machine, and follows a machine that it ended
until another one serves. Answers ``vm.rebooted``, ``vm.terminated``, ``vm.replaced``,
``replacement.missing``, ``sla.at-risk``, ``hardware.returned``, and three requests to
others: ``gpu.reset-wanted``, ``vm.reboot-wanted`` and ``vm.replacement-wanted``.

May write: its books in the ledgers' ConfigMaps, the annotation ``groundcrew.dev/replacement``,
Events; it may reboot and end machines, through the cloud or whoever owns them, and delete the Node
of one whose end the cloud has confirmed. Never: ends a machine while a single guard holds (see
`rules.replacing.guards`), on the word of an event, or in a pool that the policy does not name in
``replace.act_in``; touches a pod, an incident or a cordon.

On the way it carries on with the lifecycle hooks of Auto Scaling groups (`steps.lifecycle`).

All that it knows is read anew in each call, and what must outlive a node is written before it is
acted on. Two instances do no harm, and a crash between any two requests ends nothing twice.
"""

from collections.abc import Sequence

import msgspec

from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from functions.edge.context import Answer, Context, Outcome
from functions.rules import keys, replacing
from functions.rules.replacing import Step
from functions.steps import lifecycle
from functions.steps.replacing import gather, unbooked
from functions.steps.replacing.call import Call
from functions.steps.replacing.crew import ACTING_SECONDS, Crew
from functions.steps.replacing.look_closer import look_closer
from functions.steps.tell import tell

PING = "dev.knative.sources.ping"
DRAINED = "dev.groundcrew.nodes.drained"

WRITING_SECONDS = 0.8
"""Kept back from the call's time, for writing down what came of it."""

decide = replacing.decide


def handle(event: CloudEvent, context: Context) -> Outcome:
    if event.type == PING:
        return look(context)
    if event.type == DRAINED:
        if _all_leave(event):
            return Outcome(declined="their machines go by themselves")
        return look(context)
    return Outcome(declined=f"replace has nothing to do with {event.type}")


class _Drained(msgspec.Struct):
    leaves: bool = False


class _DrainedData(msgspec.Struct):
    nodes: list[_Drained] = []
    count: int = 0


def _all_leave(event: CloudEvent) -> bool:
    """Whether nothing is to be mended on the nodes of the event. The resync looks all the same."""
    try:
        said = msgspec.json.decode(event.data or b"{}", type=_DrainedData)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise MalformedEvent("data", str(problem)) from problem
    return 0 < said.count <= len(said.nodes) and all(node.leaves for node in said.nodes)


def look(context: Context) -> Outcome:
    """Look at every machine that is sick, or remembered, and do what is due."""
    settings = context.settings
    crew = Crew(
        cluster=context.cluster,
        clock=context.clock,
        namespace=settings.namespace,
        seconds=max(0.5, settings.call_seconds - WRITING_SECONDS),
        aws=lambda: context.aws.bounded(lambda: max(0.1, min(crew.left(), ACTING_SECONDS))),
        parallel=settings.parallel,
    )
    crew.attend()
    facts, nodes = gather.facts(crew)
    hooks = lifecycle.carry_on(
        crew.cluster,
        crew.aws,
        crew.clock,
        crew.policy,
        [node for node in nodes.values() if node.metadata.label(keys.STATE)],
        regions=settings.regions,
        paused=lambda pool: crew.active.paused(pool, crew.now()),
    )
    steps: Sequence[Step] = decide(facts, crew.policy, crew.now())
    left = unbooked.held(crew, nodes)
    idle = not left and not any(step.entry or step.decisions for step in steps)
    if idle and not hooks.decisions and facts.joined is None:
        return Outcome(
            declined="no machine is sick",
            look_again=hooks.look_again,
            acts_at=hooks.look_again,
            requests=dict(crew.cluster.requests),
        )
    steps = look_closer(crew, facts, nodes, steps)
    call = Call(crew, nodes, decisions=[*hooks.decisions, *left], news=[*hooks.decisions])
    call.carry_out(steps)
    call.warn_of(unbooked.at_risk(crew, nodes))
    call.look_for_returned(facts)
    answer = call.answer()
    due = [hooks.look_again] if hooks.look_again else []
    uids = {node.name: node.metadata.uid for node in nodes.values()}
    tell(crew.cluster, call.news, uids, crew.now())
    return Outcome(
        decisions=tuple(call.decisions),
        answer=Answer(*answer) if answer else None,
        look_again=min([*call.looks(), *call.fresh(), *due], default=None),
        acts_at=min([*call.looks(), *due], default=None),
        requests=dict(crew.cluster.requests),
    )
