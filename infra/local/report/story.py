"""What happened in recorded history, told by its nodes: nobody wrote a story of it."""

from datetime import datetime

from infra.local.report import model
from infra.local.report.history import milliseconds
from infra.local.report.recorder import Recorder
from infra.local.timeline import Trouble

MOST_TOLD = 300
"""Lines; of more than these the ones that are about most nodes."""
_TOLD = ("said", "gpus", "reboot", "replaced", "registered", "gone", "cordoned-by-others",
         "uncordoned-by-others")  # fmt: skip
_NAMED = 3


def of_history(recorder: Recorder) -> list[model.Said]:
    """In order of time. What several nodes say within a minute is one line."""
    start = recorder.scenario.start
    found: dict[tuple[datetime, str], list[str]] = {}
    for name, history in recorder.nodes.items():
        for one in history.happenings:
            if one.kind in _TOLD:
                about = (one.at.replace(second=0, microsecond=0), one.text)
                found.setdefault(about, []).append(name)
    lines = sorted(found.items(), key=lambda line: (-len(line[1]), line[0][0]))
    told = [
        model.Said(t=max(0, milliseconds(at - start)), text=f"{_who(names)}: {_brief(text)}")
        for (at, text), names in lines[:MOST_TOLD]
    ]
    told += [
        model.Said(t=milliseconds(entry.at - start), text=entry.says, bad=True)
        for entry, _ in recorder.entries
        if isinstance(entry, Trouble)
    ]
    told.sort(key=lambda said: said.t)
    if len(lines) > MOST_TOLD:
        text = f"{len(lines) - MOST_TOLD:,} more stand in the lanes of their nodes."
        told.append(model.Said(t=milliseconds(recorder.scenario.end - start), text=text))
    return told


def _brief(text: str) -> str:
    """``Type=Status Reason: message`` with the reason first: lines are cut off where space is."""
    condition, _, message = text.partition(": ")
    said, _, reason = condition.partition(" ")
    if "=" not in said or not reason:
        return text
    return f"{reason} ({said})" + (f": {message}" if message else "")


def _who(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    rest = ", ..." if len(names) > _NAMED else ""
    return f"{len(names):,} nodes ({', '.join(names[:_NAMED])}{rest})"
