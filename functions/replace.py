"""replace: sees to it that a sick machine is mended, or replaced within seven days.

Woken by ``nodes.drained``, and by a clock (resync, each minute). Climbs the policy's ladder (reset,
reboot, replace), keeps the seven-day clock of each machine, and follows a machine that it ended
until another one serves. Answers ``vm.rebooted``, ``vm.terminated``, ``vm.replaced``,
``replacement.missing``, ``sla.at-risk``, ``hardware.returned``, and two requests to others:
``gpu.reset-wanted`` and ``vm.replacement-wanted``.

May write: its books in the ledgers' ConfigMaps, the annotation ``groundcrew.dev/replacement``,
Events; it may reboot and end machines, through the cloud or whoever owns them, and delete the Node
of one whose end the cloud has confirmed. Never: ends a machine while a single guard holds (see
`rules.replacing.guards`), on the word of an event, or in a pool that the policy does not name in
``replace.act_in``; touches a pod, an incident or a cordon.

On the way it carries on with the lifecycle hooks of Auto Scaling groups (`steps.lifecycle`).

All that it knows is read anew in each call, and what must outlive a node is written before it is
acted on. Two instances do no harm, and a crash between any two requests ends nothing twice.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from functions.edge.context import Answer, Context, Outcome
from functions.gateways.kubernetes import errors, types
from functions.rules import keys, replacing
from functions.rules.decision import Action, Decision
from functions.rules.replacing import Act, Facts, Step, returned
from functions.rules.replacing.words import reason_of
from functions.steps import lifecycle
from functions.steps.replacing import closer, collect, gather, note, release, unbooked
from functions.steps.replacing.act import act, withdraw
from functions.steps.replacing.crew import Crew, Lost
from functions.steps.tell import tell
from functions.steps.terminate.handed_over import HandedOver

log = logging.getLogger(__name__)

PING = "dev.knative.sources.ping"
DRAINED = "dev.groundcrew.nodes.drained"
REBOOTED = "dev.groundcrew.vm.rebooted"
TERMINATED = "dev.groundcrew.vm.terminated"
REPLACED = "dev.groundcrew.vm.replaced"
MISSING = "dev.groundcrew.replacement.missing"
AT_RISK = "dev.groundcrew.sla.at-risk"
RETURNED = "dev.groundcrew.hardware.returned"
RESET_WANTED = "dev.groundcrew.gpu.reset-wanted"
REPLACEMENT_WANTED = "dev.groundcrew.vm.replacement-wanted"

WRITING_SECONDS = 0.8
"""Kept back from the call's time, for writing down what came of it."""
ACTING_SECONDS = 2.0
"""Less than this is no time to begin a reboot or an end in."""
MOST_IN_ANSWER = 100
TICK = timedelta(minutes=1)

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
    steps = _closer(crew, facts, nodes, steps)
    call = _Call(crew, nodes, decisions=[*hooks.decisions, *left], news=[*hooks.decisions])
    call.carry_out(steps)
    call.warn_of(unbooked.at_risk(crew, nodes))
    call.look_for_returned(facts)
    due = [hooks.look_again] if hooks.look_again else []
    uids = {node.name: node.metadata.uid for node in nodes.values()}
    tell(crew.cluster, call.news, uids, crew.now())
    return Outcome(
        decisions=tuple(call.decisions),
        answer=call.answer(),
        look_again=min([*call.looks(), *call.fresh(), *due], default=None),
        acts_at=min([*call.looks(), *due], default=None),
        requests=dict(crew.cluster.requests),
    )


