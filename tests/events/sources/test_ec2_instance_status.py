"""DescribeInstanceStatus, beyond the recorded answers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from events import recording, registry
from events.notice import Kind, Notice

RECORDED = Path(recording.__file__).parent / "recorded"
ANSWER = recording.load((RECORDED / "ec2_instance_status" / "all_passed.json").read_bytes()).body


def _notices(**changed: Any) -> tuple[Notice, ...]:
    answer = msgspec.json.decode(ANSWER)
    answer["InstanceStatuses"][0].update(changed)
    body = msgspec.json.encode(answer)
    (event,) = registry.from_raw("ec2-instance-status", {}, body)
    return registry.read(event).notices


def _check(status: str) -> dict[str, Any]:
    return {"Status": status, "Details": [{"Name": "reachability", "Status": status}]}


def test_a_scheduled_event_is_the_same_incident_by_the_api_and_by_metadata() -> None:
    metadata = (RECORDED / "imds" / "scheduled_events.json").read_bytes()
    by_imds = recording.understand(recording.load(metadata)).notices[0]
    (_, by_api) = _notices(
        Events=[
            {
                "InstanceEventId": "instance-event-0123456789abcdef0",
                "Code": "system-reboot",
                "NotBefore": "2026-01-21T09:00:43Z",
            }
        ]
    )
    for field in ("kind", "severity", "source", "check", "ref", "deadline"):
        assert getattr(by_api, field) == getattr(by_imds, field), field


@pytest.mark.parametrize("status", ["initializing", "insufficient-data", "not-applicable", "", "?"])
def test_only_checks_that_are_passed_are_a_recovery(status: str) -> None:
    checks = dict.fromkeys(("InstanceStatus", "SystemStatus", "AttachedEbsStatus"), _check(status))
    assert not _notices(**checks)


@pytest.mark.parametrize("name", ["InstanceStatus", "SystemStatus", "AttachedEbsStatus"])
def test_one_check_that_fails_is_a_fault_whatever_the_others_say(name: str) -> None:
    (notice,) = _notices(**{name: _check("impaired")})
    assert notice.kind is Kind.FAULT
    (recovered,) = _notices()
    assert recovered.kind is Kind.RECOVERY
    assert (notice.source, notice.check) == (recovered.source, recovered.check)


def test_an_instance_that_does_not_run_is_not_judged_by_its_checks() -> None:
    stopped = {"Code": 80, "Name": "stopped"}
    assert not _notices(InstanceState=stopped, InstanceStatus=_check("impaired"))
