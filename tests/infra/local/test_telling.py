"""What happens in a scenario becomes the events that clouds, agents and the API server send."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from events import recording, registry
from infra.local import telling
from infra.local.scenario import Event
from infra.local.telling import Untellable
from infra.local.world import Change

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
NOW = datetime(2026, 3, 3, 9, 30, tzinfo=UTC)
NODE = {
    "metadata": {"name": "gpu-01", "uid": "11111111-2222-4333-8444-555555555555"},
    "spec": {"providerID": "aws:///us-east-1a/i-0feedfeedfeedfeed"},
    "status": {"nodeInfo": {"bootID": "b-1"}},
}


class Nodes:
    def node(self, name: str) -> dict[str, Any]:
        assert name == "gpu-01"
        return NODE


def request(event: Event, node: str = "") -> recording.Recording:
    return telling.request(event, node, Nodes(), START, NOW)  # type: ignore[arg-type]


def body(event: Event, node: str = "") -> Any:
    return msgspec.json.decode(request(event, node).body)


def test_a_recorded_event_is_about_the_named_node_and_of_now() -> None:
    made = request(Event(recorded="ec2_spot/terminate"), "gpu-01")
    (notice,) = recording.understand(made).notices
    assert notice.identity.instance_id == "i-0feedfeedfeedfeed"
    assert notice.since == NOW
    assert b"i-0123456789abcdef0" not in made.body


def test_an_event_of_an_agent_names_the_node_everywhere() -> None:
    made = request(Event(recorded="kubernetes_event/log_xid_31_application"), "gpu-01")
    (notice,) = recording.understand(made).notices
    assert (notice.identity.node, notice.since) == ("gpu-01", NOW)
    assert made.headers["Ce-Name"].startswith("gpu-01.")
    assert made.headers["Ce-Time"] == "2026-03-03T09:30:00Z"


def test_the_same_event_at_another_time_has_another_id() -> None:
    event = Event(recorded="ec2_spot/terminate")
    later = telling.request(event, "gpu-01", Nodes(), START, NOW.replace(hour=10))  # type: ignore[arg-type]
    assert body(event, "gpu-01")["id"] == body(event, "gpu-01")["id"]
    assert body(event, "gpu-01")["id"] != msgspec.json.decode(later.body)["id"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{now}", "2026-03-03T09:30:00Z"),
        ("{Thu 10:00}", "2026-03-05T10:00:00Z"),
        ("{Thu 10:00 gmt}", "Thu, 5 Mar 2026 10:00:00 GMT"),
        ("{instance gpu-01} on {boot gpu-01}", "i-0feedfeedfeedfeed on b-1"),
        ("{provider gpu-01}", "aws:///us-east-1a/i-0feedfeedfeedfeed"),
    ],
)
def test_placeholders_are_filled(text: str, said: str) -> None:
    set_ = {"detail.instance-action": text}
    assert body(Event(recorded="ec2_spot/terminate", set=set_))["detail"]["instance-action"] == said
    assert body(Event(body={"a": [text]})) == {"a": [said]}


@pytest.mark.parametrize(
    "event",
    [
        Event(recorded="ec2_spot/terminate", set={"detail.no.such": 1}),
        Event(recorded="ec2_spot/terminate", set={"resources[7]": 1}),
        Event(body="{Someday 10:00}"),
    ],
)
def test_what_means_nothing_is_refused(event: Event) -> None:
    with pytest.raises(Untellable):
        request(event)


def test_a_change_is_told_as_apiserversource_tells_it() -> None:
    node = {"kind": "Node", "apiVersion": "v1", **NODE}
    node["metadata"] = {**NODE["metadata"], "resourceVersion": "7"}  # type: ignore[dict-item]
    event = telling.of_change(Change("update", "Node", msgspec.json.encode(node)), NOW)
    assert event.type == "dev.knative.apiserver.resource.update"
    assert event.extensions["kind"] == "Node"
    assert event.subject == "/apis/v1/namespaces//nodes/gpu-01"
    assert registry.read(event).declined == "nothing is wrong with node gpu-01"
