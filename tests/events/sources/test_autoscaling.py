"""Lifecycle hooks, beyond the recorded ones."""

from pathlib import Path

import pytest

from events import recording
from events.notice import Kind, Notice
from events.sources import autoscaling
from events.sources.autoscaling import Lifecycle

RECORDED = Path(recording.__file__).parent / "recorded"


def _notices(case: str) -> tuple[Notice, ...]:
    text = (RECORDED / "autoscaling" / f"{case}.json").read_bytes()
    return recording.understand(recording.load(text)).notices


def test_a_hook_that_tells_both_ways_names_one_incident() -> None:
    (by_bus,), (by_queue,) = _notices("terminate"), _notices("direct")
    for field in ("source", "check", "ref", "dedup", "kind", "severity"):
        assert getattr(by_bus, field) == getattr(by_queue, field)
    assert by_bus.identity.instance_id == by_queue.identity.instance_id


@pytest.mark.parametrize("case", ["terminate", "launch", "direct", "terminate_to_warm_pool"])
def test_what_completes_the_hook_is_carried_in_the_notice(case: str) -> None:
    ref = _notices(case)[0].ref
    hook = "my-k8s-launch-hook" if case == "launch" else "my-k8s-term-hook"
    token = "87654321-4321-4321-4321-210987654321"
    assert autoscaling.lifecycle_of(ref) == Lifecycle(token, hook, "my-asg")


@pytest.mark.parametrize("ref", ["", "a", "a:b", "a::c", "a:b:c:d", "arn:aws:health:us-east-1::x"])
def test_the_ref_of_another_source_names_no_lifecycle(ref: str) -> None:
    assert autoscaling.lifecycle_of(ref) is None


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("terminate", Kind.TERMINATION),
        ("terminate_from_warm_pool", Kind.TERMINATION),
        ("terminate_without_origin", Kind.TERMINATION),
        ("terminate_to_warm_pool", Kind.INTERRUPTION),
        ("direct_to_warm_pool", Kind.INTERRUPTION),
        ("launch_into_warm_pool", Kind.INFORMATIONAL),
    ],
)
def test_an_instance_that_goes_to_the_warm_pool_has_not_ended(case: str, kind: Kind) -> None:
    assert _notices(case)[0].kind is kind


def test_leaving_the_warm_pool_ends_what_entering_it_began() -> None:
    (entered,) = _notices("terminate_to_warm_pool")
    launch, left = _notices("launch_from_warm_pool")
    assert (launch.kind, left.kind) == (Kind.INFORMATIONAL, Kind.RECOVERY)
    assert (entered.source, entered.check) == (left.source, left.check)
    assert left.ref == ""  # whatever hook it was


def test_how_long_the_hook_waits_is_not_known_so_there_is_no_deadline() -> None:
    assert all(notice.deadline is None for notice in _notices("terminate"))
