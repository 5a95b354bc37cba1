"""Facts for tests of the rules: nodes, notices and ledgers with sensible defaults."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from events.notice import Cause, Identity, Kind, Notice, Severity
from functions.rules import incidents, ledger, policy
from functions.rules.cordoning import Facts, NodeFacts, Plan, Verdict, decide
from functions.rules.ledger import Ledger
from functions.rules.node_view import NodeView

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def notice(check: str = "AcceleratedHardwareReady", **more: Any) -> Notice:
    made: dict[str, Any] = {
        "kind": Kind.FAULT,
        "severity": Severity.CORDON,
        "cause": Cause.HARDWARE,
        "source": "kubernetes.node",
        "check": check,
        "identity": Identity(node="n1"),
        "evidence": f"{check} is bad",
    }
    return Notice(**(made | more))


def recovery(check: str = "AcceleratedHardwareReady", **more: Any) -> Notice:
    return notice(check, **({"kind": Kind.RECOVERY, "severity": Severity.WATCH} | more))


def node(name: str = "n1", **more: Any) -> NodeView:
    made: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "provider_id": f"aws:///us-east-1a/i-{name}",
        "boot_id": "boot-1",
        "pool": "gpu",
        "gpus": 8,
        "gpus_allocatable": 8,
    }
    return NodeView(**(made | more))


def rebuilt(size: int = 100, pool: str = "gpu", **more: Any) -> Ledger:
    return Ledger(pool=pool, size=size, rebuilt=NOW, **more)


def run(
    view: NodeView,
    *notices: Notice,
    at: datetime = NOW,
    pool: Ledger | None = None,
    rules: str = "",
    **more: Any,
) -> Plan:
    """One decision about one node of a large, quiet pool."""
    found = rebuilt() if pool is None else pool
    facts = Facts(
        nodes=(NodeFacts(view, notices, more.pop("inherited", None)),),
        ledgers={found.pool: found},
        cluster=more.pop("cluster", Ledger(rebuilt=NOW)),
        **more,
    )
    return decide(facts, policy.parse("version: 1\n" + rules), at)


def only(plan: Plan) -> Verdict:
    (verdict,) = plan.verdicts
    return verdict


def after(verdict: Verdict, **more: Any) -> NodeView:
    """The node as it is once the verdict is written on it."""
    labels = dict(verdict.view.labels)
    unschedulable = verdict.view.unschedulable
    if verdict.unschedulable is not None:
        unschedulable = verdict.unschedulable
    changes: dict[str, Any] = {
        "incidents": incidents.encode(verdict.record) if verdict.state else None,
        "state": verdict.state,
        "unschedulable": unschedulable,
        "labels": labels,
    }
    return msgspec.structs.replace(verdict.view, **(changes | more))


def actions(plan: Plan) -> list[str]:
    return [d.action.value for d in plan.decisions]


__all__ = [
    "NOW",
    "actions",
    "after",
    "ledger",
    "minutes",
    "node",
    "notice",
    "only",
    "rebuilt",
    "recovery",
    "run",
]
