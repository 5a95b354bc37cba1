"""What is asked of a Kubernetes API server to learn its exact answers, case by case.

A case is a list of steps, plain data so that it stands beside the answers in the recording.
``{ns}`` and ``{node}`` are the case's own namespace and node name; ``$(name.path.to.field)``
is a field of the answer that was saved under that name. Pods that must not be touched by any
kubelet are bound to a node that does not exist, and get their status from the case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Step = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

NOWHERE = "a-node-that-does-not-exist"


def step(
    method: str,
    path: str,
    body: Any = None,
    *,
    query: Mapping[str, str] | None = None,
    content_type: str = "application/json",
    raw: str | None = None,
    save: str = "",
    until: Mapping[str, Any] | None = None,
    ignore: Sequence[str] = (),
) -> Step:
    """``until``: ask again until these fields (dotted; ``status`` alone is the HTTP status) have
    these values. ``raw``: a body as it is. ``ignore``: fields of the answer not compared."""
    made: Step = {"method": method, "path": path}
    if query:
        made["query"] = dict(query)
    if body is not None:
        made["body"] = body
    if raw is not None:
        made["raw"] = raw
    if content_type != "application/json":
        made["content_type"] = content_type
    if save:
        made["save"] = save
    if until:
        made["until"] = dict(until)
    if ignore:
        made["ignore"] = list(ignore)
    return made


def get(path: str, **rest: Any) -> Step:
    return step("GET", path, **rest)


def post(path: str, body: Any = None, **rest: Any) -> Step:
    return step("POST", path, body, **rest)


def put(path: str, body: Any, **rest: Any) -> Step:
    return step("PUT", path, body, **rest)


def delete(path: str, body: Any = None, **rest: Any) -> Step:
    return step("DELETE", path, body, **rest)


def json_patch(path: str, *operations: Any, **rest: Any) -> Step:
    return step("PATCH", path, list(operations), content_type=JSON_PATCH, **rest)


def merge(path: str, body: Any, **rest: Any) -> Step:
    return step("PATCH", path, body, content_type=MERGE, **rest)


def strategic(path: str, body: Any, **rest: Any) -> Step:
    return step("PATCH", path, body, content_type=STRATEGIC, **rest)


def op(kind: str, path: str, value: Any = ..., **rest: Any) -> dict[str, Any]:
    made = {"op": kind, "path": path, **rest}
    if value is not ...:
        made["value"] = value
    return made


CMS = "/api/v1/namespaces/{ns}/configmaps"
PODS = "/api/v1/namespaces/{ns}/pods"
PDBS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
APPS = "/apis/apps/v1/namespaces/{ns}"
NODES = "/api/v1/nodes"
NODE = "/api/v1/nodes/{node}"


def config_map(name: str, data: Any = None, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **meta},
        "data": data or {"a": "1"},
    }


def pod(name: str, *, node: str = NOWHERE, grace: int = 30, **meta: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": grace,
        "containers": [{"name": "main", "image": "registry.example/work:1"}],
    }
    if node:
        spec["nodeName"] = node
    meta.setdefault("labels", {"app": "web"})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def has_status(name: str, phase: str = "Running", ready: bool = True) -> Step:
    """Writes a pod's status, as its kubelet would."""
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    body = {"status": {"phase": phase, "conditions": [condition]}}
    return merge(f"{PODS}/{name}/status", body)


def running(*names: str, ready: bool = True, **rest: Any) -> list[Step]:
    steps = []
    for name in names:
        steps += [post(PODS, pod(name, **rest)), has_status(name, ready=ready)]
    return steps


def pdb(name: str = "web", selector: Any = ..., **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = dict(spec)
    chosen = {"matchLabels": {"app": "web"}} if selector is ... else selector
    if chosen is not None:
        body["selector"] = chosen
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": body,
    }


def budget_counted(name: str = "web", **fields: Any) -> Step:
    until = {f"body.status.{field}": value for field, value in fields.items()}
    until["body.status.observedGeneration"] = 1
    return get(f"{PDBS}/{name}", until=until)


def eviction(pod_name: str, *, meta: Any = None, **options: Any) -> Step:
    body: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod_name, "namespace": "{ns}", **(meta or {})},
    }
    if options:
        body["deleteOptions"] = options
    return post(f"{PODS}/{pod_name}/eviction", body)


