"""What an event says about one node, whoever says it and in whatever words.

A source turns an event into a `Reading`: the notices in it, or the reason why there are none.
Nothing here decides anything. The severity is the source's default, which the policy may
replace; the identity is whatever the event carried, never a guess.
"""

import enum
from datetime import datetime

import msgspec


class Kind(enum.StrEnum):
    FAULT = "fault"
    """Something on the node is broken, or is said to be."""
    MAINTENANCE = "maintenance"
    """The provider will touch the machine at a known time; nothing is broken yet."""
    INTERRUPTION = "interruption"
    """The machine goes away soon, whatever we do (spot)."""
    TERMINATION = "termination"
    """The machine is going away now, or is gone."""
    RECOVERY = "recovery"
    """A source no longer says what it said. A claim, not a proof."""
    INFORMATIONAL = "informational"
    """Worth looking at the node again, and nothing by itself."""


class Severity(enum.StrEnum):
    """How much is done about it. Ordered: watch < cordon < evict."""

    WATCH = "watch"
    """Recorded and told; the node stays in service."""
    CORDON = "cordon"
    """No new work; what runs may finish."""
    EVICT = "evict"
    """No new work, and what runs is moved away."""

    @property
    def rank(self) -> int:
        return _RANK[self]

    # str would compare by the alphabet, in which a cordon is less than a watch.
    def __lt__(self, other: str) -> bool:
        return self.rank < Severity(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Severity(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Severity(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Severity(other).rank


_RANK = {Severity.WATCH: 0, Severity.CORDON: 1, Severity.EVICT: 2}


class Cause(enum.StrEnum):
    HARDWARE = "hardware"
    SOFTWARE = "software"
    PROVIDER = "provider"
    UNKNOWN = "unknown"


class Identity(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which machine is meant: whatever the event carried. Empty means that it did not say."""

    provider_id: str = ""
    """``spec.providerID`` as the cloud provider writes it, e.g. ``aws:///us-east-1a/i-0123...``."""
    instance_id: str = ""
    """The cloud's own ID of the VM, e.g. ``i-0123456789abcdef0``."""
    node: str = ""
    """Name of the Node object. Names are reused: never enough to act on."""
    node_uid: str = ""
    boot_id: str = ""
    """``status.nodeInfo.bootID`` at the time of the event."""
    account: str = ""
    """Cloud account that owns the machine."""
    capacity_reservation: str = ""
    """Every machine that runs in this reservation (``cr-0123...``), where no machine is named."""
    region: str = ""
    """Region in which the machine is, not the one in which the event was delivered."""

    @property
    def names(self) -> frozenset[str]:
        """Whatever the machine is called here."""
        called = (self.provider_id, self.instance_id, self.node, self.capacity_reservation)
        return frozenset(filter(None, called))


class Notice(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one event says about one machine."""

    kind: Kind
    severity: Severity
    cause: Cause
    source: str
    """Who says it: ``aws.health``, ``aws.ec2``, ``kubernetes.node``, ``kubernetes.event``,
    ``alertmanager``. With ``check`` and ``ref`` it names an incident."""
    check: str
    """What was found, in the source's own words: a condition type, an event type code, an alert
    name, ``xid-79``. Stable while the fault lasts."""
    reason: str = ""
    """A finer word that may change while the fault lasts (the reason of a condition)."""
    ref: str = ""
    """Tells apart two incidents of one check: an AWS Health event ARN, an alert's fingerprint."""
    dedup: str = ""
    """The source's own key of this message: the same key twice is the same message twice."""
    identity: Identity
    since: datetime | None = None
    """When it began, in the source's words. None when it does not say."""
    deadline: datetime | None = None
    """When the node must be empty: the start of a maintenance window, the end of a spot VM."""
    latched: bool = False
    """The source cannot clear by itself, or clears without a test: its recovery proves nothing."""
    unconfirmed: bool = False
    """Said by a sender who is not known (`functions.edge.sender`): it empties no node, and takes
    nothing back for which one is emptied."""
    in_log: bool = False
    """Seen in the kernel log (an XID line), not inferred from a metric."""
    gpu: str = ""
    """The GPU meant, as a PCI address (``0000:0f:00``) or a UUID."""
    job: str = ""
    """Whose work ran there (``namespace/pod``), where the event says so."""
    evidence: str = ""
    """What was said, cut to 200 bytes: for people."""


class Reading(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one event is understood: notices, or why there are none."""

    notices: tuple[Notice, ...] = ()
    declined: str = ""
    """Why the event needs nothing. Empty when there are notices."""
    skipped: tuple[str, ...] = ()
    """Parts of the event that are no notice, each with the reason: an alert that names no node,
    an entity that is no instance."""


EVIDENCE_BYTES = 200


def evidence(text: str) -> str:
    """``text`` on one line, cut to `EVIDENCE_BYTES` of UTF-8 without splitting a character."""
    line = " ".join(text.split())
    raw = line.encode()
    if len(raw) <= EVIDENCE_BYTES:
        return line
    return raw[: EVIDENCE_BYTES - 3].decode(errors="ignore") + "..."
