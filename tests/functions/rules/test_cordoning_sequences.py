"""Whatever happens in whatever order: what cordon never does.

Six nodes of one pool live through random sequences of faults, recoveries, late events, reboots,
people who cordon and uncordon, nodes made anew, lost patches and clocks that jump.
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from events.notice import Identity, Notice, Severity
from functions.rules import incidents
from functions.rules.budget import Place
from functions.rules.cordoning import ACTED, Facts, NodeFacts, Plan, decide, is_out, remembered
from functions.rules.decision import Action
from functions.rules.ledger import Ledger
from functions.rules.node_view import NodeView
from functions.rules.policy import parse
from functions.rules.rebuild import Census, rebuild
from tests.support.facts import NOW, after, node, notice, recovery

SIZE, LIMIT = 6, 2
POLICY = parse(
    "version: 1\n"
    "budget: {pool: 34%, cluster: 34%}\n"
    "breaker: {share: 60%, day_share: 80%}\n"
    "recovery: {releases: 3}\n"
)
CHECKS = {"Ready": False, "KernelReady": True, "GPUMissing": False}
"""Whether the source is latched."""

names = st.sampled_from([f"n{number}" for number in range(SIZE)])
checks = st.sampled_from(list(CHECKS))
severities = st.sampled_from(list(Severity))
times = st.sampled_from([timedelta(minutes=m) for m in (0, 1, 5, 15, 60, 25 * 60)])


class Sequences(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.views = {f"n{n}": node(f"n{n}", pool="gpu") for n in range(SIZE)}
        self.sick: dict[str, dict[str, tuple[Severity, datetime]]] = {n: {} for n in self.views}
        self.ours: set[str] = set()
        self.firsts: dict[tuple[str, str], datetime] = {}
        self.ledgers: dict[str, Ledger] = {}
        self.cluster: Ledger | None = None
        self.sent: list[tuple[str, Notice]] = []
        self.full_read()

    # what happens

    @rule(name=names, check=checks, severity=severities)
    def falls_sick(self, name: str, check: str, severity: Severity) -> None:
        self.sick[name].setdefault(check, (severity, self.now))

    @rule(name=names, check=checks)
    def says_it_is_well(self, name: str, check: str) -> None:
        self.sick[name].pop(check, None)

    @rule(name=names, check=checks, severity=severities, age=times, well=st.booleans())
    def an_event_comes(
        self, name: str, check: str, severity: Severity, age: timedelta, well: bool
    ) -> None:
        make = recovery if well else notice
        identity = Identity(node=name, boot_id=self.views[name].boot_id)
        more: dict[str, Any] = {} if well else {"severity": severity}
        said = make(check, source="elsewhere", since=self.now - age, identity=identity, **more)
        self.sent.append((name, said))
        self.look(name, said)

    @rule(number=st.integers(min_value=0, max_value=50))
    def an_event_comes_again(self, number: int) -> None:
        if self.sent:
            name, said = self.sent[number % len(self.sent)]
            self.look(name, said)

    @rule(name=names)
    def a_human_cordons(self, name: str) -> None:
        # Who uncordons and cordons again before anybody looks has changed nothing that can be seen.
        seen_as_ours = incidents.read(self.views[name]).cordoned_by_us
        if not self.views[name].unschedulable and not seen_as_ours:
            self.change(name, unschedulable=True)

    @rule(name=names)
    def a_human_uncordons(self, name: str) -> None:
        self.ours.discard(name)
        self.change(name, unschedulable=False)

    @rule(name=names)
    def it_boots(self, name: str) -> None:
        self.change(name, boot_id=f"{self.views[name].boot_id}+")

    @rule(name=names, same_machine=st.booleans())
    def its_node_is_made_anew(self, name: str, same_machine: bool) -> None:
        old = self.views[name]
        self.ours.discard(name)
        self.forget(old.machine)
        provider_id = old.provider_id if same_machine else f"{old.provider_id}+"
        self.views[name] = node(name, uid=f"{old.uid}+", provider_id=provider_id)

    @rule(by=st.sampled_from([-300, -1, 0, 60, 600, 1800, 7200, 90_000]))
    def time_passes_or_a_clock_is_set(self, by: int) -> None:
        self.now += timedelta(seconds=by)

    @rule()
    def full_read(self) -> None:
        census = Census()
        for view in self.views.values():
            census.count(view, ())
        self.ledgers = rebuild(self.ledgers, census, self.now)
        self.cluster = msgspec.structs.replace(self.cluster or Ledger(), rebuilt=self.now)

    @rule()
    def resync(self) -> None:
        self.look(*self.views)

    @rule(name=names)
    def a_patch_is_lost_after_the_ledger_was_written(self, name: str) -> None:
        self.keep(self.decide((name,)))

    # how it is looked at

    def look(self, *names: str | Notice) -> None:
        nodes = tuple(n for n in names if isinstance(n, str))
        said = tuple(n for n in names if isinstance(n, Notice))
        plan = self.decide(nodes, said)
        self.write(plan)
        if {d.action for d in plan.decisions} & {Action.DISMISS, Action.UNCORDON}:
            self.write(self.decide(nodes, said))  # what was waiting for such a place
        again = self.decide(nodes, said)
        assert not [v for v in again.verdicts if v.changed], "a repeat wrote a node"
        assert not again.ledgers, "a repeat wrote a pool's ledger"
        assert again.cluster is None, "a repeat wrote the cluster's ledger"

    def decide(self, nodes: tuple[str, ...], said: tuple[Notice, ...] = ()) -> Plan:
        facts = tuple(
            NodeFacts(
                self.views[name],
                said,
                remembered(self.ledgers, self.views[name].machine),
                self.live(self.views[name]),
            )
            for name in nodes
        )
        out = tuple(Place(v.machine, v.pool) for v in self.views.values() if is_out(v))
        return decide(Facts(facts, self.ledgers, self.cluster, out), POLICY, self.now)

    def live(self, view: NodeView) -> tuple[Notice, ...]:
        sick = self.sick[view.name]
        identity = Identity(node=view.name, boot_id=view.boot_id)
        return tuple(
            notice(
                check, latched=latched, severity=sick[check][0], since=sick[check][1],
                identity=identity,
            )
            if check in sick
            else recovery(check, latched=latched, identity=identity)
            for check, latched in CHECKS.items()
        )  # fmt: skip

    def keep(self, plan: Plan) -> None:
        self.ledgers = {**self.ledgers, **plan.ledgers}
        self.cluster = plan.cluster or self.cluster

    def write(self, plan: Plan) -> None:
        self.keep(plan)
        for verdict in plan.verdicts:
            assert verdict.look_again is None or verdict.look_again > self.now
            if not verdict.changed:
                continue
            name = verdict.view.name
            if verdict.unschedulable is False:
                assert name in self.ours, "somebody else's cordon was taken off"
                self.ours.discard(name)
            if verdict.unschedulable is True:
                self.ours.add(name)
            self.views[name] = after(verdict)

    def change(self, name: str, **more: Any) -> None:
        self.views[name] = msgspec.structs.replace(self.views[name], **more)

    def forget(self, machine: str) -> None:
        self.firsts = {k: f for k, f in self.firsts.items() if k[0] != machine}

    # what always holds

    @invariant()
    def no_more_are_out_than_the_budget_allows(self) -> None:
        assert len(self.ours) <= LIMIT

    @invariant()
    def first_seen_never_moves_while_an_incident_is_open(self) -> None:
        firsts = {}
        for view in self.views.values():
            record = incidents.read(view)
            if record.cordon and not view.unschedulable:
                continue  # uncordoned and not seen yet: dismissed when it is
            for one in record.open:
                firsts[view.machine, one.key] = one.first
        for key, first in firsts.items():
            assert self.firsts.get(key, first) == first
        self.firsts = firsts

    @invariant()
    def what_is_marked_as_out_is_out(self) -> None:
        for view in self.views.values():
            record = incidents.read(view)
            if record.cordoned_by_us and view.name in self.ours:
                assert view.unschedulable
                assert view.state in ACTED


TestSequences = Sequences.TestCase
TestSequences.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
