"""Alertmanager, beyond the recorded events."""

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events import recording, registry
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Kind, Notice, Reading, Severity
from events.sources import alertmanager

RECORDED = Path(recording.__file__).parent / "recorded" / "alertmanager"


def _payload(case: str = "firing", **labels: str) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(
        recording.load((RECORDED / f"{case}.json").read_bytes()).body
    )
    body["alerts"][0]["labels"].update(labels)
    return body


def _read(payload: dict[str, Any]) -> Reading:
    (event,) = registry.from_raw("alertmanager", {}, msgspec.json.encode(payload))
    return registry.read(event)


def test_one_bad_alert_refuses_the_whole_post_and_is_named_by_its_place() -> None:
    payload = _payload("many_alerts")
    payload["alerts"][2]["status"] = "broken"
    with pytest.raises(MalformedEvent) as caught:
        _read(payload)
    assert caught.value.field == "alerts[2].status"


def test_a_repeat_is_the_same_message_and_resolved_is_another_of_the_same_incident() -> None:
    (firing,) = _read(_payload()).notices
    (again,) = _read(_payload()).notices
    payload = _payload()
    payload["alerts"][0]["status"] = "resolved"
    (resolved,) = _read(payload).notices
    assert again.dedup == firing.dedup
    assert resolved.dedup != firing.dedup
    assert (resolved.check, resolved.ref) == (firing.check, firing.ref)


def test_resolved_is_a_claim_that_proves_nothing() -> None:
    for case in RECORDED.glob("*.json"):
        if case.name.endswith(recording.EXPECTED_SUFFIX):
            continue
        try:
            reading = recording.understand(recording.load(case.read_bytes()))
        except ValueError:
            continue
        for notice in reading.notices:
            assert notice.latched == (notice.kind is Kind.RECOVERY)


@pytest.mark.parametrize("asked", ["watch", "cordon", "evict"])
def test_the_alert_rule_says_how_much_is_done(asked: str) -> None:
    (notice,) = _read(_payload(groundcrew_severity=asked)).notices
    assert notice.severity == asked


def test_the_sticky_gauge_is_watched_whatever_labels_come_with_it() -> None:
    labels = {"groundcrew_severity": "evict", "xid": "79", "severity": "critical", "node": "n1"}
    for size in range(len(labels) + 1):
        for chosen in itertools.combinations(labels.items(), size):
            (notice,) = _read(_payload("sticky_xid_gauge", **dict(chosen))).notices
            assert notice.severity is Severity.WATCH
            assert not notice.check.startswith("xid-")


def test_no_label_but_those_documented_names_a_node() -> None:
    for label in alertmanager.NODE_LABELS:
        payload = _payload()
        payload["alerts"][0]["labels"] = {"alertname": "A", label: "n1", "instance": "10.0.0.1:9"}
        (notice,) = _read(payload).notices
        assert notice.identity.node == "n1"
    for label in ("instance", "pod", "host", "exported_instance", "nodename"):
        payload["alerts"][0]["labels"] = {"alertname": "A", label: "n1"}
        assert "no label names a node" in _read(payload).declined


def test_the_series_own_word_for_the_node_comes_before_the_exporters() -> None:
    (notice,) = _read(_payload(exported_node="n1", node="n2", Hostname="n3")).notices
    assert notice.identity.node == "n1"


def test_an_alert_that_begins_in_the_future_began_when_it_was_told() -> None:
    told = datetime(2026, 11, 29, 9, 0, tzinfo=UTC)
    body = msgspec.json.encode(_payload())
    for when, since in ((told, told), (None, datetime(2026, 11, 29, 10, 0, 0, 123_000, UTC))):
        event = CloudEvent(id="1", source="s", type=alertmanager.TYPE, time=when, data=body)
        (notice,) = registry.read(event).notices
        assert notice.since == since


@pytest.mark.parametrize("code", ["", "-1", "79.0", "٧٩", "9" * 5000])
def test_an_xid_that_is_no_code_is_refused(code: str) -> None:
    with pytest.raises(MalformedEvent) as caught:
        _read(_payload(xid=code))
    assert caught.value.field == "alerts[0].labels.xid"


def test_1000_alerts_in_one_post_are_1000_notices() -> None:
    payload = _payload()
    alert = payload["alerts"][0]
    payload["alerts"] = [
        {
            **alert,
            "fingerprint": f"{number:016x}",
            "labels": {"alertname": "A", "node": f"n{number}"},
        }
        for number in range(1000)
    ]
    assert len(_read(payload).notices) == 1000


def _of_prometheus(case: str) -> tuple[Notice, ...]:
    text = (RECORDED / f"prometheus_{case}.json").read_bytes()
    return recording.understand(recording.load(text)).notices


@pytest.mark.parametrize(
    ("fired", "resolved"),
    [
        ("gpurowremapfailure_firing", "gpurowremapfailure_resolved"),
        ("kubenodenotready_firing", "kubenodenotready_resolved"),
        ("gpuxid_firing", "gpuxid_resolved_without_series"),
    ],
)
def test_a_real_alert_that_is_resolved_is_the_incident_that_fired(
    fired: str, resolved: str
) -> None:
    for began, ended in zip(_of_prometheus(fired), _of_prometheus(resolved), strict=True):
        for field in ("source", "check", "ref", "identity", "since"):
            assert getattr(began, field) == getattr(ended, field), field
        assert (began.kind, ended.kind) == (Kind.FAULT, Kind.RECOVERY)
        assert ended.latched  # gone or well: it is told in the same words


def test_what_a_real_alertmanager_repeats_is_the_same_message() -> None:
    assert _of_prometheus("kubenodenotready_firing") == _of_prometheus("kubenodenotready_repeated")


def test_a_real_alert_of_the_sticky_gauge_is_watched_whatever_its_rule_asks_for() -> None:
    (notice,) = _of_prometheus("gpulastxid_firing")
    assert notice.severity is Severity.WATCH
