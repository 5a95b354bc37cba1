"""What recorded events come to before any policy has seen them."""

from typing import Any

from infra.local.past.reader import REMEMBERED, Heard, Reader, unmarked
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
    for key in ("drain", "lifecycle", "replacement", "replacement-approved"):
        made["metadata"]["annotations"][f"groundcrew.dev/{key}"] = "{}"
    (change,) = changes_of(reader, made)
    labels, notes = change.node["metadata"]["labels"], change.node["metadata"]["annotations"]
    assert change.cordoned is None
    assert "unschedulable" not in change.node["spec"]
    assert [key for key in (*labels, *notes) if "groundcrew.dev" in key] == [
        "groundcrew.dev/pool",
        "groundcrew.dev/replacement-approved",
    ]
    assert "node.kubernetes.io/exclude-from-external-load-balancers" not in labels


def test_what_no_function_reads_is_left_out() -> None:
    seen = node("n1")
    seen["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    seen["status"] |= {"images": [{"names": ["a"]}], "runtimeHandlers": [{"name": "runc"}]}
    found = unmarked(seen, cordoned=False)
    assert found == unmarked(node("n1"), cordoned=False)
    assert found["status"]["conditions"]
    assert "images" in seen["status"], "what was recorded stays as it was"


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
    nameless = {"kind": "Node", "metadata": {"name": "gpu-01", "labels": 7}}
    assert reader.hear(told(3, nameless)) == Heard(told(3, nameless).at)
    assert reader.counts.refused == 3


def test_a_deleted_node_is_gone_unless_a_newer_one_has_its_name() -> None:
    reader = Reader()
    reader.start(node("gpu-01", machine=1))
    assert reader.hear(told(1, node("gpu-01"), "delete")).changes == ()
    (gone,) = reader.hear(told(2, node("gpu-01", machine=1), "delete")).changes
    assert gone.node is None


def versioned(made: Any, version: str) -> Any:
    made["metadata"]["resourceVersion"] = version
    return made


def test_what_comes_late_changes_nothing_and_is_told_as_it_was_then() -> None:
    reader = Reader()
    reader.start(versioned(node("gpu-01"), "99"))
    (turned,) = changes_of(reader, versioned(node("gpu-01", DOUBLE_BIT_ERROR), "101"))
    assert turned.node["status"]["conditions"][0]["status"] == "False"
    late = reader.hear(told(2, versioned(node("gpu-01"), "100")))
    assert late.changes == ()
    assert [event.extensions["name"] for event in late.events] == ["gpu-01"]
    # What stands is still the newer word.
    again = reader.hear(told(3, versioned(node("gpu-01", DOUBLE_BIT_ERROR), "102")))
    assert (again.changes, len(again.events)) == ((), 1)
    assert len(changes_of(reader, versioned(node("gpu-01"), "103"))) == 1


def test_a_heartbeat_counts_when_it_is_asked_what_is_late() -> None:
    reader = Reader()
    reader.start(versioned(node("gpu-01"), "99"))
    reader.hear(told(1, versioned(node("gpu-01"), "105")))
    assert changes_of(reader, versioned(node("gpu-01", DOUBLE_BIT_ERROR), "100")) == []
    # A late heartbeat does not make the object older than it is.
    reader.hear(told(1, versioned(node("gpu-01"), "98")))
    assert changes_of(reader, versioned(node("gpu-01", DOUBLE_BIT_ERROR), "104")) == []


def test_what_comes_late_with_our_marks_is_left_to_each_world() -> None:
    reader = Reader()
    reader.start(versioned(node("gpu-01"), "99"))
    ours = marked(node("gpu-01", DOUBLE_BIT_ERROR), "evict", OURS)
    changes_of(reader, versioned(ours, "103"))
    changes_of(reader, versioned(ours, "107"))
    watched = versioned(node("gpu-01", DOUBLE_BIT_ERROR), "105")
    watched["metadata"]["labels"]["groundcrew.dev/state"] = "watch"
    assert reader.hear(told(2, watched)) == Heard(told(2, watched).at, again=("gpu-01",))


def test_versions_that_are_no_numbers_mean_nothing_and_the_last_word_is_the_newest() -> None:
    for first, second in (("b", "a"), ("7", "a"), ("a", "6"), ("", "6"), ("9" * 5_000, "1")):
        reader = Reader()
        reader.start(versioned(node("gpu-01"), first))
        assert len(changes_of(reader, versioned(node("gpu-01", DOUBLE_BIT_ERROR), second))) == 1


def test_versions_of_another_object_under_the_name_are_not_compared() -> None:
    """A cluster that was made anew begins to count anew."""
    reader = Reader()
    reader.start(versioned(node("gpu-01"), "9000"))
    (change,) = changes_of(reader, versioned(node("gpu-01", machine=1), "12"))
    assert change.is_new


def test_a_late_word_of_a_deleted_node_does_not_bring_it_back() -> None:
    reader = Reader()
    reader.start(versioned(node("gpu-01"), "99"))
    reader.hear(told(1, versioned(node("gpu-01"), "102"), "delete"))
    late = reader.hear(told(2, versioned(node("gpu-01", DOUBLE_BIT_ERROR), "101")))
    assert (late.changes, len(late.events)) == ((), 1)


def test_a_late_word_of_a_node_that_was_replaced_does_not_take_its_place() -> None:
    reader = Reader()
    reader.start(node("gpu-01"))
    assert len(changes_of(reader, node("gpu-01", machine=1))) == 1  # its deletion was lost
    assert changes_of(reader, node("gpu-01", DOUBLE_BIT_ERROR)) == []
    assert changes_of(reader, node("gpu-01", DOUBLE_BIT_ERROR, machine=1)) != []


def test_a_word_that_comes_after_a_deletion_that_nobody_expected_is_late() -> None:
    reader = Reader()
    reader.hear(told(1, node("gpu-01"), "delete"))
    assert changes_of(reader, node("gpu-01")) == []


def test_only_so_many_deleted_nodes_are_remembered() -> None:
    reader = Reader()
    for machine in range(REMEMBERED + 1):
        reader.hear(told(1, node("gpu-01", machine=machine), "delete"))
    assert len(reader._gone) == REMEMBERED
    assert changes_of(reader, node("gpu-01", machine=REMEMBERED)) == []
    assert len(changes_of(reader, node("gpu-01"))) == 1


DISMISSED = {
    "v": 1,
    "incidents": [
        {
            "source": "kubernetes.node",
            "check": "AcceleratedHardwareReady",
            "kind": "fault",
            "severity": "evict",
            "state": "dismissed",
            "first": START.isoformat(),
            "last": START.isoformat(),
        }
    ],
}


def schedulable(made: Any) -> Any:
    made["spec"].pop("unschedulable")
    return made


def test_who_uncordons_what_we_cordoned_does_so_once() -> None:
    reader = Reader()
    reader.start(node("gpu-01"))
    ours = marked(node("gpu-01", DOUBLE_BIT_ERROR), "evict", OURS)
    assert [c.cordoned for c in changes_of(reader, ours)] == [None]
    # kubectl uncordon: our mark still says that the node is cordoned by us.
    free = schedulable(marked(node("gpu-01", DOUBLE_BIT_ERROR), "evict", OURS))
    assert [c.cordoned for c in changes_of(reader, free)] == [False]
    # And we see it, and dismiss.
    done = schedulable(marked(node("gpu-01", DOUBLE_BIT_ERROR), "dismissed", DISMISSED))
    assert [c.cordoned for c in changes_of(reader, done)] == [None]
    # The same person cordons it later.
    theirs = marked(node("gpu-01", DOUBLE_BIT_ERROR), "dismissed", DISMISSED)
    assert [c.cordoned for c in changes_of(reader, theirs)] == [True]


def test_a_dismissal_shows_an_uncordon_whose_own_event_was_lost() -> None:
    reader = Reader()
    reader.start(marked(node("gpu-01", DOUBLE_BIT_ERROR), "evict", OURS))
    done = schedulable(marked(node("gpu-01", DOUBLE_BIT_ERROR), "dismissed", DISMISSED))
    assert [c.cordoned for c in changes_of(reader, done)] == [False]


def test_a_release_of_ours_is_no_uncordon_of_others() -> None:
    reader = Reader()
    before = {**DISMISSED, "cordon": OURS["cordon"]}  # another incident had been dismissed before
    reader.start(marked(node("gpu-01", DOUBLE_BIT_ERROR), "evict", before))
    released = schedulable(marked(node("gpu-01"), "dismissed", DISMISSED))
    assert [c.cordoned for c in changes_of(reader, released)] == [None]
