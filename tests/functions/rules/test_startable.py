"""An announced event may begin only when every machine that it takes is empty."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from events.notice import Kind, Severity
from functions.rules import drain_state, incidents
from functions.rules.drain_state import DrainState, State
from functions.rules.draining import NodeFacts
from functions.rules.incidents import Cordon, Incident, Record
from functions.rules.node_view import NodeView
from functions.rules.startable import Announced, Machine, waits_for

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
REBOOT = Announced("e1", ["vm_1", "vm_2"])


def node(name: str, of: State | None = State.DRAINED, **more: Any) -> NodeFacts:
    incident = Incident(
        source="azure.scheduled-events",
        check="Reboot",
        kind=Kind.MAINTENANCE,
        severity=Severity.EVICT,
        first=NOW,
        last=NOW,
    )
    record = Record(machine="p", cordon=Cordon(at=NOW), incidents=(incident,))
    view = NodeView(
        name=name, uid="u", provider_id="p", boot_id="b", state="evict", unschedulable=True,
        incidents=incidents.encode(record),
    )  # fmt: skip
    paused = str(more.pop("paused", ""))
    view = msgspec.structs.replace(view, **more)
    drained = of and drain_state.encode(
        DrainState(state=of, started=NOW, changed=NOW, provider_id="p", uid="u", boot="b")
    )
    return NodeFacts(view=view, annotation=drained or None, paused=paused)


def test_it_may_when_all_its_machines_are_empty() -> None:
    three = {f"vm_{n}": [Machine(node(f"n{n}"))] for n in (1, 2, 3)}
    assert waits_for(REBOOT, three) == []


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (None, "vm_2 is no node of this cluster"),
        (node("n2", State.DRAINING), "n2 is not empty"),
        (node("n2", State.BLOCKED), "n2 is not empty"),
        (node("n2", None), "n2 is not empty"),
        (node("n2", boot_id="another"), "n2 is not empty"),
        (node("n2", unschedulable=False), "n2 is not out of service: the node was uncordoned"),
        (node("n2", state="cordon"), "n2 is not out of service: nothing asks"),
        (node("n2", paused="Ann pauses"), "n2: Ann pauses"),
    ],
)
def test_it_waits_for_the_one_that_is_not(other: NodeFacts | None, why: str) -> None:
    machines = {"vm_1": [Machine(node("n1"))]} | ({"vm_2": [Machine(other)]} if other else {})
    (said,) = waits_for(REBOOT, machines)
    assert said.startswith(why)


def test_it_waits_for_what_came_to_a_machine_after_its_drain() -> None:
    machines = {"vm_1": [Machine(node("n1"))], "vm_2": [Machine(node("n2"), ["jobs/late"])]}
    assert waits_for(REBOOT, machines) == ["n2 is not empty any more: jobs/late"]


def test_a_name_that_two_machines_have_may_be_that_of_the_other_one() -> None:
    machines = {"vm_1": [Machine(node("n1"))], "vm_2": [Machine(node("n3")), Machine(node("n2"))]}
    assert waits_for(REBOOT, machines) == ["vm_2 may be any of n2, n3"]


def test_one_that_names_no_machine_never_may() -> None:
    assert waits_for(Announced("e1", []), {}) == ["it names no machine"]
