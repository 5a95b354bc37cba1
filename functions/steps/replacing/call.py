"""Carrying out the steps of one call of replace."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.rules import replacing
from functions.rules.decision import Action, Decision
from functions.rules.replacing import Act, Facts, Step, returned
from functions.rules.replacing.facts import TICK
from functions.rules.replacing.risk import AT_RISK
from functions.rules.replacing.words import reason_of
from functions.steps.replacing import collect, gather, note, release
from functions.steps.replacing.act import act, withdraw
from functions.steps.replacing.crew import ACTING_SECONDS, Crew, Lost
from functions.steps.terminate import is_reboot_handed_over
from functions.steps.terminate.handed_over import REBOOT_WANTED, WANTED, HandedOver

log = logging.getLogger(__name__)

RESET_WANTED = "dev.groundcrew.gpu.reset-wanted"
MOST_IN_ANSWER = 100


@dataclass
class Call:
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
            if self._may_answer(returned.RETURNED, data):
                self._say([said])

    def answer(self) -> tuple[str, dict[str, object]] | None:
        """Its type and data; None where there is nothing to answer."""
        if not self._said:
            return None
        return self._kind, {"nodes": self._said[:MOST_IN_ANSWER], "count": len(self._said)}

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
        wanted = _handed_over_by(step)
        if wanted and not self._is_free_for(wanted):
            self._again()
            return
        said = act(crew, step, node)
        self._say(said)
        if wanted and any(d.action in (Action.TERMINATE, Action.REBOOT) for d in said):
            entry = crew.books[one.pool].machines[one.machine]
            token = entry.intent.token if entry.intent else ""
            policy = crew.policy
            within = {
                WANTED: policy.replace.handed_over_within,
                REBOOT_WANTED: policy.reboots.confirmed_within,
            }[wanted]
            self._may_answer(
                wanted,
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
        if not self._is_free_for(RESET_WANTED):
            self._again()
            return
        token = crew.token()
        node = one.view.name if one.view else ""
        by = crew.now() + crew.policy.replace.handed_over_within
        data = {"node": node, "machine": one.machine, "token": token, "by": by}
        why = reason_of(step.guards)
        made = replacing.intend(one, step.entry, "reset", token, why, crew.now())
        # First: what another call has decided about is not asked for by this one, too.
        crew.put(one.pool, one.machine, one.entry, made)
        self._may_answer(RESET_WANTED, data)
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


def _handed_over_by(step: Step) -> str:
    """The type of the event by which others are asked; empty: it is asked of who runs it."""
    way = step.facts.closer.way if step.facts.closer else ""
    if step.act is Act.TERMINATE:
        return WANTED if way == HandedOver.name else ""
    return REBOOT_WANTED if is_reboot_handed_over(step.facts.machine, way) else ""
