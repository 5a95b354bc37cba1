"""When a drain is looked at, and when it goes about it in another way.

Pure: follows from the node and the policy alone, so that looking needs no write.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from events.notice import Kind
from functions.rules import incidents, lifecycle
from functions.rules.drain_state import DrainState, State
from functions.rules.incidents import Record
from functions.rules.node_view import NodeView
from functions.rules.policy import Drain

TICK = timedelta(seconds=5)
"""How often the clock wakes drain."""
_LOOK_AT_DRAINED = timedelta(minutes=5)
_LOOK_AT_BLOCKED = (
    (timedelta(minutes=60), timedelta(minutes=5)),
    (timedelta(minutes=40), timedelta(minutes=2)),
    (timedelta(minutes=20), timedelta(minutes=1)),
    (timedelta(minutes=10), timedelta(seconds=30)),
    (timedelta(minutes=1), timedelta(seconds=15)),
)
"""From how long on nothing has changed: how often a blocked drain is looked at. No change of a pod
or a budget wakes us, so this is also how late such a change is noticed."""
_LOOK_BEFORE_LOSS = timedelta(seconds=30)
"""At least so often, whatever else, when the cloud has said when it takes the machine."""
SOON = timedelta(minutes=15)
"""A machine that is lost within this time is looked at each tick."""
_LOSSES = (Kind.MAINTENANCE, Kind.INTERRUPTION, Kind.TERMINATION)


def lost_at(view: NodeView, record: Record | None = None) -> datetime | None:
    """When the cloud takes the machine, as far as its open incidents and lifecycle hooks say so;
    ``record`` is what is to be written on the node, if that is newer."""
    record = record or incidents.read(view)
    losses = [i for i in record.open if i.kind in _LOSSES]
    deadlines = [i.deadline for i in losses]
    if losses:
        deadlines.append(lifecycle.lost_at(view.lifecycle, view.provider_id))
    return min((d for d in deadlines if d is not None), default=None)


def last_resort_at(started: datetime, lost: datetime | None, policy: Drain) -> datetime | None:
    """From when on blocked pods are deleted; None: never."""
    times = []
    if policy.deadline is not None and policy.past_deadline == "delete":
        times.append(started + policy.deadline)
    if lost is not None and policy.before_loss:
        times.append(lost - policy.before_loss)
    return min(times, default=None)


@dataclass(frozen=True)
class Looks:
    """When a node is looked at: the less happens, the less often. No deadline is overslept.

    A policy whose deadline is changed after the drain began is noticed at the next look.
    """

    state: DrainState
    lost: datetime | None

    @classmethod
    def of(cls, state: DrainState, view: NodeView) -> "Looks":
        return cls(state, lost_at(view))

    def due(self, now: datetime) -> bool:
        """Whether this tick is one in which the node is to be looked at."""
        since, every = self._since(now), self._every(now)
        if self.state.state is State.DRAINED and timedelta(0) <= since < every:
            return False  # seen empty a moment ago
        # The clock ticks a little early or late. Where it matters, twice rather than never.
        window = TICK if every < timedelta(minutes=1) else 2 * TICK
        return since < timedelta(0) or since % every < window

    def next(self, now: datetime) -> datetime:
        every = self._every(now)
        regular = now + every - max(self._since(now), timedelta(0)) % every
        deadline = self.state.deadline
        return min(regular, deadline) if deadline and deadline > now else regular

    def _since(self, now: datetime) -> timedelta:
        """For how long nothing has changed, in the world or in what we may do."""
        changed, deadline = self.state.changed, self.state.deadline
        return now - (max(changed, deadline) if deadline and deadline <= now else changed)

    def _every(self, now: datetime) -> timedelta:
        if self.state.state is State.DRAINED:
            return _LOOK_AT_DRAINED
        if self.state.state is State.DRAINING:
            return TICK
        since = self._since(now)
        every = next((often for after, often in _LOOK_AT_BLOCKED if since >= after), TICK)
        if self.lost is None or self.lost <= now:
            return every
        return min(every, TICK if self.lost - now < SOON else _LOOK_BEFORE_LOSS)
