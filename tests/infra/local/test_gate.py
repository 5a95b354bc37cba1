"""What passes between the functions and the API server is counted, and budgets are watched."""

from collections.abc import Iterator

import pytest

from functions.gateways.kubernetes.errors import Unreachable
from functions.gateways.kubernetes.transport import Request, Response
from infra.local.clock import SimulatedClock
from infra.local.gate import Gate
from tests.support.facts import NOW


class Answers:
    def __init__(self, status: int = 201) -> None:
        self.status = status
        self.asked: list[str] = []

    def send(self, request: Request) -> Response:
        self.asked.append(request.path)
        return Response(status=self.status, body=b"{}")

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        return self.send(request), iter(())


POD = "/api/v1/namespaces/ml/pods/job-1"
EVICTION = Request(method="POST", path=f"{POD}/eviction")


def gate(answers: Answers, *lacking: int) -> Gate:
    seen = iter([{"ml/job": count} for count in lacking])
    return Gate(answers, SimulatedClock(NOW), lambda: next(seen))


def test_granted_evictions_are_counted_and_refused_ones_are_not() -> None:
    granted, refused = gate(Answers(), 0, 0), gate(Answers(429), 0)
    granted.send(EVICTION)
    refused.send(EVICTION)
    assert [(e.pod, e.deleted) for e in granted.evictions] == [("ml/job-1", False)]
    assert refused.evictions == []


def test_a_dry_run_evicts_nothing() -> None:
    watched = gate(Answers())
    watched.send(Request(method="POST", path=EVICTION.path, query={"dryRun": "All"}))
    assert watched.evictions == []


def test_an_eviction_that_leaves_a_budget_short_is_a_violation() -> None:
    watched = gate(Answers(), 0, 1)
    watched.send(EVICTION)
    assert watched.violations == ["ml/job, by the eviction of ml/job-1 at Mon 09:00:00"]


@pytest.mark.parametrize("before", [1, 2])
def test_a_budget_that_was_short_before_is_not_broken_by_us(before: int) -> None:
    watched = gate(Answers(), before, 1)
    watched.send(EVICTION)
    assert watched.violations == []


def test_a_deletion_past_a_budget_is_the_policys_will() -> None:
    watched = gate(Answers(200), 0, 1)
    watched.send(Request(method="DELETE", path=POD))
    assert watched.violations == []
    assert [e.deleted for e in watched.evictions] == [True]


def test_through_a_closed_gate_nothing_reaches_the_server() -> None:
    answers = Answers()
    closed = gate(answers)
    closed.is_closed = True
    with pytest.raises(Unreachable):
        closed.send(EVICTION)
    with pytest.raises(Unreachable):
        closed.stream(EVICTION)
    assert answers.asked == []


def test_a_race_is_run_once_and_just_before_a_node_is_written() -> None:
    answers = Answers()
    watched = gate(answers)
    watched.races.append(lambda: answers.asked.append("somebody else"))
    for method, path in (("GET", "/api/v1/nodes/n1"), ("PATCH", "/api/v1/nodes/n1")) * 2:
        watched.send(Request(method=method, path=path))
    assert answers.asked == ["/api/v1/nodes/n1", "somebody else", *["/api/v1/nodes/n1"] * 3]
