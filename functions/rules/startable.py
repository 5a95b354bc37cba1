"""Which announced events may begin now, because all machines that they take are empty.

Azure starts a scheduled event earlier when it is told to (StartRequests), and it starts for all of
its machines at once: one that still works would be taken with the others. Pure.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#start-an-event
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from functions.rules import draining
from functions.rules.drain_state import State
from functions.rules.draining import NodeFacts


@dataclass(frozen=True)
class Announced:
    event_id: str
    machines: Sequence[str]
    """The cloud's own IDs of all that it takes."""


class Machine(NamedTuple):
    node: NodeFacts
    work: Sequence[str] = ()
    """Pods that run there now: some come after a node was drained."""


def waits_for(event: Announced, machines: Mapping[str, Sequence[Machine]]) -> list[str]:
    """What is in the way, a sentence each; nothing when it may begin. ``machines`` by the cloud's
    own ID. One that no node stands for may be full of somebody's work; an ID is a name that
    another resource group may use, too."""
    if not event.machines:
        return ["it names no machine"]
    return [why for name in event.machines if (why := _why(name, machines.get(name, ())))]


def _why(machine: str, found: Sequence[Machine]) -> str:
    if not found:
        return f"{machine} is no node of this cluster"
    if len(found) > 1:
        return f"{machine} may be any of {', '.join(sorted(f.node.view.name for f in found))}"
    ((node, work),) = found
    name = node.view.name
    if node.paused:
        return f"{name}: {node.paused}"
    if why := draining.refusal(node.view):
        return f"{name} is not out of service: {why}"
    state, _ = draining.state_of(node)
    if state is None or state.state is not State.DRAINED:
        return f"{name} is not empty"
    if work:
        return f"{name} is not empty any more: {', '.join(work[:3])}"
    return ""
