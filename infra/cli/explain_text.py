"""``groundcrew explain`` on a screen of 80 columns or more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.cli import screen
from infra.cli.explain_report import Report, Story
from infra.cli.screen import COLOURS, text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from infra.cli.replacement_report import Replacement
    from infra.cli.screen import Row, Rows


def show(report: Report) -> None:
    console = screen.console()
    head = text(report.name, "bold")
    if report.pool:
        head += text(f"  pool {report.pool}")
    console.print(head + text("  ") + text(report.state, COLOURS.get(report.state, "bold")))
    console.print(screen.pairs(_identity(report)))
    for story in report.incidents:
        _section(console, _title(story), _incident(story, report))
    if not report.incidents and report.found == "node" and not report.unreadable:
        console.print()
        console.print(text("No incident: nothing is known to be wrong."))
    if blocks := [(b.what, b.why) for b in report.blocks]:
        _section(console, text("What is in the way", "bold magenta"), blocks)
    if report.drain:
        _section(console, text("Drain", "bold"), _drain(report))
    if report.replacement:
        _section(console, text("Its machine", "bold"), _replacement(report.replacement, report))
        _section(console, text("Before it may end", "bold"), _guards(report.replacement))
    _section(console, text("Looked at now", "bold"), _now(report))
    if report.events or report.events_missing:
        rows = [
            (screen.moment(e.at) if e.at else "", f"{e.reason}: {e.message}") for e in report.events
        ]
        if report.events_missing:
            rows.append(("", report.events_missing))
        _section(console, text("Events of groundcrew", "bold"), rows)


def _section(console: Console, title: Text, rows: Rows) -> None:
    if rows:
        console.print()
        console.print(title)
        console.print(screen.pairs(rows))


def _identity(report: Report) -> Rows:
    rows: list[Row] = [("machine", report.provider_id or "no provider ID: known by its UID alone")]
    if report.found == "ledger":
        rows = [("machine", report.provider_id)] if report.provider_id else []
        if report.seen:
            rows.append(("node", f"gone; written down {screen.ago(report.seen, report.at)}"))
            rows.append(("inherits", "the Node that registers with this provider ID"))
    if report.boot_id:
        rows.append(("boot ID", report.boot_id))
    if report.gpus is not None:
        rows.append(("GPUs", f"{report.gpus} of which {report.gpus_allocatable or 0} allocatable"))
    if report.cordon:
        since = f", {screen.ago(report.cordoned, report.at)}" if report.cordoned else ""
        rows.append(("cordon", report.cordon + since))
    if report.taken:
        why = f": {report.taken.reason}" if report.taken.reason else ""
        when = screen.ago(report.taken.at, report.at)
        rows.append(("taken by", f"{report.taken.by}, {when}{why}"))
    if report.unreadable:
        rows.append(
            (
                "annotation",
                text(
                    f"cannot be read: {report.unreadable}; nothing is done until it is put right: "
                    f"kubectl annotate node {report.name} groundcrew.dev/incidents-",
                    "red",
                ),
            )
        )
    rows += (("waiting", notice) for notice in report.waiting)
    rows += (("also called so", other) for other in report.other_machines)
    return rows


def _title(story: Story) -> Text:
    over = story.state != "open"
    title = text(story.check, "bold dim" if over else "bold")
    title += text(f"  {story.source}  ", "dim")
    if over:
        return title + text(
            f"{story.state} (was {story.severity})", COLOURS.get(story.state, "dim")
        )
    return title + text(story.severity, COLOURS.get(story.severity, ""))


def _incident(story: Story, report: Report) -> Rows:
    now = report.at
    what = f"{story.kind}, cause {story.cause}"
    if story.reason and story.reason != story.check:
        what += f", {story.reason}"
    rows: list[Row] = [("what", what)]
    if story.ref:
        rows.append(("ref", story.ref))
    if story.evidence:
        rows.append(("evidence", story.evidence))
    seen = f"first {screen.ago(story.first, now)}"
    if story.last != story.first:
        seen += f", last {screen.moment(story.last)}"
    rows.append(("seen", seen))
    if story.deadline:
        rows.append(("due", screen.ahead(story.deadline, now)))
    rows += (("jobs", f"GPU {gpu}: {', '.join(jobs)}") for gpu, jobs in story.jobs.items())
    if story.state == "closed":
        ended = f"{screen.ago(story.ended, now)}: " if story.ended else ""
        return [*rows, ("closed", f"{ended}{story.why_ended}")]
    if story.state == "dismissed":
        ended = f"{screen.ago(story.ended, now)}: " if story.ended else ""
        rows.append(("dismissed", f"{ended}{story.why_ended}"))
        if story.quiet_until:
            rows.append(("keeps quiet", f"until {screen.ahead(story.quiet_until, now)}"))
        return [*rows, ("ends", story.ends)]
    rows.append(("severity", f"{story.severity}, {story.severity_from}"))
    if report.found == "node":
        rows.append(("asks for", story.asks_for))
    rows.append(("ends", story.ends))
    if story.check in report.breakers:
        rows.append(("breaker", report.breakers[story.check]))
    return rows


def _drain(report: Report) -> Rows:
    drain = report.drain
    assert drain is not None
    rows: list[Row] = [
        ("state", text(drain.state, COLOURS.get(drain.state, ""))),
        ("started", screen.ago(drain.started, report.at)),
        ("evicted", screen.count(drain.evicted, "pod")),
    ]
    if drain.deadline:
        rows.append(("deadline", screen.ahead(drain.deadline, report.at)))
    rows += (("blocked by", text(blocker, COLOURS["blocked"])) for blocker in drain.blocked_by)
    return rows


def _replacement(found: Replacement, report: Report) -> Rows:
    rows: list[Row] = [("state", found.phase)]
    if found.began:
        rows.append(("clock", f"began {screen.ago(found.began, report.at)}"))
    if found.due:
        rows.append(("seven days", f"end {screen.ahead(found.due, report.at)}"))
    if found.rung:
        rows.append(("next rung", found.rung))
    if found.tried:
        rows.append(("tried", ", ".join(found.tried)))
    if found.would:
        rows.append(("would have", f"{', '.join(found.would)}: only told in this pool"))
    rows += (("rebooted", screen.ago(at, report.at)) for at in found.reboots)
    if found.holding and not found.guards:
        rows.append(("was held by", ", ".join(found.holding)))
    if found.beside:
        rows.append(("beside us", f"{', '.join(found.beside)} acts on nodes here"))
    if found.host:
        rows.append(("host", found.host))
    if found.gpus:
        rows.append(("GPUs", ", ".join(found.gpus)))
    if found.collected:
        rows.append(("evidence", found.collected))
    if found.intent:
        rows.append(("asked", found.intent))
    if found.ended:
        rows.append(("ended", screen.ago(found.ended, report.at)))
    if found.outcome:
        rows.append(("outcome", found.outcome))
    return rows


def _guards(found: Replacement) -> Rows:
    return [
        (
            guard.name,
            text("passed: " if guard.passed else "holds: ", _TONE[guard.passed]) + text(guard.says),
        )
        for guard in found.guards
    ]


_TONE = {True: "green", False: "magenta"}


def _now(report: Report) -> Rows:
    if report.found != "node":
        return []
    rows: list[Row] = [("would", words) for words in report.would_do] or [
        ("would", "change nothing")
    ]
    if report.next_look:
        rows.append(("next look", screen.ahead(report.next_look, report.at)))
    if report.budget:
        rows.append(("budget", report.budget))
    if report.reservation_until:
        rows.append(
            ("reservation", f"a place is taken until {screen.moment(report.reservation_until)}")
        )
    if report.releases:
        rows.append(("releases", f"{report.releases_allowed}; after these a human releases"))
    return rows
