"""News from the metadata service are the same incidents as the same news from elsewhere."""

from pathlib import Path

import pytest

from events import recording
from events.notice import Notice, Severity
from events.sources import ec2_scheduled

RECORDED = Path(recording.__file__).parent / "recorded"


def _notices(case: str) -> tuple[Notice, ...]:
    return recording.understand(recording.load((RECORDED / f"{case}.json").read_bytes())).notices


@pytest.mark.parametrize(
    ("by_imds", "by_eventbridge"),
    [
        ("imds/spot_instance_action", "ec2_spot/terminate"),
        ("imds/rebalance_recommendation", "ec2_rebalance/recommendation"),
    ],
)
def test_a_spot_machine_is_told_the_same_by_its_metadata(by_imds: str, by_eventbridge: str) -> None:
    (one,), (other,) = _notices(by_imds), _notices(by_eventbridge)
    for field in ("kind", "severity", "cause", "source", "check", "reason", "ref", "deadline"):
        assert getattr(one, field) == getattr(other, field), field


def test_every_code_that_ec2_schedules_takes_the_machine_away() -> None:
    assert {n.severity for n in _notices("imds/scheduled_every_code")} == {Severity.EVICT}


@pytest.mark.parametrize(
    ("description", "how"),
    [
        ("[Completed] Scheduled reboot", "completed"),
        ("[Canceled] x", "canceled"),
        ("  [COMPLETED]x", "completed"),
        ("Scheduled reboot [Completed]", ""),
        ("Completed", ""),
        ("", ""),
    ],
)
def test_an_event_is_over_by_the_mark_before_its_description(description: str, how: str) -> None:
    assert ec2_scheduled.over(description) == how
