"""Node objects: their conditions, their GPU count and what others write on them, as Knative's
ApiServerSource sends them (``dev.knative.apiserver.resource.*``), as ``POST /from/kubernetes``
takes them, or as read.

https://kubernetes.io/docs/reference/node/node-status/; what each agent means by its conditions is
in `events/conditions.csv`, and by its labels and taints in `events/node_labels.csv`. Almost every
Node update is a heartbeat or somebody's label: it is declined after one typed decode.

A node that carries our marks is told about in full: what is good again is a recovery claim, and
one informational notice asks for another look, since a human's uncordon or a new boot ID is
visible on the Node alone. Not so where only history is left: that stays on a node for days, and
every heartbeat of every third node of a fleet would ask for a look.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from events import conditions, gpus, names, node_labels, xid
from events.cloudevent import CloudEvent
from events.conditions import Rule
from events.decoding import EARLIEST, LATEST, decode
from events.errors import MalformedEvent
from events.kubernetes_object import ADDED, DELETED, Reference, change_of, from_raw
from events.node_facts import DECODER, ConditionLike, NodeFacts, NodeLike
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity, evidence

__all__ = ["NodeFacts", "from_raw", "notices_of", "read"]

SOURCE = "kubernetes.node"
CHANGED = "node-changed"
NEW = "node-added"
GONE = "node-deleted"

INCIDENTS_ANNOTATION = "groundcrew.dev/incidents"
STATE_LABEL = "groundcrew.dev/state"
"""Our marks on a node (`functions.rules.keys`)."""
HISTORY = "released"
"""The label's value where no incident is left that could recover
(`functions.rules.cordoning.RELEASED`)."""

_REFERENCE = msgspec.json.Decoder(Reference)
_AWS_PROVIDER_ID = re.compile(r"aws://.*/(i-[0-9a-f]+)")
_RECOMMENDED_ACTION = re.compile(r"Recommended Action=(\w+)")
_NEEDS_NO_REPAIR = frozenset({"NONE", "RESTART_APP"})


def read(event: CloudEvent) -> Reading:
    """The notices in an event about a Node. Raises `MalformedEvent` and `UnknownSource`."""
    change = change_of(event)
    if change.reference:
        return _reading_of_reference(event, change.verb)
    node = decode(DECODER, event.data)
    if node.kind != "Node":
        raise MalformedEvent("kind", f"expected Node, got {node.kind!r}")
    _check_name(node.metadata.name, "metadata.name")
    if change.verb == DELETED:
        return Reading((_look(_identity(node), GONE, "the Node object is gone"),))
    may_recover = (node.metadata.labels or {}).get(STATE_LABEL) != HISTORY
    notices, unknown = notices_of(node, recoveries=may_recover), _unknown_conditions(node)
    if notices:
        return Reading(notices, skipped=unknown)
    if change.verb == ADDED:
        # Well as it looks, its machine may be one that is known to be sick, under a new Node.
        return Reading((_look(_identity(node), NEW, "the Node object is new"),), skipped=unknown)
    well = f"nothing is wrong with node {node.metadata.name}"
    return Reading(declined="; ".join((well, *unknown)))


def notices_of(node: NodeLike, *, recoveries: bool = True) -> tuple[Notice, ...]:
    """What a Node says about itself; empty when it is well and carries none of our marks. Without
    ``recoveries`` only what is wrong: as if it carried none."""
    identity = _identity(node)
    labels, annotations = node.metadata.labels or {}, node.metadata.annotations or {}
    marks = annotations.get(INCIDENTS_ANNOTATION) if recoveries else None
    marked = marks is not None or (recoveries and STATE_LABEL in labels)
    table = conditions.table()
    said = (node.status.conditions if node.status else None) or ()
    notices: list[Notice] = []
    good: list[Notice] = []
    for condition in said:
        rule = table.of_type(condition.type)
        if rule is None:
            continue
        leftover = _is_leftover(condition, rule, identity)
        if condition.status in rule.bad and not leftover:
            if fault := _fault(condition, rule, identity):
                notices.append(fault)
        elif marked and (condition.status in rule.good or leftover):
            good.append(_recovery(condition, rule, identity))
    for finding in gpus.findings(node, good=marked):
        if finding.bad:
            notices.append(finding.notice(SOURCE, Kind.FAULT, identity))
        else:
            good.append(finding.notice(SOURCE, Kind.RECOVERY, identity))
    for told in node_labels.notices(node, SOURCE, identity, marks):
        (good if told.kind is Kind.RECOVERY else notices).append(told)
    if not marked:
        return tuple(notices)
    good += _taken_away(said, marks or "", identity)
    look = _look(identity, CHANGED, "the node carries our marks and has changed")
    return (*notices, *good, look)


def _fault(condition: ConditionLike, rule: Rule, identity: Identity) -> Notice | None:
    """The notice for a bad condition; None when all it speaks of are XIDs that need nothing."""
    reason, message = condition.reason or "", condition.message or ""
    xids = xid.parse_all(reason) + xid.parse_all(message)
    serious = [x for x in xids if not x.verdict.ignored]
    if xids and not serious:
        return None
    refined = conditions.table().of_reason(condition.type, reason)
    known = [(x.verdict.severity, x.verdict.cause) for x in serious]
    if refined:
        known.append((refined.severity, refined.cause))
    if not known:
        # Nothing particular: the row of the type.
        known = [(rule.severity if _asks_for_repair(message) else Severity.WATCH, rule.cause)]
    severity, cause = max(known, key=lambda found: found[0].rank)
    return Notice(
        kind=refined.kind if refined else rule.kind,
        severity=severity,
        cause=cause,
        source=SOURCE,
        check=condition.type,
        reason=evidence(reason),
        identity=identity,
        since=_since(condition),
        latched=rule.latched,
        # A milder XID beside a reason that is no line of the log proves only itself.
        in_log=rule.in_log or any(x.verdict.severity is severity for x in serious),
        gpu=next((x.gpu for x in serious if x.gpu), ""),
        evidence=evidence(f"{condition.type}={condition.status} {reason}: {message}"),
    )


def _asks_for_repair(message: str) -> bool:
    """False for an NVSentinel condition whose every entry recommends nothing, or an application's
    restart: its GPU memory watch goes bad for an application's XID 31 (NVSentinel #911)."""
    actions = _RECOMMENDED_ACTION.findall(message)
    return not actions or any(action not in _NEEDS_NO_REPAIR for action in actions)


