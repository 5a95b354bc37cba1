"""The record on the node: what is written is read, within its size, and nothing unknown is lost."""

import json
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.notice import Cause, Kind, Severity, evidence
from functions.rules import incidents
from functions.rules.incidents import Cordon, Incident, Record, State
from functions.rules.policy import default
from tests.support.facts import NOW, minutes, node, notice, recovery

times = st.datetimes(
    min_value=NOW.replace(tzinfo=None), max_value=NOW.replace(tzinfo=None) + timedelta(days=40)
).map(lambda at: at.replace(tzinfo=NOW.tzinfo))
words = st.text(max_size=60)
incident_lists = st.lists(
    st.builds(
        Incident,
        source=st.sampled_from(["kubernetes.node", "aws.health", "alertmanager"]),
        check=words,
        ref=words,
        kind=st.sampled_from([Kind.FAULT, Kind.MAINTENANCE]),
        severity=st.sampled_from(list(Severity)),
        cause=st.sampled_from(list(Cause)),
        state=st.sampled_from(list(State)),
        first=times,
        last=times,
        deadline=st.none() | times,
        evidence=st.text(max_size=400).map(evidence),
    ),
    max_size=60,
)


@given(incident_lists)
def test_it_fits_and_what_is_open_is_never_dropped(items: list[Incident]) -> None:
    record = Record(machine="m", cordon=Cordon(at=NOW), incidents=tuple(items))
    text = incidents.encode(record)
    assert len(text.encode()) <= incidents.MAX_BYTES
    back = incidents.decode(text)
    assert back.cordon == record.cordon
    worst = {}
    for item in items:
        if item.open:
            worst[item.source] = max(worst.get(item.source, Severity.WATCH), item.severity)
    kept = {}
    for item in back.open:
        kept[item.source] = max(kept.get(item.source, Severity.WATCH), item.severity)
    assert kept == worst
    if items and any(i.open for i in items):
        first = min(i.first for i in items if i.open)
        assert min(i.first for i in back.open) == first


@given(incident_lists.map(lambda items: items[:5]))
def test_a_small_record_comes_back_as_it_was(items: list[Incident]) -> None:
    record = Record(machine="m", incidents=tuple(items), releases=(NOW,))
    assert incidents.decode(incidents.encode(record)) == record


def test_fields_of_a_newer_version_survive_a_rewrite() -> None:
    text = json.dumps(
        {
            "v": 2,
            "machine": "m",
            "ladder": {"step": "reset"},
            "incidents": [
                {
                    "source": "s", "check": "c", "kind": "fault", "severity": "evict",
                    "first": "2026-03-02T09:00:00Z", "last": "2026-03-02T09:00:00Z",
                    "ticket": "OPS-1",
                }
            ],
        }
    )  # fmt: skip
    record = incidents.decode(text)
    changed = record.with_incident(
        msgspec.structs.replace(record.incidents[0], claimed=NOW), record.incidents[0]
    )
    back = json.loads(incidents.encode(changed))
    assert back["v"] == 2
    assert back["ladder"] == {"step": "reset"}
    assert back["incidents"][0]["ticket"] == "OPS-1"
    assert back["incidents"][0]["claimed"]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "null", "[]", '"x"', "{}", '{"v":0}', '{"v":"1"}', '{"v":1,"incidents":7}',
        '{"v":1,"incidents":[7]}', '{"v":1,"incidents":[{"source":"s"}]}',
        '{"v":9,"incidents":[{"source":"s","check":"c","kind":"omen","severity":"worst"}]}',
    ],
)  # fmt: skip
def test_what_is_no_record_is_unreadable_and_never_an_empty_one(text: str) -> None:
    with pytest.raises(incidents.Unreadable):
        incidents.decode(text)


def test_thirty_repeats_out_of_order_open_one_incident() -> None:
    view, record = node(), Record(machine=node().machine)
    said = [notice(since=NOW - minutes(m)) for m in (5, 1, 9, 3)] * 8
    for number, one in enumerate(said):
        record = incidents.hear(record, view, [one], default(), NOW + timedelta(seconds=number))
    assert len(record.incidents) == 1
    assert record.incidents[0].first == NOW


def test_a_resolved_that_comes_before_its_firing_leaves_one_open_incident() -> None:
    view, record = node(), Record(machine=node().machine)
    early = recovery("HighTemp", source="alertmanager", ref="f1", since=NOW)
    record = incidents.hear(record, view, [early], default(), NOW)
    late = notice("HighTemp", source="alertmanager", ref="f1", since=NOW - minutes(5))
    record = incidents.hear(record, view, [late], default(), NOW)
    assert len(record.open) == 1


def test_a_time_ahead_of_us_is_taken_as_now() -> None:
    record = incidents.hear(
        Record(machine="m"), node(), [notice(since=NOW + timedelta(days=365))], default(), NOW
    )
    assert record.incidents[0].told == NOW


def test_five_hundred_notices_about_one_node_stay_within_the_size() -> None:
    said = [notice(f"check-{n}", evidence="x" * 200) for n in range(500)]
    record = incidents.hear(Record(machine="m"), node(), said, default(), NOW)
    assert len(incidents.encode(record)) <= incidents.MAX_BYTES
