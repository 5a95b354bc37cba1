"""AWS Health, beyond the recorded events: what only several of them together show."""

import copy
import itertools
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events import decoding, recording, registry
from events.errors import MalformedEvent
from events.notice import EVIDENCE_BYTES, Kind, Notice, Reading, Severity
from events.sources.aws_health_codes import meaning

RECORDED = Path(recording.__file__).parent / "recorded" / "aws_health"


def _envelope(case: str) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(recording.load(_text(case)).body)
    return body


def _text(case: str) -> bytes:
    return (RECORDED / f"{case}.json").read_bytes()


def _read(envelope: dict[str, Any]) -> Reading:
    (event,) = registry.from_raw("eventbridge", {}, msgspec.json.encode(envelope))
    return registry.read(event)


def _with(case: str, **detail: Any) -> dict[str, Any]:
    envelope = copy.deepcopy(_envelope(case))
    envelope["detail"].update(detail)
    return envelope


def _incident(notice: Notice) -> tuple[str, ...]:
    return (notice.identity.instance_id, notice.source, notice.check, notice.ref)


def test_pages_in_any_order_speak_each_for_their_own_entities() -> None:
    pages = ["multi_entity_page1of2", "multi_entity_page2of2", "multi_entity_page1of2"]
    wanted = {f"i-0000000000000000{number}" for number in range(1, 7)}
    for order in itertools.permutations(pages):
        named = [
            notice.identity.instance_id
            for page in order
            for notice in _read(_envelope(page)).notices
        ]
        assert set(named) == wanted


def test_the_copy_of_a_backup_region_is_the_same_message_about_the_same_machine() -> None:
    (first,) = _read(_envelope("instance_stop_scheduled")).notices
    (again,) = _read(_envelope("backup_region_copy")).notices
    assert again == first


def test_the_copy_of_an_organisation_view_is_the_same_message_about_the_same_machine() -> None:
    (seen_by_admin,) = _read(_envelope("org_view_delegated_admin")).notices
    own = copy.deepcopy(_envelope("org_view_delegated_admin"))
    own["account"] = own["detail"]["affectedAccount"]
    assert _read(own).notices == (seen_by_admin,)
    assert seen_by_admin.identity.account == "111122223333"


def test_two_accounts_of_an_organisation_view_are_two_messages() -> None:
    (one,) = _read(_with("org_view_delegated_admin", affectedAccount="111122223333")).notices
    (two,) = _read(_with("org_view_delegated_admin", affectedAccount="222233334444")).notices
    assert one.dedup != two.dedup


@pytest.mark.parametrize("status", ["open", "upcoming", "closed"])
def test_an_update_is_about_the_same_incident(status: str) -> None:
    (told,) = _read(_envelope("instance_stop_scheduled")).notices
    update = _with("instance_stop_scheduled", statusCode=status, communicationId="another-1")
    (later,) = _read(update).notices
    assert _incident(later) == _incident(told)
    assert later.dedup != told.dedup
    assert (later.kind is Kind.RECOVERY) == (status == "closed")


def test_a_closed_event_never_asks_for_anything() -> None:
    for path in RECORDED.glob("*.json"):
        if path.name.endswith(recording.EXPECTED_SUFFIX):
            continue
        envelope = _envelope(path.stem)
        envelope.setdefault("detail", {})["statusCode"] = "closed"
        try:
            reading = _read(envelope)
        except MalformedEvent:
            continue
        for notice in reading.notices:
            assert notice.kind is Kind.RECOVERY, path.name
            assert notice.severity is Severity.WATCH
            assert notice.deadline is None


def test_500_entities_in_one_event_are_500_notices_and_quick() -> None:
    entities = [
        {"entityValue": f"arn:aws:ec2:us-east-1:111122223333:instance/i-{number:017x}"}
        for number in range(500)
    ]
    envelope = _with("instance_stop_scheduled", affectedEntities=entities)
    began = time.perf_counter()
    reading = _read(envelope)
    took = time.perf_counter() - began
    assert len({notice.identity.instance_id for notice in reading.notices}) == 500
    assert took < 0.5  # about 2 ms; the bound is for a machine that does much else


