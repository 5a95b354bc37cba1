"""Carrying out what `rules.cordoning` decides: ledgers first, then nodes, then the telling.

Whatever loses a race is read again and decided again, so that the last word is always about the
cluster as it is. What the time of one call does not suffice for is written down as pending, and
taken up by the resync.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from events.notice import Notice
from events.sources import kubernetes_node
from functions.gateways.clock import Clock
from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.together import Turn
from functions.rules import budget, cordoning, drain_times, keys
from functions.rules.cordoning import Facts, NodeFacts, Plan, Verdict
from functions.rules.decision import Action, Decision
from functions.rules.ledger import Ledger, Pending
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy
from functions.steps import active, find, mark, tell
from functions.steps.active import CLUSTER, Active

TRIES = 40
"""Lost races in a row before the rest is left to the resync; the time of the call mostly ends
before: with twenty instances at one ledger the last of them loses nineteen."""
REGISTRATION = timedelta(minutes=15)
"""How long a notice waits for its machine to register (the time a large VM takes to boot)."""
MOST_PENDING = 500
SAVING_SECONDS = 1.0
"""Kept beyond the time of a call, for writing down what it did not come to."""
MARKED = f"{keys.STATE} in ({','.join(cordoning.ACTED)})"

Work = Mapping[str, tuple[types.Node, tuple[Notice, ...]]]
"""By node name: the node as read, and what events said about it. What the node says of itself is
taken from it each time that it is read."""
Edit = Callable[[dict[str, Ledger]], dict[str, Ledger]]
"""A change of the ledgers as read, made again on each try."""


@dataclass
class Done:
    """What one call did."""

    decisions: list[Decision] = field(default_factory=list)
    cordoned: dict[str, str] = field(default_factory=dict)
    """Node -> severity, for those cordoned or raised just now."""
    deadlines: dict[str, datetime] = field(default_factory=dict)
    """Node -> when the cloud takes the machine, for those of them of which that is known."""
    released: list[str] = field(default_factory=list)
    look_again: list[datetime] = field(default_factory=list)
    unfinished: list[Notice] = field(default_factory=list)
    unwritten: tuple[Edit, ...] = ()
    """Edits that lost every race."""
    failed: dict[str, errors.KubernetesError] = field(default_factory=dict)
    """By node: what kept its verdict from being written. The others were."""
    lost: list[Notice] = field(default_factory=list)
    """Neither done nor kept: whoever said it must say it again."""
    written: dict[str, types.Node] = field(default_factory=dict)
    """By name, nodes as they are with their verdicts."""


@dataclass
class Crew:
    """One call's hands."""

    cluster: Cluster
    clock: Clock
    namespace: str
    active: Active
    now: datetime
    seconds: float
    """How long the call may take."""
    acting_seconds: float
    """What it has in any case to act on what it read, however long that took."""
    began: float
    """When it was first asked what is in force, by the monotonic clock."""
    turn: Turn
    """One call of a process at a time takes places in the ledgers. A call that holds it leaves it
    as soon as they are written, so that the next one reserves while we patch."""
    parallel: int = 8
    """Node patches in flight: a lone one gives 50 a second, eight about 130 (more gain nothing)."""
    done: Done = field(default_factory=Done)

    def __post_init__(self) -> None:
        self._ends = self._over = self.clock.monotonic() + self.seconds
        self._uids: dict[str, str] = {}
        self._away: errors.KubernetesError | None = None
        """Once the server does not answer, or asks for patience, it is asked no more."""
        self._told = 0

    @property
    def left(self) -> float:
        """Seconds of the call's own time."""
        return self._over - self.clock.monotonic()

    def run(
        self, work: Work, *, edits: Sequence[Edit] = (), out: Sequence[budget.Place] | None = None
    ) -> Done:
        """Decide about ``work`` and do it. ``edits`` are made to the ledgers first; ``out`` are
        the places of the nodes out of service, if the caller has just read them."""
        # To read thousands of nodes may have taken all the time there was, and the next reading
        # will take as long.
        self._ends = max(self._ends, self.clock.monotonic() + self.acting_seconds)
        for attempt in range(TRIES):
            if attempt:
                self._wait(attempt)
                if self.clock.monotonic() > self._ends:
                    self.done.unfinished += (n for _, said in work.values() for n in said)
                    break
            plan, out = self._decide(work, edits, out)
            if plan.cluster or plan.ledgers:
                plan, out, written = self._take_turn(plan, work, edits, out)
                if not written:
                    out = None
                    continue
            edits = ()
            self.turn.leave()
            lost = self._patch(plan, work)
            if not lost:
                break
            work = self._again(lost, work)
        else:
            self.done.unfinished += (n for _, notices in work.values() for n in notices)
        self.done.unwritten = tuple(edits)
        return self.done

    def keep(self, notices: Sequence[Notice], edits: Sequence[Edit] = ()) -> None:
        """Write down, for the resync, what this call did not come to; it has a little time of its
        own for that. What it could not is `Done.lost`, and `Done.unwritten`: an event must not be
        answered as done that is neither done nor kept."""
        if not notices and not edits:
            return
        self._ends = self.clock.monotonic() + SAVING_SECONDS
        written = self.edit([*edits, self.keep_pending(notices)])
        self.done.lost += [n for n in notices if not (written and self.keeps(n))]
        self.done.unwritten = () if written else tuple(edits)

    def keeps(self, notice: Notice) -> bool:
        """Whether it is written down for the resync."""
        return pending_key(notice) in self.active.ledgers.get(CLUSTER, Ledger()).pending

    def edit(self, edits: Sequence[Edit]) -> bool:
        """Make ``edits`` to the ledgers and nothing else; whether it was done in the time left."""
        for attempt in range(TRIES):
            if attempt:
                self._wait(attempt)
            if self.clock.monotonic() > self._ends:
                return False
            plan, _ = self._decide({}, edits, ())
            if not (plan.cluster or plan.ledgers):
                return True
            if self._take_turn(plan, {}, edits, ())[2]:
                return True
        return False

    def _take_turn(
        self, plan: Plan, work: Work, edits: Sequence[Edit], out: Sequence[budget.Place] | None
    ) -> tuple[Plan, Sequence[budget.Place] | None, bool]:
        """Write the plan's ledgers while no other call of this process does: the plan that stands
        then, and whether it was written."""
        waited = not self.turn.take_if_free()
        if waited and not self.turn.take(self._ends - self.clock.monotonic()):
            return plan, out, False
        try:
            if waited:  # what was read before the wait has been written over since
                self.active = active.read(self.cluster, self.namespace)
                plan, out = self._decide(work, edits, None if work else ())
            return plan, out, self._write_ledgers(plan)
        finally:
            self.turn.leave()

    def tell(self) -> None:
        """The story so far as Events on the nodes, each part of it once."""
        news, self._told = self.done.decisions[self._told :], len(self.done.decisions)
        tell.tell(self.cluster, news, self._uids, self.now, self.parallel)

    def keep_pending(self, notices: Iterable[Notice]) -> Edit:
        """The edit that keeps notices for machines that may register yet. Where there is no room,
        those make it that waited longest since all nodes were read for them."""
        told = [(key, notice) for notice in notices if (key := pending_key(notice))]

        def edit(ledgers: dict[str, Ledger]) -> dict[str, Ledger]:
            own = ledgers.get(CLUSTER, Ledger())
            pending = dict(own.pending)
            for key, notice in told:
                known = pending.get(key)
                if known is None:
                    pending[key] = Pending(notice, self.now + REGISTRATION)
                elif _is_news(notice, known.notice):
                    pending[key] = msgspec.structs.replace(known, notice=notice)
            if pending == own.pending:
                return ledgers
            looked_for = (
                k
                for k, p in own.pending.items()
                if own.searched and p.until - REGISTRATION <= own.searched
            )
            for key in sorted(looked_for, key=lambda k: own.pending[k].until):
                if len(pending) <= MOST_PENDING:
                    break
                del pending[key]
            pending = dict(list(pending.items())[:MOST_PENDING])
            return {**ledgers, CLUSTER: msgspec.structs.replace(own, pending=pending)}

        return edit

    def _decide(
        self, work: Work, edits: Sequence[Edit], out: Sequence[budget.Place] | None
    ) -> tuple[Plan, Sequence[budget.Place] | None]:
        ledgers = dict(self.active.ledgers)
        for edit in edits:
            ledgers = edit(ledgers)
        pools = {pool: found for pool, found in ledgers.items() if pool != CLUSTER}
        policy = self.active.policy
        nodes = []
        for node, notices in work.values():
            view = mark.view(node, policy)
            machine = cordoning.remembered(pools, view.machine)
            live = kubernetes_node.notices_of(node)
            nodes.append(NodeFacts(view, notices, machine, live))
        facts = Facts(
            nodes=tuple(nodes),
            ledgers=pools,
            cluster=ledgers.get(CLUSTER),
            out=tuple(out or ()),
            paused=lambda pool: self.active.paused(pool, self.now),
        )
        if out is None:
            facts = replace(facts, remembered=remembered_out(pools))
        plan = cordoning.decide(facts, policy, self.now)
        if out is None and _must_be_counted(plan, facts, policy):
            views = (mark.view(node, policy) for node in self.cluster.list_nodes(MARKED))
            out = [place(view, policy) for view in views if cordoning.is_out(view)]
            plan = cordoning.decide(replace(facts, out=tuple(out), remembered=()), policy, self.now)
        if edits:  # what they changed is to be written even where `decide` changed nothing
            changed = {p: led for p, led in pools.items() if led is not self.active.ledgers.get(p)}
            plan = replace(
                plan,
                ledgers={**changed, **plan.ledgers},
                cluster=plan.cluster or _if_changed(facts.cluster, self.active),
            )
        return plan, out

    def _write_ledgers(self, plan: Plan) -> bool:
        """The cluster's first, then the pools', each by compare-and-set; False when a race was
        lost. A reservation that is then not used runs out by itself."""
        writes: list[tuple[str, Ledger]] = [(CLUSTER, plan.cluster)] if plan.cluster else []
        writes += sorted(plan.ledgers.items())
        try:
            for pool, new in writes:
                self.active = active.write_ledger(
                    self.cluster, self.namespace, self.active, pool, new
                )
        except active.LOST_RACE:
            self.active = active.read(self.cluster, self.namespace)
            return False
        return True

    def _patch(self, plan: Plan, work: Work) -> dict[str, errors.TestFailed]:
        """Write the verdicts; by name the nodes that were changed meanwhile, or look like it."""
        to_write = [v for v in plan.verdicts if v.changed]
        for verdict in plan.verdicts:
            self._uids[verdict.view.name] = verdict.view.uid
            if not verdict.changed:
                self._note(verdict)
        lost: dict[str, errors.TestFailed] = {}
        if self.parallel > 1 and len(to_write) > 2:
            with ThreadPoolExecutor(self.parallel) as pool:
                outcomes = list(pool.map(self._patch_one, to_write))
        else:
            outcomes = [self._patch_one(verdict) for verdict in to_write]
        for verdict, outcome in zip(to_write, outcomes, strict=True):
            if isinstance(outcome, errors.TestFailed):
                lost[verdict.view.name] = outcome
            elif isinstance(outcome, errors.KubernetesError):
                self.done.failed[verdict.view.name] = outcome
            elif outcome == "late":
                self.done.unfinished += work[verdict.view.name][1]
            elif outcome == "written":
                self._note(verdict)
        return lost

    def _patch_one(self, verdict: Verdict) -> str | errors.KubernetesError:
        if self._away:
            return self._away
        if self.clock.monotonic() > self._ends:
            # A reservation must not run out before its patch lands, and others wait behind us.
            return "late"
        try:
            self.done.written[verdict.view.name] = mark.write(self.cluster, verdict)
        except errors.NotFound:
            return "gone"
        except errors.KubernetesError as problem:
            return self._failed(problem)
        return "written"

    def _failed(self, problem: errors.KubernetesError) -> errors.KubernetesError:
        if isinstance(problem, (errors.Unreachable, errors.TooManyRequests)):
            self._away = problem
        return problem

    def _note(self, verdict: Verdict) -> None:
        self.done.decisions += verdict.decisions
        if verdict.look_again:
            self.done.look_again.append(verdict.look_again)
        for decision in verdict.decisions:
            if decision.action in (Action.CORDON, Action.RAISE):
                self.done.cordoned[decision.node] = decision.severity
                if lost := drain_times.lost_at(verdict.view, verdict.record):
                    self.done.deadlines[decision.node] = lost
            elif decision.action is Action.UNCORDON:
                self.done.released.append(decision.node)

    def _again(self, lost: Mapping[str, errors.TestFailed], work: Work) -> Work:
        again: dict[str, tuple[types.Node, tuple[Notice, ...]]] = {}
        for name, refusal in lost.items():
            before, notices = work[name]
            try:
                node = self.cluster.get_node(name)
            except errors.NotFound:
                continue
            except errors.KubernetesError as problem:
                self.done.failed[name] = self._failed(problem)
                continue
            if node.metadata.resource_version == before.metadata.resource_version:
                # Nobody was faster: an admission policy, or a rule of the API, says no.
                self.done.failed[name] = refusal
                continue
            if node.metadata.uid == before.metadata.uid or (
                node.provider_id and node.provider_id == before.provider_id
            ):
                again[name] = (node, notices)
        return again

    def _wait(self, attempt: int) -> None:
        """Others are as fast as we are: step out of their rhythm."""
        self.clock.sleep(random.uniform(0, 0.02 * 2 ** min(attempt, 4)))


