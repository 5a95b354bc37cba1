"""A scenario played with a recorder beside it."""

import logging
from pathlib import Path

from functions.rules import policy
from infra.local import player, scenario_file
from infra.local.clock import SimulatedClock
from infra.local.report import build, model
from infra.local.report.recorder import Recorder
from infra.local.world import EmbeddedWorld


def record(scenario: str | Path) -> model.Run:
    """The model of the report of a scenario: a name, or a file."""
    logging.getLogger("groundcrew").setLevel(logging.CRITICAL)
    found = scenario_file.find(str(scenario))
    rules = policy.parse(found.policy) if found.policy else policy.default()
    recorder = Recorder(found, rules)
    world = recorder.world(EmbeddedWorld(SimulatedClock(found.start - player.WARM_UP)))
    played = player.play(found, world, on_entry=recorder.entry, through=recorder.through)
    return build.build(recorder, played)
