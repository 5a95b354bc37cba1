"""The few calls that we make to an API server, typed, with explicit timeouts and errors.

Every method raises `errors.Unreachable` when no answer came and an `errors.ApiError` of the
answer's kind when it was a refusal. Nothing is retried here: whether to try again depends on
what is being done, and only the caller knows that.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from functions.gateways.kubernetes import errors, json_patch, types
from functions.gateways.kubernetes.exchange import INITIAL_EVENTS_END, Exchange, Watch, decode
from functions.gateways.kubernetes.transport import JSON_PATCH, MERGE_PATCH, Request

CONTROLLERS = {
    "ReplicaSet": ("apps", "replicasets"),
    "StatefulSet": ("apps", "statefulsets"),
    "Job": ("batch", "jobs"),
}
"""Kinds that make pods, each with its API group and resource; all are version v1."""


class Cluster(Exchange):
    """One cluster's API server: what we ask of it, and nothing else."""

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

    def pods_watched(
        self, *, node: str, timeout_seconds: float
    ) -> tuple[types.Page[types.Pod], Watch[types.Pod]] | None:
        """The pods of ``node`` as they are now, and the watch that goes on from there, in one
        request instead of two. None where the server cannot do that, which it is asked once:
        KEP-3157 is on by default in 1.32 and from 1.34 on (feature gate WatchList)."""
        if "WatchList" in self._lacks:
            return None
        query = {"fieldSelector": f"spec.nodeName={node}"}
        try:
            watch = self._watch("pods", "/api/v1/pods", types.Pod, query, None, timeout_seconds)
        except errors.TestFailed:  # 422: sendInitialEvents is forbidden
            self._lacks.add("WatchList")
            return None
        found: dict[str, types.Pod] = {}
        try:
            for event in watch:
                meta = event.object.metadata
                if event.type == "DELETED":
                    found.pop(meta.uid, None)
                elif event.type != "BOOKMARK":
                    found[meta.uid] = event.object
                elif meta.annotation(INITIAL_EVENTS_END) == "true":
                    listed = types.ListMeta(resource_version=meta.resource_version)
                    return types.Page(items=list(found.values()), metadata=listed), watch
            raise errors.Unreachable("WATCH /api/v1/pods: it ended before all was told")
        except BaseException:
            watch.close()
            raise

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
        page = decode(response.body, types.Page[types.Controller], f"GET {path}")
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

    def create_object(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make ``body`` in the collection at ``path``. Raises `errors.Conflict` where there is one
        of that name."""
        resource = path.rpartition("/")[2]
        return self._write("create", resource, path, body, dict[str, Any], method="POST")

    def delete_object(self, path: str, *, uid: str, resource_version: str = "") -> None:
        """The object at ``path``, if it still is the one of that UID, and as it was read with
        ``resource_version`` (else `errors.Conflict`)."""
        self._delete(path.rsplit("/", 2)[1], path, uid, resource_version)


def _controllers(kind: str, namespace: str) -> str:
    group, resource = CONTROLLERS[kind]
    return f"/apis/{group}/v1/namespaces/{namespace}/{resource}"


def _pdbs(namespace: str) -> str:
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/policy/v1{scope}/poddisruptionbudgets"
