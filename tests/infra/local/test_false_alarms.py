"""A month of false alarms costs no machine, and leaves no broken one in service or out of it."""

from datetime import datetime, timedelta

import pytest

from functions.rules.decision import Action, Decision
from infra.local.stage import Nobody
from tests.support import month
from tests.support.worlds import play

SEEDS = (1, 2, 3)
PATIENCE = timedelta(minutes=30)
"""After that long EKS' node repair replaces a machine (10 minutes for some faults)."""
JOINS = timedelta(hours=1)
"""From the end of the seven days until another machine serves."""


class Watching(Nobody):
    def __init__(self) -> None:
        self.ended: list[tuple[datetime, str]] = []
        self.replaced: dict[str, datetime] = {}

    def decided(self, at: datetime, decision: Decision) -> None:
        if decision.action is Action.TERMINATE:
            self.ended.append((at, decision.node))
        elif decision.action is Action.REPLACED:
            self.replaced[decision.node] = at


@pytest.mark.controlplane
@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_month_no_machine_ends_for_an_alarm_and_every_broken_one_is_replaced_in_time(
    seed: int,
) -> None:
    """Half a minute each: played with what else takes its time (`make test-cluster`)."""
    tried, seen = month.of(seed), Watching()
    play(month.scenario(tried), witness=seen)
    assert tried.wrongly(seen.ended) == []
    assert tried.late(seen.replaced, JOINS) == []
    unhealed = sorted(alarm.node for alarm in tried.broken if not alarm.healed)
    assert sorted(node for _, node in seen.ended) == unhealed
    # The same month costs a rule that only waits so many machines, so that this could fail.
    assert len(tried.wrongly(tried.after(PATIENCE))) > len(tried.broken)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_months_have_the_rates_that_operators_report(seed: int) -> None:
    tried = month.of(seed, nodes=1000)
    node_days = 1000 * 30
    false = [alarm for alarm in tried.alarms if alarm.lasts is not None]
    # Those that would fall on a node with one open are left out: the few that are disliked.
    assert 0.5 * month.FALSE < len(false) / node_days < 1.15 * month.FALSE
    assert 0.8 * month.REAL < len(tried.broken) / node_days < 1.2 * month.REAL


def test_whoever_waits_for_nothing_and_whoever_does_nothing_are_both_found_out() -> None:
    tried = month.of(1)
    at_once = tried.wrongly(tried.after(timedelta(0)))
    assert len(at_once) == len(tried.alarms) - len(tried.broken)
    assert tried.late({}, JOINS) == [a.node for a in tried.broken if not a.healed]
    in_time = {alarm.node: alarm.began + month.LIMIT for alarm in tried.broken}
    assert tried.late(in_time, JOINS) == []
