"""A month of false alarms costs no machine, and leaves no broken one in service or out of it."""

import math
from datetime import datetime, timedelta

import pytest

from functions.rules.decision import Action, Decision
from infra.local.stage import Nobody
from tests.support import month
from tests.support.worlds import play

MONTHS = ((1, 1.0), (2, 0.5), (3, 2.0))
"""Seeds, and how many times the usual rates."""
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
@pytest.mark.parametrize(("seed", "factor"), MONTHS)
def test_in_a_month_no_machine_ends_for_an_alarm_and_every_broken_one_is_replaced_in_time(
    seed: int, factor: float
) -> None:
    """Half a minute each: played with what else takes its time (`make test-cluster`)."""
    tried, seen = month.of(seed, factor=factor), Watching()
    play(month.scenario(tried), witness=seen)
    assert tried.wrongly(seen.ended) == []
    assert tried.late(seen.replaced, JOINS) == []
    unhealed = sorted(alarm.node for alarm in tried.broken if not alarm.healed)
    assert sorted(node for _, node in seen.ended) == unhealed
    # The same month costs a rule that only waits so many machines, so that this could fail.
    assert len(tried.wrongly(tried.after(PATIENCE))) > len(tried.broken)


@pytest.mark.parametrize(("seed", "factor"), MONTHS)
def test_the_months_have_the_rates_that_operators_report(seed: int, factor: float) -> None:
    nodes = 1000
    tried = month.of(seed, nodes=nodes, factor=factor)
    usual = factor * nodes * 30
    false = [alarm for alarm in tried.alarms if alarm.lasts is not None]
    # With the one event of a mad monitor; without those of a node that has one open, which are
    # those of the few that are disliked.
    assert 0.5 * month.FALSE * usual < len(false) < 1.15 * month.FALSE * usual + 0.8 * nodes
    mean = month.REAL * usual
    assert abs(len(tried.broken) - mean) < 3 * math.sqrt(mean)


def test_whoever_waits_for_nothing_and_whoever_does_nothing_are_both_found_out() -> None:
    tried = month.of(1)
    at_once = tried.wrongly(tried.after(timedelta(0)))
    assert len(at_once) == len(tried.alarms) - len(tried.broken)
    assert tried.late({}, JOINS) == [a.node for a in tried.broken if not a.healed]
    in_time = {alarm.node: alarm.began + month.LIMIT for alarm in tried.broken}
    assert tried.late(in_time, JOINS) == []
