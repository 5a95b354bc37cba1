"""The few calls that we make to an API server, typed, with explicit timeouts and errors.

Every method raises `errors.Unreachable` when no answer came and an `errors.ApiError` of the
answer's kind when it was a refusal. Nothing is retried here: whether to try again depends on
what is being done, and only the caller knows that.
"""

import copy
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from functions.gateways.kubernetes import errors, json_patch, types
from functions.gateways.kubernetes.transport import (
    JSON_PATCH,
    MERGE_PATCH,
    Request,
    Response,
    Transport,
)

T = TypeVar("T")
_PATH = re.compile(r"(/[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?)+")
_SAME = timedelta(seconds=3)
CONTROLLERS = {
    "ReplicaSet": ("apps", "replicasets"),
    "StatefulSet": ("apps", "statefulsets"),
    "Job": ("batch", "jobs"),
}
"""Kinds that make pods, each with its API group and resource; all are version v1."""
PAGE = 500
"""Objects a page: a few MB of a large cluster's nodes, decoded and dropped."""


class Watch(Generic[T]):
    """An open watch. Iterate it for `types.WatchEvent`; close it, or leave its ``with`` block,
    to end it. Iteration ends when the server ends the watch (its timeout), raises
    `errors.Gone` when the resourceVersion is too old, and `errors.Unreachable` when the
    connection broke."""

    def __init__(self, lines: Iterator[bytes], kind: type[T], request: str) -> None:
        self._lines = lines
        self._decode: Callable[[bytes], types.WatchEvent[T]] = msgspec.json.Decoder(
            types.WatchEvent[kind]  # type: ignore[valid-type]
        ).decode
        self._request = request

    def __iter__(self) -> Iterator[types.WatchEvent[T]]:
        for line in self._lines:
            if not line.strip():
                continue
            if line.startswith(b'{"type":"ERROR"'):
                status = msgspec.json.decode(line, type=types.WatchEvent[errors.Status]).object
                raise errors.api_error(self._request, status.code, msgspec.json.encode(status))
            yield self._decode(line)

    def close(self) -> None:
        close = getattr(self._lines, "close", None)
        if close:
            close()

    def __enter__(self) -> "Watch[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cluster:
    """One cluster's API server, through a `Transport`.

    ``requests`` counts what was sent, by verb and resource, for the budget of requests per
    event: each is a cost to an API server that thousands of nodes share. ``wrote`` says how many
    of them changed something.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._counting = threading.Lock()
        self._wrote = [0]
        self._dated: list[tuple[str, datetime]] = []
        """The last answer's Date, and when it came by our own clock."""
        self.requests: dict[str, int] = {}

    @property
    def wrote(self) -> int:
        return self._wrote[0]

    @property
    def skew(self) -> timedelta:
        """How far the server's clock is ahead of ours, by the Date of its last answer, which is in
        whole seconds: less than `_SAME` is taken for none."""
        if not self._dated:
            return timedelta(0)
        from email.utils import parsedate_to_datetime

        text, came = self._dated[0]
        try:
            ahead = parsedate_to_datetime(text) - came
        except ValueError:
            return timedelta(0)
        return ahead if abs(ahead) > _SAME else timedelta(0)

    def bounded(self, left: Callable[[], float]) -> "Cluster":
        """The same cluster and counters; no request lasts longer than ``left()`` says, and none
        is sent when that is not above 0 (`errors.Unreachable`)."""
        made = copy.copy(self)
        made._transport = _Bounded(self._transport, left)
        return made

    def fresh(self) -> "Cluster":
        """The same server over the same transport, counted anew."""
        return Cluster(self._transport)

    # nodes

    def get_node(self, name: str) -> types.Node:
        return self._get("nodes", f"/api/v1/nodes/{name}", types.Node)

    def list_nodes(self, selector: str = "") -> Iterator[types.Node]:
        """Nodes by label selector, page by page."""
        query = {"labelSelector": selector} if selector else {}
        return self._list("nodes", "/api/v1/nodes", types.Node, query)

    def patch_node(
        self, name: str, operations: Sequence[Mapping[str, Any]], *, dry_run: bool = False
    ) -> types.Node:
        """JSON Patch (RFC 6902); a failed ``test`` raises `errors.TestFailed`."""
        return self._write(
            "patch",
            "nodes",
            f"/api/v1/nodes/{name}",
            operations,
            types.Node,
            content_type=JSON_PATCH,
            dry_run=dry_run,
        )

    def delete_node(self, name: str, *, uid: str) -> None:
        """The Node of that UID, and no other that has come under its name."""
        self._delete("nodes", f"/api/v1/nodes/{name}", uid)

    # pods

    def list_pods(
        self, *, node: str = "", namespace: str = "", selector: str = ""
    ) -> types.Page[types.Pod]:
        """All pods that match, with the resourceVersion to watch from."""
        query = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
        if selector:
            query["labelSelector"] = selector
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        return self._list_all("pods", path, types.Pod, query)

    def get_pod(self, namespace: str, name: str) -> types.Pod:
        return self._get("pods", f"/api/v1/namespaces/{namespace}/pods/{name}", types.Pod)

    def pods_by_page(self, selector: str = "") -> Iterator[types.Page[types.Pod]]:
        """Those of all nodes, a page at a time; the last one says where to watch from."""
        query = {"labelSelector": selector} if selector else {}
        return self._pages("pods", "/api/v1/pods", types.Pod, query)

    def watch_pods(
        self, *, resource_version: str, timeout_seconds: float, node: str = "", selector: str = ""
    ) -> Watch[types.Pod]:
        """Changes to the pods of ``node``, or of all, after ``resource_version``; the server ends
        the watch after ``timeout_seconds`` (whole seconds, at least one)."""
        query = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
        if selector:
            query["labelSelector"] = selector
        return self._watch(
            "pods", "/api/v1/pods", types.Pod, query, resource_version, timeout_seconds
        )

    def patch_pod(
        self, namespace: str, name: str, merge: Mapping[str, Any], *, dry_run: bool = False
    ) -> types.Pod:
        """JSON Merge Patch (RFC 7386)."""
        return self._write(
            "patch",
            "pods",
            f"/api/v1/namespaces/{namespace}/pods/{name}",
            merge,
            types.Pod,
            content_type=MERGE_PATCH,
            dry_run=dry_run,
        )

    def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_seconds: int | None = None,
        dry_run: bool = False,
        timeout_seconds: float = 15.0,
    ) -> None:
        """Ask for the eviction of the pod of that UID (policy/v1 Eviction).

        429 with cause ``DisruptionBudget`` is a budget that has nothing left; 409 means that the
        name now belongs to another pod; 500 with a message about more than one
        PodDisruptionBudget will never succeed. The server itself may take 10 s to answer.
        """
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        self._exchange(
            "evict",
            "pods",
            Request(
                method="POST",
                path=path,
                body=msgspec.json.encode(body),
                timeout_seconds=timeout_seconds,
            ),
            changes=not dry_run,
        )

    def delete_pod(self, namespace: str, name: str, *, uid: str, grace_seconds: int) -> None:
        """Delete past every disruption budget: only at a deadline that the policy set."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace_seconds,
            "preconditions": {"uid": uid},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._exchange(
            "delete",
            "pods",
            Request(method="DELETE", path=path, body=msgspec.json.encode(body)),
            changes=True,
        )

    # what says how pods may be moved

    def list_pdbs(self, namespace: str = "") -> types.Page[types.PodDisruptionBudget]:
        """All of them, with the resourceVersion to watch from."""
        path = _pdbs(namespace)
        return self._list_all("poddisruptionbudgets", path, types.PodDisruptionBudget, {})

    def watch_pdbs(
        self, *, namespace: str, resource_version: str, timeout_seconds: float
    ) -> Watch[types.PodDisruptionBudget]:
        """Changes after ``resource_version``, as `watch_pods` has them."""
        return self._watch(
            "poddisruptionbudgets",
            _pdbs(namespace),
            types.PodDisruptionBudget,
            {},
            resource_version,
            timeout_seconds,
        )

    def list_daemon_sets(self) -> list[types.DaemonSet]:
        return list(self._list("daemonsets", "/apis/apps/v1/daemonsets", types.DaemonSet, {}))

    def get_controller(self, kind: str, namespace: str, name: str) -> types.Controller:
        """``kind`` is one of `CONTROLLERS`."""
        path = f"{_controllers(kind, namespace)}/{name}"
        return self._get(CONTROLLERS[kind][1], path, types.Controller)

    def list_controllers(self, kind: str, namespace: str) -> list[types.Controller]:
        path = _controllers(kind, namespace)
        return list(self._list(CONTROLLERS[kind][1], path, types.Controller, {}))

    # volumes

    def list_claims(self, namespace: str) -> list[types.PersistentVolumeClaim]:
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        return list(self._list("persistentvolumeclaims", path, types.PersistentVolumeClaim, {}))

    def get_volume(self, name: str) -> types.PersistentVolume:
        path = f"/api/v1/persistentvolumes/{name}"
        return self._get("persistentvolumes", path, types.PersistentVolume)

    def list_attachments(self) -> list[types.VolumeAttachment]:
        """All of them: the server cannot select them by node."""
        path = "/apis/storage.k8s.io/v1/volumeattachments"
        return list(self._list("volumeattachments", path, types.VolumeAttachment, {}))

    # config maps

    def get_config_map(self, namespace: str, name: str) -> types.ConfigMap:
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        return self._get("configmaps", path, types.ConfigMap)

    def list_config_maps(self, namespace: str, selector: str = "") -> list[types.ConfigMap]:
        query = {"labelSelector": selector} if selector else {}
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        return list(self._list("configmaps", path, types.ConfigMap, query))

    def create_config_map(
        self, namespace: str, name: str, data: Mapping[str, str], labels: Mapping[str, str] = {}
    ) -> types.ConfigMap:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
            "data": dict(data),
        }
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        return self._write("create", "configmaps", path, body, types.ConfigMap, method="POST")

    def replace_config_map_data(
        self,
        current: types.ConfigMap,
        data: Mapping[str, str],
        labels: Mapping[str, str] = {},
    ) -> types.ConfigMap:
        """Write ``data`` if nobody wrote since ``current`` was read (else `errors.TestFailed`),
        and put ``labels`` on, beside those that are there.

        A JSON Patch that tests UID and resourceVersion rather than a PUT, so that fields which
        we do not read (labels of a GitOps tool, ownerReferences) stay as they are.
        """
        meta = current.metadata
        operations = [
            json_patch.test("/metadata/uid", meta.uid),
            json_patch.test("/metadata/resourceVersion", meta.resource_version),
            json_patch.add("/data", dict(data)),
        ]
        if any(meta.label(key) != value for key, value in labels.items()):
            every = {**(meta.labels or {}), **labels}
            operations.append(json_patch.add(json_patch.LABELS, every))
        path = f"/api/v1/namespaces/{meta.namespace}/configmaps/{meta.name}"
        return self._write(
            "patch", "configmaps", path, operations, types.ConfigMap, content_type=JSON_PATCH
        )

    # events and access

    def list_events(self, namespace: str, kind: str, name: str) -> list[types.Event]:
        """The core/v1 Events about the object of that kind and name, in the server's order."""
        query = {"fieldSelector": f"involvedObject.kind={kind},involvedObject.name={name}"}
        path = f"/api/v1/namespaces/{namespace}/events"
        return list(self._list("events", path, types.Event, query))

    def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """``event`` is a core/v1 Event (the kind that ``kubectl describe`` shows)."""
        self._exchange(
            "create",
            "events",
            Request(
                method="POST",
                path=f"/api/v1/namespaces/{namespace}/events",
                body=msgspec.json.encode(event),
            ),
            changes=True,
        )

    def can_i(
        self,
        verb: str,
        resource: str,
        *,
        group: str = "",
        subresource: str = "",
        namespace: str = "",
        name: str = "",
    ) -> bool:
        """Ask the server whether we may (SelfSubjectAccessReview): in every namespace where none
        is named, and with every object of the kind where no name is given."""
        attributes = {
            "verb": verb,
            "resource": resource,
            "group": group,
            "subresource": subresource,
            "namespace": namespace,
            "name": name,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        response = self._exchange(
            "create",
            "selfsubjectaccessreviews",
            Request(method="POST", path=path, body=msgspec.json.encode(body)),
            changes=False,
        )
        review: dict[str, Any] = msgspec.json.decode(response.body)
        return bool(review.get("status", {}).get("allowed"))

    # whatever there is

    def count(self, resource: str) -> int:
        """How many ``nodes`` or ``pods`` there are, or were a moment ago; one is sent."""
        path = f"/api/v1/{resource}"
        request = Request(method="GET", path=path, query={"limit": "1"})
        response = self._exchange("list", resource, request, changes=False)
        page = _decode(response.body, types.Page[types.Controller], f"GET {path}")
        return len(page.items or ()) + page.metadata.remaining_item_count

    def list_objects(self, path: str, selector: str = "") -> Iterator[dict[str, Any]]:
        """Whole objects, page by page, for those who keep them: of ``/api/v1/pods``, say. They
        come without kind and apiVersion, which are the list's."""
        query = {"labelSelector": selector} if selector else {}
        return self._list(path.rpartition("/")[2], path, dict[str, Any], query)

    def pages_of_objects(self, path: str) -> Iterator[types.Page[msgspec.Raw]]:
        """As `list_objects`, undecoded; the last page says where to watch from."""
        return self._pages(path.rpartition("/")[2], path, msgspec.Raw, {})

    def watch_objects(
        self, path: str, *, resource_version: str, timeout_seconds: float
    ) -> Watch[msgspec.Raw]:
        """Changes after ``resource_version``, undecoded, as `watch_pods` has them."""
        resource = path.rpartition("/")[2]
        return self._watch(resource, path, msgspec.Raw, {}, resource_version, timeout_seconds)

    def get_object(self, path: str) -> dict[str, Any]:
        return self._get(path.rsplit("/", 2)[1], path, dict[str, Any])

    def delete_object(self, path: str, *, uid: str) -> None:
        """The object at ``path``, if it still is the one of that UID (else `errors.Conflict`)."""
        self._delete(path.rsplit("/", 2)[1], path, uid)

    # how it is done

    def _delete(self, resource: str, path: str, uid: str) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        request = Request(method="DELETE", path=path, body=msgspec.json.encode(body))
        self._exchange("delete", resource, request, changes=True)

    def _get(self, resource: str, path: str, kind: type[T]) -> T:
        response = self._exchange("get", resource, Request(method="GET", path=path), changes=False)
        return _decode(response.body, kind, f"GET {path}")

    def _pages(
        self, resource: str, path: str, kind: type[T], query: Mapping[str, str]
    ) -> Iterator[types.Page[T]]:
        token = ""
        while True:
            parameters = {**query, "limit": str(PAGE)}
            if token:
                parameters["continue"] = token
            request = Request(method="GET", path=path, query=parameters, timeout_seconds=15.0)
            response = self._exchange("list", resource, request, changes=False)
            page = _decode(response.body, types.Page[kind], f"GET {path}")  # type: ignore[valid-type]
            yield page
            token = page.metadata.continue_
            if not token:
                return

    def _list(
        self, resource: str, path: str, kind: type[T], query: Mapping[str, str]
    ) -> Iterator[T]:
        for page in self._pages(resource, path, kind, query):
            yield from page.items or ()

    def _list_all(
        self, resource: str, path: str, kind: type[T], query: Mapping[str, str]
    ) -> types.Page[T]:
        items: list[T] = []
        meta = types.ListMeta()
        for page in self._pages(resource, path, kind, query):
            items.extend(page.items or ())
            meta = page.metadata
        return types.Page(items=items, metadata=meta)

    def _watch(
        self,
        resource: str,
        path: str,
        kind: type[T],
        query: Mapping[str, str],
        resource_version: str,
        timeout_seconds: float,
    ) -> Watch[T]:
        seconds = max(1, math.ceil(timeout_seconds))
        request = Request(
            method="GET",
            path=path,
            query={
                **query,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": resource_version,
                "timeoutSeconds": str(seconds),
            },
            timeout_seconds=seconds + 5.0,
        )
        self._count("watch", resource)
        response, lines = self._transport.stream(request)
        label = f"WATCH {path}"
        if not 200 <= response.status < 300:
            raise errors.api_error(label, response.status, response.body, _retry_after(response))
        return Watch(lines, kind, label)

    def _write(
        self,
        verb: str,
        resource: str,
        path: str,
        body: Any,
        kind: type[T],
        *,
        method: str = "PATCH",
        content_type: str = "application/json",
        dry_run: bool = False,
    ) -> T:
        request = Request(
            method=method,
            path=path,
            query={"dryRun": "All"} if dry_run else {},
            body=msgspec.json.encode(body),
            content_type=content_type,
        )
        response = self._exchange(verb, resource, request, changes=not dry_run)
        return _decode(response.body, kind, f"{method} {path}")

    def _exchange(self, verb: str, resource: str, request: Request, *, changes: bool) -> Response:
        _check(request)
        self._count(verb, resource)
        response = self._transport.send(request)
        if date := response.headers.get("date"):
            self._dated[:] = [(date, datetime.now(UTC))]
        if not 200 <= response.status < 300:
            raise errors.api_error(
                f"{request.method} {request.path}",
                response.status,
                response.body,
                _retry_after(response),
            )
        if changes:
            with self._counting:
                self._wrote[0] += 1
        return response

    def _count(self, verb: str, resource: str) -> None:
        key = f"{verb} {resource}"
        with self._counting:
            self.requests[key] = self.requests.get(key, 0) + 1


class _Bounded:
    """A transport under one deadline."""

    def __init__(self, transport: Transport, left: Callable[[], float]) -> None:
        self._transport = transport
        self._left = left

    def send(self, request: Request) -> Response:
        return self._transport.send(self._cut(request))

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        return self._transport.stream(self._cut(request))

    def _cut(self, request: Request) -> Request:
        left = self._left()
        if left <= 0:
            raise errors.Unreachable(f"{request.method} {request.path}: no time left to ask")
        if left >= request.timeout_seconds:
            return request
        return msgspec.structs.replace(request, timeout_seconds=left)


def _decode(body: bytes, kind: type[T], request: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        # A proxy's error page with status 200, or an answer cut short: the server was not heard.
        raise errors.Unreachable(
            f"{request}: the answer is not what the API says: {problem}"
        ) from problem


def _check(request: Request) -> None:
    """Names in paths may come from events (a label of an alert): one that no object can have
    must not reach another path (``..``) or query. It is answered as the server would."""
    if not _PATH.fullmatch(request.path):
        status = errors.Status(404, "NotFound", "no object can have such a name")
        raise errors.NotFound(f"{request.method} {request.path!r}", status)


def _controllers(kind: str, namespace: str) -> str:
    group, resource = CONTROLLERS[kind]
    return f"/apis/{group}/v1/namespaces/{namespace}/{resource}"


def _pdbs(namespace: str) -> str:
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/policy/v1{scope}/poddisruptionbudgets"


def _retry_after(response: Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdigit() else None
