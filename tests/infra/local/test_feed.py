"""What is told of a watch, whatever becomes of it: the lists and watches here follow a script."""

import json
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.client import Cluster
from infra.local import feed
from infra.local.feed import Feed
from infra.local.world import Change


def node(name: str, version: int, uid: str = "") -> dict[str, Any]:
    meta = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"providerID": name}}


def said(kind: str, item: dict[str, Any]) -> types.WatchEvent[msgspec.Raw]:
    whole = {"apiVersion": "v1", "kind": "Node", **item}
    return types.WatchEvent(type=kind, object=msgspec.Raw(msgspec.json.encode(whole)))


class Script:
    """Answers of an API server, in their order; when there is none left, the feed ends."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.complaints: list[str] = []
        self.fails: list[OSError] = []
        self.feed = Feed(cast(Cluster, self), "Node", self.tell, self.complaints.append)

    def tell(self, change: Change) -> None:
        if self.fails:
            raise self.fails.pop()
        body = json.loads(change.body)
        self.told.append((change.verb, body["metadata"]["name"]))
        self.bodies.append(body)

    def run(self) -> None:
        self.feed.begin()
        self.feed._thread.join(10)
        assert not self.feed._thread.is_alive()

    def _next(self) -> Any:
        if not self.answers:
            self.feed._ended.set()
            return []
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pages_of_objects(self, path: str) -> Iterator[types.Page[msgspec.Raw]]:
        self.asked.append("list")
        version, items = self._next()
        for item in items or [None]:
            raw = [] if item is None else [msgspec.Raw(msgspec.json.encode(item))]
            yield types.Page(items=raw, metadata=types.ListMeta(resource_version=str(version)))

    def watch_objects(self, path: str, *, resource_version: str, timeout_seconds: float) -> Any:
        self.asked.append(resource_version)
        return _Watch(self._next())


class _Watch:
    def __init__(self, events: list[Any]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event

    def close(self) -> None: ...

    def __enter__(self) -> "_Watch":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "FIRST_PAUSE", 0.0)


def gone() -> errors.Gone:
    return errors.Gone("WATCH", errors.Status(code=410))


def test_what_stands_is_not_told_and_what_changes_is_in_its_order() -> None:
    script = Script(
        (7, [node("a", 3), node("b", 4)]),
        [
            said("MODIFIED", node("a", 8)),
            said("ADDED", node("c", 9)),
            said("DELETED", node("b", 10)),
        ],
    )
    script.run()
    assert script.told == [("update", "a"), ("add", "c"), ("delete", "b")]
    assert script.bodies[0] == {"apiVersion": "v1", "kind": "Node", **node("a", 8)}


def test_a_watch_that_ends_is_taken_up_where_it_was() -> None:
    bookmark = types.WatchEvent(
        type="BOOKMARK", object=msgspec.Raw(b'{"metadata":{"resourceVersion":"30"}}')
    )
    script = Script((7, []), [said("MODIFIED", node("a", 8))], [bookmark], [])
    script.run()
    assert script.asked == ["list", "7", "8", "30", "30"]


def test_what_was_missed_is_made_good_by_a_list() -> None:
    script = Script(
        (7, [node("a", 3), node("b", 4), node("c", 5), node("d", 6)]),
        gone(),
        (20, [node("a", 3), node("b", 12), node("d", 14, "uid-new"), node("e", 15)]),
    )
    script.run()
    assert script.told == [
        ("delete", "c"),
        ("delete", "d"),
        ("update", "b"),
        ("add", "d"),
        ("add", "e"),
    ]
    meta = {"name": "c", "uid": "uid-c"}
    assert script.bodies[0] == {"apiVersion": "v1", "kind": "Node", "metadata": meta}
    assert script.bodies[2] == {"apiVersion": "v1", "kind": "Node", **node("b", 12)}
    assert script.asked == ["list", "7", "list", "20"]


def test_after_a_list_a_change_is_told_once() -> None:
    script = Script(
        (7, [node("a", 3)]), gone(), (20, [node("a", 12)]), gone(), (21, [node("a", 12)])
    )
    script.run()
    assert script.told == [("update", "a")]


def test_a_server_that_is_away_is_asked_again_and_complained_of_once() -> None:
    away = errors.Unreachable("no answer")
    script = Script((7, []), away, away, away, [said("ADDED", node("a", 8)), away], away, [])
    script.run()
    assert script.told == [("add", "a")]
    assert script.asked == ["list", "7", "7", "7", "7", "8", "8", "8"]
    assert script.complaints == [
        "Nodes are not heard of: no answer; it is tried again",
        "Nodes are heard of again",
        "Nodes are not heard of: no answer; it is tried again",
        "Nodes are heard of again",
    ]


def test_a_cut_now_and_then_is_no_matter() -> None:
    cut = errors.Unreachable("cut")
    script = Script((7, []), *[[said("MODIFIED", node("a", 8 + n)), cut] for n in range(5)])
    script.run()
    assert len(script.told) == 5
    assert script.complaints == []


def test_what_could_not_be_written_down_comes_again() -> None:
    event = said("MODIFIED", node("a", 8))
    script = Script((7, [node("a", 3)]), [event], [event])
    script.fails.append(OSError(28, "No space left on device"))
    script.run()
    assert script.asked == ["list", "7", "7", "8"]
    assert script.told == [("update", "a")]


def test_where_even_the_first_list_is_refused_it_does_not_begin() -> None:
    script = Script(errors.Forbidden("GET /api/v1/nodes", errors.Status(code=403)))
    with pytest.raises(errors.Forbidden):
        script.feed.begin()
    script.feed.end()
