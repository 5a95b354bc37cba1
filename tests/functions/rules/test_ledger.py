"""The ledger: small, forgiving of newer versions, made anew from the nodes."""

import json
from datetime import timedelta

import msgspec
import pytest

from functions.rules import breaker, ledger
from functions.rules.ledger import Ledger, Machine, Reservation
from functions.rules.node_view import NodeView
from functions.rules.rebuild import Census, rebuild
from tests.support.facts import NOW, minutes, node, rebuilt


def test_fields_of_a_newer_version_survive() -> None:
    text = json.dumps({"v": 2, "pool": "a", "spares": ["x"]})
    written = json.loads(ledger.encode(ledger.decode(text)))
    assert written["spares"] == ["x"]
    assert "extra" not in written


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"size":"many"}'])
def test_what_is_no_ledger_is_unreadable(text: str) -> None:
    with pytest.raises(ledger.Unreadable):
        ledger.decode(text)


def test_too_many_machines_lose_those_seen_longest_ago() -> None:
    machines = {
        f"aws:///us-east-1a/i-{n:017x}": Machine(f"n{n}", NOW + minutes(n), "x" * 600)
        for n in range(2000)
    }
    text = ledger.encode(rebuilt(machines=machines))
    assert len(text.encode()) <= ledger.MAX_BYTES
    found = ledger.decode(text)
    assert found.forgot
    kept = found.machines
    assert f"aws:///us-east-1a/i-{1999:017x}" in kept
    assert f"aws:///us-east-1a/i-{0:017x}" not in kept


def test_the_same_ledger_is_the_same_text() -> None:
    made = rebuilt(others={"b": "2", "a": "1"})
    assert ledger.encode(made) == ledger.encode(ledger.decode(ledger.encode(made)))


class TestRebuild:
    def census(self, *views: NodeView) -> Census:
        census = Census()
        for view in views:
            census.count(view, ("zone=1",))
        return census

    def test_sizes_domains_and_others_are_as_the_nodes_say(self) -> None:
        census = self.census(
            node("n1"),
            node("n2", unschedulable=True),
            node("n3", unschedulable=True, state="evict"),
        )
        made = rebuild({}, census, NOW)["gpu"]
        assert made.size == 3
        assert made.rebuilt == NOW
        assert made.domains == {"zone=1": 3}
        assert list(made.others.values()) == ["n2"]

    def test_reservations_that_ran_out_go_and_the_others_stay(self) -> None:
        known = rebuilt(
            reservations={
                "old": Reservation("n1", NOW - minutes(1), "gpu"),
                "new": Reservation("n2", NOW + minutes(1), "gpu"),
            }
        )
        assert list(rebuild({"gpu": known}, self.census(node()), NOW)["gpu"].reservations) == [
            "new"
        ]

    def test_a_machine_that_is_gone_no_longer_stands_accused(self) -> None:
        check = breaker.Check(accused={"gone": breaker.Accusation(NOW)})
        made = rebuild({"gpu": rebuilt(checks={"c": check})}, self.census(node()), NOW)["gpu"]
        assert made.checks["c"].accused["gone"].cleared == NOW

    def test_a_machine_without_a_node_is_remembered_for_a_month(self) -> None:
        known = rebuilt(machines={"m": Machine("n1", NOW, "{}")})
        for days, kept in ((29, True), (31, False)):
            made = rebuild({"gpu": known}, self.census(node()), NOW + timedelta(days=days))["gpu"]
            assert ("m" in made.machines) is kept

    def test_a_pool_without_nodes_has_size_zero(self) -> None:
        assert rebuild({"old": rebuilt(pool="old")}, self.census(node()), NOW)["old"].size == 0


def test_live_reservations_are_those_that_have_not_run_out() -> None:
    made = Ledger(
        reservations={"a": Reservation("n", NOW), "b": Reservation("n", NOW + minutes(1))}
    )
    assert list(ledger.live(made, NOW)) == ["b"]
    assert msgspec.structs.replace(made, reservations={}) != made