def remembered_out(pools: Mapping[str, Ledger]) -> tuple[budget.Place, ...]:
    """Every machine that the ledgers say was cordoned: at least those that are. A ledger is
    written before its nodes, so that some of them may not be out yet, or not any more."""
    return tuple(
        budget.Place(machine, pool)
        for pool, found in pools.items()
        for machine, known in found.machines.items()
        if known.cordoned
    )


def _must_be_counted(plan: Plan, facts: Facts, policy: Policy) -> bool:
    """Whether what is out of service has to be read from the nodes. Not where even everything
    that the ledgers remember leaves room: half of a fleet accused at once would else have all
    marked nodes read for each of them."""
    if any("budget" in v.record.held for v in plan.verdicts):
        return True  # they may remember too much: nodes that are gone, or given back by others
    known = facts.ledgers.values()
    all_there = facts.cluster and facts.cluster.size == sum(found.size for found in known)
    if policy.budget.domains or not all_there or any(found.forgot for found in known):
        # They say nothing of failure domains, or not of all machines or pools.
        return plan.asked and any(v.unschedulable for v in plan.verdicts)
    return False


def place(view: NodeView, policy: Policy) -> budget.Place:
    return budget.Place(view.machine, view.pool, cordoning.domains_of(view, policy))


def pending_key(notice: Notice) -> str:
    """``machine/...`` or ``node:name/...``: what to find the node of a pending notice by."""
    said = notice.identity
    machine = find.instance_id(said.provider_id) or said.instance_id
    who = machine or (f"node:{said.node}" if said.node else "")
    return f"{who}/{notice.source}/{notice.check}/{notice.kind}/{notice.ref}" if who else ""


def _is_news(notice: Notice, known: Notice) -> bool:
    """Whether ``notice``, of the same key, is to be kept in the place of ``known``."""
    older = notice.since and known.since and notice.since < known.since
    return notice != known and not older


def _if_changed(cluster: Ledger | None, read: Active) -> Ledger | None:
    return cluster if cluster is not read.ledgers.get(CLUSTER) else None
