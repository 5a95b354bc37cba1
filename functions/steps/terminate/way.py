"""What a way to end a machine is: it looks, and it asks.

One file a way. Nothing is decided there: whoever asks has seen every guard pass, and has written
down that it is about to ask.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from functions.gateways.kubernetes import types
from functions.rules.replacing import Seen

SOON = timedelta(minutes=1)
LATER = timedelta(hours=1)
"""After a refusal that a person has to do something about."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    provider_id: str
    name: str
    """Of its Node, as it was last known."""
    node: types.Node | None
    """As read just now; None: there is none with that provider ID."""
    token: str = ""
    """Of the intent, for whoever is handed the machine."""
    earlier: tuple[str, ...] = ()
    """Of those before it, by which he may have taken it."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is known of the machine by those who own it."""

    seen: Seen
    says: str = ""
    host: str = ""
    account: str = ""
    """Not empty: they have answered."""
    protected: str = ""
    """Why they would refuse to end it."""
    others: str = ""
    """Who mends or replaces it without us."""
    reserved: str = ""
    """Why its capacity may not come back."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What came of asking."""

    done: bool
    """It was taken, or was so already. False: refused."""
    says: str = ""
    again: timedelta | None = None
    """When it is worth asking again."""
    perhaps: bool = False
    """Nobody knows whether it was taken: the answer was lost, or there is none to it."""


class Way(Protocol):
    name: str

    def look(self, machine: Machine) -> Look: ...

    def terminate(self, machine: Machine) -> Asked: ...


class Reboots(Protocol):
    """Who can be asked for a reboot, too."""

    def reboot(self, machine: Machine) -> Asked: ...
