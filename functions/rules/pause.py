"""`groundcrew pause`: a stop for everything but recoveries, for a time and with a reason."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec

CLUSTER = "cluster"


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    until: Annotated[datetime, msgspec.Meta(tz=True)]
    reason: str
    by: str = ""


def key(pool: str = "") -> str:
    """The ConfigMap key of a pause: of one pool, or of the cluster."""
    return f"pool.{pool}" if pool else CLUSTER


def why(pauses: Mapping[str, Pause], pool: str, now: datetime) -> str:
    """Why nothing may be done in ``pool`` now; empty when it may."""
    for name in (CLUSTER, key(pool)):
        found = pauses.get(name)
        if found and now < found.until:
            by = f" by {found.by}" if found.by else ""
            return f"paused until {found.until:%Y-%m-%d %H:%M}Z{by}: {found.reason}"
    return ""
