"""Compute Engine's maintenance, beyond the recorded documents."""

from pathlib import Path

import pytest

from events import recording
from events.notice import Cause, Kind, Notice, Severity
from events.sources import gcp_upcoming
from functions.steps import find

RECORDED = Path(recording.__file__).parent / "recorded"


def _notices(case: str) -> dict[str, Notice]:
    text = (RECORDED / f"{case}.json").read_bytes()
    return {n.check: n for n in recording.understand(recording.load(text)).notices}


def test_a_planned_window_is_no_fault() -> None:
    told = _notices("gcp_instance/upcoming_maintenance")
    assert told[gcp_upcoming.MAINTENANCE].cause is Cause.PROVIDER
    assert told[gcp_upcoming.FAILURE].kind is Kind.RECOVERY


@pytest.mark.parametrize("reason", ["gpu_xid", "nvlink"])
def test_a_failure_takes_no_new_work_now_and_is_emptied_before_the_repair(reason: str) -> None:
    told = _notices(f"gcp_instance/unscheduled_failure_{reason}")
    failure, repair = told[gcp_upcoming.FAILURE], told[gcp_upcoming.MAINTENANCE]
    assert (failure.kind, failure.severity) == (Kind.FAULT, Severity.CORDON)
    assert failure.reason == f"FAILURE_{reason.upper()}"
    assert (repair.kind, repair.severity) == (Kind.MAINTENANCE, Severity.EVICT)
    assert repair.deadline is not None
    assert {failure.cause, repair.cause} == {Cause.HARDWARE}


def test_what_is_not_told_of_any_more_is_over() -> None:
    over = _notices("gcp_instance/nothing_upcoming")
    assert {notice.kind for notice in over.values()} == {Kind.RECOVERY}
    began = _notices("gcp_instance/unscheduled_failure_gpu_xid")
    assert {(n.source, check, n.ref) for check, n in over.items()} == {
        (n.source, check, n.ref) for check, n in began.items()
    }


@pytest.mark.parametrize(
    "case",
    ["gcp_instance/unscheduled_ongoing_without_window", "gcp_metadata/maintenance_event_terminate"],
)
def test_what_is_under_way_waits_for_no_budget(case: str) -> None:
    (notice,) = (n for n in _notices(case).values() if n.kind is Kind.INTERRUPTION)
    assert notice.severity is Severity.EVICT


def test_the_api_and_the_metadata_server_mean_the_same_machine() -> None:
    by_api = _notices("gcp_instance/upcoming_maintenance")[gcp_upcoming.MAINTENANCE]
    by_metadata = _notices("gcp_metadata/recursive")[gcp_upcoming.MAINTENANCE]
    assert find.instance_id(by_api.identity.provider_id) == by_metadata.identity.instance_id
    for field in ("kind", "severity", "source", "check", "ref", "deadline"):
        assert getattr(by_api, field) == getattr(by_metadata, field), field
