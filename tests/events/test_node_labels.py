"""Labels and taints of other agents, beyond the recorded nodes."""

from datetime import UTC, datetime

import pytest

from events import node_labels
from events.node_facts import Meta, NodeFacts, Spec, Taint
from events.notice import Identity, Kind, Notice, Severity

HEALTH = "sagemaker.amazonaws.com/node-health-status"
WINDOW = "cloud.google.com/maintenance-window-started"
PLANNED = "cloud.google.com/scheduled-maintenance-time"
LEVEL_3 = "autopilot.ibm.com/dcgm.level.3"


def _notices(
    labels: dict[str, str] | None = None, taints: dict[str, str] | None = None, marks: str = ""
) -> list[Notice]:
    node = NodeFacts(
        metadata=Meta(name="n1", labels=labels),
        spec=Spec(taints=[Taint(key, value) for key, value in (taints or {}).items()]),
    )
    return list(node_labels.notices(node, "here", Identity(node="n1"), marks))


def test_a_node_that_no_agent_writes_on_says_nothing() -> None:
    assert not _notices()
    assert not _notices({"kubernetes.io/hostname": "n1"}, {"node.kubernetes.io/not-ready": ""})


def test_a_label_is_no_taint_and_a_taint_no_label() -> None:
    assert not _notices(labels={WINDOW: ""})
    assert not _notices(taints={HEALTH: "UnschedulablePendingReplacement"})


def test_that_all_is_well_is_only_told_of_what_our_marks_speak_of() -> None:
    assert not _notices({HEALTH: "Schedulable"})
    assert not _notices({HEALTH: "Schedulable"}, marks='{"check":"Ready"}')
    (over,) = _notices({HEALTH: "Schedulable"}, marks=f'{{"check":"{HEALTH}"}}')
    assert (over.kind, over.severity) == (Kind.RECOVERY, Severity.WATCH)


@pytest.mark.parametrize("key", [HEALTH, WINDOW, PLANNED])
def test_what_was_taken_away_is_over(key: str) -> None:
    (over,) = _notices(marks=f'{{"check":"{key}"}}')
    assert (over.kind, over.check) == (Kind.RECOVERY, key)


@pytest.mark.parametrize("value", ["", "TESTING", "pass", "EVICTED"])
def test_a_value_that_no_row_knows_says_nothing(value: str) -> None:
    assert not _notices({"autopilot.ibm.com/gpuhealth": value})


@pytest.mark.parametrize(
    ("value", "deadline"),
    [
        ("1769011200", datetime(2026, 1, 21, 16, 0, tzinfo=UTC)),
        ("0", None), ("999999999999", None), ("1769011200000", None), ("-1", None), ("", None),
        ("٣", None), ("1e9", None),
    ],
)  # fmt: skip
def test_a_time_that_is_none_is_watched_and_no_more(value: str, deadline: datetime | None) -> None:
    (notice,) = _notices({PLANNED: value})
    assert notice.deadline == deadline
    assert notice.severity is (Severity.EVICT if deadline else Severity.WATCH)


def test_a_result_tells_when_it_was_found_where_it_can() -> None:
    (dated,) = _notices({LEVEL_3: "ERR_2026-01-15_08.12.03UTC_pcie.0"})
    assert dated.since == datetime(2026, 1, 15, 8, 12, 3, tzinfo=UTC)
    for value in ("ERR", "ERR_2026-02-30_08.12.03UTC", "ERR_1926-01-15_08.12.03UTC"):
        (undated,) = _notices({LEVEL_3: value})
        assert (undated.since, undated.severity) == (None, dated.severity)
