"""A person's hold on one machine: it is neither rebooted nor ended until then.

By provider ID, in a ConfigMap of its own: a Node that is deleted and made anew must not take the
word of a person with it.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec


class Hold(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    machine: str
    node: str
    until: Annotated[datetime, msgspec.Meta(tz=True)]
    reason: str
    by: str = ""


def key(machine: str) -> str:
    """The ConfigMap key of a hold on ``machine``."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", machine)[:253]


def why(holds: Mapping[str, Hold | str], machine: str, now: datetime) -> str:
    """Why ``machine`` is to be left alone; empty when nobody says so. A hold that cannot be read
    is one: somebody wanted it."""
    found = holds.get(key(machine))
    if isinstance(found, str):
        return f"a hold that cannot be read ({found}): groundcrew hold --release NODE"
    if found is None or now >= found.until:
        return ""
    by = f" by {found.by}" if found.by else ""
    return f"held until {found.until:%Y-%m-%d %H:%M}Z{by}: {found.reason}"
