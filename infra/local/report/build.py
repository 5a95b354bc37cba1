"""From what a recorder heard of a play to the model of a report."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import structs

from functions.rules.policy import Policy
from infra.local.player import Played
from infra.local.report import model, node_state, story
from infra.local.report.history import milliseconds
from infra.local.report.recorder import Recorder
from infra.local.scenario import Scenario
from infra.local.summary import failures_of, rows_of, span, verdict_of
from infra.local.timeline import Checked, Did, Happened, Trouble

WEEK = timedelta(days=7)
"""A weekday says which day it is for so long."""


def build(recorder: Recorder, played: Played, notes: Sequence[str] | None = None) -> model.Run:
    """``notes``, where what was played is recorded history: what its reader is to know."""
    scenario = recorder.scenario
    places = {name: place for place, name in enumerate(recorder.nodes)}
    marks = _marks(recorder, places)
    nodes = tuple(history.as_model(scenario.end) for history in recorder.nodes.values())
    if notes is not None:
        # Those that have nothing to tell are most of them, and folded.
        busy = {mark.n for mark in marks}
        nodes = tuple(
            node if place in busy or len(node.states) > 1 else structs.replace(node, heard=())
            for place, node in enumerate(nodes)
        )
    return model.Run(
        name=scenario.name,
        recorded=notes is not None,
        shows=" ".join((scenario.shows, *map(_sentence, notes or ()))),
        about=about(scenario),
        start=scenario.start.isoformat().replace("+00:00", "Z"),
        length=milliseconds(scenario.end - scenario.start),
        ok=not failures_of(played),
        verdict=verdict_of(played).removeprefix(f"{scenario.name}: "),
        failures=tuple(failures_of(played)),
        summary=_summary(played, nodes),
        cluster=_cluster(recorder.policy, nodes),
        pools=_pools(recorder, nodes),
        teams=_teams(nodes),
        nodes=nodes,
        marks=marks,
        calls=tuple(recorder.calls),
        story=tuple(_story(recorder) if notes is None else story.of_history(recorder)),
        checks=tuple(_checks(recorder)),
        bands=tuple(_bands(recorder)),
        heard=tuple(recorder.heard),
    )


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:].removesuffix('.')}."


def about(scenario: Scenario) -> str:
    pools = ", ".join(f"{pool.count:,} {key}" for key, pool in scenario.cluster.pools.items())
    form = "%A %-d %B %H:%M" if scenario.end - scenario.start > WEEK else "%A %H:%M"
    return (
        f"{len(scenario.nodes):,} nodes ({pools}), {scenario.start:%A %-d %B %H:%M} to "
        f"{scenario.end:{form}}."
    )


def _summary(played: Played, nodes: Sequence[model.Node]) -> tuple[tuple[str, str], ...]:
    """The terminal's rows but for our own seconds, which differ from run to run."""
    counts, scenario = played.counts, played.scenario
    rows = [(title, text) for title, text in rows_of(played) if title != "time"]
    made = f"{counts.resyncs:,} of {counts.ticks:,} resyncs made"
    rows.append(("time", f"{span(scenario.end - scenario.start)} simulated; {made}"))
    over = [node.left_out for node in nodes if node.left_out]
    if over:
        rows.append(("left out", f"{sum(over):,} marks of {len(over):,} nodes, which had too many"))
    return tuple(rows)


def _marks(recorder: Recorder, places: Mapping[str, int]) -> tuple[model.Mark, ...]:
    start = recorder.scenario.start
    found: list[tuple[datetime, int, model.Mark]] = []
    for order, (entry, call) in enumerate(recorder.entries):
        if isinstance(entry, Did) and entry.decision.node in places:
            mark = _decided(entry, places[entry.decision.node], call, start)
            found.append((entry.at, order, mark))
    for name, history in recorder.nodes.items():
        for one in history.happenings:
            at = milliseconds(one.at - start)
            mark = model.Mark(n=places[name], t=at, k=one.kind, text=one.text)
            # What was asked of pods follows from a decision; all else comes before.
            pods = one.kind in ("evicted", "deleted", "refused")
            found.append((one.at, len(recorder.entries) if pods else -1, mark))
    return tuple(mark for _, _, mark in sorted(found, key=lambda one: one[:2]))


