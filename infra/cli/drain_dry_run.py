"""``groundcrew drain --dry-run``: the plan, pod by pod, and what the server says to it."""

from collections.abc import Iterable, Sequence

from functions.gateways.kubernetes import errors
from functions.rules.drain_plan import Step, Verdict
from functions.steps import cordon_by_hand
from functions.steps.cordon_by_hand import Before, Replaced
from functions.steps.drain_call import Call
from functions.steps.preview import Planned as Tried
from functions.steps.preview import preview
from infra.cli import cordon_words, drain_report, screen
from infra.cli.drain_before import Prepared, missing_rights
from infra.cli.drain_options import Options
from infra.cli.drain_report import Node, Planned, Report, State

IN_THE_WAY = ("blocked", "refused")


def show(call: Call, prepared: Sequence[Prepared], options: Options) -> int:
    """Print the plan; the exit code."""
    rights = missing_rights(call, prepared)
    nodes = [_node(call, one, options) for one in prepared]
    refused = bool(rights) or any(node.state is State.REFUSED for node in nodes)
    clear = not refused and not any(p.action in IN_THE_WAY for n in nodes for p in n.plan)
    if options.output == "json":
        print(drain_report.encode(Report(ok=clear, dry_run=options.dry_run, nodes=nodes)))
    else:
        for node, one in zip(nodes, prepared, strict=True):
            _table(node, one)
    for right in rights:
        print(f"missing right: you may not {right}")
    return 2 if refused else (0 if clear else 1)


def _node(call: Call, one: Prepared, options: Options) -> Node:
    why = ""
    if options.dry_run == "server":
        tried = preview(call, one.steps)
        if one.cordoned in (Before.FREE, Before.INCIDENT):
            try:
                cordon_by_hand.cordon(call, one.node, "a dry run", dry_run=True)
            except (errors.KubernetesError, Replaced) as problem:
                why = f"could not be cordoned: {problem}"
    else:
        tried = [Tried(step) for step in one.steps]
    budgets = call.budgets({s.pod.namespace for s in one.steps}, read=False)
    spent = {b.key: b.state() for b in budgets if b.allowed <= 0}
    return Node(
        node=one.name,
        state=State.REFUSED if one.refused or why else State.PLANNED,
        why=why,
        cordon=cordon_words.short(one.cordoned),
        blocked=one.refused,
        plan=[_planned(t, spent, one) for t in tried],
        warnings=one.warnings,
    )


def _planned(tried: Tried, spent: dict[str, str], one: Prepared) -> Planned:
    step = tried.step
    refused = {r.pod: r.why for r in one.refused}
    if why := refused.get(step.pod.key):
        return Planned(step.pod.key, "refused", why)
    if tried.refused:
        by = f"PodDisruptionBudget {', '.join(step.budgets)}: " if step.budgets else ""
        return Planned(step.pod.key, "blocked", f"{by}the server says: {tried.refused}")
    waits = [f"PodDisruptionBudget {b} {spent[b]}" for b in step.budgets if b in spent]
    match step.verdict:
        case Verdict.EVICT if waits:
            return Planned(step.pod.key, "blocked", "; ".join(waits))
        case Verdict.HELD:
            return Planned(step.pod.key, "warn", f"{step.gang} is warned first")
        case Verdict.IGNORE:
            return Planned(step.pod.key, "leave", step.why)
        case Verdict.LEAVING:
            return Planned(step.pod.key, "leaving", step.why)
        case Verdict.BLOCKED:
            return Planned(step.pod.key, "blocked", step.why)
        case _:
            return Planned(step.pod.key, "evict", _paced(step))


def _paced(step: Step) -> str:
    paced = f"paced by PodDisruptionBudget {', '.join(step.budgets)}" if step.budgets else ""
    return "; ".join(filter(None, (step.why, paced)))


def _table(node: Node, one: Prepared) -> None:
    console = screen.console()
    would = node.why or cordon_words.would(one.cordoned)
    console.print(screen.text(f"{node.node}: {would}; {_counts(node.plan)}"))
    table = screen.table("POD", "WHAT", "WHY", fold=["WHY"])
    for planned in sorted(node.plan, key=lambda p: (p.action == "leave", p.pod)):
        style = "red" if planned.action in IN_THE_WAY else ""
        table.add_row(
            screen.text(planned.pod),
            screen.text(planned.action, style),
            screen.text(planned.why, style),
        )
    if node.plan:
        console.print(table)
    for warning in node.warnings:
        console.print(screen.text(f"warning: {warning}", "yellow"))


def _counts(plan: Sequence[Planned]) -> str:
    actions = ("evict", "warn", "leaving", "blocked", "refused", "leave")
    words = {"leave": "left alone", "warn": "after a warning"}
    counts: Iterable[str] = (
        f"{sum(p.action == a for p in plan)} {words.get(a, a)}"
        for a in actions
        if any(p.action == a for p in plan)
    )
    return ", ".join(counts) or "no pods"
