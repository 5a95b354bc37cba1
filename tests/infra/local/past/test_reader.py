"""What recorded events come to before any policy has seen them."""

from typing import Any

from infra.local.past.reader import Heard, Reader
from tests.support.histories import DOUBLE_BIT_ERROR, START, marked, node, posted, told

OURS = {"v": 1, "cordon": {"at": START.isoformat(), "lb": True}}
THEIRS = {"v": 1, "cordon": {"at": START.isoformat(), "theirs": True}}


def cordoned(made: Any) -> Any:
    made["spec"]["unschedulable"] = True
    return made


def changes_of(reader: Reader, made: Any, seconds: float = 1) -> list[Any]:
    return list(reader.hear(told(seconds, made)).changes)


def test_a_node_that_says_what_it_said_is_told_as_it_was_recorded() -> None:
    reader = Reader()
    reader.start(node("gpu-01"))
    again = node("gpu-01")
    for condition in again["status"]["conditions"]:
        condition["lastHeartbeatTime"] = "2026-03-02T08:05:00Z"
    again["metadata"]["resourceVersion"] = "7"
    heard = reader.hear(told(1, again))
    assert [event.extensions["name"] for event in heard.events] == ["gpu-01"]
    assert (heard.changes, heard.again) == ((), ())


def test_a_condition_that_turns_is_a_change_and_not_told_twice() -> None:
    reader = Reader()
    reader.start(node("gpu-01"))
    heard = reader.hear(told(1, node("gpu-01", DOUBLE_BIT_ERROR)))
    (change,) = heard.changes
    assert (change.name, change.is_new, change.is_other_machine) == ("gpu-01", False, False)
    assert heard.events == ()
    assert len(reader.hear(told(2, node("gpu-01", DOUBLE_BIT_ERROR))).events) == 1


def test_another_machine_under_the_name_is_told_apart_from_the_same_one_registered_anew() -> None:
    reader = Reader()
    reader.start(node("gpu-01"))
    anew = node("gpu-01")
    anew["metadata"]["uid"] = "uid-anew"
    (change,) = changes_of(reader, anew)
    assert (change.is_new, change.is_other_machine) == (True, False)
    (change,) = changes_of(reader, node("gpu-01", machine=1))
    assert (change.is_new, change.is_other_machine) == (True, True)


def test_our_marks_and_our_cordon_are_taken_off() -> None:
    reader = Reader()
    reader.start(node("gpu-01"))
    made = marked(node("gpu-01", DOUBLE_BIT_ERROR), "evict", OURS)
    made["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"] = "x"
    made["metadata"]["labels"]["groundcrew.dev/pool"] = "research"
    (change,) = changes_of(reader, made)
    labels, notes = change.node["metadata"]["labels"], change.node["metadata"]["annotations"]
    assert change.cordoned is None
    assert "unschedulable" not in change.node["spec"]
    assert [key for key in (*labels, *notes) if "groundcrew.dev" in key] == ["groundcrew.dev/pool"]
    assert "node.kubernetes.io/exclude-from-external-load-balancers" not in labels


def test_a_heartbeat_with_our_marks_is_left_to_each_world() -> None:
    reader = Reader()
    reader.start(node("gpu-01"))
    made = marked(node("gpu-01", DOUBLE_BIT_ERROR), "evict", OURS)
    changes_of(reader, made)
    assert reader.hear(told(2, made)) == Heard(told(2, made).at, again=("gpu-01",))


def test_what_others_cordon_stays_cordoned_and_what_they_uncordon_does_not() -> None:
    reader = Reader()
    reader.start(node("gpu-01"))
    assert [c.cordoned for c in changes_of(reader, cordoned(node("gpu-01")))] == [True]
    marks = marked(node("gpu-01", DOUBLE_BIT_ERROR), "evict", THEIRS)
    (change,) = changes_of(reader, marks)
    assert change.cordoned is None
    assert change.node["spec"]["unschedulable"] is True
    assert [c.cordoned for c in changes_of(reader, node("gpu-01"))] == [False]


def test_a_node_that_others_had_cordoned_at_the_start_is_so() -> None:
    reader = Reader()
    assert reader.start(cordoned(node("gpu-01")))["spec"]["unschedulable"] is True
    ours = marked(node("gpu-02", DOUBLE_BIT_ERROR), "evict", OURS)
    assert "unschedulable" not in reader.start(ours)["spec"]


def test_our_own_answers_clocks_and_events_are_left_out_and_counted() -> None:
    reader = Reader()
    ours = {
        "kind": "Event",
        "metadata": {"name": "gpu-01.1"},
        "involvedObject": {"kind": "Node", "name": "gpu-01"},
        "source": {"component": "groundcrew"},
    }
    assert reader.hear(told(1, ours)).events == ()
    tick = told(2, ours)
    tick.recording.headers["Ce-Type"] = "dev.knative.sources.ping"
    assert reader.hear(tick).events == ()
    answer = told(3, ours)
    answer.recording.headers["Ce-Type"] = "dev.groundcrew.nodes.cordoned"
    assert reader.hear(answer).events == ()
    assert reader.counts.ours == 3


def test_what_was_refused_is_refused_again_and_stops_nothing() -> None:
    reader = Reader()
    assert reader.hear(posted(1, "/from/eventbridge", "{")).events == ()
    assert reader.hear(posted(2, "/from/nobody", "{}")).events == ()
    assert reader.counts.refused == 2


def test_a_deleted_node_is_gone_unless_a_newer_one_has_its_name() -> None:
    reader = Reader()
    reader.start(node("gpu-01", machine=1))
    assert reader.hear(told(1, node("gpu-01"), "delete")).changes == ()
    (gone,) = reader.hear(told(2, node("gpu-01", machine=1), "delete")).changes
    assert gone.node is None
