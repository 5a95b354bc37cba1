"""What a cluster says of its Nodes, and of the Events about them, told as Knative's ApiServerSource
tells it: for recordings of clusters that have no Knative.

As there, nothing is told of what stands when it begins. A watch that ends is taken up where it
was; one that has fallen too far behind (410) is made good by a list: what differs is told, and
what is missing was deleted meanwhile. While the API server is away it is asked again, less and
less often.

Rights: `list` and `watch` on nodes, and on events in the namespace `default`, where all Events
about objects without a namespace stand.
"""

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.exchange import Watch
from infra.local.world import TOLD, Change

WATCH_SECONDS = 300.0
"""How long one watch lasts at most."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
PATIENCE = 2
"""A watch is cut now and then; so many times in a row mean something."""
_VERBS = {"ADDED": "add", "MODIFIED": "update", "DELETED": "delete"}


class Feed:
    """One kind of objects, watched in a thread of its own from `begin` to `end`."""

    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        tell: Callable[[Change], None],
        complain: Callable[[str], None],
    ) -> None:
        """``kind`` is a key of `TOLD`. ``complain`` hears a sentence when the API server goes away,
        and when it is back."""
        self.kind, self.told = kind, 0
        self._cluster, self._tell, self._complain = cluster, tell, complain
        self._path = TOLD[kind]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feed-{kind}", daemon=True)
        self._watch: Watch[msgspec.Raw] | None = None
        self._version = ""
        self._failures = 0
        self._known: dict[str, tuple[str, str]] = {}
        """By name: UID and version."""

    def begin(self) -> None:
        """Look at what stands, and watch from then on. Raises an error of
        `functions.gateways.kubernetes.errors` where even that is refused."""
        self._known, self._version, _ = self._list()
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        if watch := self._watch:
            watch.close()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._version:
                    self._make_good()
                self._follow()
                self._is_well()
            except (errors.KubernetesError, OSError) as problem:
                if isinstance(problem, errors.Gone):
                    self._version = ""
                self._failures += 1
                if self._failures == PATIENCE:
                    self._complain(f"{self.kind}s are not heard of: {problem}; it is tried again")
                self._ended.wait(min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures))

    def _is_well(self) -> None:
        if self._failures >= PATIENCE:
            self._complain(f"{self.kind}s are heard of again")
        self._failures = 0

    def _follow(self) -> None:
        watch = self._cluster.watch_objects(
            self._path, resource_version=self._version, timeout_seconds=WATCH_SECONDS
        )
        with watch:
            self._watch = watch
            if self._ended.is_set():
                return
            for event in watch:
                if verb := _VERBS.get(event.type):
                    self._note(verb, bytes(event.object))
                # Not before it is told: what could not be written down comes again.
                self._version = _meta(event.object).version or self._version
                self._is_well()
        self._watch = None

    def _note(self, verb: str, body: bytes) -> None:
        meta = _meta(body)
        if verb == "delete":
            self._known.pop(meta.name, None)
        else:
            self._known[meta.name] = (meta.uid, meta.version)
        self.told += 1
        self._tell(Change(verb, self.kind, body))

    def _make_good(self) -> None:
        """Tell what has changed since the last word that was heard."""
        before = dict(self._known)
        now, version, items = self._list(keep=True)
        for name, (uid, _) in before.items():
            if name not in now or now[name][0] != uid:
                meta = {"name": name, "uid": uid}
                gone = {"apiVersion": "v1", "kind": self.kind, "metadata": meta}
                self._note("delete", msgspec.json.encode(gone))
        for name, known in now.items():
            if before.get(name) != known:
                is_there = name in before and before[name][0] == known[0]
                self._note("update" if is_there else "add", items[name])
        self._version = version

    def _list(
        self, *, keep: bool = False
    ) -> tuple[dict[str, tuple[str, str]], str, dict[str, bytes]]:
        """By name what is there, the version of the list, and with ``keep`` the objects whose
        version is another one than the one that is known."""
        found: dict[str, tuple[str, str]] = {}
        items: dict[str, bytes] = {}
        version = ""
        for page in self._cluster.pages_of_objects(self._path):
            version = page.metadata.resource_version
            for item in page.items or ():
                meta = _meta(item)
                found[meta.name] = (meta.uid, meta.version)
                if keep and self._known.get(meta.name) != found[meta.name]:
                    items[meta.name] = self._whole(item)
        return found, version, items

    def _whole(self, item: msgspec.Raw) -> bytes:
        """In a list they have no kind."""
        fields: dict[str, Any] = msgspec.json.decode(item, type=dict[str, msgspec.Raw])
        return msgspec.json.encode({"apiVersion": "v1", "kind": self.kind, **fields})


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct):
    metadata: _Meta


_DECODER = msgspec.json.Decoder(_Object)


def _meta(item: msgspec.Raw | bytes) -> _Meta:
    return _DECODER.decode(item).metadata