def node(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{node}"}, "spec": spec}


def node_is_up() -> Step:
    """kwok's kubelet has said that it is ready, and the taint of new nodes is off."""
    return get(NODE, until={"body.status.conditions.type=Ready.status": "True",
                            "body.spec.taints": None}, ignore=["status"])  # fmt: skip


def options(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "DeleteOptions", **fields}


def template(labels: Mapping[str, str], grace: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {
            "terminationGracePeriodSeconds": grace,
            "nodeSelector": {"kubernetes.io/hostname": "{node}"},
            "containers": [{"name": "main", "image": "registry.example/work:1"}],
        },
    }


def workload(kind: str, name: str = "web", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    if kind != "Job":
        spec = {"selector": {"matchLabels": labels}, **spec}
    body = {"template": template(labels), **spec}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": body,
    }


def labelled_node() -> Step:
    made = node()
    made["metadata"]["labels"] = {"kubernetes.io/hostname": "{node}"}
    return post(NODES, made, ignore=["spec", "status"])


CASES: dict[str, list[Step]] = {
    "unknown-paths": [
        get("/api/v1/foos"),
        get("/apis/nope.example/v1/things"),
        get("/api/v1/namespaces/default/nodes"),
        get("/api/v1/nodes/none"),
        get("/api/v1/namespaces/default/pods/none"),
        get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/none"),
        get("/apis/apps/v1/namespaces/default/daemonsets/none"),
        post("/api/v1/nodes/none", node()),
        put(NODES, node()),
        json_patch(NODES, op("add", "/spec/unschedulable", True)),
        post("/api/v1/pods", pod("p")),
        get(f"{PODS}/none/eviction"),
        merge("/api/v1/nodes/none", {}),
        delete("/api/v1/nodes/none"),
        put("/api/v1/nodes/{node}", node()),
    ],
    "create": [
        post(CMS, config_map("a", labels={"x": "y"})),
        post(CMS, config_map("a")),
        post(CMS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        post(CMS, config_map("Not_A_Name")),
        post(CMS, config_map("b", resourceVersion="7")),
        post(CMS, config_map("b", namespace="elsewhere")),
        post(CMS, config_map("b", labels={"x": "not valid!"})),
        post(CMS, config_map("b", labels={"not valid!": "x"})),
        post("/api/v1/namespaces/no-such-namespace/configmaps", config_map("b")),
        post(CMS, pod("p")),
        post(CMS, {"metadata": {"name": "without-kind"}, "data": {"a": "1"}}),
        post(CMS, raw='{"kind": "ConfigMap",'),
        post(CMS, raw="[]"),
        post(CMS, raw=""),
        post(CMS, raw="a: 1", content_type="application/x-thing"),
        post(CMS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}),
        post(CMS, config_map("numbers", {"a": 1})),
        post(CMS, config_map("given", uid="mine", generation=7)),
        post(CMS, config_map("large", {"a": "x" * 1_100_000}, annotations={})),
        post(CMS, config_map("noted", annotations={"big": "x" * 300_000})),
    ],
    "replace": [
        post(CMS, config_map("a"), save="a"),
        put(f"{CMS}/a", config_map("a", {"b": "2"},
                                   resourceVersion="$(a.metadata.resourceVersion)")),
        put(f"{CMS}/a", config_map("a", {"b": "3"},
                                   resourceVersion="$(a.metadata.resourceVersion)")),
        put(f"{CMS}/a", config_map("a", {"b": "4"})),
        put(f"{CMS}/a", config_map("a", {"b": "4"})),
        put(f"{CMS}/a", config_map("a", {"b": "5"}, uid="$(a.metadata.uid)")),
        put(f"{CMS}/a", config_map("a", {"b": "5"}, uid="another")),
        put(f"{CMS}/a", config_map("b")),
        put(f"{CMS}/a", config_map("a", namespace="elsewhere")),
        put(f"{CMS}/none", config_map("none")),
        get(f"{CMS}/a"),
        post(PDBS, pdb(minAvailable=1), save="pdb", ignore=["status"]),
        put(f"{PDBS}/web", pdb(minAvailable=2), ignore=["status"]),
    ],
    "json-patch": [
        post(CMS, config_map("a", annotations={"kept": "1"}), save="a"),
        json_patch(f"{CMS}/a", op("test", "/metadata/annotations/mine", None),
                   op("add", "/metadata/annotations/mine", "x")),
        json_patch(f"{CMS}/a", op("test", "/metadata/annotations/mine", None),
                   op("add", "/metadata/annotations/mine", "y")),
        json_patch(f"{CMS}/a", op("test", "/metadata/annotations/mine", "x"),
                   op("replace", "/metadata/annotations/mine", "z")),
        json_patch(f"{CMS}/a", op("test", "/metadata/uid", "$(a.metadata.uid)"),
                   op("add", "/data/b", "2")),
        json_patch(f"{CMS}/a", op("test", "/metadata/uid", "another"), op("add", "/data/b", "3")),
        json_patch(f"{CMS}/a", op("test", "/metadata/resourceVersion",
                                  "$(a.metadata.resourceVersion)"), op("add", "/data/b", "3")),
        get(f"{CMS}/a", save="now"),
        json_patch(f"{CMS}/a", op("test", "/metadata/resourceVersion",
                                  "$(now.metadata.resourceVersion)"), op("add", "/data/b", "4")),
        json_patch(f"{CMS}/a", op("add", "/data/b", "4")),
        json_patch(f"{CMS}/a", op("remove", "/data/none")),
        json_patch(f"{CMS}/a", op("replace", "/data/none", "x")),
        json_patch(f"{CMS}/a", op("add", "/metadata/labels/x", "y")),
        json_patch(f"{CMS}/a", op("test", "/metadata/labels", None),
                   op("add", "/metadata/labels", {"x": "y"})),
        json_patch(f"{CMS}/a", op("test", "/metadata/labels/none/deeper", None)),
        json_patch(f"{CMS}/a", op("move", "/data/c", **{"from": "/data/b"})),
        json_patch(f"{CMS}/a", op("copy", "/data/d", **{"from": "/data/c"})),
        json_patch(f"{CMS}/a", op("copy", "/data/e", **{"from": "/data/none"})),
        json_patch(f"{CMS}/a", op("test", "/data", {"a": "1", "c": "4", "d": "4"})),
        json_patch(f"{CMS}/a", op("frobnicate", "/data/e", "x")),
        json_patch(f"{CMS}/a", op("add", "/data/e")),
        json_patch(f"{CMS}/a", op("add", "data/e", "x")),
        step("PATCH", f"{CMS}/a", {"op": "add"}, content_type=JSON_PATCH),
        step("PATCH", f"{CMS}/a", raw="[{", content_type=JSON_PATCH),
        json_patch(f"{CMS}/a"),
        json_patch(f"{CMS}/none", op("add", "/data/b", "4")),
        json_patch(f"{CMS}/a", op("add", "/data/number", 4)),
        json_patch(f"{CMS}/a", op("replace", "/metadata/name", "b")),
        json_patch(f"{CMS}/a", op("replace", "/metadata/uid", "another")),
        json_patch(f"{CMS}/a", op("replace", "/metadata/resourceVersion", "1")),
        json_patch(f"{CMS}/a", op("remove", "/metadata/annotations"),
                   op("test", "/metadata/annotations/mine", None)),
    ],
    "merge-patch": [
        post(CMS, config_map("a", labels={"x": "1", "y": "2"}), save="a"),
        merge(f"{CMS}/a", {"metadata": {"labels": {"x": None, "z": "3"}}, "data": {"b": "2"}}),
        merge(f"{CMS}/a", {"metadata": {"labels": {"z": "3"}}}),
        merge(f"{CMS}/a", {"metadata": {"resourceVersion": "$(a.metadata.resourceVersion)"},
                           "data": {"b": "3"}}),
        merge(f"{CMS}/a", {"metadata": {"uid": "another"}, "data": {"b": "3"}}),
        merge(f"{CMS}/a", {"metadata": {"annotations": {"n": 1}}}),
        merge(f"{CMS}/a", {"metadata": {"labels": None}}),
        merge(f"{CMS}/a", {"data": None}),
        merge(f"{CMS}/a", {}),
        step("PATCH", f"{CMS}/a", raw="{", content_type=MERGE),
        step("PATCH", f"{CMS}/a", raw="[]", content_type=MERGE),
        step("PATCH", f"{CMS}/a", {"data": {"b": "2"}}),
        step("PATCH", f"{CMS}/a", {"data": {"b": "2"}}, content_type="application/thing"),
    ],
    "strategic-patch": [
        post(NODES, node(taints=[{"key": "a", "effect": "NoSchedule"}]), ignore=["spec", "status"]),
        get(NODE, until={"body.spec.taints": [{"key": "a", "effect": "NoSchedule"}]},
            ignore=["status"]),
        strategic(NODE, {"spec": {"taints": [{"key": "b", "value": "1", "effect": "NoSchedule"}]}},
                  ignore=["status"]),
        strategic(f"{NODE}/status", {"status": {"conditions": [
            {"type": "TestDisk", "status": "True", "reason": "R"}]}}),
        strategic(f"{NODE}/status", {"status": {"conditions": [
            {"type": "TestGpu", "status": "True", "reason": "X"}]}}),
        strategic(f"{NODE}/status", {"status": {"conditions": [
            {"type": "TestDisk", "status": "False"}]}}),
        strategic(f"{NODE}/status", {"status": {"conditions": [
            {"type": "TestDisk", "$patch": "delete"}]}}),
        strategic(f"{NODE}/status", {"spec": {"unschedulable": True},
                                     "metadata": {"labels": {"by": "status"}}}),
        strategic(NODE, {"status": {"conditions": [{"type": "TestGpu", "status": "False"}]}}),
        merge(f"{NODE}/status", {"status": {"conditions": [
            {"type": "TestGpu", "status": "False"}]}}, ignore=["spec"]),
        strategic(NODE, {"spec": {"taints": None}}),
        strategic(NODE, {"metadata": {"labels": {"$patch": "replace", "only": "this"}}},
                  ignore=["status"]),
        strategic(NODE, {"metadata": {"finalizers": ["test.example/a"]}}, ignore=["status"]),
        strategic(NODE, {"metadata": {"finalizers": ["test.example/b"]}}, ignore=["status"]),
        strategic(NODE, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["test.example/a"]}},
                  ignore=["status"]),
        strategic(NODE, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["test.example/b"]}},
                  ignore=["status"]),
        strategic(f"{NODE}/status", {"status": {"conditions": [{"status": "True"}]}}),
        strategic(NODE, {"spec": {"unschedulable": "yes"}}),
        step("PATCH", NODE, raw="{", content_type=STRATEGIC),
        post(PODS, pod("p")),
        strategic(f"{PODS}/p", {"spec": {"containers": [
            {"name": "main", "image": "registry.example/work:2"}]}}),
        strategic(f"{PODS}/p", {"spec": {"containers": [{"name": "extra", "image": "i"}]}}),
    ],
    "node-writes": [
        post(NODES, node(providerID="test://1"), ignore=["status"]),
        node_is_up(),
        json_patch(NODE, op("test", "/spec/unschedulable", None),
                   op("add", "/spec/unschedulable", True), ignore=["status"]),
        get(NODE, until={"body.spec.taints.0.key": "node.kubernetes.io/unschedulable"},
            ignore=["status"]),
        json_patch(NODE, op("test", "/spec/unschedulable", None),
                   op("add", "/spec/unschedulable", True)),
        json_patch(NODE, op("test", "/spec/unschedulable", True),
                   op("remove", "/spec/unschedulable"), ignore=["status"]),
        get(NODE, until={"body.spec.taints": None}, ignore=["status"]),
        json_patch(NODE, op("test", "/spec/taints", None), op("add", "/spec/taints", [
            {"key": "team", "value": "a", "effect": "NoSchedule"}]), ignore=["status"]),
        json_patch(NODE, op("test", "/spec/taints", [
            {"key": "team", "value": "b", "effect": "NoSchedule"}]), op("remove", "/spec/taints")),
        json_patch(NODE, op("test", "/spec/taints", [
            {"key": "team", "value": "a", "effect": "NoSchedule"}]),
            op("remove", "/spec/taints"), ignore=["status"]),
        merge(NODE, {"spec": {"unschedulable": False}}, ignore=["status"]),
        merge(NODE, {"spec": {"taints": [{"key": "a", "effect": "Never"}]}}),
        merge(NODE, {"spec": {"taints": [{"key": "a"}]}}),
        merge(NODE, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"},
                                         {"key": "a", "effect": "NoSchedule", "value": "b"}]}}),
        merge(NODE, {"spec": {"providerID": "test://2"}}),
        merge(NODE, {"spec": {"providerID": None}}),
        merge(NODE, {"spec": {"unschedulable": "yes"}}),
        merge(NODE, {"metadata": {"annotations": {"big": "x" * 300_000}}}),
        merge(NODE, {"metadata": {"labels": {"x": "not valid!"}}}),
        merge(NODE, {"metadata": {"annotations": {"groundcrew.dev/note": "{\"a\": 1}"}}},
              ignore=["status"]),
        delete(NODE, options(preconditions={"uid": "another"})),
        delete(NODE),
        get(NODE),
    ],
    "dry-run": [
        post(CMS, config_map("a"), query={"dryRun": "All"}),
        get(f"{CMS}/a"),
        post(CMS, config_map("a"), save="a"),
        put(f"{CMS}/a", config_map("a", {"b": "2"}), query={"dryRun": "All"}),
        merge(f"{CMS}/a", {"data": {"c": "3"}}, query={"dryRun": "All"}),
        json_patch(f"{CMS}/a", op("test", "/data/a", "2"), query={"dryRun": "All"}),
        delete(f"{CMS}/a", query={"dryRun": "All"}),
        delete(f"{CMS}/a", options(dryRun=["All"])),
        post(CMS, config_map("b"), query={"dryRun": "Some"}),
        get(f"{CMS}/a"),
    ],
    "selectors": [
        *(
            post(CMS, config_map(name, labels={"case": "s", **labels}))
            for name, labels in {
                "a": {"tier": "web", "n": "1"}, "b": {"tier": "db"},
                "c": {"tier": "web", "n": "7", "x": ""}, "d": {},
            }.items()
        ),
        *(
            get(CMS, query={"labelSelector": f"case=s,{selector}"})
            for selector in (
                "tier=web", "tier==web", "tier!=web", "tier in (web,db)", "tier in (web)",
                "tier notin (web)", "tier", "!tier", "x=", "tier in ( web , db ),n=7", "n>3",
                "n<3", "tier=none", "tier=web,n!=1", " tier = web ",
            )
        ),
        get(CMS, query={"labelSelector": "tier=a b"}, ignore=["message"]),
        get(CMS, query={"labelSelector": "tier in web"}, ignore=["message"]),
        get(CMS, query={"labelSelector": "=web"}, ignore=["message"]),
        get(CMS, query={"fieldSelector": "metadata.name=b"}),
        get(CMS, query={"fieldSelector": "metadata.name!=b", "labelSelector": "case=s"}),
        get(CMS, query={"fieldSelector": "metadata.namespace={ns}", "labelSelector": "case=s"}),
        get(CMS, query={"fieldSelector": "data.a=1"}),
        get(CMS, query={"fieldSelector": "nonsense"}),
        *running("p1", "p2"),
        post(PODS, pod("p3", node="another-node-that-does-not-exist")),
        get("/api/v1/pods", query={
            "fieldSelector": f"spec.nodeName={NOWHERE},metadata.namespace={{ns}}"}),
        get(PODS, query={"fieldSelector": "status.phase=Running"}),
        get(PODS, query={"fieldSelector": "status.phase!=Running,spec.nodeName!=x"}),
        get(PODS, query={"fieldSelector": "spec.volumes=x"}),
        get(NODES, query={"fieldSelector": "spec.providerID=x"}),
        get(NODES, query={"fieldSelector": "spec.unschedulable=false,metadata.name=none"}),
        get("/api/v1/namespaces/no-such-namespace/pods"),
    ],
    "pages": [
        *(post(CMS, config_map(f"c{i}", labels={"case": "p"})) for i in range(5)),
        post(CMS, config_map("z-behind-all-that-match")),
        get(CMS, query={"limit": "2", "labelSelector": "case=p"}, save="first"),
        post(CMS, config_map("c2a", labels={"case": "p"})),
        delete(f"{CMS}/c3"),
        get(CMS, query={"limit": "2", "labelSelector": "case=p",
                        "continue": "$(first.metadata.continue)"}, save="second"),
        get(CMS, query={"limit": "2", "labelSelector": "case=p",
                        "continue": "$(second.metadata.continue)"}),
        get(CMS, query={"limit": "5", "labelSelector": "case=p"}, save="full"),
        get(CMS, query={"limit": "5", "labelSelector": "case=p",
                        "continue": "$(full.metadata.continue)"}),
        get(CMS, query={"limit": "500", "labelSelector": "case=p"}),
        get(CMS, query={"limit": "x"}, ignore=["message"]),
        get(CMS, query={"limit": "2", "continue": "nonsense"}, ignore=["message"]),
        *running("p1", "p2", "p3"),
        get(PODS, query={"limit": "1"}),
        get(PODS, query={"limit": "1"}, save="old"),
        post(PODS, pod("p4")),
        get(PODS, query={"limit": "1", "continue": "$(old.metadata.continue)"},
            until={"status": 410}, save="gone"),
        get(PODS, query={"limit": "1", "continue": "$(gone.metadata.continue)"}),
    ],
    "watch": [
        get(CMS, query={"labelSelector": "w"}, save="start"),
        post(CMS, config_map("a", labels={"w": "1"})),
        merge(f"{CMS}/a", {"data": {"b": "2"}}),
        post(CMS, config_map("b", labels={"w": "2"})),
        merge(f"{CMS}/b", {"metadata": {"labels": {"w": "1"}}}),
        merge(f"{CMS}/a", {"metadata": {"labels": {"w": "2"}}}),
        delete(f"{CMS}/b"),
        get(CMS, query={"watch": "true", "timeoutSeconds": "1", "labelSelector": "w",
                        "resourceVersion": "$(start.metadata.resourceVersion)"}),
        get(CMS, query={"watch": "true", "timeoutSeconds": "1", "labelSelector": "w=1",
                        "resourceVersion": "$(start.metadata.resourceVersion)"}),
        get(CMS, query={"watch": "true", "timeoutSeconds": "1", "fieldSelector": "metadata.name=b",
                        "resourceVersion": "$(start.metadata.resourceVersion)"}),
        get(f"{CMS}/a", query={"watch": "true", "timeoutSeconds": "1",
                        "resourceVersion": "$(start.metadata.resourceVersion)"}),
        get(CMS, query={"watch": "true", "timeoutSeconds": "1", "labelSelector": "w"}),
        get(CMS, query={"watch": "true", "timeoutSeconds": "1", "labelSelector": "w",
                        "resourceVersion": "0"}),
        get(CMS, query={"watch": "true", "timeoutSeconds": "5", "labelSelector": "w",
                        "allowWatchBookmarks": "true",
                        "resourceVersion": "$(start.metadata.resourceVersion)"}),
        get(CMS, query={"watch": "true", "timeoutSeconds": "1", "resourceVersion": "x"}),
        get("/api/v1/foos", query={"watch": "true"}),
    ],
    "finalizers": [
        post(CMS, config_map("a", finalizers=["test.example/f"])),
        delete(f"{CMS}/a"),
        delete(f"{CMS}/a"),
        merge(f"{CMS}/a", {"metadata": {"finalizers": ["test.example/f", "test.example/g"]}}),
        merge(f"{CMS}/a", {"data": {"still": "writable"}}),
        merge(f"{CMS}/a", {"metadata": {"finalizers": None}}),
        get(f"{CMS}/a"),
        *running("p", finalizers=["test.example/f"]),
        delete(f"{PODS}/p"),
        delete(f"{PODS}/p", options(gracePeriodSeconds=0)),
        get(f"{PODS}/p"),
        merge(f"{PODS}/p", {"metadata": {"finalizers": None}}),
        get(f"{PODS}/p"),
        *running("q", finalizers=["test.example/f"]),
        delete(f"{PODS}/q"),
        merge(f"{PODS}/q", {"metadata": {"finalizers": None}}),
        get(f"{PODS}/q"),
    ],
    "delete": [
        post(CMS, config_map("a"), save="a"),
        delete(f"{CMS}/a", options(preconditions={"uid": "another"})),
        delete(f"{CMS}/a", options(preconditions={"resourceVersion": "1"})),
        delete(f"{CMS}/a", options(preconditions={"uid": "$(a.metadata.uid)"})),
        delete(f"{CMS}/a"),
        post(PODS, pod("pending", node="")),
        delete(f"{PODS}/pending", ignore=["status"]),
        get(f"{PODS}/pending"),
        *running("p"),
        delete(f"{PODS}/p"),
        delete(f"{PODS}/p"),
        delete(f"{PODS}/p", options(gracePeriodSeconds=60)),
        delete(f"{PODS}/p", options(gracePeriodSeconds=10)),
        delete(f"{PODS}/p", options(preconditions={"uid": "another"}, gracePeriodSeconds=1)),
        delete(f"{PODS}/p", options(gracePeriodSeconds=0)),
        get(f"{PODS}/p"),
        *running("q"),
        delete(f"{PODS}/q", query={"gracePeriodSeconds": "7"}),
        *running("r"),
        delete(f"{PODS}/r", options(gracePeriodSeconds=-5)),
        *running("s"),
        delete(f"{PODS}/s", options(gracePeriodSeconds=0)),
        get(f"{PODS}/s"),
        post(PODS, pod("done")),
        has_status("done", "Succeeded", ready=False),
        delete(f"{PODS}/done"),
        post(PODS, pod("bound-and-pending")),
        delete(f"{PODS}/bound-and-pending"),
        *running("dry"),
        delete(f"{PODS}/dry", query={"dryRun": "All"}),
        get(f"{PODS}/dry"),
        *running("u"),
        delete(f"{PODS}/u", options(preconditions={"uid": "another"})),
    ],
    "pods": [
        post(PODS, pod("a", node="")),
        post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "empty"}, "spec": {}}),
        post(PODS, pod("b")),
        merge(f"{PODS}/b", {"spec": {"nodeName": "elsewhere"}}, ignore=["message", "details"]),
        merge(f"{PODS}/b", {"metadata": {"annotations": {"x": "y"}}}),
        merge(f"{PODS}/b", {"status": {"phase": "Running"}}),
        merge(f"{PODS}/b/status", {"status": {"phase": "Running"}}),
        merge(f"{PODS}/b/status", {"spec": {"nodeName": "elsewhere"}}),
        post(f"{PODS}/a/binding", {"apiVersion": "v1", "kind": "Binding",
             "metadata": {"name": "a"}, "target": {"kind": "Node", "name": NOWHERE}}),
        get(f"{PODS}/a"),
        post(f"{PODS}/a/binding", {"apiVersion": "v1", "kind": "Binding",
             "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "elsewhere"}}),
        post(f"{PODS}/none/binding", {"apiVersion": "v1", "kind": "Binding",
             "metadata": {"name": "none"}, "target": {"kind": "Node", "name": "elsewhere"}}),
    ],
    "evict-without-budget": [
        *running("p"),
        eviction("none"),
        eviction("p", dryRun=["All"]),
        get(f"{PODS}/p"),
        eviction("p"),
        get(f"{PODS}/p"),
        eviction("p"),
        get(f"{PODS}/p"),
        *running("q"),
        eviction("q", gracePeriodSeconds=7),
        get(f"{PODS}/q"),
        *running("r"),
        eviction("r", gracePeriodSeconds=0),
        get(f"{PODS}/r"),
        *running("m"),
        post(f"{PODS}/m/eviction", {"apiVersion": "policy/v1", "kind": "Eviction",
                                    "metadata": {"name": "other"}}),
        post(f"{PODS}/m/eviction", {"apiVersion": "policy/v1", "kind": "Eviction",
                                    "metadata": {"name": "m", "namespace": "other"}}),
        post(f"{PODS}/m/eviction", {"apiVersion": "policy/v1", "kind": "Eviction",
                                    "metadata": {"namespace": "{ns}"}}),
        post(f"{PODS}/m/eviction", config_map("m")),
        post(f"{PODS}/m/eviction", raw="{"),
        post(f"{PODS}/m/eviction", {"apiVersion": "policy/v1", "kind": "Eviction",
                                    "metadata": {"name": "m"}}, query={"dryRun": "All"}),
        get(f"{PODS}/m"),
        eviction("m", meta={"uid": "another"}, preconditions={"uid": "yet-another"}),
        get(f"{PODS}/m"),
        eviction("m", meta={"uid": "another"}),
    ],
    "evict-with-budget": [
        *running("p1", "p2", "p3"),
        post(PDBS, pdb(minAvailable=2), ignore=["status"]),
        budget_counted(disruptionsAllowed=1, currentHealthy=3, expectedPods=3),
        eviction("p1", dryRun=["All"]),
        eviction("p2", dryRun=["All"]),
        get(f"{PDBS}/web"),
        eviction("p1"),
        get(f"{PODS}/p1"),
        # The budget is charged before the pod is deleted; the controller may count in between, and
        # clears the name when it has seen the deletion.
        budget_counted(
            disruptionsAllowed=0, currentHealthy=2, expectedPods=3, disruptedPods=None
        ),
        eviction("p2"),
        eviction("p2", dryRun=["All"]),
        eviction("p2", preconditions={"uid": "another"}),
        get(f"{PODS}/p2"),
        eviction("p1"),
    ],
    "evict-two-budgets": [
        *running("p"),
        post(PDBS, pdb("one", minAvailable=0), ignore=["status"]),
        post(PDBS, pdb("two", minAvailable=0), ignore=["status"]),
        budget_counted("one", currentHealthy=1),
        budget_counted("two", currentHealthy=1),
        eviction("p"),
        eviction("p", dryRun=["All"]),
        delete(f"{PDBS}/two"),
        eviction("p"),
    ],
    "evict-budget-ignored": [
        *running("p"),
        post(PODS, pod("pending", node="")),
        post(PODS, pod("bound-and-pending")),
        post(PODS, pod("done")),
        has_status("done", "Succeeded", ready=False),
        post(PODS, pod("failed")),
        has_status("failed", "Failed", ready=False),
        post(PDBS, pdb(minAvailable=9), ignore=["status"]),
        budget_counted(currentHealthy=1, expectedPods=5),
        eviction("p"),
        eviction("pending", preconditions={"resourceVersion": "1"}),
        eviction("pending"),
        get(f"{PODS}/pending"),
        eviction("bound-and-pending"),
        get(f"{PODS}/bound-and-pending"),
        eviction("done"),
        get(f"{PODS}/done"),
        eviction("failed"),
        delete(f"{PODS}/p"),
        eviction("p"),
        get(f"{PODS}/p"),
    ],
    "evict-not-ready": [
        *running("sick", ready=False),
        *running("well"),
        post(PDBS, pdb(minAvailable=2), ignore=["status"]),
        budget_counted(currentHealthy=1, expectedPods=2),
        eviction("sick"),
        delete(f"{PDBS}/web"),
        post(PDBS, pdb("fits", minAvailable=1), ignore=["status"]),
        budget_counted("fits", currentHealthy=1, expectedPods=2, disruptionsAllowed=0),
        eviction("well"),
        eviction("sick"),
        budget_counted("fits", currentHealthy=1),
        delete(f"{PDBS}/fits"),
        *running("sick2", ready=False),
        post(PDBS, pdb("always", minAvailable=2, unhealthyPodEvictionPolicy="AlwaysAllow"),
             ignore=["status"]),
        budget_counted("always", currentHealthy=1, expectedPods=3),
        eviction("well"),
        eviction("sick2"),
        get(f"{PDBS}/always", ignore=["status"]),
        delete(f"{PDBS}/always"),
        *running("sick3", labels={"app": "zero"}, ready=False),
        post(PDBS, pdb("zero", {"matchLabels": {"app": "zero"}}, minAvailable=0),
             ignore=["status"]),
        budget_counted("zero", expectedPods=1),
        eviction("sick3"),
        post(PDBS, pdb("bad", unhealthyPodEvictionPolicy="Never", minAvailable=1)),
        post(PDBS, pdb("bad", minAvailable=1, maxUnavailable=1)),
    ],
    "evict-preconditions": [
        *running("p1", "p2", "p3"),
        post(PDBS, pdb(minAvailable=1), ignore=["status"]),
        budget_counted(disruptionsAllowed=2, currentHealthy=3),
        get(f"{PODS}/p1", save="p1"),
        eviction("p1", preconditions={"uid": "another"}),
        get(f"{PODS}/p1"),
        budget_counted(disruptionsAllowed=1, currentHealthy=2),
        eviction("p1", preconditions={"resourceVersion": "1"}),
        eviction("p1", preconditions={"uid": "$(p1.metadata.uid)"}),
        get(f"{PODS}/p1"),
    ],
    "evict-selectors": [
        *running("p"),
        post(PDBS, pdb("empty", {}, minAvailable=9), ignore=["status"]),
        budget_counted("empty", expectedPods=1, currentHealthy=1),
        eviction("p", dryRun=["All"]),
        delete(f"{PDBS}/empty"),
        post(PDBS, pdb("null", None, minAvailable=9), ignore=["status"]),
        budget_counted("null", desiredHealthy=9),
        eviction("p", dryRun=["All"]),
        post(PDBS, pdb("set", {"matchExpressions": [
            {"key": "app", "operator": "In", "values": ["web", "x"]},
            {"key": "none", "operator": "DoesNotExist"}]}, minAvailable=9), ignore=["status"]),
        budget_counted("set", expectedPods=1, currentHealthy=1),
        eviction("p"),
    ],
    "budget-status": [
        labelled_node(),
        node_is_up(),
        post(f"{APPS}/deployments", workload("Deployment", replicas=4), ignore=["spec", "status"]),
        get(f"{APPS}/deployments/web", until={"body.status.readyReplicas": 4},
            ignore=["spec", "metadata"]),
        post(PDBS, pdb("min", minAvailable=3), ignore=["status"]),
        budget_counted("min", currentHealthy=4),
        post(PDBS, pdb("min-share", minAvailable="60%"), ignore=["status"]),
        budget_counted("min-share", currentHealthy=4),
        post(PDBS, pdb("max", maxUnavailable=1), ignore=["status"]),
        budget_counted("max", currentHealthy=4),
        post(PDBS, pdb("max-share", maxUnavailable="30%"), ignore=["status"]),
        budget_counted("max-share", currentHealthy=4),
        post(PDBS, pdb("nothing", {"matchLabels": {"app": "none"}}, maxUnavailable=1),
             ignore=["status"]),
        budget_counted("nothing", expectedPods=0),
        *running("bare1", "bare2", labels={"app": "bare"}),
        post(PDBS, pdb("bare", {"matchLabels": {"app": "bare"}}, minAvailable=1),
             ignore=["status"]),
        budget_counted("bare", currentHealthy=2),
        post(PDBS, pdb("bare-max", {"matchLabels": {"app": "bare"}}, maxUnavailable=1),
             ignore=["status"]),
        budget_counted("bare-max", currentHealthy=2),
        delete(f"{PODS}/bare1"),
        get(f"{PDBS}/bare", until={"body.status.currentHealthy": 1}),
        merge(f"{PDBS}/bare", {"spec": {"minAvailable": 0}}, ignore=["status"]),
        get(f"{PDBS}/bare", until={"body.status.observedGeneration": 2}),
        delete(f"{APPS}/deployments/web", options(propagationPolicy="Background")),
    ],
    "workloads-come-back": [
        labelled_node(),
        node_is_up(),
        post(f"{APPS}/statefulsets", workload("StatefulSet", "db", serviceName="db"),
             ignore=["spec", "status"]),
        get(f"{PODS}/db-0", until={"body.status.phase": "Running"}, save="db",
            ignore=["spec", "status", "metadata.labels"]),
        post(f"{APPS}/replicasets", workload("ReplicaSet", "rs", replicas=1),
             ignore=["spec", "status"]),
        get(PODS, query={"labelSelector": "app=rs"},
            until={"body.items.0.status.phase": "Running"}, save="rs",
            ignore=["items.0.spec", "items.0.status"]),
        post("/apis/batch/v1/namespaces/{ns}/jobs", {
            **workload("Job", "job"), "spec": {"template": {
                **template({"app": "job"}), "spec": {
                    **template({"app": "job"})["spec"], "restartPolicy": "Never"}}}},
             ignore=["spec", "status", "metadata.labels"]),
        eviction("db-0"),
        eviction("$(rs.items.0.metadata.name)"),
        get(f"{PODS}/db-0", until={"body.status.phase": "Running",
                                   "body.metadata.deletionTimestamp": None,
                                   "other.body.metadata.uid": "$(db.metadata.uid)"},
            ignore=["spec", "status", "metadata.labels"]),
        get(PODS, query={"labelSelector": "app=rs"},
            until={"body.items.0.status.phase": "Running", "body.items.1": None,
                   "other.body.items.0.metadata.uid": "$(rs.items.0.metadata.uid)"},
            ignore=["items.0.spec", "items.0.status"]),
        delete(f"{APPS}/statefulsets/db", options(propagationPolicy="Background")),
        get(f"{PODS}/db-0", until={"status": 404}),
    ],
    "namespaces": [
        post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace",
                                    "metadata": {"name": "{ns}-2"}}),
        post("/api/v1/namespaces/{ns}-2/configmaps",
             config_map("a", finalizers=["test.example/f"])),
        delete("/api/v1/namespaces/{ns}-2"),
        get("/api/v1/namespaces/{ns}-2", ignore=["status"]),
        post("/api/v1/namespaces/{ns}-2/configmaps", config_map("b")),
        post("/api/v1/namespaces/{ns}-2/pods", pod("b")),
        merge("/api/v1/namespaces/{ns}-2/configmaps/a", {"metadata": {"finalizers": None}},
              ignore=["metadata"]),
        get("/api/v1/namespaces/{ns}-2", until={"status": 404}),
    ],
    "events": [
        post("/api/v1/namespaces/default/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "{ns}.1"},
            "involvedObject": {"kind": "Node", "name": "{node}", "uid": "{node}"},
            "reason": "Cordoned", "message": "m", "type": "Normal",
            "source": {"component": "test"}, "count": 1}),
        post("/api/v1/namespaces/{ns}/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "{ns}.2"},
            "involvedObject": {"kind": "Node", "name": "{node}"}, "reason": "R"}),
        post("/api/v1/namespaces/{ns}/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "{ns}.3"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"}, "reason": "R"}),
        post("/api/v1/namespaces/default/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "{ns}.4"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"}, "reason": "R"}),
        post("/api/v1/namespaces/default/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "{ns}.5"},
            "involvedObject": {"kind": "Node", "name": "{node}"},
            "eventTime": "2026-03-02T08:00:00.000000Z", "reason": "R", "action": "Cordon",
            "reportingComponent": "groundcrew.dev/cordon", "reportingInstance": "i",
            "type": "Warning"}),
        get("/api/v1/events", query={
            "fieldSelector": "involvedObject.name={node},involvedObject.kind=Node"}),
        get("/api/v1/events", query={"fieldSelector": "involvedObject.uid={node}"}),
        get("/api/v1/events", query={"fieldSelector": "involvedObject.name={node},type=Warning"}),
        get("/api/v1/events", query={"fieldSelector": "involvedObject.name={node},reason!=R"}),
        get("/api/v1/events", query={"fieldSelector": "involvedObject.x=1"}),
        delete("/api/v1/namespaces/default/events/{ns}.1"),
        delete("/api/v1/namespaces/default/events/{ns}.5"),
    ],
    "leases": [
        post("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
            "spec": {"holderIdentity": "x", "leaseDurationSeconds": 40}}, save="a"),
        put("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/a", {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
            "spec": {"holderIdentity": "y"}}),
        put("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/a", {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "a", "resourceVersion": "$(a.metadata.resourceVersion)"},
            "spec": {"holderIdentity": "y"}}),
        put("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/b", {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "b"},
            "spec": {"holderIdentity": "y"}}),
        delete("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/b"),
    ],
    "access": [
        post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "create", "resource": "pods",
                                            "subresource": "eviction"}}}, ignore=["status.reason"]),
        get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        get("/apis/storage.k8s.io/v1/volumeattachments"),
    ],
}  # fmt: skip

