"""The seven-day clock of a machine: what starts it, what keeps it, what stops it.

It begins with our own first sight of a fault of hardware, or of a cause that nobody knows, that
takes the machine out of service, and belongs to the provider ID. Maintenance, faults of software
and what is only watched start none. It is kept while any such fault is open (so flapping, restarted
agents, a Node that is made anew and our own absence change nothing), and stops when none is:
proven recovery, or a person who uncordoned the node.
"""

from collections.abc import Iterable
from datetime import datetime

from events.notice import Kind, Severity
from functions.rules.incidents import Incident, Record, State

TEST_SOURCES = ("groundcrew.preflight",)
"""Who runs active tests."""
VOICES = {"kubernetes.event": "kubernetes.node"}
"""Sources that are one voice: an agent on the node says the same in a condition and in an Event."""


def faults(record: Record | None) -> tuple[Incident, ...]:
    """The open incidents that a clock runs for, the worst and then the oldest first."""
    if record is None:
        return ()
    found = [i for i in record.open if counts(i)]
    return tuple(sorted(found, key=lambda i: (-i.severity.rank, i.first, i.key)))


def counts(incident: Incident) -> bool:
    return incident.open and incident.is_hardware


def began(found: Iterable[Incident], known: datetime | None) -> datetime | None:
    """When the clock began, None if it does not run; ``known`` is what was remembered of it."""
    firsts = [incident.sick_since for incident in found]
    if not firsts:
        return None
    return min([*firsts, known] if known else firsts)


def is_said(incident: Incident) -> bool:
    """Whether it is accused still: its source has not taken it back, and the machine has not
    booted anew since it was said last."""
    return incident.claimed is None and incident.rebooted is None


def confirmed(found: Iterable[Incident], proofs: Iterable[str]) -> str:
    """What makes the accusation a fault, as a sentence; empty when nothing does. Only what is still
    said counts, and only ``proofs`` that the policy takes."""
    said = [incident for incident in found if is_said(incident)]
    allowed = frozenset(proofs)
    for incident in said:
        if "active-test" in allowed and incident.source in TEST_SOURCES:
            return f"an active test failed ({incident.check})"
    for incident in said:
        if "kernel-log" in allowed and incident.in_log and incident.severity is Severity.EVICT:
            return f"the kernel log says so ({incident.reason or incident.check})"
    sources = sorted({VOICES.get(incident.source, incident.source) for incident in said})
    if "second-source" in allowed and len(sources) > 1:
        return f"{len(sources)} independent sources say so ({', '.join(sources)})"
    return ""


def stale(found: Iterable[Incident], first_boot: str, boot: str) -> str:
    """Why what is said may be a leftover: all of it comes from sources that cannot take it back,
    and was not said anew since the machine was first accused and then booted. Empty: it is not."""
    said = [incident for incident in found if is_said(incident)]
    if any(not incident.latched for incident in said):
        return ""
    renewed = boot and first_boot and boot != first_boot
    if renewed and any(incident.boot == boot for incident in said):
        return ""
    names = ", ".join(sorted({incident.source for incident in said})) or "nobody"
    return f"only {names} says so, which cannot take it back, and no boot has put it to the test"


def how_it_stopped(record: Record | None) -> str:
    """Why nothing is open any more, in the words of what ended last."""
    ended = [
        i
        for i in (record.incidents if record else ())
        if i.state is not State.OPEN and i.kind is Kind.FAULT and i.ended
    ]
    if not ended:
        return "no fault of its hardware is open any more"
    last = max(ended, key=lambda i: i.ended or i.last)
    return (
        f"{last.check} is {last.state.value}: {last.why}" if last.why else f"{last.check} is over"
    )
