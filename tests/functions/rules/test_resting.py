"""A node at rest is one about which `decide` has nothing to do and nothing to say."""

from typing import Any

import msgspec
import pytest

from events.notice import Kind, Notice, Severity
from functions.rules import incidents
from functions.rules.cordoning import Facts, NodeFacts, decide, is_at_rest
from functions.rules.incidents import Cordon
from functions.rules.ledger import Ledger, Machine
from functions.rules.node_view import NodeView
from functions.rules.policy import default
from tests.support.facts import NOW, after, minutes, node, notice, only, rebuilt, recovery, run

LATER = NOW + minutes(60)


def given_back() -> tuple[NodeView, Ledger]:
    """A node that was cordoned, and was given back because its source no longer says it."""
    first = run(node(), notice())
    claimed = run(after(only(first)), recovery(), at=NOW + minutes(1), pool=first.ledgers["gpu"])
    pool = claimed.ledgers.get("gpu", first.ledgers["gpu"])
    back = run(after(only(claimed)), at=NOW + minutes(30), pool=pool)
    assert only(back).state == "released"
    assert back.ledgers["gpu"].machines
    # Read once more: our cordon is off, and no longer about to come off.
    seen = run(after(only(back)), at=NOW + minutes(31), pool=back.ledgers["gpu"])
    return after(only(seen)), seen.ledgers["gpu"]


def flapped() -> tuple[NodeView, Ledger]:
    """A node with an incident to be watched, which is over: no ledger knows of it."""
    first = run(node(), notice(severity=Severity.WATCH))
    over = run(after(only(first)), recovery(), at=NOW + minutes(1))
    assert only(over).state == "released"
    return after(only(over)), rebuilt()


def rests(view: NodeView, pool: Ledger, *said: Notice, at: Any = LATER) -> bool:
    """Whether it rests. If so, `decide` is asked, too, and must do and say nothing."""
    facts = NodeFacts(view, said, pool.machines.get(view.machine), said)
    ledgers = {"gpu": pool, "other": rebuilt(pool="other")}
    resting = is_at_rest(facts, ledgers, default(), at)
    if resting:
        whole = Facts(nodes=(facts,), ledgers=ledgers, cluster=Ledger(rebuilt=NOW))
        plan = decide(whole, default(), at)
        verdict = only(plan)
        assert not verdict.changed
        assert not plan.decisions
        assert not plan.ledgers
        assert plan.cluster is None
        assert verdict.look_again is None
    return resting


@pytest.mark.parametrize("made", [given_back, flapped])
def test_a_node_whose_incidents_are_over_rests(made: Any) -> None:
    view, pool = made()
    assert rests(view, pool)
    assert rests(view, pool, recovery(), notice(kind=Kind.INFORMATIONAL))


@pytest.mark.parametrize("made", [given_back, flapped])
@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("carries no record", {"incidents": None}),
        ("carries no label", {"state": ""}),
        ("is held", {"state": "held"}),
        ("is dismissed", {"state": "dismissed"}),
        ("is just being given back", {"state": "returning"}),
        ("carries what was written about a drain", {"drain": "{}"}),
        ("carries a record that cannot be read", {"incidents": "{"}),
        ("is another machine by now", {"provider_id": "aws:///us-east-1a/i-other"}),
        ("shows more GPUs than it ever did", {"gpus": 9}),
    ],
)
def test_a_node_does_not_rest_that(made: Any, what: str, changes: dict[str, Any]) -> None:
    view, pool = made()
    assert not rests(msgspec.structs.replace(view, **changes), pool), what


def test_a_node_does_not_rest_while_somebody_accuses_it() -> None:
    view, pool = given_back()
    assert not rests(view, pool, notice("Another"))


@pytest.mark.parametrize(
    "said", [(notice(),), (notice(severity=Severity.WATCH),)], ids=["cordoned", "watched"]
)
def test_a_node_does_not_rest_while_an_incident_is_open_whatever_its_label_says(
    said: tuple[Notice, ...],
) -> None:
    first = run(node(), *said)
    view = msgspec.structs.replace(after(only(first)), state="released")
    assert not rests(view, first.ledgers.get("gpu", rebuilt()))


@pytest.mark.parametrize("kept", [{"cordon": Cordon(at=NOW)}, {"held": ("releases",)}])
def test_a_node_does_not_rest_while_it_is_kept_out_or_held(kept: dict[str, Any]) -> None:
    view, pool = flapped()
    record = msgspec.structs.replace(incidents.read(view), **kept)
    text = incidents.encode(record)
    assert not rests(msgspec.structs.replace(view, incidents=text, unschedulable=True), pool)


def test_a_node_does_not_rest_when_its_history_is_old_enough_to_be_forgotten() -> None:
    view, pool = flapped()
    assert rests(view, pool, at=NOW + minutes(60 * 24 * 7))
    assert not rests(view, pool, at=NOW + minutes(60 * 24 * 7 + 2))


def test_a_node_does_not_rest_when_the_ledgers_know_less_or_more_or_else_of_its_machine() -> None:
    view, pool = given_back()
    known = pool.machines[view.machine]

    def remembering(machines: dict[str, Machine]) -> Ledger:
        return msgspec.structs.replace(pool, machines=machines)

    other = msgspec.structs.replace(known, record='{"v":1}')
    assert not rests(view, remembering({}))
    assert not rests(view, remembering({view.machine: other}))
    leaving = msgspec.structs.replace(known, leaving=True)
    assert not rests(view, remembering({view.machine: leaving}))
    watched, _ = flapped()
    assert not rests(watched, remembering({watched.machine: known}))
    ledgers = {"gpu": remembering({}), "other": rebuilt(pool="other", machines=pool.machines)}
    assert not is_at_rest(NodeFacts(view, (), known, ()), ledgers, default(), LATER)
