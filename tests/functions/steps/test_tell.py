"""The story on the node: which decisions are told, how, and how often."""

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.errors import Unreachable
from functions.gateways.kubernetes.transport import Request, Response
from functions.rules.decision import Action, Decision
from functions.steps import tell

NOW = datetime(2026, 3, 2, 9, 0, 30, tzinfo=UTC)


class Answers:
    """An API server that answers with each status in turn, the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.bodies: list[dict[str, Any]] = []

    def send(self, request: Request) -> Response:
        assert request.body is not None
        self.bodies.append(json.loads(request.body))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status == 0:
            raise Unreachable("nobody there")
        return Response(status=status, headers={}, body=b"{}")

    def stream(self, request: Request) -> Any:
        raise AssertionError


def decision(action: Action = Action.CORDON, node: str = "n1", reason: str = "why") -> Decision:
    return Decision(function="cordon", action=action, node=node, reason=reason, incident="s/c")


def test_an_event_on_the_node_says_what_happened_why_and_who_says_so() -> None:
    made = tell.event(decision(), "u1", NOW)
    name = made["metadata"].pop("name")
    assert name.startswith("n1.")
    assert made == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"},
        "reason": "NodeCordoned",
        "message": "why",
        "type": "Warning",
        "source": {"component": "groundcrew"},
        "reportingComponent": "groundcrew/cordon",
        "reportingInstance": "groundcrew",
        "firstTimestamp": "2026-03-02T09:00:30Z",
        "lastTimestamp": "2026-03-02T09:00:30Z",
        "count": 1,
    }


@pytest.mark.parametrize("action", [Action.UNCORDON, Action.CLOSE, Action.DRAINED])
def test_good_news_is_no_warning(action: Action) -> None:
    assert tell.event(decision(action), "u", NOW)["type"] == "Normal"


def test_two_instances_tell_the_same_change_under_one_name() -> None:
    def name(one: Decision, uid: str = "u", at: datetime = NOW) -> str:
        return str(tell.event(one, uid, at)["metadata"]["name"])

    same = name(decision(), at=NOW + timedelta(seconds=20))
    others = {
        name(decision(reason="another")),
        name(decision(Action.RAISE)),
        name(decision(), uid="anew"),
        name(decision(), at=NOW + timedelta(days=1)),
    }
    assert name(decision()) == same
    assert len(others) == 4
    assert same not in others


def test_what_is_held_back_at_each_look_is_told_once_an_hour() -> None:
    def name(minutes: int) -> str:
        held = decision(Action.HOLD, reason="the node is opted out")
        return str(tell.event(held, "u", NOW + timedelta(minutes=minutes))["metadata"]["name"])

    assert name(0) == name(59)
    assert name(0) != name(60)


def test_a_long_story_is_cut_to_what_an_event_takes() -> None:
    assert len(tell.event(decision(reason="x" * 5000), "u", NOW)["message"]) == 1024


def test_what_changed_nothing_is_not_told() -> None:
    server = Answers(201)
    assert tell.tell(Cluster(server), [decision(Action.NOTHING), decision()], {}, NOW) == 1
    assert [body["reason"] for body in server.bodies] == ["NodeCordoned"]


def test_one_that_was_told_already_is_not_counted_and_the_next_is_told() -> None:
    server = Answers(409, 201)
    said = [decision(), decision(Action.CLOSE)]
    assert tell.tell(Cluster(server), said, {"n1": "u1"}, NOW) == 1
    assert [b["involvedObject"]["uid"] for b in server.bodies] == ["u1", "u1"]


@pytest.mark.parametrize("status", [403, 500, 0])
def test_one_that_cannot_be_written_is_logged_and_holds_nothing_up(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = Answers(status, 201)
    with caplog.at_level(logging.WARNING):
        assert tell.tell(Cluster(server), [decision(), decision(node="n2")], {}, NOW) == 1
    assert "NodeCordoned of n1 was not written" in caplog.text


def test_a_call_about_hundreds_of_nodes_tells_of_a_hundred() -> None:
    server = Answers(201)
    said = [decision(node=f"n{number}") for number in range(500)]
    assert tell.tell(Cluster(server), said, {}, NOW) == 100
    assert len(server.bodies) == 100


def test_a_cordon_and_the_incident_that_it_follows_from_are_told_in_one() -> None:
    server = Answers(201)
    other = Decision(
        function="cordon", action=Action.OPEN, node="n1", reason="r", incident="s/other"
    )
    elsewhere = decision(Action.OPEN, node="n2")
    said = [decision(Action.OPEN), other, decision(), elsewhere]
    assert tell.tell(Cluster(server), said, {}, NOW) == 3
    assert [b["reason"] for b in server.bodies] == [
        "IncidentOpened", "NodeCordoned", "IncidentOpened",
    ]  # fmt: skip


def test_they_are_written_side_by_side_where_that_is_wanted() -> None:
    server = Answers(201)
    said = [decision(node=f"n{number}") for number in range(20)]
    assert tell.tell(Cluster(server), said, {}, NOW, parallel=4) == 20
    assert len({body["metadata"]["name"] for body in server.bodies}) == 20
