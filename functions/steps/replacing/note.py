"""The node's own word on what replace does with its machine: the annotation `keys.REPLACEMENT`.

For people, and for `groundcrew status`; the books are what counts. It is written when it says
something new, never read back to decide.
"""

from datetime import datetime

import msgspec

from functions.gateways.kubernetes import errors, json_patch, types
from functions.gateways.kubernetes.json_patch import Operation
from functions.rules import keys
from functions.rules.replacing.book import Entry, Phase
from functions.steps.replacing.crew import Crew

VERSION = 1
_PATH = json_patch.annotation(keys.REPLACEMENT)


class Note(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    v: int = VERSION
    machine: str
    phase: str
    began: datetime | None = None
    due: datetime | None = None
    """When the seven days end."""
    tried: tuple[str, ...] = ()
    would: tuple[str, ...] = ()
    holding: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    since: datetime | None = None
    """Of the intent, while there is one."""


def of(crew: Crew, machine: str, entry: Entry | None) -> Note | None:
    if entry is None or entry.over:
        return None
    return Note(
        machine=machine,
        phase=entry.phase.value,
        began=entry.began,
        due=entry.began + crew.policy.seven_days.limit if entry.began else None,
        tried=entry.tried,
        would=entry.would,
        holding=entry.holding,
        beside=entry.beside,
        since=entry.intent.at if entry.intent else None,
    )


def read(node: types.Node) -> Note | None:
    """What stands on ``node``, if it is about the machine that it stands for now."""
    text = node.metadata.annotation(keys.REPLACEMENT)
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text, type=Note)
    except msgspec.DecodeError:
        return None
    return found if found.machine in (node.provider_id, f"uid:{node.metadata.uid}") else None


def keep(crew: Crew, node: types.Node, machine: str, entry: Entry | None) -> bool:
    """Make the annotation say what the book says; whether it had to be written. Somebody who was
    faster, or a Node that is another by now, is left to the next look."""
    wanted = of(crew, machine, entry)
    text = msgspec.json.encode(wanted).decode() if wanted else None
    if node.metadata.annotation(keys.REPLACEMENT) == text:
        return False
    try:
        crew.cluster.patch_node(node.name, [*_tests(node), *_put(node, text)])
    except (errors.TestFailed, errors.NotFound):
        return False
    return True


def announce(crew: Crew, node: types.Node, entry: Entry) -> None:
    """Say on the node what is about to be asked of its machine, if all that it stands on still
    holds: the last test before the cloud is asked. Raises `errors.TestFailed` and
    `errors.NotFound`."""
    wanted = of(crew, node.provider_id, entry)
    assert wanted is not None
    assert entry.phase in (Phase.ENDING, Phase.REBOOTING)
    stands_on = (keys.INCIDENTS, keys.DRAIN, keys.APPROVED)
    crew.cluster.patch_node(
        node.name,
        [
            *_tests(node),
            json_patch.test("/spec/providerID", node.provider_id),
            json_patch.test("/spec/unschedulable", True),
            *(
                json_patch.test(json_patch.annotation(key), node.metadata.annotation(key))
                for key in stands_on
            ),
            json_patch.test(json_patch.annotation(keys.CORDONED_BY), None),
            # All of them: its pool, the opt-out, who else acts on it, whether it is reserved.
            json_patch.test("/metadata/labels", node.metadata.labels),
            *_put(node, msgspec.json.encode(wanted).decode()),
        ],
    )


def _tests(node: types.Node) -> list[Operation]:
    return [
        json_patch.test("/metadata/uid", node.metadata.uid),
        json_patch.test(_PATH, node.metadata.annotation(keys.REPLACEMENT)),
    ]


def _put(node: types.Node, text: str | None) -> list[Operation]:
    if text is None:
        return [json_patch.remove(_PATH)]
    if node.metadata.annotations is None:
        return [*json_patch.begin(json_patch.ANNOTATIONS), json_patch.add(_PATH, text)]
    return [json_patch.add(_PATH, text)]
