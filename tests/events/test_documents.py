"""Whose a document is, and that nobody guesses it."""

import pytest

from events import documents
from events.errors import MalformedEvent
from events.notice import Identity


@pytest.mark.parametrize(
    ("headers", "machine"),
    [
        ({"Groundcrew-Node": "n1.internal"}, Identity(node="n1.internal")),
        ({"GROUNDCREW-INSTANCE-ID": "i-0123"}, Identity(instance_id="i-0123")),
        (
            {"groundcrew-provider-id": "aws:///z/i-0123", "groundcrew-node": "n1"},
            Identity(provider_id="aws:///z/i-0123", node="n1"),
        ),
    ],
)
def test_the_sender_names_the_machine_by_headers(
    headers: dict[str, str], machine: Identity
) -> None:
    event = documents.event_of("imds", headers, b"{}")
    assert documents.machine_of(event) == machine
    assert documents.needed_machine_of(event) == machine


@pytest.mark.parametrize(
    "headers", [{}, {"groundcrew-node": ""}, {"host": "n1"}, {"x-forwarded-for": "10.0.0.1"}]
)
def test_a_machine_that_is_not_named_is_not_guessed(headers: dict[str, str]) -> None:
    event = documents.event_of("imds", headers, b"{}")
    assert documents.machine_of(event) is None
    with pytest.raises(MalformedEvent, match="does not say whose it is"):
        documents.needed_machine_of(event)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("groundcrew-node", "N1"), ("groundcrew-node", "n1/../n2"), ("groundcrew-node", "x" * 300),
        ("groundcrew-instance-id", "i-0,-"), ("groundcrew-instance-id", "-"),
        ("groundcrew-instance-id", "i-0)\n"), ("groundcrew-provider-id", "i-0123"),
        ("groundcrew-provider-id", "aws:///z/i 0"),
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_one_is_refused_by_its_header(header: str, value: str) -> None:
    with pytest.raises(MalformedEvent) as caught:
        documents.event_of("imds", {header: value}, b"{}")
    assert caught.value.field == header


def test_a_sender_may_speak_for_several_machines_where_the_document_may() -> None:
    event = documents.event_of("azure", {"groundcrew-instance-id": "vm_0, vm_1,vm_0"}, b"{}")
    assert documents.machines_of(event) == ("vm_0", "vm_1")
    with pytest.raises(MalformedEvent):
        documents.machine_of(event)
    assert documents.machines_of(documents.event_of("azure", {}, b"{}")) == ()


def test_the_same_document_of_another_machine_is_another_event() -> None:
    ids = {
        documents.event_of("imds", {"groundcrew-node": node}, body).id
        for node in ("n1", "n2")
        for body in (b"{}", b"[]", b"{}")
    }
    assert len(ids) == 4
