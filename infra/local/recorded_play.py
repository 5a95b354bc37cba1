"""Replaying a history: as a scenario is replayed, but what happens was recorded.

Nothing is expected of it, so nothing can fail but a call or a disruption budget.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from events.cloudevent import CloudEvent
from functions.edge.context import Outcome
from functions.rules import keys
from functions.rules import policy as policies
from functions.rules.decision import Action, Decision
from functions.rules.policy import Policy
from functions.steps import active
from infra.local.clock import PING
from infra.local.cluster.objects import Object, labels_of
from infra.local.expectations import Judge
from infra.local.gate import Eviction
from infra.local.history import History
from infra.local.out_of_service import OutOfService
from infra.local.past import filling
from infra.local.past.course import Around, Course
from infra.local.past.reader import Reader
from infra.local.player import Counts, Played
from infra.local.scenario import Cluster, Pool, Scenario
from infra.local.stage import Through
from infra.local.timeline import Did, Entry, Trouble
from infra.local.world import Change

AFTERMATH = timedelta(hours=1)
"""How long it goes on after the last event, so that what was begun comes to something."""
_REFUSED = re.compile(r": 4(00|04|13|15): ")


class Recorded(Scenario, frozen=True, kw_only=True):
    """A history in the place of a scenario."""

    names: dict[str, str]
    """By node, its pool's name."""
    objects: tuple[Object, ...]
    notes: tuple[str, ...] = ()

    @property
    def nodes(self) -> dict[str, Pool]:
        return {node: self.cluster.pools[pool] for node, pool in self.names.items()}

    @property
    def pool_of_nodes(self) -> dict[str, str]:
        return self.names


def load(path: Path) -> tuple[Recorded, History, Reader]:
    """The history at ``path`` and its beginning. Raises `history.HistoryError`."""
    history, reader = History.open(path), Reader()
    return begin(history, reader), history, reader


def begin(history: History, reader: Reader) -> Recorded:
    """What ``history`` is played as. ``reader`` learns its nodes."""
    everything = list(history.objects())
    items, notes = filling.beginning(history, everything, reader)
    text = _policy(everything)
    pools = _pools(items, policies.parse(text) if text else policies.default())
    by_name = {
        name: Pool(count=count, instance_type=_type(items, pools, name))
        for name, count in sorted(Counter(pools.values()).items())
    }
    return Recorded(
        name=history.path.resolve().name,
        file=str(history.path),
        shows="Recorded history.",
        start=history.start,
        end=history.end + AFTERMATH,
        cluster=Cluster(pools=by_name),
        policy=text,
        steps=(),
        names=dict(pools),
        objects=tuple(items),
        notes=notes,
    )


def play(
    scenario: Recorded,
    history: History,
    reader: Reader,
    *,
    policy: str | None = None,
    on_entry: Callable[[Entry], None] = lambda entry: None,
    on_time: Callable[[datetime], None] = lambda now: None,
    around: Around = lambda world: world,
    through: Through = lambda functions: functions,
) -> Played:
    """Let happen what was recorded. ``policy`` replaces the one that was in force then;
    ``around`` and ``through`` are for who listens. Raises `history.HistoryError`."""
    text = scenario.policy if policy is None else policy
    in_force = policies.parse(text) if text else policies.default()
    witness = _Witness(scenario, in_force, on_entry)
    started = time.perf_counter()
    course = _Course(
        in_force, scenario.start, scenario.objects, witness, around=around, through=through
    )
    for event in history.events():
        on_time(event.at)
        course.hear(reader.hear(event))
    on_time(scenario.end)
    course.go_to(scenario.end)
    return witness.end(course, time.perf_counter() - started)


def notes_on(scenario: Recorded, history: History, reader: Reader) -> list[str]:
    """What a reader of the outcome is to know, a sentence each. After the play."""
    counts = reader.counts
    notes = [*scenario.notes, *history.notes]
    if counts.refused:
        notes.append(f"{counts.refused:,} requests are malformed, and were refused as then")
    if counts.ours:
        notes.append(f"{counts.ours:,} events are groundcrew's own of that time, and were left out")
    return notes


