"""Taking a node out of service, and giving it back, because a person said so.

Each is one JSON Patch that tests the node's UID, whether it is cordoned, and our annotations as
they were read, so that nothing is done to another node of that name, nor over somebody's head.
The cordon carries the person's claim (`rules.claim`), which cordon does not undo.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from functions.gateways.kubernetes import errors, json_patch, types
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.json_patch import Operation
from functions.rules import claim, incidents, keys
from functions.rules.claim import Claim
from functions.rules.incidents import Record
from functions.steps.drain_call import Call

_TRIES = 5
"""How often somebody else may be faster before we give up."""
_CLAIM = json_patch.annotation(keys.CORDONED_BY)
_INCIDENTS = json_patch.annotation(keys.INCIDENTS)


class Before(enum.StrEnum):
    """What was true of the node before."""

    FREE = "free"
    """It was in service: it is cordoned now, by this claim."""
    CLAIMED = "claimed"
    """A person had cordoned it with our commands."""
    INCIDENT = "incident"
    """cordon had taken it out of service: the claim is put beside it."""
    THEIRS = "theirs"
    """Somebody else had cordoned it, and it stays theirs."""


class Replaced(Exception):
    """The node was deleted, or another one has its name."""


@dataclass(frozen=True)
class Cordoned:
    node: types.Node
    before: Before
    record: Record
    """What groundcrew knows about the node."""

    @property
    def made(self) -> bool:
        """Whether the cordon is one that we have just made, and may take back."""
        return self.before is Before.FREE


def before(node: types.Node) -> Before:
    if not node.unschedulable:
        return Before.FREE
    record, said = record_of(node), node.metadata.annotation(keys.CORDONED_BY)
    if record.cordon is not None and not record.cordon.theirs:
        held = claim.on(record.cordon, said) is not None
        return Before.CLAIMED if held else Before.INCIDENT
    return Before.CLAIMED if claim.decode(said) else Before.THEIRS


def record_of(node: types.Node) -> Record:
    """Its incidents; none where the annotation cannot be read."""
    text = node.metadata.annotation(keys.INCIDENTS)
    try:
        return incidents.decode(text) if text is not None else Record()
    except incidents.Unreadable:
        return Record()


def cordon(
    call: Call, node: types.Node, by: str, *, reason: str = "", dry_run: bool = False
) -> Cordoned:
    """Cordon ``node``, which was just read, and put ``by``'s claim on it. A patch whose answer was
    lost is looked at again, and sent again if it was not carried out.

    Raises `Replaced`, and `errors.KubernetesError` when it cannot be done.
    """
    was = before(node)

    def attempt(found: types.Node) -> types.Node:
        if before(found) in (Before.CLAIMED, Before.THEIRS):
            return found
        record = record_of(found)
        over = record.cordon.at if record.cordon and found.unschedulable else None
        now = call.now().replace(microsecond=0)
        made = Claim(by=by, at=now, reason=reason, over=over)
        patch = [*_tests(found), *_put_claim(found, made)]
        if not found.unschedulable:
            patch.append(json_patch.add("/spec/unschedulable", True))
        return call.cluster.patch_node(found.name, patch, dry_run=dry_run)

    done = _persist(call, node, attempt)
    return Cordoned(done, was, record_of(done))


def uncordon(call: Call, node: types.Node, *, dry_run: bool = False) -> types.Node:
    """Give ``node`` back, whoever took it, and take the claim off. Nothing is written where it is
    in service. Raises as `cordon` does."""

    def attempt(found: types.Node) -> types.Node:
        if not found.unschedulable:
            return found
        patch = [*_tests(found), json_patch.remove("/spec/unschedulable")]
        if found.metadata.annotation(keys.CORDONED_BY) is not None:
            patch.append(json_patch.remove(_CLAIM))
        return call.cluster.patch_node(found.name, patch, dry_run=dry_run)

    return _persist(call, node, attempt)


def take_back(cluster: Cluster, cordoned: Cordoned) -> bool:
    """Undo a cordon that we have just made, if it is still as we left it."""
    node = cordoned.node
    patch = [*_tests(node), json_patch.remove("/spec/unschedulable")]
    if node.metadata.annotation(keys.CORDONED_BY) is not None:
        patch.append(json_patch.remove(_CLAIM))
    try:
        cluster.patch_node(node.name, patch)
    except (errors.TestFailed, errors.NotFound):
        return False
    return True


def _persist(
    call: Call, node: types.Node, attempt: Callable[[types.Node], types.Node]
) -> types.Node:
    found, tries = node, 0

    def again() -> types.Node:
        nonlocal found, tries
        if tries:
            found = _read(call, node)
        tries += 1
        return attempt(found)

    while True:
        try:
            return call.patiently(again)
        except (errors.TestFailed, errors.Conflict):
            if tries >= _TRIES:
                raise
        except errors.NotFound as problem:
            raise Replaced(f"node {node.name} was deleted") from problem


def _read(call: Call, node: types.Node) -> types.Node:
    found = call.cluster.get_node(node.name)
    if found.metadata.uid != node.metadata.uid:
        raise Replaced(f"another node is called {node.name} by now")
    return found


def _tests(node: types.Node) -> Sequence[Operation]:
    meta = node.metadata
    always = [
        json_patch.test("/metadata/uid", meta.uid),
        json_patch.test("/spec/unschedulable", True if node.unschedulable else None),
    ]
    if meta.annotations is None:
        return [*always, json_patch.test(json_patch.ANNOTATIONS, None)]
    return [
        *always,
        json_patch.test(_CLAIM, meta.annotation(keys.CORDONED_BY)),
        json_patch.test(_INCIDENTS, meta.annotation(keys.INCIDENTS)),
    ]


def _put_claim(node: types.Node, made: Claim) -> Sequence[Operation]:
    put = json_patch.add(_CLAIM, claim.encode(made))
    if node.metadata.annotations is not None:
        return [put]
    return [json_patch.add(json_patch.ANNOTATIONS, {}), put]
