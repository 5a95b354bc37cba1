"""cordon: takes sick nodes out of service, and gives them back.

Woken by every outside event about nodes, and by a clock (resync). Opens, refreshes and closes
incidents, and cordons or uncordons, in one patch per node. Answers ``nodes.cordoned`` or
``nodes.released``.

May write: the annotation ``groundcrew.dev/incidents``, the labels ``groundcrew.dev/state`` and
``groundcrew.dev/instance``, ``spec.unschedulable``, the label that keeps external load balancers
off, the ledgers, Events. Never: evicts or deletes anything, undoes a cordon that is not ours,
touches a taint.

An event is a hint. What is done follows from the nodes as read in this call, and what no event
told is found by the resync: marked nodes each time (but those with history alone), all nodes every
`FULL_READ`.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from events import registry
from events.cloudevent import CloudEvent
from events.notice import Notice, Reading
from events.sources import kubernetes_node
from functions.edge import sender
from functions.edge.context import Answer, Context, Outcome
from functions.gateways.kubernetes import errors, json_patch, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.together import Turn
from functions.rules import cordoning, drain_order, keys
from functions.rules.budget import Place
from functions.rules.cordoning import NodeFacts
from functions.rules.decision import Action, Decision
from functions.rules.ledger import Ledger, Pending
from functions.rules.policy import fingerprint
from functions.rules.rebuild import Census, rebuild
from functions.steps import active, find, handed, mark, shares
from functions.steps.active import CLUSTER
from functions.steps.already import already_done
from functions.steps.carry_out import REGISTRATION, Crew, Edit, Work, pending_key, place
from functions.steps.handed import Handed

log = logging.getLogger(__name__)

PING = "dev.knative.sources.ping"
CORDONED = "dev.groundcrew.nodes.cordoned"
RELEASED = "dev.groundcrew.nodes.released"

ALREADY_DONE = "all that the event says is done already, as it shows itself"
TOGETHER = "done together with the event of another call"

FULL_READ = timedelta(minutes=5)
SEARCH = timedelta(minutes=1)
"""How often events about machines that no label names may have all nodes read: an account holds
many machines that are none of the cluster's. In between they wait for the resync."""
STAMPS_A_CALL = 200
"""New nodes whose instance label is written by one full read: two seconds' worth of patches, and a
fleet of 7,500 nodes within some hours."""
STAMPING_SECONDS = 1.0
"""What a full read has for that in any case: nobody waits for its answer, and one that is busy with
incidents each time must not put it off for ever."""
RESYNC_SECONDS = 1.0
"""What a resync has in any case to act on what it read. Thousands of nodes may take longer to read
than a call may last, and what no event told would never be acted on."""
_LEAST_SECONDS = 0.5
"""The same for an event whose turn came late, or whose machine had to be looked for: enough to
write down what it did not come to."""
_NEVER = datetime.min.replace(tzinfo=UTC)

decide = cordoning.decide


def handle(event: CloudEvent, context: Context) -> Outcome:
    if event.type == PING:
        return resync(context)
    reading = _read(event, context)
    if not reading.notices:
        return Outcome(declined=reading.declined)
    if done := already_done(event, context.clock.now()):
        return Outcome(declined=ALREADY_DONE, look_again=done.look_again)
    return hear(reading.notices, context)


def _read(event: CloudEvent, context: Context) -> Reading:
    """How ``event`` is understood, from whoever it is."""
    reading = registry.read(event)
    if not reading.notices or sender.is_known(event, context.settings.sender_key):
        return reading
    return msgspec.structs.replace(reading, notices=sender.doubted(reading.notices))


def handle_many(events: Sequence[CloudEvent], context: Context) -> list[Outcome]:
    """Many events as one: a hundred interruptions are one read, one reservation of places and a
    patch a node. The first event that says something has the outcome of all of them."""
    if any(event.type == PING for event in events):
        return [handle(event, context) for event in events]
    readings = [_read(event, context) for event in events]
    outcomes = [Outcome(declined=reading.declined) for reading in readings]
    told = [
        place
        for place, (event, reading) in enumerate(zip(events, readings, strict=True))
        if reading.notices and not already_done(event, context.clock.now())
    ]
    if told:
        outcomes[told[0]] = hear([n for place in told for n in readings[place].notices], context)
    return outcomes


def hear(notices: Sequence[Notice], context: Context) -> Outcome:
    """Act on what was just said, and on what other calls of this process were just told."""
    return context.together.run(
        tuple(notices),
        lambda asked, turn, waited: _hear(asked, turn, waited, context),
        context.settings.call_seconds,
    )


