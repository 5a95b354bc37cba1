"""Times in what we have written on a node, read back.

A kubelet, or a person, may write anything there. One time without a zone, or so far off that
nothing can be added to it, must be an annotation that cannot be read: else the reading of the whole
fleet would end at that node, each time.
"""

from collections.abc import Iterable
from datetime import datetime

from events.decoding import EARLIEST, LATEST


def trouble(values: Iterable[object]) -> str:
    """What is wrong with the first of ``values`` that is no good time; empty when all are good.
    What is no time at all is passed over."""
    for value in values:
        if not isinstance(value, datetime):
            continue
        if value.tzinfo is None:
            return f"{value.isoformat()} has no time zone"
        if not EARLIEST <= value < LATEST:
            return f"{value.isoformat()} is far off"
    return ""