def _decided(entry: Did, node: int, call: int | None, start: datetime) -> model.Mark:
    decision = entry.decision
    again = decision.look_again
    return model.Mark(
        n=node,
        t=milliseconds(entry.at - start),
        k=decision.action.value,
        text=decision.reason,
        f=decision.function,
        incident=decision.incident,
        severity=decision.severity,
        evidence=decision.evidence,
        blocked=decision.blocked_by,
        again=None if again is None else milliseconds(again - start),
        shadow=decision.shadow,
        call=call,
    )


def _story(recorder: Recorder) -> Iterable[model.Said]:
    for entry, _ in recorder.entries:
        at = milliseconds(entry.at - recorder.scenario.start)
        if isinstance(entry, Happened):
            yield model.Said(t=at, text=entry.says, line=entry.line)
        elif isinstance(entry, Trouble):
            yield model.Said(t=at, text=entry.says, bad=True)


def _checks(recorder: Recorder) -> Iterable[model.Check]:
    for entry, _ in recorder.entries:
        if isinstance(entry, Checked):
            yield model.Check(
                t=milliseconds(entry.at - recorder.scenario.start),
                ok=entry.holds,
                expected=entry.expected,
                because=entry.because,
                seen=entry.seen,
                line=entry.line,
            )


def _bands(recorder: Recorder) -> Iterable[model.Band]:
    scenario = recorder.scenario

    def ms(at: datetime) -> int:
        return milliseconds(min(max(at, scenario.start), scenario.end) - scenario.start)

    for one in recorder.breakers.values():
        text = f"circuit breaker open: {one.check}"
        ended = one.closed or scenario.end
        yield model.Band(kind="breaker", a=ms(one.opened), b=ms(ended), text=text, pool=one.pool)
    for stop in recorder.pauses:
        yield model.Band(
            kind="pause", a=ms(stop.since), b=ms(stop.until), text=stop.text, pool=stop.pool
        )
    for timed in scenario.steps:
        if timed.step.api_server is not None:
            text = "nobody reaches the API server"
            ended = timed.at + timed.step.api_server.down
            yield model.Band(kind="away", a=ms(timed.at), b=ms(ended), text=text)


def _cluster(policy: Policy, nodes: tuple[model.Node, ...]) -> model.Group:
    budget = policy.budget.cluster.of(len(nodes), at_least=1)
    return model.Group(size=len(nodes), budget=budget, out=_out(nodes))


def _pools(recorder: Recorder, nodes: tuple[model.Node, ...]) -> tuple[model.Group, ...]:
    rule = recorder.policy.budget.pool
    known = recorder.scenario.cluster.pools
    of_pool: dict[str, list[model.Node]] = {name: [] for name in known}
    for node in nodes:
        of_pool.setdefault(node.pool, []).append(node)
    sizes = {name: known[name].count if name in known else len(of_pool[name]) for name in of_pool}
    return tuple(
        model.Group(
            name=name,
            kind=known[name].instance_type if name in known else "",
            size=sizes[name],
            budget=rule.of(sizes[name], at_least=1),
            out=_out(of_pool[name]),
        )
        for name in of_pool
    )


def _teams(nodes: Iterable[model.Node]) -> tuple[model.Group, ...]:
    of_team: dict[str, list[model.Node]] = {}
    for node in nodes:
        if node.team:
            of_team.setdefault(node.team, []).append(node)
    return tuple(
        model.Group(name=name, size=len(found), out=_out(found))
        for name, found in sorted(of_team.items())
    )


def _out(nodes: Iterable[model.Node]) -> tuple[model.Out, ...]:
    """How many are out of service, at each moment at which that changes."""
    changes: dict[int, list[int]] = {}
    for node in nodes:
        before = (0, 0)
        for state in node.states:
            now = (int(state.s in node_state.OURS), int(state.s == "others"))
            change = changes.setdefault(state.a, [0, 0])
            change[0] += now[0] - before[0]
            change[1] += now[1] - before[1]
            before = now
    ours = others = 0
    found: list[model.Out] = []
    for at, (more, more_others) in sorted(changes.items()):
        ours, others = ours + more, others + more_others
        if not found or (found[-1].ours, found[-1].others) != (ours, others):
            found.append(model.Out(t=at, ours=ours, others=others))
    return tuple(found)
