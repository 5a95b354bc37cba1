"""A watch: what happened since a version, as one JSON line each."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from infra.local.cluster import refusals
from infra.local.cluster.call import Call
from infra.local.cluster.faults import ConnectionDropped
from infra.local.cluster.reading import Selection
from infra.local.cluster.routing import Target
from infra.local.cluster.store import Change, Stored, TooOldError
from infra.local.cluster.tables import row_event, wants_table
from infra.local.cluster.world import World

DEFAULT_TIMEOUT_SECONDS = 1800.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchStream:
    """``lines()`` gives what is new; the one who reads decides how long the watch lasts."""

    def __init__(self, world: World, target: Target, call: Call) -> None:
        self._says_when_all = call.query.get("sendInitialEvents") in ("true", "1")
        if self._says_when_all and not world.watch_list:
            raise _no_initial_events()
        self._world = world
        self._selection = Selection.of(target, call)
        self._bookmarks = call.query.get("allowWatchBookmarks") in ("true", "1")
        self.timeout_seconds = _seconds(call.query.get("timeoutSeconds", ""))
        since = call.query.get("resourceVersion", "")
        if since and not since.isdigit():
            raise refusals.Refusal(
                500,
                "",
                f'resourceVersion: Invalid value: "{since}": strconv.ParseUint: parsing '
                f'"{since}": invalid syntax',
            )
        self._version = int(since or 0)
        self._initial = self._version == 0 or self._says_when_all
        self._marked = world.store.last_change(target.resource)
        """The newest change of the resource when the last bookmark was due."""
        self.ended = False
        self.cut_after: int | None = None
        """A fault: break the connection after so many lines."""
        self._given = 0
        self._render: Callable[[Stored], bytes] = lambda stored: stored.whole(target.resource)
        if wants_table(call.accept):
            self._render = row_event(world, target.resource, call)

    def lines(self) -> list[bytes]:
        """What is new since the last call. Raises `ConnectionDropped` where a fault says so."""
        found = [] if self.ended else self._new_lines()
        if self.cut_after is not None:
            found = found[: self.cut_after - self._given]
            if self._given == self.cut_after:
                raise ConnectionDropped
            self._given += len(found)
        return found

    def _new_lines(self) -> list[bytes]:
        store, selection = self._world.store, self._selection
        if self._initial:
            self._initial = False
            self._version = store.version
            found = selection.of_all(store.all(selection.resource, selection.namespace))
            lines = [_line("ADDED", self._render(stored)) for stored in found]
            if self._says_when_all:
                end = {"annotations": {INITIAL_EVENTS_END: "true"}}
                lines.append(self._bookmark(self._version, end))
            return lines
        try:
            changes = store.changes_since(selection.resource, self._version)
        except TooOldError as problem:
            self.ended = True
            message = f"too old resource version: {self._version} ({problem.oldest})"
            return [_line("ERROR", msgspec.json.encode(refusals.expired(message).status))]
        if changes:
            self._version = changes[-1].version
        return [line for change in changes if (line := self._event(change))]

    def bookmark(self) -> list[bytes]:
        """The line due each minute and before the end, if the watch asked for bookmarks. As from
        the real server there is none unless an object of the resource, whether selected or not,
        has changed in the meantime: a client must do without."""
        resource = self._selection.resource
        newest = self._world.store.last_change(resource)
        if self.ended or not self._bookmarks or newest <= self._marked:
            return []
        self._marked = newest
        return [self._bookmark(newest, {})]

    def _bookmark(self, version: int, more: Mapping[str, Any]) -> bytes:
        resource = self._selection.resource
        item = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(version), **more},
        }
        return _line("BOOKMARK", msgspec.json.encode(item))

    def _event(self, change: Change) -> bytes:
        """To a watch with a selector, an object that stops to match is deleted, as the version
        that matched last but under the new number."""
        was, is_now = self._selection.holds(change.old), self._selection.holds(change.new)
        if is_now and change.new:
            return _line("MODIFIED" if was else "ADDED", self._render(change.new))
        if was and change.old:
            return _line("DELETED", self._render(change.last or _at(change.old, change.version)))
        return b""


def _at(stored: Stored, version: int) -> Stored:
    meta = {**stored.item["metadata"], "resourceVersion": str(version)}
    return Stored({**stored.item, "metadata": meta})


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"


def _seconds(text: str) -> float:
    if text and not text.isdigit():
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return float(text) if text else DEFAULT_TIMEOUT_SECONDS


def _no_initial_events() -> refusals.Refusal:
    problem = refusals.FieldProblem(
        "Forbidden",
        "sendInitialEvents",
        "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate "
        "is enabled",
    )
    return refusals.Refusal(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {problem.text}',
        details={"group": "meta.k8s.io", "kind": "ListOptions", "causes": [problem.cause]},
    )