class _Course(Course):
    """Tells its witness of failures, too, and counts what wakes the functions."""

    def __init__(
        self,
        policy: Policy,
        start: datetime,
        items: tuple[Object, ...],
        witness: "_Witness",
        *,
        around: Around,
        through: Through,
    ) -> None:
        self.teller = witness
        super().__init__(policy, start, items, witness, around=around, through=through)

    def answered(self, event: CloudEvent, outcome: Outcome, requests: int) -> None:
        super().answered(event, outcome, requests)
        self.teller.answered(event, outcome, requests, self.clock.now())

    def failed(self, says: str) -> None:
        if not _REFUSED.search(says):
            # What was malformed when it was recorded is refused as it was then.
            super().failed(says)
        self.teller.note(Trouble(at=self.clock.now(), says=says))

    @property
    def violations(self) -> list[str]:
        return self._stage.gate.violations

    def ticks(self, began: datetime) -> int:
        return self._stage.schedule.count_all(began, self.clock.now())

    def judge(self, played: Played) -> Judge:
        return Judge(played.scenario, self._stage.api, played)


class _Witness:
    """Writes down what comes of it, as `infra.local.player` does of a scenario."""

    def __init__(
        self, scenario: Recorded, policy: Policy, on_entry: Callable[[Entry], None]
    ) -> None:
        self.played = Played(scenario, [], Counts())
        self._on_entry = on_entry
        self._woken_by = ""
        self._out = OutOfService(lambda node: policy.pool_of(node.metadata.labels))

    def note(self, entry: Entry) -> None:
        if entry.at >= self.played.scenario.start:
            self.played.entries.append(entry)
            self._on_entry(entry)

    def answered(self, event: CloudEvent, outcome: Outcome, requests: int, now: datetime) -> None:
        self._woken_by = event.type
        counts = self.played.counts
        if now < self.played.scenario.start:
            return
        if event.type == PING:
            counts.resyncs += 1
        elif not event.type.startswith("dev.groundcrew.nodes"):
            counts.events += 1
            if any(d.action is not Action.NOTHING for d in outcome.decisions):
                counts.acted += 1
                counts.requests += requests
            elif outcome.declined:
                counts.declined += 1

    def decided(self, at: datetime, decision: Decision) -> None:
        if at < self.played.scenario.start:
            return
        self.note(Did(at=at, woken_by=self._woken_by, decision=decision))
        actions = self.played.counts.actions
        actions[decision.action] = actions.get(decision.action, 0) + 1

    def changed(self, at: datetime, change: Change) -> None:
        self._out.changed(change)

    def evicted(self, eviction: Eviction) -> None:
        if eviction.deleted:
            self.played.counts.deletions += 1
        else:
            self.played.counts.evictions += 1

    def end(self, course: _Course, seconds: float) -> Played:
        counts = self.played.counts
        counts.seconds = seconds
        counts.failures = course.failures
        counts.most_out, counts.most_out_by = self._out.most, self._out.most_by
        counts.violations = course.violations
        counts.ticks = course.ticks(self.played.scenario.start)
        self.played.final = course.judge(self.played).final()
        return self.played


def _policy(objects: list[dict[str, Any]]) -> str:
    """The policy that was in force; empty where there was none, or a broken one."""
    for item in objects:
        if item["kind"] == "ConfigMap" and item["metadata"].get("name") == active.POLICY_NAME:
            text = str((item.get("data") or {}).get("policy.json", ""))
            try:
                policies.parse(text)
            except policies.PolicyError:
                return ""
            return text
    return ""


def _pools(items: list[Object], policy: Policy) -> Mapping[str, str]:
    return {
        item["metadata"]["name"]: policy.pool_of(labels_of(item))
        for item in items
        if item["kind"] == "Node"
    }


def _type(items: list[Object], pools: Mapping[str, str], pool: str) -> str:
    """The instance type that most of its nodes are of."""
    found = Counter(
        labels_of(item).get(keys.INSTANCE_TYPE, "")
        for item in items
        if item["kind"] == "Node" and pools[item["metadata"]["name"]] == pool
    )
    return found.most_common(1)[0][0]
