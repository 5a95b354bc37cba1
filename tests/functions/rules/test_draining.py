"""Which nodes are drained, and what one call's work makes of a drain."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events.notice import Kind, Severity
from functions.rules import drain_state, draining, incidents, keys, policy
from functions.rules.decision import Action, Decision
from functions.rules.drain_state import DrainState, State
from functions.rules.draining import Blocker, Ended, NodeFacts, Result
from functions.rules.incidents import Cordon, Incident, Record
from functions.rules.node_view import NodeView

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
DRAIN = policy.default().drain
MINUTE = timedelta(minutes=1)


def view(name: str = "n1", deadline: datetime | None = None, **fields: Any) -> NodeView:
    incident = Incident(
        source="s",
        check="c",
        kind=Kind.INTERRUPTION if deadline else Kind.FAULT,
        severity=Severity.EVICT,
        first=NOW,
        last=NOW,
        deadline=deadline,
    )
    record = Record(machine="p", cordon=Cordon(at=NOW), incidents=(incident,))
    made: dict[str, Any] = {
        "name": name, "uid": "u", "provider_id": "p", "boot_id": "b", "state": "evict",
        "unschedulable": True, "incidents": incidents.encode(record),
    }  # fmt: skip
    return NodeView(**{**made, **fields})


def state(of: State = State.DRAINING, **fields: Any) -> DrainState:
    made: dict[str, Any] = {
        "state": of, "started": NOW, "changed": NOW, "provider_id": "p", "uid": "u", "boot": "b",
    }  # fmt: skip
    return DrainState(**{**made, **fields})


def facts(found: NodeView | None = None, drain: DrainState | None = None, **more: Any) -> NodeFacts:
    text = drain_state.encode(drain) if drain else None
    return NodeFacts(view=found or view(), annotation=text, **more)


def decide(*nodes: NodeFacts, now: datetime = NOW, named: str = "") -> list[Decision]:
    return draining.decide(nodes, DRAIN, now, [named] if named else [])


@pytest.mark.parametrize(
    ("node", "action"),
    [
        (facts(), Action.START_DRAIN),
        (facts(drain=state()), Action.EVICT),
        (facts(drain=state(State.BLOCKED)), Action.EVICT),
        (facts(drain=state(State.STOPPED)), Action.START_DRAIN),
        (facts(drain=state(boot="another")), Action.START_DRAIN),
        (facts(paused="release night"), Action.HOLD),
        (facts(view(unschedulable=False), state()), Action.STOP_DRAIN),
        (facts(view(state="cordon"), state()), Action.STOP_DRAIN),
        (facts(view(labels={keys.OPT_OUT: "false"}), state()), Action.STOP_DRAIN),
        (facts(view(incidents="{"), state()), Action.STOP_DRAIN),
        (facts(view(incidents=None), state()), Action.STOP_DRAIN),
    ],
)
def test_each_node_gets_the_decision_that_follows(node: NodeFacts, action: Action) -> None:
    assert [d.action for d in decide(node)] == [action]


@pytest.mark.parametrize(
    "node",
    [
        facts(view(unschedulable=False)),
        facts(view(unschedulable=False), state(State.STOPPED)),
        facts(view(unschedulable=False), state(State.DRAINED)),
        facts(view(state="released")),
    ],
)
def test_a_node_without_a_drain_needs_no_decision(node: NodeFacts) -> None:
    assert decide(node) == []


def test_a_drained_node_is_looked_at_now_and_then_or_when_an_event_names_it() -> None:
    node = facts(drain=state(State.DRAINED))
    [later] = decide(node, now=NOW + MINUTE)
    assert (later.action, later.look_again) == (Action.NOTHING, NOW + 5 * MINUTE)
    assert decide(node, now=NOW + 5 * MINUTE)[0].action is Action.EVICT
    assert decide(node, now=NOW + MINUTE, named="n1")[0].action is Action.EVICT


def test_a_node_that_carries_us_goes_after_the_others_and_one_at_a_time() -> None:
    ours = [facts(view(name), carries_us=True) for name in ("a1", "a2")]
    other = facts(view("n1"))
    assert {d.node: d.action for d in decide(*ours, other)} == {
        "a1": Action.HOLD, "a2": Action.HOLD, "n1": Action.START_DRAIN,
    }  # fmt: skip
    done = facts(view("n1"), state(State.DRAINED))
    assert {d.node: d.action for d in decide(*ours, done, named="n1")} == {
        "a1": Action.START_DRAIN, "a2": Action.HOLD, "n1": Action.EVICT,
    }  # fmt: skip


def test_a_machine_that_is_about_to_go_does_not_wait_for_its_turn() -> None:
    spot = facts(view("a1", deadline=NOW + 2 * MINUTE), carries_us=True)
    assert decide(spot, facts(view("n1")))[0].action is Action.START_DRAIN


class TestManyCordonedAtOnce:
    """Half a fleet is accused within seconds: what is evicted now would come up on the next one."""

    MANY = tuple(facts(view(f"n{number}")) for number in range(10))
    SECOND = timedelta(seconds=1)

    def actions(self, *nodes: NodeFacts, after: timedelta = SECOND) -> set[Action]:
        return {d.action for d in decide(*nodes, now=NOW + after)}

    def test_none_is_begun_while_more_are_to_be_expected(self) -> None:
        decisions = decide(*self.MANY, now=NOW + self.SECOND, named="n3")
        assert {d.action for d in decisions} == {Action.NOTHING}
        assert decisions[0].reason.startswith("10 nodes were cordoned just now")
        assert decisions[0].look_again == NOW + 6 * self.SECOND

    def test_when_no_more_come_all_are(self) -> None:
        assert self.actions(*self.MANY, after=4 * self.SECOND) == {Action.START_DRAIN}

    def test_a_few_are_begun_at_once(self) -> None:
        assert self.actions(*self.MANY[:9]) == {Action.START_DRAIN}

    def test_nobody_waits_for_ever_where_they_come_all_day(self) -> None:
        fresh = [facts(cordoned_at(n, NOW + 29 * self.SECOND)) for n in range(10)]
        early = facts(view("early"))
        before = decide(early, *fresh, now=NOW + 29 * self.SECOND)
        after = decide(early, *fresh, now=NOW + 30 * self.SECOND)
        assert [before[0].action, after[0].action] == [Action.NOTHING, Action.START_DRAIN]

    def test_what_was_begun_goes_on(self) -> None:
        begun = facts(view("begun"), state())
        assert self.actions(begun, *self.MANY) == {Action.EVICT, Action.NOTHING}

    def test_a_machine_that_is_about_to_go_is_begun(self) -> None:
        spots = [facts(view(f"s{n}", deadline=NOW + 2 * MINUTE)) for n in range(10)]
        assert self.actions(*spots) == {Action.START_DRAIN}

    @pytest.mark.parametrize("wrong", [-5 * MINUTE, 5 * MINUTE])
    def test_a_clock_that_is_wrong_holds_nothing_up(self, wrong: timedelta) -> None:
        nodes = [facts(cordoned_at(number, NOW + wrong)) for number in range(10)]
        now = facts(cordoned_at(10, NOW + self.SECOND))
        assert self.actions(now, *nodes) == {Action.START_DRAIN}

    def test_those_that_nobody_asks_to_empty_do_not_count(self) -> None:
        others = [facts(view(f"c{n}", state="cordon")) for n in range(10)]
        drained = [facts(view(f"d{n}"), state(State.DRAINED)) for n in range(10)]
        [decision] = [d for d in decide(facts(), *others, *drained) if d.node == "n1"]
        assert decision.action is Action.START_DRAIN


def cordoned_at(number: int, at: datetime) -> NodeView:
    record = Record(machine="p", cordon=Cordon(at=at), incidents=incidents.read(view()).incidents)
    return view(f"at-{number}", incidents=incidents.encode(record))


def conclude(
    result: Result, before: DrainState | None = None, after: timedelta = timedelta(seconds=3)
) -> tuple[DrainState, Decision]:
    return draining.conclude(view(), before or state(), result, (), NOW + after)


def test_a_call_that_leaves_nothing_drains_the_node() -> None:
    found, said = conclude(Result(ended=Ended.EMPTY, evicted=("a/b", "a/c")))
    assert (found.state, found.evicted, said.action) == (State.DRAINED, 2, Action.DRAINED)


def test_looking_at_a_drained_node_again_is_no_news() -> None:
    before = state(State.DRAINED, evicted=2)
    found, _ = conclude(Result(ended=Ended.EMPTY), before, after=timedelta(hours=1))
    assert drain_state.same_news(before, found)


LASTING = Blocker("a/b", "has no controller", lasting=True)
PASSING = Blocker("a/c", "PodDisruptionBudget a/c allows none now", lasting=False)


@pytest.mark.parametrize(
    ("result", "before", "seconds", "expected"),
    [
        (Result(ended=Ended.UNFINISHED, blocked=(LASTING,)), None, 3, State.BLOCKED),
        (Result(ended=Ended.UNFINISHED, blocked=(PASSING,)), None, 3, State.DRAINING),
        (Result(ended=Ended.UNFINISHED, blocked=(PASSING,)), None, 31, State.BLOCKED),
        (
            Result(ended=Ended.UNFINISHED, blocked=(PASSING,)),
            state(State.BLOCKED),
            3,
            State.BLOCKED,
        ),
        (
            Result(ended=Ended.UNFINISHED, blocked=(LASTING,), leaving=("a/d",)),
            None,
            99,
            State.DRAINING,
        ),
        (
            Result(ended=Ended.UNFINISHED, blocked=(PASSING,), evicted=("a/d",)),
            state(State.BLOCKED),
            99,
            State.DRAINING,
        ),
        (
            Result(ended=Ended.UNFINISHED, blocked=(LASTING,), held={"gang a/x": None}),
            None,
            99,
            State.DRAINING,
        ),
    ],
)
def test_a_drain_is_blocked_when_nothing_moves_and_not_before(
    result: Result, before: DrainState | None, seconds: int, expected: State
) -> None:
    found, _ = conclude(result, before, timedelta(seconds=seconds))
    assert found.state is expected


def test_pods_with_the_same_blocker_are_told_together() -> None:
    many = [Blocker(f"a/{n}", "has no controller", lasting=True) for n in range(4)]
    assert draining.explain([*many, PASSING]) == (
        "4 pods (a/0, a/1, ...): has no controller",
        "a/c: PodDisruptionBudget a/c allows none now",
    )


def test_a_stopped_drain_says_why() -> None:
    found, said = conclude(Result(ended=Ended.STOPPED, why="the node was uncordoned"))
    assert (found.state, said.action) == (State.STOPPED, Action.STOP_DRAIN)
    assert "uncordoned" in said.reason
