"""Each scenario plays over real HTTP as it does in process."""

from pathlib import Path
from typing import Any

import pytest

from infra.local import scenario_file
from infra.local.summary import failures_of
from infra.local.timeline import differences
from tests.support.worlds import outcome, play, play_over_http

LONG = ("seven-days", "wrong-account", "false-alarms")
"""Days of ticks, each a request over a socket: half a minute and more. They are played with what
else takes its time, on the way to a real control plane (`make test-cluster`)."""


def _scenarios() -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.controlplane if name in LONG else ())
        for name in scenario_file.known()
    ]


@pytest.mark.parametrize("name", _scenarios())
def test_over_http_a_scenario_plays_as_in_process(name: str, tmp_path: Path) -> None:
    scenario = scenario_file.find(name)
    played = play_over_http(scenario, tmp_path)
    assert failures_of(played) == []
    assert differences(outcome(play(scenario)), outcome(played)) == []
