"""What a function decided and why. Everything that is done, or not done, is one of these."""

import enum
from datetime import datetime

import msgspec


class Action(enum.StrEnum):
    # of cordon
    OPEN = "open"
    """An incident is recorded on the node; the node stays in service."""
    CORDON = "cordon"
    """The node takes no new work (and its incident is recorded, in the same patch)."""
    RAISE = "raise"
    """What is done about the node goes up: from cordon to evict."""
    UNCORDON = "uncordon"
    """Our cordon comes off: no open incident asks for it any more."""
    CLOSE = "close"
    """An incident is over; what else is open still holds."""
    DISMISS = "dismiss"
    """Somebody uncordoned the node: the incident is theirs now, and we keep quiet."""
    HOLD = "hold"
    """Would act, and may not: budget, circuit breaker, pause, opt-out, shadow. See blocked_by."""
    NOTHING = "nothing"
    """Understood, and there is nothing to do."""
    # of drain
    START_DRAIN = "start-drain"
    EVICT = "evict"
    WAIT = "wait"
    """Pods are still leaving, or are blocked. See blocked_by."""
    DRAINED = "drained"
    STOP_DRAIN = "stop-drain"
    # of lifecycle hooks
    HOOK = "hook-completed"
    """An Auto Scaling group was told that the instance it holds may end, or may serve."""
    # of replace
    RESET = "reset-asked"
    """Whoever resets GPUs is asked to."""
    REBOOT = "reboot-asked"
    REBOOTED = "rebooted"
    """It has another boot ID."""
    COLLECT = "collect-evidence"
    """A Job on the node is asked for what its failure left, before the machine ends."""
    TERMINATE = "terminate"
    """The cloud was asked to end the machine."""
    TERMINATED = "terminated"
    """The cloud says that it is gone."""
    REPLACED = "vm-replaced"
    """Another machine serves in its place."""
    MISSING = "no-replacement"
    """None does, and the time for it is over."""
    AT_RISK = "at-risk"
    """The seven days run out. See blocked_by."""
    WITHDRAW = "withdraw"
    """It was to end, runs, and may not any more."""
    CLOCK_STOPPED = "clock-stopped"
    GONE = "vm-gone"
    """It ended without us."""
    RETURNED = "hardware-back"
    """Hardware of a machine that we ended is back under another name."""


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One decision about one node: enough to explain it a month later."""

    function: str
    action: Action
    node: str
    reason: str
    """A sentence for people: what was seen and why this follows from it."""
    incident: str = ""
    """The incident's key (source/check/ref) when it is about one."""
    severity: str = ""
    evidence: str = ""
    blocked_by: tuple[str, ...] = ()
    """What stands in the way, named: the budget with its numbers, the PDB, the finalizer."""
    look_again: datetime | None = None
    """When this decision is worth making again, if nothing happens before."""
    pool: str = ""
    shadow: bool = False
    """Decided and told, not done."""
