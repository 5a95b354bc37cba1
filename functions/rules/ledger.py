"""The ledger: what must outlive a node, or counts across nodes.

One ConfigMap a pool, and one for the cluster that holds reservations alone. Whoever wants to
take nodes out of service first writes that down here by compare-and-set, and only then patches
the nodes: two instances that read the same nodes at the same time cannot both take the last
place. A reservation that was never followed by a patch runs out.

The ledger also keeps each machine's incidents: a Node that is deleted and registers again with
the same provider ID inherits them.
"""

from datetime import datetime
from typing import Any

import msgspec

from events.notice import Notice
from functions.rules import breaker

VERSION = 1
MAX_BYTES = 800_000
"""Well under the 1 MiB that an object may have (etcd's limit is 1.5 MiB)."""


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place out of service, taken before the node is patched."""

    node: str
    until: datetime
    pool: str = ""
    domains: tuple[str, ...] = ()
    """``label=value`` of each failure domain that the policy counts."""


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of one VM, whatever Node stands for it."""

    node: str
    seen: datetime
    record: str
    """The node's incidents annotation, as it was to be written: the ledger comes first, so that
    what it says may have never reached the node."""
    uid: str = ""
    """UID of the Node that it was written for."""
    leaving: bool = False
    """Our cordon was to come off by the record: until the node is next read it may be on yet."""

    @property
    def cordoned(self) -> bool:
        """Whether it may be cordoned by what this says: it was, was to be, or was to be released.
        True where the record cannot be read: who counts what is out of service must not count too
        little."""
        if self.leaving:
            return True
        try:
            return _PEEK.decode(self.record).cordon is not None
        except msgspec.DecodeError:
            return True


class _Something(msgspec.Struct):
    pass


class _Peek(msgspec.Struct):
    cordon: _Something | None = None


_PEEK = msgspec.json.Decoder(_Peek)


class Pending(msgspec.Struct, frozen=True, omit_defaults=True):
    """A notice whose node is not there: it may register yet."""

    notice: Notice
    until: datetime
    """Declined, and said so, after this."""


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    v: int = VERSION
    pool: str = ""
    rebuilt: datetime | None = None
    """When a resync last read all nodes of the pool. None: the ledger may not be acted on."""
    size: int = 0
    """Nodes of the pool at that time; in the cluster's ledger those of all pools."""
    domains: dict[str, int] = {}
    """Nodes by ``label=value`` of each failure domain that the policy counts."""
    others: dict[str, str] = {}
    """Machines out of service that are not marked by us (a human's cordon), with their node. At
    least those that were so when all nodes were last read."""
    reservations: dict[str, Reservation] = {}
    """By machine."""
    checks: dict[str, breaker.Check] = {}
    machines: dict[str, Machine] = {}
    forgot: bool = False
    """Some machines were left out, for space or because nobody has decided about them since the
    ledger was lost: those here are not all that were cordoned."""
    searched: datetime | None = None
    """Cluster's ledger only: when all nodes were last read to find a machine."""
    pending: dict[str, Pending] = {}
    """Cluster's ledger only: notices for machines that no node stands for yet, by the source's
    incident and machine."""
    policy: str = ""
    """Cluster's ledger only: fingerprint of the policy that was in force when all nodes were last
    read and there was one. Empty: the defaults have been, since none was applied."""
    extra: dict[str, Any] = {}
    """Fields of a newer version, kept as they came."""

    def check(self, name: str) -> breaker.Check:
        return self.checks.get(name, _NOTHING_SAID)

    def with_check(self, name: str, check: breaker.Check) -> "Ledger":
        if check is self.check(name):
            return self
        return msgspec.structs.replace(self, checks={**self.checks, name: check})


_NOTHING_SAID = breaker.Check()
_FIELDS = frozenset(Ledger.__struct_fields__) - {"extra"}


class Unreadable(ValueError):
    """The ledger is not one that we can read: no voluntary action until it is rebuilt."""


def decode(text: str) -> Ledger:
    try:
        raw = msgspec.json.decode(text)
        known = {k: v for k, v in raw.items() if k in _FIELDS}
        extra = {k: v for k, v in raw.items() if k not in _FIELDS}
        return msgspec.structs.replace(msgspec.convert(known, Ledger), extra=extra)
    except (msgspec.DecodeError, AttributeError) as problem:
        raise Unreadable(str(problem)) from problem


def encode(ledger: Ledger, room: int = MAX_BYTES) -> str:
    """Its text, at most ``room`` bytes: the machines seen longest ago go first."""
    text = _encode(ledger)
    while len(text) > room and ledger.machines:
        oldest = sorted(ledger.machines.items(), key=lambda item: item[1].seen)
        kept = dict(oldest[max(1, len(oldest) // 10) :])
        ledger = msgspec.structs.replace(ledger, machines=kept, forgot=True)
        text = _encode(ledger)
    return text.decode()


def _encode(ledger: Ledger) -> bytes:
    body = msgspec.to_builtins(ledger)
    body.pop("extra", None)
    return msgspec.json.encode({**ledger.extra, **body, "v": ledger.v}, order="deterministic")


def live(ledger: Ledger, now: datetime) -> dict[str, Reservation]:
    """Reservations that still hold."""
    return {m: r for m, r in ledger.reservations.items() if r.until > now}
