"""Whether a node is still ours to empty: looked at again and again while that goes on."""

from collections.abc import Callable
from dataclasses import replace

from functions.gateways.kubernetes import errors, types
from functions.rules.draining import Ended
from functions.steps.drain_call import Call
from functions.steps.drain_target import Target, kubelet_lost

FRESH_SECONDS = 1.0
"""How old our knowledge that the node is ours may be when a pod is asked to leave."""
IDLE_SECONDS = 5.0
"""And while nothing is asked, where the drain stays until the end."""


class NodeCheck:
    def __init__(self, call: Call, target: Target, stop: Callable[[types.Node], str]) -> None:
        """``stop`` looks at the node as just read and says why it is not ours to drain any more,
        or nothing."""
        self._call = call
        self._stop = stop
        self.target = target
        """With the node's kubelet as it was seen last."""
        self.at = call.clock.monotonic() if target.seen_at is None else target.seen_at
        """When we knew last that the node is ours."""

    def idle(self) -> bool:
        """Whether it was not looked at for a while."""
        return self._age() >= IDLE_SECONDS

    def doubt(self) -> None:
        """Something has happened that should not happen on a cordoned node."""
        self.at = self._call.clock.monotonic() - FRESH_SECONDS

    def over(self) -> tuple[Ended, str] | None:
        """How the drain ends because of the node, and why; None as long as it goes on."""
        if self._age() < FRESH_SECONDS:
            return None
        try:
            node, self.at = self._call.node(self.target.node)
        except errors.NotFound:
            return Ended.NODE_GONE, "the node was deleted"
        if node.metadata.uid != self.target.uid:
            return Ended.NODE_GONE, "another node has its name"
        if why := self._stop(node):
            return Ended.STOPPED, why
        self.target = replace(self.target, kubelet_lost=kubelet_lost(node))
        return None

    def _age(self) -> float:
        return self._call.clock.monotonic() - self.at
