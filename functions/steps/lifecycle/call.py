"""One call: what is due for each hold of a node is done, and written down there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from events.sources.autoscaling import Lifecycle
from functions.gateways.aws.types import Machine, NotOfEc2
from functions.gateways.kubernetes import types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import lifecycle
from functions.rules.decision import Action, Decision
from functions.rules.lifecycle import Act, Facts, Hold
from functions.rules.policy import Policy
from functions.steps import mark
from functions.steps.lifecycle import held
from functions.steps.lifecycle.held import Held
from functions.steps.lifecycle.hooks import GONE, Hooks, Refused

FUNCTION = "replace"
AGAIN = timedelta(minutes=1)


@dataclass
class Call:
    cluster: Cluster
    hooks: Hooks
    now: datetime
    policy: Policy
    paused: Callable[[str], str]
    decisions: list[Decision] = field(default_factory=list)
    looks: list[datetime] = field(default_factory=list)

    def carry_on(self, node: types.Node, holds: Sequence[Held], done: bool) -> None:
        """Do what is due for ``holds``, and write on the node what came of it."""
        view = mark.view(node, self.policy)
        if view.opted_out:
            return
        try:
            machine = Machine.of(node.provider_id)
        except NotOfEc2 as problem:
            self._say(node.name, Action.NOTHING, str(problem), holds[0].incident, view.pool)
            return
        before = held.read(node)
        after = dict(before)
        for one in holds:
            actions = [one.action] if one.action else self.hooks.actions_of(machine, node.name)
            for action in actions:
                name = ":".join(action)
                turn = _Turn(node.name, view.pool, machine, one, action, done)
                hold = self._next(turn, before.get(name, Hold()))
                after[name] = lifecycle.with_end(hold, turn.facts(hold), self.policy.lifecycle)
        if after != before:
            held.write(self.cluster, node, after)

    def tell(
        self,
        machine: Machine,
        action: Lifecycle,
        act: Act,
        node: str,
        incident: str = "",
        pool: str = "",
        why: str = "no node stands for the instance",
    ) -> str:
        """What the hold is by now; empty where AWS did not take it."""
        hook = f"hook {action.hook} of group {action.group}"
        try:
            told = self.hooks.tell(machine, action, act)
        except Refused as problem:
            self._say(node, Action.NOTHING, f"{hook} could not be told: {problem}", incident, pool)
            return ""
        if told not in (Act.BEAT, GONE):
            self._say(node, Action.HOOK, f"{hook} is told {told}: {why}", incident, pool)
        return told

    def _next(self, turn: "_Turn", hold: Hold) -> Hold:
        """What the hold is after what is due was done."""
        facts = turn.facts(hold, self.paused(turn.pool))
        due = lifecycle.decide(facts, self.policy.lifecycle, self.now)
        if due.act is Act.ASK:
            asked = self.hooks.settings(turn.machine.region, turn.action, turn.node, hold)
            if asked == hold or asked.ended:
                return asked
            self._say_if_short(turn, asked)
            return self._next(turn, asked)
        if due.act in (Act.WAIT, Act.NOTHING):
            self._look_at(due)
            return hold
        told = self.tell(
            turn.machine,
            turn.action,
            due.act,
            turn.node,
            turn.held.incident,
            turn.pool,
            due.reason,
        )
        if not told:
            self.looks.append(self.now + AGAIN)
            return hold
        if told == Act.BEAT:
            beaten = msgspec.structs.replace(hold, beat=self.now, beats=hold.beats + 1)
            waits = msgspec.structs.replace(facts, hold=beaten)
            self._look_at(lifecycle.decide(waits, self.policy.lifecycle, self.now))
            return beaten
        return msgspec.structs.replace(hold, ended=told)

    def _say_if_short(self, turn: "_Turn", hold: Hold) -> None:
        if timedelta(seconds=hold.seconds) < lifecycle.SHORT:
            self._say(
                turn.node,
                Action.NOTHING,
                f"hook {turn.action.hook} of group {turn.action.group} holds for {hold.seconds} s, "
                "and may run out between two looks: give it two minutes at least",
                turn.held.incident,
                turn.pool,
            )

    def _look_at(self, due: lifecycle.Next) -> None:
        if due.look_again:
            self.looks.append(due.look_again)

    def _say(
        self, node: str, action: Action, reason: str, incident: str = "", pool: str = ""
    ) -> None:
        self.decisions.append(
            Decision(
                function=FUNCTION,
                action=action,
                node=node,
                reason=reason,
                incident=incident,
                pool=pool,
            )
        )


@dataclass(frozen=True)
class _Turn:
    """One hold of one node, in this call."""

    node: str
    pool: str
    machine: Machine
    held: Held
    action: Lifecycle
    done: bool

    def facts(self, hold: Hold, paused: str = "") -> Facts:
        return Facts(
            hold=hold,
            since=self.held.since,
            launching=self.held.launching,
            done=self.done,
            paused=paused,
        )
