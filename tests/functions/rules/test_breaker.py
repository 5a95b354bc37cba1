"""The circuit breaker: when it opens, when it closes, and who still stands accused."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
import pytest

from events.notice import Kind, Severity
from functions.rules import breaker, ledger
from functions.rules.breaker import Accusation, Check
from functions.rules.cordoning import Facts, NodeFacts, decide
from functions.rules.ledger import Ledger
from functions.rules.policy import default, parse
from tests.support.facts import NOW, after, minutes, node, notice, only, rebuilt, recovery, run

RULE = default().breaker
CHECK = "AcceleratedHardwareReady"


def machines(count: int) -> list[str]:
    return [f"m{number}" for number in range(count)]


def heard(
    accused: Iterable[str] = (),
    cleared: Iterable[str] = (),
    *,
    before: Check = Check(),  # noqa: B008 - frozen
    size: int = 100,
    at: datetime = NOW,
) -> Check:
    check = breaker.hear(before, accused, cleared, size, RULE, at)
    return breaker.look(check, size, RULE, at)


class TestOpening:
    @pytest.mark.parametrize(
        ("accused", "size", "opens"),
        [(20, 100, False), (21, 100, True), (2, 2, False), (3, 10, True), (3, 15, False)],
    )
    def test_over_a_fifth_within_ten_minutes_and_more_than_two(
        self, accused: int, size: int, opens: bool
    ) -> None:
        assert heard(machines(accused), size=size).is_open is opens

    def test_those_of_ten_minutes_ago_no_longer_count_as_a_flood(self) -> None:
        early = heard(machines(20))
        for passed, opens in ((minutes(9), True), (minutes(10), False)):
            assert heard(["x"], before=early, at=NOW + passed).is_open is opens

    @pytest.mark.parametrize(("slow", "opens"), [(30, False), (31, True)])
    def test_nor_those_that_come_slowly_until_they_are_over_the_days_share(
        self, slow: int, opens: bool
    ) -> None:
        check = Check()
        for number, machine in enumerate(machines(slow)):
            check = heard([machine], before=check, at=NOW + minutes(15 * number))
        assert check.is_open is opens

    def test_those_of_yesterday_do_not_count(self) -> None:
        check = heard(machines(20))
        check = heard([f"x{n}" for n in range(12)], before=check, at=NOW + timedelta(hours=24))
        assert not check.is_open

    def test_what_was_taken_back_counts_as_a_flood_but_not_towards_the_day(self) -> None:
        back = heard(cleared=machines(20), before=heard(machines(20)), at=NOW + minutes(1))
        assert heard(["x"], before=back, at=NOW + minutes(2)).is_open
        late = heard([f"x{n}" for n in range(12)], before=back, at=NOW + minutes(30))
        assert not late.is_open

    def test_a_repeat_is_no_news(self) -> None:
        once = heard(["a"])
        assert breaker.hear(once, ["a"], [], 100, RULE, NOW + minutes(1)) is once
        assert breaker.hear(once, [], ["b"], 100, RULE, NOW + minutes(1)) is once

    def test_looking_without_news_is_none_either(self) -> None:
        for check in (Check(), heard(["a"]), heard(machines(21))):
            assert breaker.look(check, 100, RULE, NOW + minutes(20)) is check
        assert breaker.closes_at(heard(["a"]), RULE) is None

    def test_it_is_opened_once(self) -> None:
        first = heard(machines(21))
        assert heard(["x"], before=first, at=NOW + minutes(1)).opened == NOW


class TestClosing:
    OPEN = heard(machines(30))

    def closed(self, taken_back: int, at: datetime, newest: datetime = NOW) -> bool:
        check = breaker.clear(self.OPEN, machines(taken_back), NOW + minutes(1))
        if newest > NOW:
            check = msgspec.structs.replace(
                check, accused={**check.accused, "late": Accusation(newest, cleared=newest)}
            )
        return not breaker.look(check, 100, RULE, at).is_open

    def test_it_closes_after_half_an_hour_with_no_more_than_a_fifth_left(self) -> None:
        assert self.closed(10, NOW + minutes(30))
        assert not self.closed(10, NOW + minutes(29))

    def test_not_while_more_than_a_fifth_still_stand(self) -> None:
        assert len(self.OPEN.accused) == 21
        assert not self.closed(0, NOW + timedelta(days=3))
        assert self.closed(1, NOW + timedelta(days=3))

    def test_not_while_others_are_still_being_accused(self) -> None:
        assert not self.closed(21, NOW + minutes(35), newest=NOW + minutes(10))
        assert self.closed(21, NOW + minutes(40), newest=NOW + minutes(10))

    def test_a_flood_of_this_minute_keeps_it_open_however_short_the_quiet_time(self) -> None:
        rule = parse("version: 1\nbreaker: {quiet: 1m}").breaker
        check = breaker.clear(self.OPEN, machines(21), NOW)
        assert breaker.look(check, 100, rule, NOW + minutes(9)).is_open
        assert not breaker.look(check, 100, rule, NOW + minutes(10)).is_open

    def test_it_may_open_again(self) -> None:
        closed = breaker.look(
            breaker.clear(self.OPEN, machines(21), NOW), 100, RULE, NOW + minutes(30)
        )
        again = heard([f"x{n}" for n in range(21)], before=closed, at=NOW + minutes(60))
        assert again.is_open
        assert again.opened == NOW + minutes(60)

    def test_when_it_may_close_counts_from_the_newest_accusation(self) -> None:
        assert breaker.closes_at(self.OPEN, RULE) == NOW + minutes(30)
        assert breaker.closes_at(Check(), RULE) is None
        later = msgspec.structs.replace(
            self.OPEN, accused={**self.OPEN.accused, "late": Accusation(NOW + minutes(9))}
        )
        assert breaker.closes_at(later, RULE) == NOW + minutes(39)
        bare = Check(opened=NOW)
        assert breaker.closes_at(bare, RULE) == NOW + minutes(30)


def test_cleared_accusations_are_forgotten_after_a_day_and_standing_ones_never() -> None:
    check = heard(cleared=["a"], before=heard(["a", "b"]), at=NOW + minutes(1))
    assert set(breaker.look(check, 100, RULE, NOW + timedelta(hours=23)).accused) == {"a", "b"}
    assert set(breaker.look(check, 100, RULE, NOW + timedelta(hours=24)).accused) == {"b"}


def test_one_that_was_cleared_is_accused_anew_at_a_new_time() -> None:
    check = heard(cleared=["a"], before=heard(["a"]), at=NOW + minutes(1))
    again = heard(["a"], before=check, at=NOW + minutes(5))
    assert again.accused["a"] == Accusation(NOW + minutes(5))


def test_the_numbers_for_people_are_those_of_ten_minutes_and_of_the_day() -> None:
    check = heard(["b"], before=heard(["a"]), at=NOW + minutes(30))
    said = breaker.numbers(check, 100, NOW + minutes(35), RULE)
    assert said == "1 of 100 nodes within 10m, 2 within a day"


class TestSize:
    """7,500 nodes in one pool, and every monitor of them gone mad."""

    SIZE = 7500

    def test_the_ledger_stays_small_enough_to_be_written(self) -> None:
        nodes = tuple(
            NodeFacts(
                node(f"{n:017x}"), tuple(notice(c, latched=True) for c in ("one", "two", "three"))
            )
            for n in range(self.SIZE)
        )
        facts = Facts(nodes, {"gpu": rebuilt(self.SIZE)}, Ledger(rebuilt=NOW))
        plan = decide(facts, default(), NOW)
        pool = plan.ledgers["gpu"]
        assert pool.checks["one"].is_open
        assert all(v.unschedulable is None for v in plan.verdicts)
        assert not pool.machines
        assert len(ledger.encode(pool)) <= ledger.MAX_BYTES

    def test_it_stays_open_over_those_that_are_not_kept_one_by_one(self) -> None:
        check = heard(machines(self.SIZE), size=self.SIZE)
        for minute in range(15, 120, 15):
            check = heard(
                machines(self.SIZE), before=check, size=self.SIZE, at=NOW + minutes(minute)
            )
        assert check.is_open
        assert len(check.accused) < 0.21 * self.SIZE

    def test_those_that_recover_make_room_for_those_that_do_not(self) -> None:
        check = heard(machines(self.SIZE), size=self.SIZE)
        kept = list(check.accused)
        others = [m for m in machines(self.SIZE) if m not in check.accused]
        check = heard(others, kept, before=check, size=self.SIZE, at=NOW + minutes(60))
        assert breaker.look(check, self.SIZE, RULE, NOW + minutes(90)).is_open


class TestStandsAccused:
    """On the whole way: a machine stands accused while one of its incidents says so."""

    def test_one_that_fell_sick_again_writes_no_ledger_on_a_repeat(self) -> None:
        pool, view = rebuilt(), node()
        for moment, said in (
            (0, notice(since=NOW)),
            (1, recovery(since=NOW + minutes(1))),
            (20, None),
            (30, notice(since=NOW + minutes(29))),
        ):
            plan = run(view, *filter(None, [said]), at=NOW + minutes(moment), pool=pool)
            pool, view = plan.ledgers.get("gpu", pool), after(only(plan))
        assert len(only(plan).record.incidents) == 2
        again = run(view, notice(since=NOW + minutes(29)), at=NOW + minutes(31), pool=pool)
        assert not only(again).changed
        assert not again.ledgers
        assert pool.checks[CHECK].accused[view.machine].at == NOW + minutes(30)

    def test_one_that_recovered_by_a_reboot_no_longer_does(self) -> None:
        plan = run(node(), notice(latched=True))
        for minute in (5, 30):
            plan = run(
                after(only(plan), boot_id="boot-2"),
                at=NOW + minutes(minute),
                pool=plan.ledgers.get("gpu"),
            )
        assert plan.ledgers["gpu"].checks[CHECK].accused[node().machine].cleared

    def test_what_a_provider_announces_or_is_only_watched_accuses_nobody(self) -> None:
        window = notice("m", kind=Kind.MAINTENANCE, deadline=NOW)
        plan = run(node(), window, notice("w", severity=Severity.WATCH), notice("c"))
        assert set(plan.ledgers["gpu"].checks) == {"c"}

    def test_one_that_a_human_dismissed_no_longer_does(self) -> None:
        plan = run(node(), notice())
        uncordoned = after(only(plan), unschedulable=False)
        plan = run(uncordoned, at=NOW + minutes(1), pool=plan.ledgers["gpu"])
        assert plan.ledgers["gpu"].checks[CHECK].accused[node().machine].cleared

    def test_two_incidents_of_one_check_are_one_accusation_until_both_are_taken_back(self) -> None:
        plan = run(node(), notice(ref="gpu-0"), notice(ref="gpu-1"))
        pool = plan.ledgers["gpu"]
        plan = run(after(only(plan)), recovery(ref="gpu-0"), at=NOW + minutes(1), pool=pool)
        pool = plan.ledgers.get("gpu", pool)
        assert pool.checks[CHECK].accused[node().machine] == Accusation(NOW)
        plan = run(after(only(plan)), recovery(ref="gpu-1"), at=NOW + minutes(2), pool=pool)
        assert plan.ledgers["gpu"].checks[CHECK].accused[node().machine].cleared

    def test_a_share_of_the_policy_is_what_counts(self) -> None:
        rule = parse("version: 1\nbreaker: {share: 50%, day_share: 60%, more_than: 10}").breaker
        check = breaker.hear(Check(), machines(51), (), 100, rule, NOW)
        assert breaker.look(check, 100, rule, NOW).is_open
        few = breaker.hear(Check(), machines(10), (), 11, rule, NOW)
        assert not breaker.look(few, 11, rule, NOW).is_open
