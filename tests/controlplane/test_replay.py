"""Each scenario plays on a real control plane as it plays on the embedded one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from functions.rules.decision import Action
from infra.local import scenario_file
from infra.local.summary import failures_of
from infra.local.timeline import differences
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.conftest import require_build
from tests.controlplane.replay_world import play_on_control_plane
from tests.support.worlds import outcome, play

NOT_HERE = "false-alarms"
"""A month is seven minutes there. It plays alike; what is new in it is played by its seeds."""
MANY_AT_ONCE = "spot-storm"
"""How far one call comes with its forty-six nodes hangs on how long pods and requests take, which
is no time at all on one of the two clocks: that a drain is left to the next call is said on the
embedded cluster alone. All else is the same."""


@pytest.mark.parametrize("name", [n for n in scenario_file.known() if n != NOT_HERE])
def test_on_a_real_control_plane_a_scenario_plays_as_on_the_embedded_one(
    name: str, tmp_path: Path
) -> None:
    require_build()
    scenario = scenario_file.find(name)
    embedded = play(scenario)
    assert failures_of(embedded) == []
    with ControlPlane(tmp_path) as cluster:
        played = play_on_control_plane(scenario, cluster, embedded)
    here, there = outcome(embedded), outcome(played)
    if name == MANY_AT_ONCE:
        here, there = _but_for_later(here), _but_for_later(there)
    assert differences(here, there) == []
    assert failures_of(played) == []


def _but_for_later(found: dict[str, Any]) -> dict[str, Any]:
    """Without what drains say of a node that is left to the next call."""
    return {
        about: [d for d in said if d != Action.HOLD.value] if about.endswith(" drain") else said
        for about, said in found.items()
    }