WITHOUT_DISRUPTION_CONTROLLER: dict[str, list[Step]] = {
    "evict-budget-not-counted-yet": [
        *running("p"),
        post(PDBS, pdb(minAvailable=0)),
        eviction("p"),
        eviction("p", dryRun=["All"]),
        merge(
            f"{PDBS}/web/status",
            {
                "status": {
                    "observedGeneration": 1,
                    "disruptionsAllowed": 0,
                    "currentHealthy": 1,
                    "desiredHealthy": 1,
                    "expectedPods": 1,
                }
            },
        ),
        eviction("p"),
        merge(f"{PDBS}/web/status", {"status": {"disruptionsAllowed": 2}}),
        eviction("p", preconditions={"uid": "another"}),
        get(f"{PDBS}/web"),
        eviction("p"),
        get(f"{PDBS}/web"),
        get(f"{PODS}/p"),
        merge(f"{PDBS}/web", {"spec": {"minAvailable": 1}}),
        merge(f"{PDBS}/web/status", {"spec": {"minAvailable": 2}, "status": {"currentHealthy": 5}}),
    ],
}
"""For a cluster whose disruption controller does nothing, so that a budget's status stays
as it was written."""

AFTER_A_RESTART: dict[str, list[Step]] = {
    "watch-too-old": [
        get("/api/v1/nodes", query={"watch": "true", "timeoutSeconds": "1",
                                    "resourceVersion": "1"}),
        get(PODS, query={"watch": "true", "timeoutSeconds": "1", "resourceVersion": "1",
                         "allowWatchBookmarks": "true"}),
    ],
}  # fmt: skip
"""For an API server that has just started, and knows nothing of before."""