def _hear(
    asked: Sequence[tuple[Notice, ...]], turn: Turn, waited: float, context: Context
) -> list[Outcome | errors.KubernetesError]:
    cluster, parallel = context.cluster, context.settings.parallel
    notices = [notice for part in asked for notice in part]
    if parallel == 1:
        crew = _crew(context, turn, waited=waited)
        named = find.read_named(cluster, notices)
    else:
        # Others wait for our turn: what is in force is read while the nodes are.
        with ThreadPoolExecutor(1) as beside:
            reading = beside.submit(_crew, context, turn, waited=waited)
            named = find.read_named(cluster, notices, parallel)
            crew = reading.result()
    found = find.find(cluster, notices, named, full=_search_is_due(crew))
    crew.done.decisions += (_decline(notice, why) for notice, why in found.foreign)
    waiting = _Waiting(crew)
    work = {
        name: (node, (*found.notices[name], *waiting.about(node)))
        for name, node in found.nodes.items()
    }
    edits: list[Edit] = []
    if found.unknown:
        edits.append(crew.keep_pending(found.unknown))
        crew.done.look_again.append(crew.now + REGISTRATION)
    if found.searched:
        edits.append(_searched(crew))
    whole = _carry_out(crew, work, edits, waiting, unknown=found)
    results = _results(asked, whole, found, crew)
    # Who was taken along goes on: in a storm Events would take as long as the cordons.
    turn.answer(results)
    crew.tell()
    # Else the next events about new nodes would wait for the resync, since all nodes are not read
    # again so soon: a storm of interruptions hits many nodes that are minutes old.
    _stamp_all(crew, found.unstamped[:STAMPS_A_CALL])
    ours, *others = results
    if isinstance(ours, Outcome):
        ours = replace(ours, requests=dict(cluster.requests))
    return [ours, *others]


def _results(
    asked: Sequence[tuple[Notice, ...]], whole: Outcome, found: find.Found, crew: Crew
) -> list[Outcome | errors.KubernetesError]:
    """What each of the calls that were done together is told; the first of those that succeeded
    has the answer."""
    nobodys = {id(notice) for notice in found.nobodys}
    unknown = [_names(notice for notice in part if id(notice) in nobodys) for part in asked]
    told = shares.of(asked, whole.decisions, found)
    results: list[Outcome | errors.KubernetesError] = []
    answerer = True
    for part, decisions, names in zip(asked, told, unknown, strict=True):
        if problem := shares.problem_of(part, crew.done.failed, crew.done.lost, found):
            results.append(problem)
        elif answerer:
            results.append(replace(whole, decisions=decisions, unknown=names))
            answerer = False
        else:
            declined = "" if decisions else TOGETHER
            results.append(Outcome(decisions=decisions, declined=declined, unknown=names))
    return results


def resync(context: Context) -> Outcome:
    """Read the world and do what is due, whatever events were lost."""
    crew = _crew(context, context.together.turn(), RESYNC_SECONDS)
    policy, pools = crew.active.policy, crew.active.pools
    full = _full_read_is_due(crew)
    waiting = _Waiting(crew)
    searched = False
    waiting.read_all = full
    census = Census()
    out: list[Place] = []
    work: dict[str, tuple[types.Node, tuple[Notice, ...]]] = {}
    unstamped: list[types.Node] = []
    for node in context.cluster.list_nodes("" if full else _selector(pools, crew.now)):
        view = mark.view(node, policy)
        census.count(view, cordoning.domains_of(view, policy))
        if cordoning.is_out(view):
            out.append(place(view, policy))
        if find.is_unstamped(node):
            unstamped.append(node)
        waited_for = waiting.about(node)
        known = cordoning.remembered(pools, view.machine)
        # Of what is over nothing can recover.
        said = kubernetes_node.notices_of(node, recoveries=view.state != cordoning.RELEASED)
        looked = NodeFacts(view, waited_for, known, said)
        if (waited_for or view.marked or said or known) and not cordoning.is_at_rest(
            looked, pools, policy, crew.now
        ):
            work[node.name] = (node, waited_for)
    if not full:
        # Nodes that are not marked are not in this list, and some may be waited for.
        found = find.find(context.cluster, waiting.left(), full=waiting.unsearched)
        for name, node in found.nodes.items():
            work[name] = (node, waiting.about(node))
        searched = found.searched
    crew.done.decisions += (
        _decline(notice, "no such machine registered in time: not one of this cluster's")
        for notice in waiting.over
    )
    edits: list[Edit] = []
    if searched:
        edits.append(_searched(crew))
    if full:
        edits.append(_rebuild(crew, census))
    crew.done.look_again += waiting.until
    outcome = _carry_out(crew, work, edits, waiting, out)
    crew.tell()
    if full:
        _stamp_all(crew, unstamped[:STAMPS_A_CALL], STAMPING_SECONDS)
    for problem in crew.done.failed.values():
        raise problem  # one says it for all; those that did not fail are done
    if crew.done.lost or crew.done.unwritten:
        raise errors.Contended(
            "what was read is not written: others write the ledgers all the time"
        )
    if not full:
        return replace(outcome, requests=dict(context.cluster.requests))
    return replace(
        outcome, reads_all_again=crew.now + FULL_READ, requests=dict(context.cluster.requests)
    )


