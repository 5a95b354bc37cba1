"""Each scenario plays over real HTTP as it does in process."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from infra.local import scenario_file
from infra.local.summary import failures_of
from infra.local.timeline import differences
from tests.support.worlds import outcome, play, play_over_http

LONG = (
    "a-bad-week", "false-alarms", "lifecycle-hook-three-hours", "provider-says-no",
    "retirement-in-two-weeks", "same-host-again", "seven-days", "spot-storm", "wrong-account",
)  # fmt: skip
"""Hours to weeks of ticks, each a request over a socket: 4 s to three minutes. They are played with
what else takes its time, on the way to a real control plane (`make test-cluster`)."""


def _scenarios() -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.controlplane if name in LONG else ())
        for name in scenario_file.known()
    ]


def test_over_http_the_night_of_a_mad_monitor_goes_as_in_process(tmp_path: Path) -> None:
    found = scenario_file.find("a-bad-week")
    start, end = (scenario_file.moment(at, found.start) for at in ("Thu 02:00", "Thu 04:00"))
    steps = tuple(timed for timed in found.steps if start <= timed.at < end)
    part = msgspec.structs.replace(found, start=start, end=end, steps=steps, expect=())
    played = play_over_http(part, tmp_path)
    assert failures_of(played) == []
    assert played.counts.actions["cordon"] == 3
    assert played.counts.actions["hold"] > 20
    assert differences(outcome(play(part)), outcome(played)) == []


@pytest.mark.parametrize("name", _scenarios())
def test_over_http_a_scenario_plays_as_in_process(name: str, tmp_path: Path) -> None:
    scenario = scenario_file.find(name)
    played = play_over_http(scenario, tmp_path)
    assert failures_of(played) == []
    assert differences(outcome(play(scenario)), outcome(played)) == []
