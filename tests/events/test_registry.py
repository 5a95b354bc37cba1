"""Who reads which event, and what it costs to find out."""

import subprocess
import sys
from pathlib import Path

import pytest

from events import cloudevent, recording, registry
from events.cloudevent import CloudEvent
from events.errors import EventTooLarge, MalformedEvent, UnknownSource

RECORDED = Path(recording.__file__).parent / "recorded"


def _event(event_type: str, data: bytes = b"{}", /, **extensions: str) -> CloudEvent:
    return CloudEvent(id="1", source="/tests", type=event_type, data=data, extensions=extensions)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("aws.health.AWS Health Event", "aws_health"),
        ("aws.health.AWS Health Abuse Event", "aws_health"),
        ("aws.ec2.EC2 Spot Instance Interruption Warning", "ec2_spot"),
        ("aws.ec2.EC2 Instance Rebalance Recommendation", "ec2_rebalance"),
        ("aws.ec2.EC2 Instance State-change Notification", "ec2_state"),
        ("dev.groundcrew.alertmanager", "alertmanager"),
        ("dev.knative.sources.ping", "ping"),
    ],
)
def test_an_event_is_read_by_the_source_of_its_type(kind: str, name: str) -> None:
    assert registry.source_of(_event(kind)).name == name


@pytest.mark.parametrize(
    "change", ["resource.add", "resource.update", "resource.delete", "ref.add"]
)
def test_an_event_of_the_api_server_is_read_by_the_kind_of_its_object(change: str) -> None:
    kind = f"dev.knative.apiserver.{change}"
    assert registry.source_of(_event(kind, kind="Node")).name == "kubernetes_node"
    assert registry.source_of(_event(kind, kind="Event")).name == "kubernetes_event"
    # Adapters before the kind attribute: the object says it itself.
    assert registry.source_of(_event(kind, b'{"kind": "Node"}')).name == "kubernetes_node"
    with pytest.raises(UnknownSource, match="kind 'Pod' are not read"):
        registry.source_of(_event(kind, kind="Pod"))


@pytest.mark.parametrize("kind", ["com.example", "dev.knative.sources.ping2", "aws.healthcare.x"])
def test_a_type_that_nobody_reads_is_named_beside_the_known_ones(kind: str) -> None:
    with pytest.raises(UnknownSource) as caught:
        registry.read(_event(kind))
    assert repr(kind) in str(caught.value)
    assert "'dev.knative.sources.ping'" in str(caught.value)


def test_every_line_of_the_registry_has_its_module_and_recorded_events() -> None:
    for source in registry.SOURCES:
        assert (RECORDED / source.name).is_dir(), source.name
        assert (RECORDED.parent / "sources" / f"{source.name}.py").is_file()


def test_a_raw_source_that_nobody_knows_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UnknownSource, match=r"'gossip'; known are alertmanager, .*eventbridge"):
        registry.from_raw("gossip", {}, b"{}")


@pytest.mark.parametrize("name", sorted(registry.RAW))
def test_a_raw_body_is_bounded_and_json_in_utf_8(name: str) -> None:
    with pytest.raises(EventTooLarge):
        registry.from_raw(name, {}, b" " * (cloudevent.MAX_BYTES + 1))
    for body in (b"", b"{", b'{"a": "\xff"}', b"[" * 100_000):
        with pytest.raises(MalformedEvent) as caught:
            registry.from_raw(name, {}, body)
        assert caught.value.field == "body"


@pytest.mark.parametrize("case", ["ec2_spot/terminate", "alertmanager/many_alerts"])
def test_the_same_raw_body_gives_the_same_id(case: str) -> None:
    recorded = recording.load((RECORDED / f"{case}.json").read_bytes())
    first, second = recording.events_of(recorded), recording.events_of(recorded)
    assert first == second
    other = recording.events_of(
        recording.load((RECORDED / "alertmanager" / "firing.json").read_bytes())
    )
    assert other[0].id != first[0].id


def test_an_eventbridge_event_says_in_its_attributes_who_sent_what_from_where() -> None:
    recorded = recording.load((RECORDED / "ec2_spot" / "terminate.json").read_bytes())
    (event,) = recording.events_of(recorded)
    assert event.id == "11111111-2222-3333-4444-555555555555"
    assert event.source == "/aws/111122223333/us-east-1/aws.ec2"
    assert event.type == "aws.ec2.EC2 Spot Instance Interruption Warning"
    assert event.subject == ""  # resources[0] is not to be trusted
    assert event.data == recorded.body


def test_to_decline_an_event_loads_only_its_own_source() -> None:
    check = (
        "import sys\n"
        "from events import recording\n"
        "assert not [name for name in sys.modules if name.startswith('events.sources')]\n"
        f"case = open({str(RECORDED / 'aws_health' / 'other_service_ebs.json')!r}, 'rb').read()\n"
        "assert recording.understand(recording.load(case)).declined\n"
        "loaded = {name for name in sys.modules if name.startswith('events.')}\n"
        "assert not loaded & {'events.xid', 'events.sources.alertmanager',"
        " 'events.sources.ec2_spot', 'events.sources.kubernetes_node'}, loaded\n"
        "heavy = {'kubernetes', 'boto3', 'cloudevents', 'rich', 'yaml', 'flask', 'urllib3'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)
