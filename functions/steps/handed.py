"""What cordon hands to drain where both run in one process: what it has just read and written.

A lone interruption is a handful of requests, and a third of them read again what the call before
has read a moment ago. Handed over is what it knows, never what was decided: drain decides by it as
by what it reads itself. It is good for `FRESH_SECONDS`, the age that knowledge of a node may have
whenever a pod is asked to leave, and for machines that go in minutes, whose drains wait for no
other. In every other case, and in every other process, drain reads the cluster.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from functions.gateways.kubernetes import types
from functions.steps.active import Active
from functions.steps.node_check import FRESH_SECONDS

MOST = 3
"""Nodes. Of more, it depends on the others which of them is emptied first."""


@dataclass(frozen=True)
class Handed:
    in_force: Active
    """With the ledgers as they were written."""
    nodes: Mapping[str, types.Node]
    """By name, as the server answered our patch."""
    at: float
    """When the first of all this was asked for, by the monotonic clock."""

    def is_fresh(self, now: float) -> bool:
        return 0.0 <= now - self.at < FRESH_SECONDS

    def of(self, names: Collection[str]) -> Mapping[str, types.Node]:
        """Those nodes; empty where one of them is not among these."""
        if not all(name in self.nodes for name in names):
            return {}
        return {name: self.nodes[name] for name in names}
