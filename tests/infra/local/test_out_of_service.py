"""Who took a node out of service, and how many were out at once."""

import json
from typing import Any

from infra.local.out_of_service import OutOfService
from infra.local.world import Change
from tests.support.histories import START, marked, node

OURS = {"at": START.isoformat()}
THEIRS = {**OURS, "theirs": True}


def incident(kind: str = "fault", severity: str = "evict", state: str = "open") -> Any:
    return {
        "source": "somebody",
        "check": f"{kind}-{severity}",
        "kind": kind,
        "severity": severity,
        "state": state,
        "first": START.isoformat(),
        "last": START.isoformat(),
    }


def out(name: str, *found: Any, cordon: Any = OURS) -> Any:
    record = {"v": 1, "cordon": cordon, "incidents": found or [incident()]}
    return marked(node(name), "evict", record)


def cordoned(name: str) -> Any:
    made = node(name)
    made["spec"]["unschedulable"] = True
    return made


def seen(*nodes: Any) -> OutOfService:
    found = OutOfService(lambda node: node.name.partition("-")[0])
    for made in nodes:
        found.changed(Change("update", "Node", json.dumps(made).encode()))
    return found


def test_what_the_functions_took_out_is_counted_by_pool_and_in_all() -> None:
    found = seen(out("a-1"), out("a-2"), out("a-2"), out("b-1"), node("a-1"), out("b-2"))
    assert found.most == {"all": 3, "a": 2, "b": 2}
    assert found.most_by == {"us": 3}


def test_a_node_that_is_gone_is_no_longer_out() -> None:
    found = seen(out("a-1"))
    found.changed(Change("delete", "Node", json.dumps(out("a-1")).encode()))
    found.changed(Change("update", "Node", json.dumps(out("a-2")).encode()))
    assert found.most == {"all": 1, "a": 1}


def test_what_others_cordoned_is_counted_as_theirs_whatever_we_found_on_it() -> None:
    found = seen(cordoned("a-1"), out("a-2", cordon=THEIRS), out("a-3", cordon=None), out("a-4"))
    assert found.most == {"all": 1, "a": 1}
    assert found.most_by == {"others": 3, "us": 1}


def test_what_the_cloud_takes_anyway_counts_as_ours_and_is_told_apart() -> None:
    spot = incident("interruption")
    lost = out("a-1", spot, incident("maintenance", "watch"), incident("fault", state="closed"))
    both = out("a-2", incident("termination"), incident("fault", "cordon"))
    found = seen(lost, both)
    assert found.most == {"all": 2, "a": 2}
    assert found.most_by == {"cloud": 1, "us": 1}


def test_a_node_that_others_uncordoned_takes_work_whatever_our_mark_says() -> None:
    free = out("a-1")
    free["spec"]["unschedulable"] = False
    assert seen(out("a-1"), free, out("a-2")).most == {"all": 1, "a": 1}


def test_a_record_that_nobody_can_read_is_not_ours() -> None:
    broken = out("a-1")
    broken["metadata"]["annotations"]["groundcrew.dev/incidents"] = "{"
    assert seen(broken).most == {}


def test_events_are_no_nodes() -> None:
    found = seen()
    found.changed(Change("add", "Event", b'{"metadata": {"name": "a-1"}}'))
    assert found.most_by == {}
