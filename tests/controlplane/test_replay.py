"""Each scenario plays on a real control plane as it plays on the embedded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.local import scenario_file
from infra.local.summary import failures_of
from infra.local.timeline import differences
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.conftest import require_build
from tests.controlplane.replay_world import play_on_control_plane
from tests.support.worlds import outcome, play

NOT_HERE = {
    # A replacement is a node that was made after the end was asked. A real API server stamps that
    # by its own clock, not by the simulated one: here any node would do.
    "same-host-again",
    # How far one call comes with a hundred nodes hangs on how long a request takes, which on the
    # embedded cluster is no time at all. `make bench-nth` plays it in real time.
    "spot-storm",
    # A month is seven minutes there. It plays alike; what is new in it is played by its seeds.
    "false-alarms",
}
"""What cannot be compared, since one of the two clocks decides it, and what takes too long."""


@pytest.mark.parametrize("name", [n for n in scenario_file.known() if n not in NOT_HERE])
def test_on_a_real_control_plane_a_scenario_plays_as_on_the_embedded_one(
    name: str, tmp_path: Path
) -> None:
    require_build()
    scenario = scenario_file.find(name)
    embedded = play(scenario)
    assert failures_of(embedded) == []
    with ControlPlane(tmp_path) as cluster:
        played = play_on_control_plane(scenario, cluster, embedded)
    assert differences(outcome(embedded), outcome(played)) == []
    assert failures_of(played) == []
