from datetime import UTC, datetime
from importlib import resources
from typing import Any

import msgspec
import pytest

from events import recording
from events.cloudevent import CloudEvent
from events.notice import Kind, Notice, Reading
from events.sources import kubernetes_event

LINE = "NVRM: Xid (PCI:0000:0f:00): {}, pid=4711, name=python3, {}"
UID = "7d3f1c9e-52a4-4f0e-9a53-2b1f6c0e8d11"


def read(message: str, **fields: Any) -> Reading:
    body = {
        "kind": "Event",
        "metadata": {"uid": "e1", "resourceVersion": "7"},
        "involvedObject": {"kind": "Node", "name": "n1", "uid": "n1"},
        "reason": "XIDError",
        "message": message,
        **fields,
    }
    return kubernetes_event.read(
        CloudEvent(
            id="1",
            source="/s",
            type="dev.knative.apiserver.resource.add",
            data=msgspec.json.encode(body),
        )
    )


def only(reading: Reading) -> Notice:
    (notice,) = reading.notices
    return notice


def test_both_forms_of_the_object_say_the_same() -> None:
    root = resources.files("events") / "recorded" / "kubernetes_event"
    load = recording.load((root / "events_k8s_io_v1.json").read_bytes())
    newer = only(recording.understand(load))
    older = only(read(newer.evidence))
    assert (newer.check, newer.gpu, newer.severity) == (older.check, older.gpu, older.severity)


def test_the_job_stays_open_since_the_kernel_log_knows_no_pods() -> None:
    notice = only(read(LINE.format(31, "MMU Fault")))
    assert (notice.job, notice.gpu, notice.in_log) == ("", "0000:0f:00", True)


def test_a_log_line_proves_nothing_by_its_absence() -> None:
    assert only(read(LINE.format(79, "GPU has fallen off the bus."))).latched


def test_the_driver_takes_back_what_it_wanted_for_that_gpu_only() -> None:
    said = "GPU recovery action changed from {} to {}"
    none, reset = "0x0 (None)", "0x1 (GPU Reset Required)"
    fault = only(read(LINE.format(154, said.format(none, reset))))
    recovery = only(read(LINE.format(154, said.format(reset, none))))
    assert (fault.kind, recovery.kind) == (Kind.FAULT, Kind.RECOVERY)
    assert (fault.check, fault.ref) == (recovery.check, recovery.ref)
    assert fault.ref == "0000:0f:00"
    assert not recovery.latched


@pytest.mark.parametrize(("uid", "read_as"), [(UID, UID), ("n1", ""), (None, "")])
def test_a_name_where_the_uid_belongs_is_no_uid(uid: str | None, read_as: str) -> None:
    about = {"kind": "Node", "name": "n1", "uid": uid}
    assert only(read(LINE.format(79, "x"), involvedObject=about)).identity.node_uid == read_as


@pytest.mark.parametrize(
    "told_by",
    [
        {"reportingComponent": "groundcrew"},
        {"reportingComponent": "groundcrew.dev/cordon"},
        {"reportingController": "groundcrew-drain"},
        {"source": {"component": "groundcrew"}},
    ],
)
def test_our_own_events_are_declined(told_by: dict[str, Any]) -> None:
    assert read(LINE.format(79, "x"), **told_by).declined == "our own Event"


def test_the_last_of_its_times_counts_and_the_key_changes_with_each_repeat() -> None:
    times = {"firstTimestamp": "2026-01-15T08:00:00Z", "lastTimestamp": "2026-01-15T09:00:00+01:00"}
    notice = only(read(LINE.format(79, "x"), **times))
    assert notice.since == datetime(2026, 1, 15, 8, tzinfo=UTC)
    again = only(
        read(LINE.format(79, "x"), metadata={"uid": "e1", "resourceVersion": "8"}, **times)
    )
    assert notice.dedup == "e1/7"
    assert again.dedup == "e1/8"


def test_an_event_without_a_time_or_a_version_is_read_all_the_same() -> None:
    notice = only(read(LINE.format(79, "x"), metadata={}))
    assert (notice.since, notice.dedup) == (None, "")


def test_what_needs_nothing_is_told_beside_what_does() -> None:
    reading = read(LINE.format(48, "DBE") + "\n" + LINE.format(37, "x"))
    assert only(reading).check == "xid-48"
    assert reading.skipped == ("xid-37 needs nothing: driver firmware method error",)
