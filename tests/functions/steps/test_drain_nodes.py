"""Many nodes in one call of the function, on a real clock: as many as the server keeps up with."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from functions import drain
from functions.edge.context import Outcome
from functions.rules import drain_state
from functions.rules.decision import Action
from functions.rules.drain_state import State
from tests.support.crew import context, ping
from tests.support.real_time import Slow, World, world_over_http

NAMES = [f"m{number:02}" for number in range(26)]
PODS = 5


@pytest.fixture
def world() -> Iterator[World]:
    with world_over_http() as made:
        for name in NAMES:
            made.add_node(name, unschedulable=True)
            made.mark(name, ago=timedelta(minutes=1))
            for number in range(PODS):
                made.pod(f"{name}-{number}", app="web", on=name, stop_seconds=0.1)
        yield made


def states(world: World) -> list[State | None]:
    notes = [world.annotation(name) for name in NAMES]
    return [drain_state.decode(text).state if text else None for text in notes]


def call(world: World, transport: Any) -> Outcome:
    return drain.handle(ping("resync-drain"), context(transport, call_seconds=2.1))


def test_nodes_are_emptied_one_after_the_other_and_the_rest_is_not_begun(world: World) -> None:
    """Thirty evictions a second, in a call of two: enough for some of the nodes."""
    slow = Slow(world.transport, 0.13)
    outcome = call(world, slow)
    found = states(world)
    assert found.count(State.DRAINED) >= 1
    assert found.count(None) >= 3
    assert found.count(State.DRAINING) <= 9
    untouched = {name for name, state in zip(NAMES, found, strict=True) if state is None}
    held = [d for d in outcome.decisions if d.node in untouched]
    assert {d.action for d in held} == {Action.HOLD}
    assert all("other nodes leave first" in d.reason for d in held)
    assert not [e for e in world.evictions() if e.path.split("/")[-2][:3] in untouched]
    assert outcome.more
    for _ in range(6):
        if states(world) != [State.DRAINED] * len(NAMES):
            outcome = call(world, world.transport)
    assert not outcome.more
    assert states(world) == [State.DRAINED] * len(NAMES)
    assert len(world.evictions()) == len(NAMES) * PODS
