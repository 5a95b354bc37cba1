"""Recorded history played with a recorder beside it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from functions.rules import policy
from infra.local import recorded_play
from infra.local.history import Event
from infra.local.report import build, model
from infra.local.report.recorder import Recorder
from tests.support import histories


def recorder_of(folder: Path, events: Iterable[Event], *objects: Any) -> tuple[Recorder, model.Run]:
    """What was heard of the play, and the model of its report."""
    path = histories.write(folder / "week", objects, events)
    scenario, history, reader = recorded_play.load(path)
    recorder = Recorder(scenario, policy.default())
    played = recorded_play.play(
        scenario,
        history,
        reader,
        on_entry=recorder.entry,
        around=recorder.world,
        through=recorder.through,
    )
    return recorder, build.build(
        recorder, played, recorded_play.notes_on(scenario, history, reader)
    )
