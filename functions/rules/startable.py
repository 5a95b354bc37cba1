"""Which announced events may begin now, because all machines that they take are empty.

Azure starts a scheduled event earlier when it is told to (StartRequests), and it starts for all of
its machines at once: one that still works would be taken with the others. Pure.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#start-an-event
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from functions.rules import draining
from functions.rules.drain_state import State
from functions.rules.draining import NodeFacts


@dataclass(frozen=True)
class Announced:
    event_id: str
    machines: Sequence[str]
    """The cloud's own IDs of all that it takes."""


def waits_for(event: Announced, nodes: Mapping[str, NodeFacts]) -> list[str]:
    """What is in the way, a sentence each; nothing when it may begin. ``nodes`` by the cloud's own
    ID of their machine. A machine that no node stands for may be full of somebody's work."""
    if not event.machines:
        return ["it names no machine"]
    return [why for machine in event.machines if (why := _why(machine, nodes.get(machine)))]


def _why(machine: str, node: NodeFacts | None) -> str:
    if node is None:
        return f"{machine} is no node of this cluster"
    name = node.view.name
    if node.paused:
        return f"{name}: {node.paused}"
    if why := draining.refusal(node.view):
        return f"{name} is not out of service: {why}"
    state, _ = draining.state_of(node)
    if state is None or state.state is not State.DRAINED:
        return f"{name} is not empty"
    return ""
