import subprocess
import sys
from datetime import UTC, datetime
from importlib import resources

import msgspec
import pytest

from events import recording, registry
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent, UnknownSource
from events.node_facts import Condition, Meta, NodeFacts, Status
from events.notice import Cause, Kind, Notice, Reading, Severity
from events.sources import kubernetes_node
from functions.gateways.kubernetes import types
from functions.rules import cordoning

SINCE = datetime(2026, 1, 15, 9, tzinfo=UTC)


def recorded(case: str) -> recording.Recording:
    path = resources.files("events") / "recorded" / "kubernetes_node" / f"{case}.json"
    return recording.load(path.read_bytes())


def notices(case: str) -> tuple[Notice, ...]:
    return recording.understand(recorded(case)).notices


def node(
    *conditions: Condition,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> NodeFacts:
    meta = Meta(name="n1", uid="u1", labels=labels, annotations=annotations)
    return NodeFacts(metadata=meta, status=Status(conditions=list(conditions)))


def condition(name: str, status: str, reason: str = "", message: str = "") -> Condition:
    return Condition(name, status, reason, message, SINCE)


def test_a_node_decoded_by_the_gateway_says_the_same_as_its_bytes() -> None:
    for case in ("eks_xid_74", "eks_latched_good_again", "gpus_seven_of_eight", "healthy_9_kb"):
        body = recorded(case).body
        as_read = kubernetes_node.notices_of(msgspec.json.decode(body, type=types.Node))
        assert as_read == notices(case)


def test_a_node_read_again_gives_equal_notices() -> None:
    assert notices("eks_xid_74") == notices("eks_xid_74")


def test_a_heartbeat_changes_nothing_in_what_is_said() -> None:
    body = recorded("eks_xid_74").body
    later = body.replace(
        b'"lastHeartbeatTime": "2026-01-15T09:00', b'"lastHeartbeatTime": "2026-01-15T09:05'
    )
    later = later.replace(b'"81234"', b'"81299"')
    assert later != body
    event = CloudEvent(
        id="2", source="/s", type="dev.knative.apiserver.resource.update", data=later
    )
    assert kubernetes_node.read(event).notices == notices("eks_xid_74")


@pytest.mark.parametrize(
    ("provider_id", "instance_id"),
    [
        ("aws:///us-east-1a/i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("aws:///eu-west-1b/i-1234567", "i-1234567"),
        ("aws:///us-east-1a/fargate-ip-10-0-0-1", ""),
        ("aws:///us-east-1a/i-0123456789abcdef0-and-more", ""),
        ("gce://my-project/us-central1-a/i-0123456789abcdef0", ""),
        ("kind://docker/kind/kind-worker", ""),
        ("", ""),
    ],
)
def test_an_instance_id_is_read_from_an_aws_provider_id_alone(
    provider_id: str, instance_id: str
) -> None:
    body = msgspec.json.encode(
        {
            "metadata": {"name": "n1"},
            "spec": {"providerID": provider_id},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]},
        }
    )
    facts = msgspec.json.decode(body, type=NodeFacts)
    (said,) = kubernetes_node.notices_of(facts)
    assert said.identity.provider_id == provider_id
    assert said.identity.instance_id == instance_id


def test_an_agents_restart_turns_a_fault_into_a_latched_claim_only() -> None:
    fault, *_ = notices("k8s_node_eks_nma_accelerated_hardware_false")
    claims = [n for n in notices("eks_latched_good_again") if n.check == fault.check]
    assert [(n.kind, n.latched) for n in claims] == [(Kind.RECOVERY, True)]


def test_a_healthy_unmarked_node_claims_no_recovery() -> None:
    assert kubernetes_node.notices_of(node(condition("Ready", "True"))) == ()


@pytest.mark.parametrize(
    "marks",
    [
        {"annotations": {"groundcrew.dev/incidents": "garbled {"}},
        {"annotations": {"groundcrew.dev/incidents": ""}},
        {"labels": {"groundcrew.dev/state": "cordoned"}},
        {"labels": {"groundcrew.dev/state": ""}},
    ],
)
def test_a_marked_node_is_looked_at_again_whatever_the_marks_say(
    marks: dict[str, dict[str, str]],
) -> None:
    said = kubernetes_node.notices_of(node(condition("Ready", "True"), **marks))
    assert [(n.kind, n.check) for n in said] == [
        (Kind.RECOVERY, "Ready"),
        (Kind.INFORMATIONAL, "node-changed"),
    ]


def test_a_marked_node_tells_its_faults_too() -> None:
    marked = {"groundcrew.dev/incidents": "{}"}
    said = kubernetes_node.notices_of(node(condition("Ready", "False"), annotations=marked))
    assert [n.kind for n in said] == [Kind.FAULT, Kind.INFORMATIONAL]


def test_a_heartbeat_of_a_node_of_which_only_history_is_left_needs_nothing() -> None:
    """As that of any other: a third of a fleet may carry history."""
    assert kubernetes_node.HISTORY == cordoning.RELEASED
    marks = {
        "labels": {"groundcrew.dev/state": cordoning.RELEASED},
        "annotations": {"groundcrew.dev/incidents": '{"v":1}'},
    }

    def read(ready: str) -> Reading:
        made = node(condition("Ready", ready), **marks)
        kind = "dev.knative.apiserver.resource.update"
        body = msgspec.json.encode({"kind": "Node", **msgspec.to_builtins(made)})
        return kubernetes_node.read(CloudEvent(id="1", source="/s", type=kind, data=body))

    well = read("True")
    assert well.notices == ()
    assert "nothing is wrong" in well.declined
    assert [n.kind for n in read("False").notices] == [Kind.FAULT]