def _selector(pools: Mapping[str, Ledger], now: datetime) -> str:
    """Which nodes a tick reads. A node that was given back just now is read once more: until then
    its cordon counts as on, since our patch may not have reached it. One that is gone before that
    is remembered so for days."""
    leaving = any(
        entry.leaving and now - entry.seen < FULL_READ
        for led in pools.values()
        for entry in led.machines.values()
    )
    return keys.STATE if leaving else mark.UNSETTLED


class _Waiting:
    """Notices of earlier calls, whose machine was not there or whose turn did not come."""

    def __init__(self, crew: Crew) -> None:
        self._now = crew.now
        own = crew.active.ledgers.get(CLUSTER, Ledger())
        self._pending, self._searched = own.pending, own.searched or _NEVER
        self.served: set[str] = set()
        self.read_all = False
        """All nodes were read in this call, and each was asked `about`."""

    def about(self, node: types.Node) -> tuple[Notice, ...]:
        """Those about ``node``, which are then no longer waited for."""
        mine = {k: p.notice for k, p in self._pending.items() if _is_about(k, p.notice, node)}
        self.served |= mine.keys()
        return tuple(mine.values())

    def left(self) -> list[Notice]:
        return [p.notice for k, p in self._pending.items() if k not in self.served]

    @property
    def unsearched(self) -> bool:
        """Whether some came since all nodes were last read for such machines."""
        left = (p.until for k, p in self._pending.items() if k not in self.served)
        return any(until - REGISTRATION > self._searched for until in left)

    @property
    def until(self) -> list[datetime]:
        """When those that are still waited for have had their time."""
        left = (p for k, p in self._pending.items() if k not in self.served)
        return [p.until for p in left if not self._is_over(p)]

    @property
    def over(self) -> list[Notice]:
        """Those whose machine had its time to register and did not."""
        left = (p for k, p in self._pending.items() if k not in self.served)
        return [p.notice for p in left if self._is_over(p)]

    def _is_over(self, waited_for: Pending) -> bool:
        """Only by a reading of all nodes: a machine that registered at the last moment has no label
        to find it by."""
        return self.read_all and waited_for.until <= self._now

    def edit(self, ledgers: dict[str, Ledger]) -> dict[str, Ledger]:
        own = ledgers.get(CLUSTER, Ledger())
        left = {
            k: p for k, p in own.pending.items() if k not in self.served and not self._is_over(p)
        }
        return {**ledgers, CLUSTER: msgspec.structs.replace(own, pending=left)}


def _rebuild(crew: Crew, census: Census) -> Edit:
    def edit(ledgers: dict[str, Ledger]) -> dict[str, Ledger]:
        own = ledgers.get(CLUSTER, Ledger())
        pools = {pool: found for pool, found in ledgers.items() if pool != CLUSTER}
        in_force = crew.active
        fresh = msgspec.structs.replace(
            own,
            rebuilt=crew.now,
            searched=crew.now,
            size=census.size,
            policy=fingerprint(in_force.policy) if in_force.applied else own.policy,
        )
        return {**rebuild(pools, census, crew.now), CLUSTER: fresh}

    return edit


def _searched(crew: Crew) -> Edit:
    def edit(ledgers: dict[str, Ledger]) -> dict[str, Ledger]:
        own = ledgers.get(CLUSTER, Ledger())
        return {**ledgers, CLUSTER: msgspec.structs.replace(own, searched=crew.now)}

    return edit


def _search_is_due(crew: Crew) -> bool:
    searched = crew.active.ledgers.get(CLUSTER, Ledger()).searched or _NEVER
    return crew.now - searched >= SEARCH


def _crew(
    context: Context, turn: Turn, acting: float = _LEAST_SECONDS, *, waited: float = 0.0
) -> Crew:
    began = context.clock.monotonic()
    return Crew(
        cluster=context.cluster,
        clock=context.clock,
        began=began,
        namespace=context.settings.namespace,
        active=active.read(context.cluster, context.settings.namespace),
        now=context.clock.now(),
        seconds=context.settings.call_seconds - waited,
        acting_seconds=acting,
        turn=turn,
        parallel=context.settings.parallel,
    )


def _full_read_is_due(crew: Crew) -> bool:
    if CLUSTER not in crew.active.ledgers:
        return True
    rebuilt = [led.rebuilt or _NEVER for led in crew.active.ledgers.values()]
    return crew.now - min(rebuilt) >= FULL_READ


