from typing import Any

import msgspec
import pytest

from functions.rules import keys
from infra.local.report import node_state

INCIDENTS = {
    "v": 1,
    "machine": "aws:///a/i-1",
    "cordon": {"at": "2026-03-02T08:00:00Z"},
    "incidents": [],
}
DRAIN = {
    "v": 1,
    "state": "draining",
    "started": "2026-03-02T08:00:00Z",
    "changed": "2026-03-02T08:00:00Z",
    "provider_id": "aws:///a/i-1",
    "boot": "b1",
}


def node(
    state: str = "",
    *,
    cordoned: bool = False,
    theirs: bool = False,
    drain: str = "",
    machine: str = "aws:///a/i-1",
) -> node_state.Node:
    record: dict[str, Any] = {**INCIDENTS, "cordon": {**INCIDENTS["cordon"], "theirs": theirs}}  # type: ignore[dict-item]
    notes = {keys.INCIDENTS: msgspec.json.encode(record).decode()}
    if drain:
        notes[keys.DRAIN] = msgspec.json.encode({**DRAIN, "state": drain}).decode()
    body = {
        "metadata": {
            "name": "n",
            "uid": "u",
            "labels": {keys.STATE: state} if state else {},
            "annotations": notes,
        },
        "spec": {"unschedulable": cordoned, "providerID": machine},
        "status": {"nodeInfo": {"bootID": "b1"}},
    }
    return node_state.decode(msgspec.json.encode(body))


def shown(node: node_state.Node) -> str:
    return node_state.state_of(node, node_state.record_of(node))


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (node(), "service"),
        (node("released"), "service"),
        (node("watch"), "watch"),
        (node("held"), "held"),
        (node("dismissed"), "dismissed"),
        (node("cordon", cordoned=True), "cordon"),
        (node("evict", cordoned=True), "evict"),
        (node("evict", cordoned=True, drain="draining"), "draining"),
        (node("evict", cordoned=True, drain="blocked"), "blocked"),
        (node("evict", cordoned=True, drain="drained"), "drained"),
        (node("evict", cordoned=True, drain="stopped"), "evict"),
        (node(cordoned=True), "others"),
        (node("watch", cordoned=True), "others"),
        (node("cordon", cordoned=True, theirs=True), "others"),
    ],
)
def test_a_node_looks_as_its_marks_and_its_cordon_say(seen: node_state.Node, state: str) -> None:
    assert shown(seen) == state
    assert state in node_state.STATES


def test_a_drain_of_another_machine_is_not_this_ones() -> None:
    seen = node("evict", cordoned=True, drain="drained", machine="aws:///a/i-2")
    assert shown(seen) == "evict"


def test_a_garbled_annotation_is_no_record_and_no_error() -> None:
    seen = node("cordon", cordoned=True)
    assert seen.metadata.annotations is not None
    seen.metadata.annotations[keys.INCIDENTS] = "{garbled"
    assert node_state.record_of(seen).incidents == ()
    assert shown(seen) == "cordon"