def test_of_a_marked_node_that_cannot_recover_only_what_is_wrong_is_told() -> None:
    labels = {"groundcrew.dev/state": "released"}
    annotations = {"groundcrew.dev/incidents": '{"check":"XidCriticalError"}'}
    sick = node(
        condition("Ready", "False"),
        condition("DiskPressure", "False"),
        labels=labels,
        annotations=annotations,
    )
    assert [n.check for n in kubernetes_node.notices_of(sick, recoveries=False)] == ["Ready"]


def test_the_worst_of_several_xids_counts_with_its_own_cause() -> None:
    reason = '{"31":true,"119":true,"63":true}'
    (said,) = kubernetes_node.notices_of(node(condition("XidCriticalError", "True", reason)))
    assert (said.severity, said.cause) == (Severity.EVICT, Cause.HARDWARE)


def test_a_mild_xid_beside_something_worse_is_no_proof_of_that_in_the_kernel_log() -> None:
    def in_log(reason: str, message: str) -> tuple[Severity, bool]:
        bad = condition("AcceleratedHardwareReady", "False", reason, message)
        fault = next(n for n in kubernetes_node.notices_of(node(bad)) if n.kind is Kind.FAULT)
        return fault.severity, fault.in_log

    assert in_log("NvidiaDoubleBitError", "Xid (PCI:0000:9b:00): 31") == (Severity.EVICT, False)
    assert in_log("NvidiaDoubleBitError", "Xid (PCI:0000:9b:00): 79") == (Severity.EVICT, True)
    assert in_log("NvidiaXID31Error", "Xid (PCI:0000:9b:00): 31") == (Severity.WATCH, True)


def test_an_application_fault_is_never_more_than_watched_whoever_tells_it() -> None:
    for said in (
        condition("AcceleratedHardwareReady", "False", "NvidiaXID13Error"),
        condition("XidCriticalError", "True", '{"43":true}'),
        condition("XIDErrors", "True", "XIDErrors", "NVRM: Xid (PCI:0000:0f:00): 45, pid=1"),
        condition("SysLogsXIDError", "True", "", "ErrorCode:31 PCI:0000:0f:00"),
        condition("GpuMemWatch", "True", "", "XID 31 on GPU 3"),
    ):
        (notice,) = kubernetes_node.notices_of(node(said))
        assert (notice.severity, notice.cause) == (Severity.WATCH, Cause.SOFTWARE), said


def test_an_agent_that_recommends_repair_for_one_entry_is_believed() -> None:
    message = (
        "ErrorCode:A GPU:0 Recommended Action=NONE;ErrorCode:B GPU:1 Recommended Action=RESTART_VM;"
    )
    (said,) = kubernetes_node.notices_of(node(condition("GpuMemWatch", "True", "", message)))
    assert said.severity is Severity.CORDON


def test_an_event_type_that_the_adapter_does_not_have_is_refused() -> None:
    event = CloudEvent(id="1", source="/s", type="dev.knative.apiserver.resource.patch", data=b"{}")
    with pytest.raises(UnknownSource, match=r"resource\.patch"):
        kubernetes_node.read(event)


def test_the_same_raw_body_gives_the_same_ids_and_another_one_others() -> None:
    def ids(body: bytes) -> list[str]:
        return [event.id for event in registry.from_raw("kubernetes", {}, body)]

    versioned = b'{"kind":"Node","metadata":{"name":"n1","uid":"u1","resourceVersion":"7"}}'
    assert ids(versioned) == ["u1/7"]
    bare = b'{"kind":"Node","metadata":{"name":"n1"}}'
    assert ids(bare) == ids(bare)
    assert ids(bare) != ids(bare.replace(b"n1", b"n2"))


def test_items_of_a_typed_list_need_no_kind_of_their_own() -> None:
    body = b'{"kind":"NodeList","items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"n2"}}]}'
    events = registry.from_raw("kubernetes", {}, body)
    assert [event.subject for event in events] == ["n1", "n2"]
    assert {registry.source_of(event).name for event in events} == {"kubernetes_node"}


def test_a_list_is_read_whole_and_the_place_of_the_bad_item_is_named() -> None:
    body = b'{"kind":"NodeList","items":[{"metadata":{"name":"n1"}},{"metadata":{}}]}'
    with pytest.raises(MalformedEvent, match=r"event 1 of the batch: metadata\.name"):
        registry.from_raw("kubernetes", {}, body)


def test_declining_an_event_loads_no_client_and_no_cloudevents_package() -> None:
    root = resources.files("events") / "recorded"
    cases = [
        root / "kubernetes_node" / "healthy_9_kb.json",
        root / "aws_health" / "other_service_ebs.json",
    ]
    program = f"""
import sys
from pathlib import Path
from events import recording
for path in {[str(case) for case in cases]!r}:
    reading = recording.understand(recording.load(Path(path).read_bytes()))
    assert reading.declined, reading
heavy = ("kubernetes", "boto3", "botocore", "cloudevents", "yaml", "rich", "urllib3", "starlette")
loaded = [name for name in heavy if name in sys.modules]
assert not loaded, loaded
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
