"""Each scenario plays over real HTTP as it does in process."""

from pathlib import Path

import pytest

from infra.local import scenario_file
from infra.local.summary import failures_of
from infra.local.timeline import differences
from tests.support.worlds import outcome, play, play_over_http


@pytest.mark.parametrize("name", scenario_file.known())
def test_over_http_a_scenario_plays_as_in_process(name: str, tmp_path: Path) -> None:
    scenario = scenario_file.find(name)
    played = play_over_http(scenario, tmp_path)
    assert failures_of(played) == []
    assert differences(outcome(play(scenario)), outcome(played)) == []
