"""EC2's own events, beyond the recorded ones."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events import recording, registry
from events.errors import MalformedEvent
from events.notice import Reading

RECORDED = Path(recording.__file__).parent / "recorded"
STATES = ("pending", "running", "stopping", "stopped", "shutting-down", "terminated")


def _read(case: str, detail: dict[str, Any] | None = None) -> Reading:
    body = recording.load((RECORDED / f"{case}.json").read_bytes()).body
    if detail is not None:
        body = msgspec.json.encode({**msgspec.json.decode(body), "detail": detail})
    (event,) = registry.from_raw("eventbridge", {}, body)
    return registry.read(event)


def test_a_spot_instance_is_gone_two_minutes_after_the_notice() -> None:
    (notice,) = _read("ec2_spot/terminate").notices
    assert notice.since is not None
    assert notice.deadline == notice.since + timedelta(minutes=2)


def test_the_machine_is_taken_from_the_detail_and_never_from_resources() -> None:
    (notice,) = _read("ec2_spot/zone_in_resources").notices
    assert notice.identity.instance_id == "i-0123456789abcdef0"
    assert notice.identity.region == "us-east-1"


@given(st.text(max_size=14))
def test_a_state_that_is_none_of_the_six_is_refused(state: str) -> None:
    if state in STATES:
        return
    with pytest.raises(MalformedEvent) as caught:
        _read("ec2_state/stopped", {"instance-id": "i-0123456789abcdef0", "state": state})
    assert caught.value.field == "detail.state"


@pytest.mark.parametrize("value", ["", "i-", "i-XYZ", "I-0123", "n1", " i-0123", "i-0123\n", None])
@pytest.mark.parametrize("case", ["ec2_spot/terminate", "ec2_rebalance/recommendation"])
def test_what_is_no_instance_id_is_refused(case: str, value: object) -> None:
    detail = {"instance-id": value, "instance-action": "terminate"}
    with pytest.raises(MalformedEvent) as caught:
        _read(case, detail)
    assert caught.value.field == "detail.instance-id"
