"""``groundcrew startable``: the request that starts events, and what the others wait for."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from events.notice import Kind
from infra.local.cluster import builders
from tests.support.fleet import Fleet, Shell


def document(fleet: Fleet, folder: Path, *events: tuple[str, str, Sequence[str]]) -> str:
    body = {
        "DocumentIncarnation": 1,
        "Events": [
            {
                "EventId": name,
                "EventStatus": status,
                "EventType": "Reboot",
                "ResourceType": "VirtualMachine",
                "Resources": [fleet.provider_id(n).rpartition("/")[2] or n for n in nodes],
            }
            for name, status, nodes in events
        ],
    }
    path = folder / "document.json"
    path.write_text(json.dumps(body))
    return str(path)


@pytest.fixture
def emptied(fleet: Fleet) -> Fleet:
    """a-01 and b-01 are out of service and empty."""
    for name in ("a-01", "b-01"):
        fleet.say(name, "Reboot", source="azure.scheduled-events", kind=Kind.INTERRUPTION)
    fleet.drain()
    return fleet


def test_an_event_of_empty_machines_is_started_and_the_others_are_named(
    groundcrew: Shell, emptied: Fleet, tmp_path: Path
) -> None:
    said = document(
        emptied, tmp_path,
        ("ready", "Scheduled", ["a-01", "b-01"]), ("busy", "Scheduled", ["a-01", "a-02"]),
        ("alien", "Scheduled", ["a-01", "vmss_7"]), ("running", "Started", ["a-01"]),
    )  # fmt: skip
    before = emptied.written()
    code, out, err = groundcrew("startable", said)
    assert (code, json.loads(out)) == (0, {"StartRequests": [{"EventId": "ready"}]})
    assert "busy waits: a-02 is not out of service" in err
    assert "alien waits: vmss_7 is no node of this cluster" in err
    assert "running" not in err
    assert emptied.written() == before


def test_what_came_after_the_drain_is_read_and_what_a_person_holds_is_left(
    groundcrew: Shell, emptied: Fleet, tmp_path: Path
) -> None:
    emptied.server.apply(builders.pod("late", node="a-01", namespace="jobs"))
    groundcrew("hold", "b-01", "--until", "2d", "--reason", "vendor looks at it")
    said = document(emptied, tmp_path, ("e", "Scheduled", ["a-01", "b-01"]))
    code, out, err = groundcrew("startable", said)
    assert (code, out) == (1, "")
    assert "a-01 is not empty any more: jobs/late" in err
    assert "b-01: held until" in err
    assert "vendor looks at it" in err


def test_where_none_may_begin_nothing_is_printed_that_could_be_posted(
    groundcrew: Shell, fleet: Fleet, tmp_path: Path
) -> None:
    code, out, _ = groundcrew("startable", document(fleet, tmp_path, ("e", "Scheduled", ["a-01"])))
    assert (code, out) == (1, "")


def test_what_is_no_document_is_refused(groundcrew: Shell, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text('{"Events": [{"EventId": 7}]}')
    code, out, err = groundcrew("startable", str(path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "Events[0].EventId" in err
    assert groundcrew("startable", str(tmp_path / "none"))[0] == 2
