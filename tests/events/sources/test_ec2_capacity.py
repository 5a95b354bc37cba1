"""Capacity that EC2 takes back, beyond the recorded events."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from events import recording
from events.notice import Notice

RECORDED = Path(recording.__file__).parent / "recorded"


def _notice(case: str) -> Notice:
    (notice,) = recording.understand(
        recording.load((RECORDED / f"{case}.json").read_bytes())
    ).notices
    return notice


@pytest.mark.parametrize("source", ["ec2_capacity_reservation", "ec2_capacity_block"])
def test_both_versions_of_the_document_say_the_same(source: str) -> None:
    recent = "interruption" if source == "ec2_capacity_reservation" else "expiration"
    assert _notice(f"{source}/{recent}") == _notice(f"{source}/older_detail_type")


def test_the_machine_has_until_its_termination_time() -> None:
    deadline = _notice("ec2_capacity_reservation/interruption").deadline
    assert deadline == datetime(2026, 1, 15, 10, 2, tzinfo=UTC)


def test_a_block_names_its_reservation_and_must_be_empty_half_an_hour_before_its_end() -> None:
    notice = _notice("ec2_capacity_block/expiration")
    assert notice.deadline == datetime(2026, 1, 15, 11, 0, tzinfo=UTC)
    assert notice.identity.capacity_reservation == "cr-0123456789abcdef0"
    assert not notice.identity.instance_id
