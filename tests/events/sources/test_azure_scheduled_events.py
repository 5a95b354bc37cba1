"""Azure's Scheduled Events, beyond the recorded documents."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from events import recording, registry
from events.notice import Cause, Kind, Notice, Severity

RECORDED = Path(recording.__file__).parent / "recorded" / "azure_scheduled_events"
VM = "aks-pool-12345678-vmss_1"
TYPES = {"Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"}


def _document(case: str, **changed: Any) -> bytes:
    body = msgspec.json.decode(recording.load((RECORDED / f"{case}.json").read_bytes()).body)
    for event in body["Events"]:
        event.update(changed)
    return msgspec.json.encode(body)


def _notices(body: bytes, speaks_for: str = "") -> tuple[Notice, ...]:
    headers = {"Groundcrew-Instance-Id": speaks_for} if speaks_for else {}
    (event,) = registry.from_raw("azure-scheduled-events", headers, body)
    return registry.read(event).notices


@pytest.mark.parametrize("status", ["Scheduled", "Started"])
@pytest.mark.parametrize("kind", sorted(TYPES))
def test_only_a_freeze_leaves_the_work_where_it_is(kind: str, status: str) -> None:
    (notice,) = _notices(_document("redeploy", EventType=kind, EventStatus=status))
    assert notice.severity is (Severity.WATCH if kind == "Freeze" else Severity.EVICT)
    assert notice.cause is Cause.PROVIDER


@pytest.mark.parametrize("not_before", ["", None])
def test_what_has_started_is_acted_on_at_once_whether_it_was_announced_or_not(
    not_before: str | None,
) -> None:
    (notice,) = _notices(_document("redeploy", EventStatus="Started", NotBefore=not_before))
    assert (notice.severity, notice.deadline) == (Severity.EVICT, None)
    assert notice.kind is Kind.INTERRUPTION  # which waits for no budget
    (announced,) = _notices(_document("redeploy"))
    assert announced.kind is Kind.MAINTENANCE
    for field in ("source", "check", "ref"):
        assert getattr(notice, field) == getattr(announced, field), field


def test_an_event_that_is_no_longer_listed_is_over_for_the_vms_that_are_spoken_for() -> None:
    (announced,) = _notices(_document("redeploy"), "")
    gone = [n for n in _notices(_document("empty"), VM) if n.check == announced.check]
    (recovery,) = gone
    assert recovery.kind is Kind.RECOVERY
    assert recovery.source == announced.source
    assert recovery.identity == announced.identity
    assert not recovery.ref  # whatever its EventId was


def test_a_document_is_silent_about_vms_that_nobody_spoke_for() -> None:
    assert not _notices(_document("empty"))
    told = {n.identity.instance_id for n in _notices(_document("redeploy"), "another_0")}
    assert told == {VM, "another_0"}
    assert all(
        n.kind is not Kind.RECOVERY
        for n in _notices(_document("redeploy"), "another_0")
        if n.identity.instance_id == VM
    )


def test_a_type_that_is_listed_is_not_over_and_the_others_are() -> None:
    told = _notices(_document("mixed"), VM)
    assert {n.check for n in told if n.kind is Kind.RECOVERY} == TYPES - {"Freeze", "Preempt"}
    assert {n.check for n in told if n.kind is not Kind.RECOVERY} == {"Freeze", "Preempt"}
