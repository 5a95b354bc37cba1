"""The JSON Patch of a verdict: what it tests, what it writes and what it leaves alone."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from functions.rules import incidents, keys, policy
from functions.rules.cordoning import Verdict
from functions.rules.incidents import Cordon, Record
from functions.rules.node_view import NodeView
from functions.steps import mark
from infra.local.clock import SimulatedClock
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport
from infra.local.cluster.builders import node as build_node

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ANNOTATION = "/metadata/annotations/groundcrew.dev~1incidents"
DRAIN = "/metadata/annotations/groundcrew.dev~1drain"
STATE = "/metadata/labels/groundcrew.dev~1state"
LB = "/metadata/labels/node.kubernetes.io~1exclude-from-external-load-balancers"
RECORD = Record(machine="m", cordon=Cordon(at=NOW))


def verdict(view: NodeView, **more: Any) -> Verdict:
    made: dict[str, Any] = {"record": RECORD, "state": "cordon", "changed": True}
    return Verdict(view=view, **(made | more))


def plain(**more: Any) -> NodeView:
    return NodeView(name="n0", uid="u", **more)


def patch(view: NodeView, **more: Any) -> list[tuple[str, str, Any]]:
    return [(o["op"], o["path"], o.get("value")) for o in mark.operations(verdict(view, **more))]


def test_it_stands_on_the_uid_the_cordon_and_our_annotation_as_read() -> None:
    tests = [o for o in patch(plain(incidents="old")) if o[0] == "test"]
    assert tests == [
        ("test", "/metadata/uid", "u"),
        ("test", "/spec/unschedulable", None),
        ("test", ANNOTATION, "old"),
    ]
    cordoned = patch(plain(unschedulable=True))
    assert ("test", "/spec/unschedulable", True) in cordoned
    assert ("test", ANNOTATION, None) in cordoned


def test_a_cordon_is_one_patch_with_its_record_its_state_and_its_label() -> None:
    writes = patch(plain(), unschedulable=True, load_balancer_label=True)[3:]
    assert writes == [
        ("add", ANNOTATION, incidents.encode(RECORD)),
        ("add", STATE, "cordon"),
        ("add", "/spec/unschedulable", True),
        ("add", LB, "true"),
    ]


def test_a_release_takes_off_what_is_there_and_no_more() -> None:
    labelled = plain(unschedulable=True, labels={keys.EXCLUDE_FROM_LOAD_BALANCERS: "true"})
    off = {"unschedulable": False, "load_balancer_label": False, "state": "released"}
    assert patch(labelled, **off)[-2:] == [
        ("remove", "/spec/unschedulable", None),
        ("remove", LB, None),
    ]
    assert patch(plain(unschedulable=True), **off)[-1] == ("remove", "/spec/unschedulable", None)


@pytest.mark.parametrize(
    ("before", "after", "tested"),
    [
        ("evict", "released", True),
        ("returning", "released", True),
        ("released", "released", False),
        ("evict", "returning", False),
    ],
)
def test_a_node_that_no_tick_reads_from_here_on_carries_no_drain_that_began_meanwhile(
    before: str, after: str, tested: bool
) -> None:
    made = patch(plain(state=before, unschedulable=True), state=after)
    assert (("test", DRAIN, None) in made) is tested


def test_what_is_not_to_be_changed_is_not_named() -> None:
    paths = [path for op, path, _ in patch(plain()) if op != "test"]
    assert paths == [ANNOTATION, STATE]


def test_without_anything_left_to_say_the_marks_that_are_there_go() -> None:
    marked = plain(incidents="{}", state="released")
    assert patch(marked, state="")[3:] == [("remove", ANNOTATION, None), ("remove", STATE, None)]
    assert patch(plain(), state="")[3:] == []
    assert patch(plain(state="x"), state="")[3:] == [("remove", STATE, None)]


def test_a_node_that_has_no_annotations_or_labels_gets_a_map_first() -> None:
    bare = patch(plain(no_annotations=True, no_labels=True))
    assert bare[2:6] == [
        ("test", "/metadata/annotations", None),
        ("add", "/metadata/annotations", {}),
        ("test", "/metadata/labels", None),
        ("add", "/metadata/labels", {}),
    ]


class TestOnACluster:
    @pytest.fixture
    def server(self) -> EmbeddedCluster:
        made = EmbeddedCluster(SimulatedClock(NOW))
        bare = build_node("n0")
        for name in ("annotations", "labels"):
            bare["metadata"].pop(name, None)
        made.apply(bare)
        return made

    @pytest.fixture
    def cluster(self, server: EmbeddedCluster) -> Cluster:
        return Cluster(EmbeddedTransport(server, lambda seconds: None))

    def test_a_bare_node_can_be_marked_and_unmarked(self, cluster: Cluster) -> None:
        view = mark.view(cluster.get_node("n0"), policy.default())
        written = mark.write(cluster, verdict(view, unschedulable=True, load_balancer_label=True))
        assert written.unschedulable
        again = mark.view(written, policy.default())
        assert again.state == "cordon"
        assert incidents.decode(again.incidents or "") == RECORD
        off = verdict(again, state="", unschedulable=False, load_balancer_label=False)
        last = mark.write(cluster, off)
        assert not last.unschedulable
        assert mark.view(last, policy.default()).marked is False
        assert not last.metadata.labels

    @pytest.mark.parametrize(
        "stale", [{"uid": "other"}, {"unschedulable": True}, {"incidents": ""}]
    )
    def test_what_has_changed_since_it_was_read_is_not_written_on(
        self, cluster: Cluster, stale: dict[str, Any]
    ) -> None:
        view = mark.view(cluster.get_node("n0"), policy.default())
        old = msgspec.structs.replace(view, no_annotations=False, no_labels=False, **stale)
        with pytest.raises(errors.TestFailed):
            mark.write(cluster, verdict(old, unschedulable=True))
        assert not cluster.get_node("n0").unschedulable


def test_the_view_of_a_node_is_what_the_rules_ask_for() -> None:
    built = build_node("n0", pool="gpu", boot_id="b", annotations={keys.INCIDENTS: "x"})
    built["metadata"]["uid"] = "u"
    built["spec"]["unschedulable"] = True
    built["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    view = mark.view(msgspec.convert(built, types.Node), policy.default())
    assert (view.name, view.uid, view.boot_id, view.pool) == ("n0", "u", "b", "gpu")
    assert view.machine == built["spec"]["providerID"]
    assert (view.incidents, view.state, view.unschedulable) == ("x", "", True)
    assert (view.gpus, view.gpus_allocatable) == (8, 7)
    assert not view.no_annotations
    assert not view.no_labels
    assert view.marked


@pytest.mark.parametrize("shown", [{}, {"nvidia.com/gpu": "some"}, None])
def test_a_count_of_gpus_that_is_none_is_none(shown: dict[str, str] | None) -> None:
    node = types.Node(metadata=types.Meta(name="n"), status=types.NodeStatus(capacity=shown))
    view = mark.view(node, policy.default())
    assert view.gpus is None
    assert view.gpus_allocatable is None
    assert view.no_annotations
    assert view.no_labels


@pytest.mark.parametrize(
    ("capacity", "sliced"),
    [
        ({"nvidia.com/mig-1g.10gb": "56"}, True),
        ({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "56"}, True),
        ({"nvidia.com/gpu.shared": "32"}, True),
        ({"nvidia.com/gpu": "8", "nvidia.com/hostdev": "8"}, False),
        ({"nvidia.com/hostdev": "8"}, False),
        ({}, False),
        (None, False),
    ],
    ids=str,
)
def test_gpus_in_parts_cannot_be_counted(capacity: dict[str, str] | None, sliced: bool) -> None:
    node = types.Node(metadata=types.Meta(name="n"), status=types.NodeStatus(capacity=capacity))
    assert mark.view(node, policy.default()).sliced is sliced


def test_a_view_without_any_mark_is_unmarked_and_a_lone_state_label_is_one() -> None:
    assert not plain().marked
    assert plain(state="cordon").marked
    assert plain(incidents="").marked
    assert plain().machine == "uid:u"
