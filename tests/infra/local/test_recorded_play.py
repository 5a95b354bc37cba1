"""From a recording back to what was decided: the same, whatever was masked on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from functions.edge import answers
from functions.gateways.kubernetes.client import Cluster
from infra.local import masking_rules, player, recorded_play, scenario_file, starting_point
from infra.local.broker import Broker, Delivery
from infra.local.clock import PING, SimulatedClock
from infra.local.history import HistoryError
from infra.local.masking import Masker
from infra.local.outside import NAMESPACE
from infra.local.player import Played
from infra.local.scenario import Scenario
from infra.local.segments import Limits, Segments
from infra.local.sink import Sink
from infra.local.timeline import normalised
from infra.local.world import EmbeddedWorld

KEY = b"k" * 32


def recorded(
    name: str | Scenario, folder: Path, *, identities: bool = False
) -> tuple[Played, Masker]:
    """The scenario, played while a recorder listens to its broker. The starting point is the
    cluster at the last tick of a clock before it begins."""
    scenario = scenario_file.find(name) if isinstance(name, str) else name
    world = EmbeddedWorld(SimulatedClock(scenario.start - player.WARM_UP))
    mask = Masker(masking_rules.load(), KEY, identities=identities)
    segments = Segments(folder, Limits(), now=world.clock.now)
    sink = Sink(segments, mask)

    def listen(event: Any) -> None:
        now = world.clock.now()
        if now < scenario.start and event.type == PING:
            reach = Cluster(world.transport)
            starting_point.take(reach, folder, mask, now, namespace=NAMESPACE)
        headers, body = answers.to_http(event)
        sink.keep("/", {name.lower(): value for name, value in headers.items()}, body)

    with listening(listen):
        played = player.play(scenario, world)
    segments.close()
    return played, mask


@contextmanager
def listening(listen: Any) -> Iterator[None]:
    inner = Broker.publish

    def publish(self: Broker, event: Any) -> list[Delivery]:
        listen(event)
        return inner(self, event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Broker, "publish", publish)
        yield


def replayed(folder: Path) -> tuple[Played, list[str]]:
    scenario, history, reader = recorded_play.load(folder)
    played = recorded_play.play(scenario, history, reader)
    return played, recorded_play.notes_on(scenario, history, reader)


@pytest.mark.parametrize(
    "name",
    [
        "api-server-restart",
        "budget-paces",
        "lost-events-found-by-resync",
        "node-came-back",
        "pdb-two-budgets",
    ],
)
def test_what_was_recorded_leads_to_the_same_decisions(name: str, tmp_path: Path) -> None:
    before, _ = recorded(name, tmp_path)
    after, _ = replayed(tmp_path)
    # What was recorded goes on for some time after the scenario's end.
    then = [entry for entry in after.entries if entry.at <= before.scenario.end]
    assert normalised(then) == normalised(before.entries) != {}
    assert after.counts.failures == 0
    assert after.counts.violations == []
    assert after.counts.most_out["all"] == before.counts.most_out["all"]


TOLD_OTHERWISE = {
    "a-bad-week": {
        "a100-05 drain": "its owner lowered a budget, and only Nodes and Events are recorded",
        "a100-05 replace": "so it is never empty, and nothing is to be done about its machine",
    },
    "human-races-us": {
        "h100-03 cordon": "she was faster than the call that read the node; in a play nobody is",
    },
}
"""What a recording tells otherwise than it was, by scenario and line of decisions, and why."""


@pytest.mark.parametrize("name", TOLD_OTHERWISE)
def test_what_a_recording_cannot_tell_is_known_and_all_else_is_as_it_was(
    name: str, tmp_path: Path
) -> None:
    before, _ = recorded(name, tmp_path)
    after, _ = replayed(tmp_path)
    then = [entry for entry in after.entries if entry.at <= before.scenario.end]
    one, other = normalised(then), normalised(before.entries)
    differs = {line for line in {*one, *other} if one.get(line) != other.get(line)}
    assert differs == TOLD_OTHERWISE[name].keys()
    assert after.counts.failures == 0
    assert after.counts.violations == []
    assert after.counts.actions.get("dismiss") == before.counts.actions.get("dismiss")


def test_with_masked_names_the_same_is_decided_about_others(tmp_path: Path) -> None:
    before, mask = recorded("pdb-two-budgets", tmp_path, identities=True)
    after, _ = replayed(tmp_path)
    renamed = {mask.machine(n): words for n, words in normalised(before.entries).items()}
    assert normalised(after.entries) == renamed
    for file in tmp_path.iterdir():
        for name in before.scenario.nodes:
            assert name.encode() not in file.read_bytes()


SHADOWED = """\
shows: a test
start: 2026-03-02T08:00:00Z
until: Mon 08:30
cluster: {pools: {gpu: {count: 10, instance_type: p5.48xlarge}}}
policy: {shadow: [{check: "*"}]}
steps:
  - at: Mon 08:10
    condition: {node: gpu-03, type: KernelDeadlock, status: "True", reason: DockerHung}
"""


def test_the_policy_of_then_is_in_force_unless_another_is_given(tmp_path: Path) -> None:
    recorded(scenario_file.parse(SHADOWED, "mine", "mine.yaml"), tmp_path)
    scenario, history, reader = recorded_play.load(tmp_path)
    then = recorded_play.play(scenario, history, reader)
    assert "cordon" not in then.counts.actions
    scenario, history, reader = recorded_play.load(tmp_path)
    now = recorded_play.play(scenario, history, reader, policy="version: 1")
    assert now.counts.actions["cordon"] == 1


def test_pods_of_deployments_are_those_that_were_recorded(tmp_path: Path) -> None:
    """Their template is trimmed, so an embedded Deployment would roll them all anew."""
    recorded("pdb-two-budgets", tmp_path)
    scenario, _, _ = recorded_play.load(tmp_path)
    names = {item["metadata"]["name"] for item in scenario.objects if item["kind"] == "Pod"}
    assert len(names) > 30
    kinds = {item["kind"] for item in scenario.objects}
    assert "ReplicaSet" in kinds
    assert "Deployment" not in kinds


def test_without_a_starting_point_the_nodes_are_those_that_speak(tmp_path: Path) -> None:
    recorded("lost-events-found-by-resync", tmp_path)
    (tmp_path / "cluster.json").unlink()
    scenario, _, _ = recorded_play.load(tmp_path)
    assert len(scenario.nodes) == 10
    _, notes = replayed(tmp_path)
    assert "no starting point was recorded" in notes[0]


def test_a_history_without_a_node_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(
        '{"at": "2026-03-02T08:00:00Z", "path": "/", "headers": {}, "body": 1}\n'
    )
    with pytest.raises(HistoryError, match="not one node is known"):
        recorded_play.load(tmp_path / "x.jsonl")