def _carry_out(
    crew: Crew,
    work: Work,
    edits: Sequence[Edit],
    waiting: _Waiting,
    out: list[Place] | None = None,
    unknown: find.Found | None = None,
) -> Outcome:
    """All but the Events, which the caller tells."""
    done = crew.run(work, edits=edits, out=out)
    if done.unfinished or done.unwritten:
        crew.tell()  # before it turns out that this event has to come again, with no news then
        crew.keep(done.unfinished, done.unwritten)
    if unknown:
        _keep_unknown(crew, unknown)
    undone = [*done.unfinished, *(n for name in done.failed for n in work[name][1])]
    waiting.served -= {pending_key(notice) for notice in undone}
    if waiting.served or waiting.over:
        # Only now: a crash before would have lost what was waited for. Left in the ledger by a
        # lost race it is heard once more, which changes nothing.
        crew.edit([waiting.edit])
    answer = None
    if done.cordoned:
        answer = Answer(CORDONED, _cordoned(crew))
    elif done.released:
        answer = Answer(RELEASED, {"nodes": [{"node": name} for name in done.released]})
    return Outcome(
        decisions=tuple(done.decisions),
        answer=answer,
        look_again=min(done.look_again, default=None),
        requests=dict(crew.cluster.requests),
        handed=_handed(crew) if 0 < len(done.cordoned) <= handed.MOST else None,
    )


def _handed(crew: Crew) -> Handed:
    nodes = {name: node for name, node in crew.done.written.items() if name in crew.done.cordoned}
    return Handed(crew.active, nodes, crew.began)


def _keep_unknown(crew: Crew, found: find.Found) -> None:
    """Say what became of notices about machines that nobody knows."""
    for notice in found.unknown:
        if crew.keeps(notice):
            why = "no such machine is known; kept in case it registers yet"
        elif found.searched and not crew.done.unwritten:
            why = "no such machine is known, and too many are waited for already"
        else:
            crew.done.lost.append(notice)
            continue
        crew.done.decisions.append(_decline(notice, why))


def _cordoned(crew: Crew) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    for name, worst in crew.done.cordoned.items():
        nodes.append({"node": name, "severity": worst})
        if lost := crew.done.deadlines.get(name):
            nodes[-1]["deadline"] = lost
    lately = drain_order.cordoned_lately(crew.active.pools.values(), crew.now)
    # Where more are to be expected, drain need not read the cluster to know that.
    return {"nodes": nodes} | ({"cordoned_lately": lately} if lately >= drain_order.MANY else {})


def _is_about(key: str, notice: Notice, node: types.Node) -> bool:
    machine = find.instance_id(node.provider_id)
    mine = key.startswith(f"node:{node.name}/") or (machine and key.startswith(f"{machine}/"))
    return bool(mine) and not find.another(node, notice.identity)


def _decline(notice: Notice, why: str) -> Decision:
    said = notice.identity
    return Decision(
        function=cordoning.FUNCTION,
        action=Action.NOTHING,
        node=said.node or said.provider_id or said.instance_id,
        incident=f"{notice.source}/{notice.check}",
        reason=why,
        evidence=notice.evidence,
    )


def _stamp_all(crew: Crew, nodes: Sequence[types.Node], seconds: float = 0.0) -> None:
    """Label ``nodes`` with their clouds' instance IDs, in what is left of the call's time or, if
    that is less, in ``seconds``. What is not come to, or cannot be, is for the next full read: it
    must not undo the answer to what is done already."""
    ends = crew.clock.monotonic() + max(seconds, crew.left)
    cluster = crew.cluster.bounded(lambda: ends - crew.clock.monotonic())
    try:
        if crew.parallel == 1:
            for node in nodes:
                _stamp(cluster, node)
            return
        with ThreadPoolExecutor(crew.parallel) as pool:
            list(pool.map(lambda node: _stamp(cluster, node), nodes))
    except errors.KubernetesError as problem:
        log.warning("not all new nodes have the label %s yet: %s", keys.INSTANCE, problem)


def _stamp(cluster: Cluster, node: types.Node) -> None:
    """Label a node with its cloud's instance ID, if it still is that machine."""
    value = find.stamp(node)
    if not value or node.metadata.labels is None:
        return
    operations = [
        json_patch.test("/metadata/uid", node.metadata.uid),
        json_patch.test("/spec/providerID", node.provider_id),
        json_patch.add(json_patch.label(keys.INSTANCE), value),
    ]
    try:
        cluster.patch_node(node.name, operations)
    except (errors.TestFailed, errors.NotFound):
        return  # another machine by now; the next full read stamps it


def _names(notices: Iterable[Notice]) -> frozenset[str]:
    return frozenset().union(*(notice.identity.names for notice in notices))
