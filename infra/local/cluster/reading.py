"""get and list: selectors, pages, and the version that a watch may go on from."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from infra.local.cluster import refusals
from infra.local.cluster.call import Answer, Call
from infra.local.cluster.resources import PODS, Resource
from infra.local.cluster.routing import Target
from infra.local.cluster.selectors import (
    Fields,
    Requirement,
    field_selector,
    has_fields,
    label_selector,
)
from infra.local.cluster.store import Stored
from infra.local.cluster.tables import table, wants_table
from infra.local.cluster.world import World

PAGES_KEPT = timedelta(minutes=5)
"""How long a continue token is good for (etcd's compaction interval)."""

EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True)
class Selection:
    """What a LIST or a WATCH asks for."""

    resource: Resource
    namespace: str = ""
    labels: Sequence[Requirement] = ()
    fields: Fields = ()

    @classmethod
    def of(cls, target: Target, call: Call) -> "Selection":
        fields = field_selector(target.resource, call.query.get("fieldSelector", ""))
        if target.name:
            fields = (*fields, ("metadata.name", target.name, True))
        return cls(
            target.resource,
            target.namespace,
            label_selector(call.query.get("labelSelector", "")),
            fields,
        )

    def holds(self, stored: Stored | None) -> bool:
        return stored is not None and bool(self.of_all([stored]))

    def of_all(self, items: Sequence[Stored]) -> list[Stored]:
        found = list(items)
        if self.namespace:
            found = [stored for stored in found if stored.key[0] == self.namespace]
        for required in self.labels:
            found = [stored for stored in found if required(stored.labels)]
        if self.fields:
            found = [stored for stored in found if has_fields(stored.item, self.fields)]
        return found

    @property
    def is_narrow(self) -> bool:
        return bool(self.labels or self.fields)


def get(world: World, target: Target, call: Call) -> Answer:
    found = world.store.find(target.resource, target.namespace, target.name)
    if found is None:
        raise refusals.not_found(target.resource, target.name)
    if wants_table(call.accept):
        return table(world, target.resource, [found], str(world.store.version), call)
    return Answer(200, found.whole(target.resource))


def list_(world: World, target: Target, call: Call) -> Answer:
    selection = Selection.of(target, call)
    limit = _limit(call.query.get("limit", ""))
    version, start = world.store.version, ("", "")
    if token := call.query.get("continue", ""):
        version, start = _read_token(token)
        candidates = _page_source(world, target.resource, version, start)
    else:
        candidates = _candidates(world, selection)
    found = selection.of_all(candidates)
    if token:
        found = [stored for stored in found if stored.key >= start]
    rest: list[Stored] = []
    following = ""
    if limit and len(found) >= limit:
        found, rest = found[:limit], found[limit:]
        # The server stops at the limit without a look at whether anything behind it matches.
        if rest or (found and _anything_after(found[-1], candidates, selection.namespace)):
            _keep_pages(world, target.resource, version)
            following = _token(version, found[-1])
    if wants_table(call.accept):
        return table(world, target.resource, found, str(version), call, following)
    meta: dict[str, object] = {"resourceVersion": str(version)}
    if following:
        meta["continue"] = following
        if not selection.is_narrow:
            meta["remainingItemCount"] = len(rest)
    resource = target.resource
    head = msgspec.json.encode(
        {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta}
    )
    body = head[:-1] + b',"items":[' + b",".join([stored.body for stored in found]) + b"]}"
    return Answer(200, body)


def _candidates(world: World, selection: Selection) -> list[Stored]:
    if selection.resource is PODS:
        for field, value, equal in selection.fields:
            if field == "spec.nodeName" and equal and value:
                return world.store.pods_on(value)
    return world.store.all(selection.resource, selection.namespace)


def _anything_after(last: Stored, candidates: Sequence[Stored], namespace: str) -> bool:
    final = next(
        (one for one in reversed(candidates) if not namespace or one.key[0] == namespace), last
    )
    return final.key > last.key


def _limit(text: str) -> int:
    if text and not text.isdigit():
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text or 0)


# pages


def _token(version: int, last: Stored) -> str:
    start = "/".join(last.key) + "\0"
    document = {"v": "meta.k8s.io/v1", "rv": version, "start": start}
    return base64.urlsafe_b64encode(msgspec.json.encode(document)).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        padded = token + "=" * (-len(token) % 4)
        document = msgspec.json.decode(base64.urlsafe_b64decode(padded))
        namespace, _, name = document["start"].partition("/")
        return int(document["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise refusals.bad_request(f"continue key is not valid: {problem}") from None


def _keep_pages(world: World, resource: Resource, version: int) -> None:
    now = world.now()
    for key, (since, _) in list(world.pages.items()):
        if now - since > PAGES_KEPT:
            del world.pages[key]
    if (resource, version) not in world.pages:
        world.pages[resource, version] = now, world.store.all(resource)


def _page_source(
    world: World, resource: Resource, version: int, start: tuple[str, str]
) -> list[Stored]:
    if version < 0:
        # The token of an "inconsistent continue": the rest as it is now.
        return world.store.all(resource)
    since, items = world.pages.get((resource, version), (None, []))
    if since is None or world.now() - since > PAGES_KEPT:
        document = {"v": "meta.k8s.io/v1", "rv": -1, "start": "/".join(start)}
        again = base64.urlsafe_b64encode(msgspec.json.encode(document)).decode().rstrip("=")
        raise refusals.expired(EXPIRED, {"continue": again})
    return items