def _closer(crew: Crew, facts: Facts, nodes: gather.Nodes, steps: Sequence[Step]) -> list[Step]:
    """Look closer where it is asked for, and decide about those once more.

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
        (again,) = decide(replace(facts, machines=(seen,)), crew.policy, crew.now())
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


@dataclass
class _Call:
    """Carrying out the steps of one call."""

    crew: Crew
    nodes: gather.Nodes
    decisions: list[Decision] = field(default_factory=list)
    news: list[Decision] = field(default_factory=list)
    """Those that the Events tell."""
    _kind: str = ""
    _said: list[dict[str, object]] = field(default_factory=list)
    _looks: list[datetime] = field(default_factory=list)

    def carry_out(self, steps: Iterable[Step]) -> None:
        """Raises `errors.KubernetesError` when nothing at all could be done: one machine's trouble
        is not the others'."""
        problems: list[errors.KubernetesError] = []
        done = 0
        for step in steps:
            if step.look_again:
                self._looks.append(step.look_again)
            try:
                self._one(step)
                done += 1
            except Lost as lost:
                self._left(step, str(lost))
            except errors.KubernetesError as problem:
                problems.append(problem)
                self._left(step, f"the API server: {problem}")
        if problems and not done:
            raise problems[0]

    def warn_of(self, found: Iterable[tuple[Decision, datetime]]) -> None:
        """Of machines whose clock no book keeps. An answer of another kind goes first, and the
        Event is told all the same."""
        for said, due in found:
            data = {"node": said.node, "due": due, "holding": said.blocked_by}
            self._may_answer(AT_RISK, data)
            self._say([said])

    def look_for_returned(self, facts: Facts) -> None:
        said_already = {one.get("machine") for one in self._said}
        for joined, machine, why in returned.find(facts):
            if joined.machine in said_already:
                continue
            said = Decision(
                function=replacing.FUNCTION,
                action=Action.RETURNED,
                node=joined.node,
                pool=joined.pool,
                reason=why,
            )
            data = {"node": joined.node, "machine": joined.machine, "was": machine, "why": why}
            if self._may_answer(RETURNED, data):
                self._say([said])

    def answer(self) -> Answer | None:
        if not self._said:
            return None
        return Answer(self._kind, {"nodes": self._said[:MOST_IN_ANSWER], "count": len(self._said)})

    def looks(self) -> list[datetime]:
        """When there is something to do next."""
        return [self._ahead(at) for at in self._looks]

    def fresh(self) -> list[datetime]:
        """When it is to be written again that we look: while a clock runs."""
        return [
            self._ahead((book.seen or book.began) + replacing.FRESH)
            for book in self.crew.books.values()
            if book.began and any(not entry.over for entry in book.machines.values())
        ]

    def _ahead(self, at: datetime) -> datetime:
        now = self.crew.now()
        return at if at > now else now + TICK

    def _one(self, step: Step) -> None:
        crew, one = self.crew, step.facts
        node = self.nodes.get(one.machine)
        if step.act in (Act.REBOOT, Act.TERMINATE, Act.RESET):
            self._act(step, node)
            return
        if step.answer and not self._is_free_for(step.answer[0]):
            self._again()
            return  # one answer a call: the others are for the next
        if step.act is Act.WITHDRAW and step.entry:
            withdraw(crew, one, step.entry)
        elif step.changed:
            crew.put(one.pool, one.machine, one.entry, step.entry)
        if step.answer:
            self._may_answer(*step.answer)
        self._say(step.decisions)
        if step.act is Act.COLLECT and step.entry:
            self._collect(step)
        elif step.act is Act.RELEASE and step.entry:
            self._release(step, node)
        elif node is not None:
            note.keep(crew, node, one.machine, step.entry)

    def _act(self, step: Step, node: types.Node | None) -> None:
        crew, one = self.crew, step.facts
        if crew.left() < ACTING_SECONDS and crew.seconds > ACTING_SECONDS:
            self._again()
            return
        if step.act is Act.RESET:
            self._ask_for_reset(step)
            return
        way = one.closer.way if one.closer else ""
        if (
            step.act is Act.TERMINATE
            and way == HandedOver.name
            and not self._is_free_for(REPLACEMENT_WANTED)
        ):
            self._again()
            return
        said = act(crew, step, node)
        self._say(said)
        if way == HandedOver.name and any(d.action is Action.TERMINATE for d in said):
            entry = crew.books[one.pool].machines[one.machine]
            token = entry.intent.token if entry.intent else ""
            within = crew.policy.replace.handed_over_within
            self._may_answer(
                REPLACEMENT_WANTED,
                {
                    "node": entry.node,
                    "machine": one.machine,
                    "token": token,
                    "by": crew.now() + within,
                    "why": said[0].reason,
                },
            )
        self._again()

    def _ask_for_reset(self, step: Step) -> None:
        crew, one = self.crew, step.facts
        assert step.entry is not None
        token = crew.token()
        node = one.view.name if one.view else ""
        by = crew.now() + crew.policy.replace.handed_over_within
        data = {"node": node, "machine": one.machine, "token": token, "by": by}
        if not self._may_answer(RESET_WANTED, data):
            self._again()
            return
        why = reason_of(step.guards)
        made = replacing.intend(one, step.entry, "reset", token, why, crew.now())
        crew.put(one.pool, one.machine, one.entry, made)
        self._say([replacing.say(one, Action.RESET, f"a reset of its GPUs is asked for ({why})")])

    def _collect(self, step: Step) -> None:
        crew, one, entry = self.crew, step.facts, step.entry
        assert entry is not None
        if came := collect.collect(crew, one.machine, entry):
            done = msgspec.structs.replace(entry, collected=came)
            crew.put(one.pool, one.machine, entry, done)
            self._say([replacing.say(one, Action.COLLECT, came)])
        self._again()

    def _release(self, step: Step, node: types.Node | None) -> None:
        crew, one, entry = self.crew, step.facts, step.entry
        assert entry is not None
        if release.release(crew, one.machine, entry, node):
            done = msgspec.structs.replace(entry, released=True)
            crew.put(one.pool, one.machine, entry, done)
        self._again()

    def _is_free_for(self, kind: str) -> bool:
        return self._kind in ("", kind)

    def _may_answer(self, kind: str, data: Mapping[str, object]) -> bool:
        """Whether the call's one answer can say this, too; then it does."""
        if not self._is_free_for(kind):
            return False
        self._kind = kind
        self._said.append(dict(data))
        return True

    def _say(self, said: Iterable[Decision]) -> None:
        for decision in said:
            self.decisions.append(decision)
            self.news.append(decision)

    def _left(self, step: Step, why: str) -> None:
        log.warning("%s: left to the next look: %s", step.facts.machine, why)
        said = replacing.say(step.facts, Action.NOTHING, f"left to the next look: {why}")
        self.decisions.append(said)
        self._again()

    def _again(self) -> None:
        self._looks.append(self.crew.now() + TICK)