def test_evidence_is_bounded_however_long_a_code_is() -> None:
    (notice,) = _read(
        _with("instance_stop_scheduled", eventTypeCode="AWS_EC2_" + "X" * 400)
    ).notices
    assert len(notice.evidence.encode()) <= EVIDENCE_BYTES


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("Thu, 27 Aug 2026 13:19:03 GMT", (2026, 8, 27, 13, 19, 3)),
        ("Fri, 3 Jun 2022 05:01:10 GMT", (2022, 6, 3, 5, 1, 10)),
        ("Fri, 03 Jun 2022 05:01:10 GMT", (2022, 6, 3, 5, 1, 10)),
        ("Sunday, 3 Jun 2022 05:01:10 GMT", (2022, 6, 3, 5, 1, 10)),
        ("3 Jun 2022 05:01:10 GMT", (2022, 6, 3, 5, 1, 10)),
        ("2022-06-03T05:01:10Z", (2022, 6, 3, 5, 1, 10)),
        ("2022-06-03T07:01:10.5+02:00", (2022, 6, 3, 5, 1, 10, 500_000)),
    ],
)
def test_times_are_read_as_aws_writes_them(text: str, when: tuple[int, ...]) -> None:
    found = decoding.gmt(text, field="detail.startTime")
    assert found == datetime(*when, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    "text",
    ["tomorrow", "3 Brumaire 2022 05:01:10 GMT", "31 Jun 2022 05:01:10 GMT",
     "3 Jun 2022 25:01:10 GMT", "3 Jun 2022 05:01:10", "3 Jun 2022 05:01:10 PST",
     "Fri, 3 Jun 1922 05:01:10 GMT", "2022-06-03", "2022-06-03T05:01:10", "20220603", " "],
)  # fmt: skip
def test_a_time_that_is_none_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(MalformedEvent) as caught:
        _read(_with("instance_stop_scheduled", startTime=text))
    assert caught.value.field == "detail.startTime"


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        ("AWS_EC2_DEDICATED_HOST_NETWORK_MAINTENANCE_SCHEDULED", "watch"),
        ("AWS_EC2_DEDICATED_HOST_POWER_MAINTENANCE_SCHEDULED", "evict"),
        ("AWS_EC2_DEDICATED_HOST_ACCESSREVOKED_RETIREMENT_SCHEDULED", "evict"),
        ("AWS_EC2_INSTANCE_POWER_MAINTENANCE_SCHEDULED", "evict"),
        ("AWS_EC2_INSTANCE_RETIREMENT_EXPEDITED", "evict"),
        ("AWS_EC2_INSTANCE_TERMINATION_SCHEDULED", "evict"),
        ("AWS_EC2_PERSISTENT_INSTANCE_POWER_MAINTENANCE_SCHEDULED", "evict"),
        ("AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_EXPEDITED", "evict"),
        ("AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED", "evict"),
        ("AWS_EC2_PLANNED_LIFECYCLE_EVENT", "watch"),
    ],
)
def test_a_scheduled_change_asks_for_what_the_table_says(code: str, severity: str) -> None:
    means = meaning(code, "scheduledChange")
    assert (means.kind, means.severity) == (Kind.MAINTENANCE, severity)


def test_an_issue_is_watched_whatever_its_code() -> None:
    for code in ("AUTO_RECOVERY_FAILURE", "RETIREMENT_ISSUE", "NETWORK_CONNECTIVITY_ISSUE"):
        means = meaning(f"AWS_EC2_INSTANCE_{code}", "issue")
        assert (means.kind, means.severity) == (Kind.FAULT, Severity.WATCH)
