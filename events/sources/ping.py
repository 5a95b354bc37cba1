"""The tick of a clock: Knative's PingSource.

It says nothing about any node. A function that is woken by it reads the world and does what is
due, so what it needs to know is only that it was a tick.
"""

from events.cloudevent import CloudEvent
from events.notice import Reading

TYPE = "dev.knative.sources.ping"


def read(event: CloudEvent) -> Reading:
    return Reading(declined="a clock's tick: resync")
