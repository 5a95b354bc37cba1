"""What is in force: the applied policy, the pauses, the ledgers, and writing those."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.rules import keys, ledger, policy
from functions.rules.ledger import Ledger
from functions.rules.replacing import book
from functions.steps import active
from functions.steps.active import CLUSTER
from infra.local.clock import SimulatedClock
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HOME = "groundcrew-system"
STRICT = policy.parse("version: 1\nbudget: {pool: 1%}")


class Shelf:
    def __init__(self) -> None:
        self.server = EmbeddedCluster(SimulatedClock(NOW))
        self.cluster = Cluster(EmbeddedTransport(self.server, lambda seconds: None))
        self.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})

    def put(self, name: str, part: str, data: dict[str, str] | None) -> None:
        meta = {"name": name, "namespace": HOME, "labels": {keys.PART: part}}
        made: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        self.server.apply(made | ({"data": data} if data is not None else {}))

    def read(self) -> active.Active:
        return active.read(self.cluster, HOME)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def pause(minutes: int, reason: str = "r") -> str:
    until = NOW + timedelta(minutes=minutes)
    return json.dumps({"until": until.isoformat(), "reason": reason})


def test_on_an_empty_shelf_the_defaults_hold_and_no_pool_may_act(shelf: Shelf) -> None:
    found = shelf.read()
    assert found.policy == policy.default()
    assert (found.trouble, found.author) == ("", "")
    assert not found.ledgers
    assert found.paused("any", NOW) == ""


class TestPolicy:
    def test_the_applied_one_holds_with_its_author(self, shelf: Shelf) -> None:
        shelf.put(active.POLICY_NAME, "policy", active.policy_data(STRICT, "ann"))
        found = shelf.read()
        assert found.policy == STRICT
        assert found.author == "ann"
        assert not found.trouble

    def test_another_config_map_with_the_same_part_is_not_it(self, shelf: Shelf) -> None:
        shelf.put("groundcrew-policy-draft", "policy", active.policy_data(STRICT, "ann"))
        shelf.put(active.POLICY_NAME, "draft", active.policy_data(STRICT, "ann"))
        assert shelf.read().policy == policy.default()

    @pytest.mark.parametrize("data", [{}, None, {"policy.json": "{}"}])
    def test_an_empty_one_stops_every_act(self, shelf: Shelf, data: dict[str, str] | None) -> None:
        shelf.put(active.POLICY_NAME, "policy", data)
        assert "apply" in shelf.read().paused("any", NOW)
        assert not shelf.read().applied

    def test_one_that_no_longer_parses_stops_every_act_and_names_the_field(
        self, shelf: Shelf
    ) -> None:
        text = json.dumps({"version": 1, "budget": {"poool": "10%"}})
        shelf.put(active.POLICY_NAME, "policy", {"policy.json": text, "sha256": active._hash(text)})
        found = shelf.read()
        assert found.policy == policy.default()
        assert "budget.poool" in found.paused("any", NOW)

    def test_one_that_was_in_force_and_is_gone_stops_every_act_and_says_which(
        self, shelf: Shelf
    ) -> None:
        known = policy.fingerprint(STRICT)
        active.write_ledger(shelf.cluster, HOME, shelf.read(), CLUSTER, Ledger(policy=known))
        found = shelf.read()
        assert found.policy == policy.default()
        assert f"is gone, or has lost its label groundcrew.dev/part=policy, and policy {known}" in (
            found.paused("any", NOW)
        )
        assert not found.applied
        shelf.put(active.POLICY_NAME, "policy", active.policy_data(policy.default(), "ann"))
        assert (shelf.read().trouble, shelf.read().applied) == ("", True)


class TestPauses:
    def test_it_holds_until_its_time(self, shelf: Shelf) -> None:
        shelf.put(active.PAUSE_NAME, "pause", {"cluster": pause(10, "upgrade")})
        assert "upgrade" in shelf.read().paused("a", NOW)
        assert not shelf.read().paused("a", NOW + timedelta(minutes=10))

    @pytest.mark.parametrize(
        "text", ["", "{}", '{"until": "2026-03-02T10:00:00", "reason": "no zone"}']
    )
    def test_one_that_cannot_be_read_is_a_pause_of_everything(
        self, shelf: Shelf, text: str
    ) -> None:
        shelf.put(active.PAUSE_NAME, "pause", {"pool.a": pause(10), "pool.b": text})
        found = shelf.read()
        assert "key pool.b" in found.paused("c", NOW)
        assert "groundcrew resume" in found.paused("c", NOW)

    def test_a_broken_policy_is_told_before_a_broken_pause_and_hides_it_not(
        self, shelf: Shelf
    ) -> None:
        shelf.put(active.PAUSE_NAME, "pause", {"cluster": "x"})
        shelf.put(active.POLICY_NAME, "policy", {})
        policy_wrong, pause_wrong = shelf.read().trouble.split("; ", 1)
        assert active.POLICY_NAME in policy_wrong
        assert active.PAUSE_NAME in pause_wrong

    def test_a_broken_one_does_not_make_the_applied_policy_one_that_is_not(
        self, shelf: Shelf
    ) -> None:
        shelf.put(active.PAUSE_NAME, "pause", {"cluster": "x"})
        shelf.put(active.POLICY_NAME, "policy", active.policy_data(STRICT, "ann"))
        found = shelf.read()
        assert found.trouble
        assert found.applied

    def test_without_data_there_is_none(self, shelf: Shelf) -> None:
        shelf.put(active.PAUSE_NAME, "pause", None)
        assert not shelf.read().trouble


class TestLedgers:
    def test_what_is_written_is_read(self, shelf: Shelf) -> None:
        found = shelf.read()
        for pool in (CLUSTER, "a100"):
            found = active.write_ledger(
                shelf.cluster, HOME, found, pool, Ledger(pool=pool, size=4, rebuilt=NOW)
            )
        assert found.ledgers["a100"].size == 4
        again = shelf.read()
        assert again.ledgers == found.ledgers
        assert set(again.pools) == {"a100"}
        names = {m["metadata"]["name"] for m in shelf.server.all("ConfigMap", HOME)}
        assert {"groundcrew-ledger", "groundcrew-ledger-a100"} <= names

    def test_of_two_who_write_at_once_the_second_loses(self, shelf: Shelf) -> None:
        base = active.write_ledger(shelf.cluster, HOME, shelf.read(), "a", Ledger(pool="a"))
        first = active.write_ledger(shelf.cluster, HOME, base, "a", Ledger(pool="a", size=1))
        with pytest.raises(active.LOST_RACE):
            active.write_ledger(shelf.cluster, HOME, base, "a", Ledger(pool="a", size=2))
        last = active.write_ledger(shelf.cluster, HOME, first, "a", Ledger(pool="a", size=3))
        assert last.ledgers["a"].size == 3
        assert shelf.read().ledgers["a"].size == 3

    def test_of_two_who_make_it_the_second_loses(self, shelf: Shelf) -> None:
        empty = shelf.read()
        active.write_ledger(shelf.cluster, HOME, empty, "a", Ledger(pool="a"))
        with pytest.raises(active.LOST_RACE):
            active.write_ledger(shelf.cluster, HOME, empty, "a", Ledger(pool="a"))

    def test_one_that_was_deleted_meanwhile_is_a_lost_race(self, shelf: Shelf) -> None:
        base = active.write_ledger(shelf.cluster, HOME, shelf.read(), "a", Ledger(pool="a"))
        shelf.server.delete("ConfigMap", HOME, active.ledger_name("a"))
        with pytest.raises(active.LOST_RACE):
            active.write_ledger(shelf.cluster, HOME, base, "a", Ledger(pool="a", size=1))

    def test_a_damaged_one_is_missing_but_can_be_written_over(self, shelf: Shelf) -> None:
        shelf.put(active.ledger_name("b"), "ledger", None)
        shelf.put(active.ledger_name("a"), "ledger", {"pool": "a", "ledger": "{"})
        found = shelf.read()
        assert "a" not in found.ledgers
        active.write_ledger(shelf.cluster, HOME, found, "a", Ledger(pool="a", size=2))
        assert shelf.read().ledgers["a"].size == 2

    def test_a_part_that_is_not_ours_yet_is_no_ledger(self, shelf: Shelf) -> None:
        shelf.put("groundcrew-newer", "spares", {"pool": "a", "ledger": ledger.encode(Ledger())})
        assert not shelf.read().shelf

    def test_without_its_namespace_the_error_says_what_to_do(self, shelf: Shelf) -> None:
        with pytest.raises(errors.KubernetesError, match="kubectl create namespace elsewhere"):
            active.write_ledger(shelf.cluster, "elsewhere", active.Active(STRICT), "a", Ledger())


class TestNames:
    def test_a_plain_pool_is_named_plainly(self) -> None:
        assert active.ledger_name(CLUSTER) == "groundcrew-ledger"
        assert active.ledger_name("a100") == "groundcrew-ledger-a100"

    @pytest.mark.parametrize("pool", ["p5.48xlarge", "A100", "a_b", "-a", "x" * 63 + ".", "é"])
    def test_any_other_makes_a_valid_name(self, pool: str) -> None:
        name = active.ledger_name(pool)
        assert name == name.lower()
        assert all(c.isascii() and (c.isalnum() or c == "-") for c in name)
        assert len(name) <= 100
        assert name[-1] != "-"

    def test_two_pools_never_share_one(self) -> None:
        pools = ["p5-48xlarge", "p5.48xlarge", "p5_48xlarge", "P5-48xlarge"]
        pools += [f"{'x' * 50}.{n}" for n in range(3)]
        assert len({active.ledger_name(pool) for pool in pools}) == len(pools)


def test_the_ledger_and_the_book_of_one_pool_do_not_write_over_each_other(shelf: Shelf) -> None:
    first = active.write_ledger(shelf.cluster, HOME, shelf.read(), "gpu", Ledger(pool="gpu"))
    kept = book.Book(began=NOW)
    second = active.write_book(shelf.cluster, first, "gpu", kept)
    grown = Ledger(pool="gpu", size=7)
    active.write_ledger(shelf.cluster, HOME, second, "gpu", grown)
    found = shelf.read()
    assert found.ledgers["gpu"] == grown
    assert book.decode((found.shelf["gpu"].data or {})[book.KEY]) == kept


def test_a_book_that_somebody_else_wrote_meanwhile_is_not_written_over(shelf: Shelf) -> None:
    read = active.write_ledger(shelf.cluster, HOME, shelf.read(), "gpu", Ledger(pool="gpu"))
    active.write_book(shelf.cluster, read, "gpu", book.Book(began=NOW))
    with pytest.raises(active.LOST_RACE):
        active.write_book(shelf.cluster, read, "gpu", book.Book())
    with pytest.raises(active.LOST_RACE):
        active.write_ledger(shelf.cluster, HOME, read, "gpu", Ledger(pool="gpu"))


def test_the_ledger_takes_the_room_that_the_book_leaves(shelf: Shelf) -> None:
    first = active.write_ledger(shelf.cluster, HOME, shelf.read(), "gpu", Ledger(pool="gpu"))
    entries = {f"m{n}": book.Entry(node="n" * 100, changed=NOW) for n in range(1200)}
    second = active.write_book(shelf.cluster, first, "gpu", book.Book(began=NOW, machines=entries))
    machines = {f"m{n}": ledger.Machine("n", NOW, "x" * 1000) for n in range(900)}
    active.write_ledger(shelf.cluster, HOME, second, "gpu", Ledger(pool="gpu", machines=machines))
    data = shelf.read().shelf["gpu"].data or {}
    assert sum(len(k) + len(v) for k, v in data.items()) <= ledger.MAX_BYTES + 100
