"""What a play comes to: the numbers, and whether all that was expected came true."""

from datetime import datetime, timedelta
from typing import Any

from functions.rules import policy as policies
from functions.rules.decision import Action
from infra.local.out_of_service import By
from infra.local.player import Counts, Played
from infra.local.timeline import Checked, Did


def failures_of(played: Played) -> list[str]:
    """What must hold and did not, a sentence each. In every play no eviction may break a
    disruption budget, and no call may fail while the API server can be reached."""
    file, counts = played.scenario.file, played.counts
    found = [
        f"{file}:{check.line}: expected: {check.expected}; seen: {check.seen}"
        for check in played.entries
        if isinstance(check, Checked) and not check.holds
    ]
    found += [f"{file}: a disruption budget was broken: {broken}" for broken in counts.violations]
    if counts.failures:
        found.append(f"{file}: {counts.failures} calls failed; the timeline says which")
    return found


def verdict_of(played: Played) -> str:
    checks = [entry for entry in played.entries if isinstance(entry, Checked)]
    held = sum(check.holds for check in checks)
    name, failed = played.scenario.name, failures_of(played)
    if failed:
        return f"{name}: {len(failed)} not as expected; {held} of {len(checks)} expectations held"
    if not checks:
        return f"{name}: played to its end; nothing was expected of it"
    return f"{name}: all {held} expectations held"


def rows_of(played: Played) -> list[tuple[str, str]]:
    """Title and text of each line of the summary."""
    counts, scenario = played.counts, played.scenario
    acts = {Action(name): number for name, number in counts.actions.items()}
    nodes = len(scenario.nodes)
    rule = (policies.parse(scenario.policy) if scenario.policy else policies.default()).budget
    budget = rule.cluster.of(nodes, at_least=1)
    begun = _moments(played, Action.START_DRAIN)
    # A drain that begins and ends in one moment had nothing to do: the machine booted anew.
    drained = len(_moments(played, Action.DRAINED) - begun)
    out = counts.most_out.get("all", 0)
    simulated, real = scenario.end - scenario.start, counts.seconds
    slowest, who = counts.slowest
    rows = [
        (
            "events",
            f"{counts.events:,} heard: {counts.events - counts.acted:,} needed nothing, "
            f"{counts.acted:,} led to a decision",
        ),
        (
            "nodes",
            f"{acts.get(Action.CORDON, 0)} cordoned, {drained} emptied, "
            f"{acts.get(Action.UNCORDON, 0)} released",
        ),
        (
            "out of service",
            f"at most {out} of {nodes} at once (the budget is {budget}){_by_whom(counts)}",
        ),
        ("pods", _pods(played)),
    ]
    if scenario.steps:
        # Of recorded history nobody knows when a fault began.
        rows.append(("fault to decision", _latency(slowest, who)))
    if counts.acted:
        requests = counts.requests / counts.acted
        rows.append(("API requests", f"{requests:.1f} for each event that led to a decision"))
    rows.append(
        (
            "time",
            f"{span(simulated)} in {real:.1f} s; {counts.resyncs:,} of {counts.ticks:,} resyncs "
            "were made, the others could have found nothing",
        )
    )
    return rows


def as_json(played: Played) -> dict[str, Any]:
    """The summary for programs: the same in every run of the same scenario."""
    counts = played.counts
    checks = [entry for entry in played.entries if isinstance(entry, Checked)]
    return {
        "summary": played.scenario.name,
        "expectations": len(checks),
        "failed": failures_of(played),
        "events": counts.events,
        "acted": counts.acted,
        "declined": counts.declined,
        "requests": counts.requests,
        "decisions": dict(sorted(counts.actions.items())),
        "evictions": counts.evictions,
        "deletions": counts.deletions,
        "most_out": dict(sorted(counts.most_out.items())),
        "most_out_by": dict(sorted(counts.most_out_by.items())),
        "slowest_seconds": counts.slowest[0].total_seconds(),
        "simulated_seconds": (played.scenario.end - played.scenario.start).total_seconds(),
        "nodes": dict(sorted(played.final.items())),
    }


def _by_whom(counts: Counts) -> str:
    text = ""
    if cloud := counts.most_out_by.get(By.CLOUD):
        text += f"; of those at most {cloud} that the cloud took anyway"
    if others := counts.most_out_by.get(By.OTHERS):
        text += f"; at most {others} cordoned by others"
    return text


def _moments(played: Played, action: Action) -> set[tuple[datetime, str]]:
    return {
        (entry.at, entry.decision.node)
        for entry in played.entries
        if isinstance(entry, Did) and entry.decision.action is action
    }


def _pods(played: Played) -> str:
    counts = played.counts
    text = f"{counts.evictions} evicted"
    if counts.deletions:
        text += f", {counts.deletions} deleted at a deadline of the policy"
    broken = len(counts.violations)
    return f"{text}; {broken or 'no'} disruption budget{'s' if broken > 1 else ''} broken"


def _latency(slowest: timedelta, who: str) -> str:
    if not who:
        return "no fault led to a decision"
    if not slowest:
        return "at once, for every fault that was told"
    return f"at most {span(slowest)} ({who})"


def span(length: timedelta) -> str:
    """The two largest units: ``3 d 4 h``, ``40 s``; ``3 d``, and no ``3 d 1 s``."""
    seconds = int(length.total_seconds())
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"