def _recovery(condition: ConditionLike, rule: Rule, identity: Identity) -> Notice:
    return Notice(
        kind=Kind.RECOVERY,
        severity=Severity.WATCH,
        cause=rule.cause,
        source=SOURCE,
        check=condition.type,
        reason=evidence(condition.reason or ""),
        identity=identity,
        since=_since(condition),
        latched=rule.latched,
        evidence=evidence(f"{condition.type}={condition.status}"),
    )


def _taken_away(said: Sequence[ConditionLike], marks: str, identity: Identity) -> Iterator[Notice]:
    """A recovery for each condition that our marks speak of, that the node no longer has, and
    that its agent takes away when all is well."""
    table = conditions.table()
    for name in table.absent_is_good:
        rule = table.of_type(name)
        if rule and name in marks and all(c.type != name for c in said):
            yield Notice(
                kind=Kind.RECOVERY,
                severity=Severity.WATCH,
                cause=rule.cause,
                source=SOURCE,
                check=name,
                identity=identity,
                latched=rule.latched,
                evidence=f"the condition {name} is gone",
            )


def _is_leftover(condition: ConditionLike, rule: Rule, identity: Identity) -> bool:
    """A GKE XidCriticalError of an earlier boot: its message is the boot ID it was seen in, and
    the device plugin takes it away when that is no longer the node's."""
    return (
        rule.clears == conditions.NEW_BOOT
        and bool(identity.boot_id and condition.message)
        and condition.message != identity.boot_id
    )


def _look(identity: Identity, check: str, why: str) -> Notice:
    return Notice(
        kind=Kind.INFORMATIONAL,
        severity=Severity.WATCH,
        cause=Cause.UNKNOWN,
        source=SOURCE,
        check=check,
        identity=identity,
        evidence=why,
    )


def _reading_of_reference(event: CloudEvent, verb: str) -> Reading:
    """Reference mode carries kind and name alone: enough to look, not to know which machine."""
    reference = decode(_REFERENCE, event.data)
    if reference.kind != "Node":
        raise MalformedEvent("kind", f"expected Node, got {reference.kind!r}")
    _check_name(reference.name, "name")
    check = GONE if verb == DELETED else CHANGED
    return Reading((_look(Identity(node=reference.name), check, f"a reference: {verb}"),))


def _check_name(name: str, field: str) -> None:
    if not name:
        raise MalformedEvent(field, "empty: a Node has a name")
    if not names.NODE.fullmatch(name):
        raise MalformedEvent(field, f"{name[:80]!r} cannot be the name of a Node")


def _identity(node: NodeLike) -> Identity:
    provider_id = (node.spec.provider_id if node.spec else None) or ""
    instance = _AWS_PROVIDER_ID.fullmatch(provider_id)
    info = node.status.node_info if node.status else None
    return Identity(
        provider_id=provider_id,
        instance_id=instance[1] if instance else "",
        node=node.metadata.name,
        node_uid=node.metadata.uid,
        boot_id=info.boot_id if info else "",
    )


def _since(condition: ConditionLike) -> datetime | None:
    """None also for a time far off: a machine that boots with its clock at 1970 may be sick all
    the same."""
    since = condition.last_transition_time
    return since if since and since.tzinfo and EARLIEST <= since < LATEST else None


def _unknown_conditions(node: NodeFacts) -> tuple[str, ...]:
    """What is told of conditions whose bad status nobody here knows."""
    said = (node.status.conditions if node.status else None) or ()
    table = conditions.table()
    return tuple(
        f"condition {c.type}={c.status}: whether that is bad is not known (conditions.csv)"
        for c in said
        if table.of_type(c.type) is None
    )
