"""Records how a real API server answers the exchanges of `exchanges`.

    python -m tests.controlplane.recordings [CASE...]

boots a control plane, asks, and writes ``recorded/<case>.json``: the steps with the answers, of
which what differs from run to run has been taken out. The embedded cluster is held to these
files in every test run; that they are still what the real one says is checked by
`test_embedded_answers`.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.exchanges import AFTER_A_RESTART, CASES, WITHOUT_DISRUPTION_CONTROLLER, Step

RECORDED = Path(__file__).with_name("recorded")
UNTIL_SECONDS = 60.0
LONG = 2000
"""Strings longer than this are told by their length only."""

Send = Callable[[str, str, Mapping[str, str], bytes, str], tuple[int, bytes, str]]
"""(method, path, query, body, content type) -> (status, body, Retry-After). A watch's body is all
of its lines."""


def play(name: str, steps: list[Step], send: Send, pause: Callable[[], bool]) -> list[Any]:
    """The normalised answers to the steps of a case. ``pause`` lets time pass between two looks
    at what is waited for, and says whether there is still time."""
    namespace = f"case-{name}"
    _ask(send, _namespace(namespace))
    names = {"{ns}": namespace, "{node}": f"case-{name}"}
    saved: dict[str, Any] = {}
    tidy = Tidy()
    answers = []
    try:
        for step in steps:
            ready = _filled(step, names, saved)
            while True:
                status, raw, retry_after = _ask(send, ready)
                found = {"status": status, "body": _parsed(raw)}
                if _has(found, ready.get("until") or {}):
                    break
                if not pause():
                    raise AssertionError(
                        f"{name}: {ready['method']} {ready['path']} never was "
                        f"{ready['until']}: {found}"
                    )
            if "save" in step:
                saved[step["save"]] = found["body"]
            answers.append(tidy.answer(status, found["body"], retry_after, step.get("ignore", ())))
    finally:
        _clean(send, namespace, names["{node}"])
    return answers


def _namespace(name: str) -> Step:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return {"method": "POST", "path": "/api/v1/namespaces", "body": body}


def _clean(send: Send, namespace: str, node: str) -> None:
    now = {"gracePeriodSeconds": 0}
    listed = _ask(send, {"method": "GET", "path": f"/api/v1/namespaces/{namespace}/pods"})
    _ask(send, {"method": "DELETE", "path": f"/api/v1/namespaces/{namespace}"})
    for pod in (_parsed(listed[1]) or {}).get("items") or ():
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
        free = [{"op": "remove", "path": "/metadata/finalizers"}]
        _ask(send, {"method": "PATCH", "path": path, "body": free,
                    "content_type": "application/json-patch+json"})  # fmt: skip
        _ask(send, {"method": "DELETE", "path": path, "body": now})
    _ask(send, {"method": "DELETE", "path": f"/api/v1/nodes/{node}"})


def _ask(send: Send, step: Step) -> tuple[int, bytes, str]:
    body = step.get("raw")
    raw = body.encode() if body is not None else b""
    if body is None and "body" in step:
        raw = json.dumps(step["body"]).encode()
    return send(
        step["method"],
        step["path"],
        step.get("query") or {},
        raw,
        step.get("content_type", "application/json"),
    )


def _filled(step: Step, names: Mapping[str, str], saved: Mapping[str, Any]) -> Step:
    """The step with the case's names and saved fields put in."""

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [fill(item) for item in value]
        if not isinstance(value, str):
            return value
        for key, replacement in names.items():
            value = value.replace(key, replacement)
        return re.sub(r"\$\((\w+)\.([^)]+)\)", lambda m: str(at(saved[m[1]], m[2])), value)

    return {key: fill(value) for key, value in step.items()}


def at(document: Any, path: str) -> Any:
    """The field at a dotted path, None if there is none; ``type=Ready`` picks from a list."""
    here = document
    for part in path.split("."):
        if isinstance(here, list) and part.isdigit():
            here = here[int(part)] if int(part) < len(here) else None
        elif isinstance(here, list) and "=" in part:
            key, _, wanted = part.partition("=")
            here = next((item for item in here if item.get(key) == wanted), None)
        else:
            here = here.get(part) if isinstance(here, dict) else None
    return here


def _has(found: Any, until: Mapping[str, Any]) -> bool:
    for path, wanted in until.items():
        if path.startswith("other."):
            if str(at(found, path.removeprefix("other."))) == str(wanted):
                return False
        elif at(found, path) != wanted:
            return False
    return True


def _parsed(raw: bytes) -> Any:
    """JSON; the lines of a watch as ``{"lines": [...]}``; anything else as text."""
    text = raw.decode(errors="replace")
    try:
        document = json.loads(text)
    except ValueError:
        pass
    else:
        return {"lines": [document]} if _is_line(document) else document
    try:
        lines = [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text.strip()
    return {"lines": lines}


def _is_line(document: Any) -> bool:
    return isinstance(document, dict) and document.keys() == {"type", "object"}


# what stays of an answer

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
_VERSIONS = re.compile(r"resource version: \d+ \(\d+\)")
_RECORD = re.compile(r"(ResourceVersion in record \()\d+")
_WHOLE = re.compile(r'Invalid value: "\{.*\}": ')
_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_NODE_CONDITIONS = re.compile(r"^Test")
_METADATA = ("name", "namespace", "generateName", "labels", "annotations", "finalizers",
             "generation", "deletionTimestamp", "deletionGracePeriodSeconds")  # fmt: skip
_SPEC = {
    "Node": ("providerID", "unschedulable", "taints"),
    "Pod": ("nodeName", "terminationGracePeriodSeconds", "containers"),
    "PodDisruptionBudget": ("minAvailable", "maxUnavailable", "selector",
                            "unhealthyPodEvictionPolicy"),
    "Lease": ("holderIdentity", "leaseDurationSeconds"),
    "Namespace": ("finalizers",),
    "Deployment": ("replicas",), "ReplicaSet": ("replicas",), "StatefulSet": ("replicas",),
    "Job": ("parallelism", "completions", "backoffLimit", "suspend"),
    "SelfSubjectAccessReview": ("resourceAttributes",),
}  # fmt: skip
_STATUS = {
    "Node": ("conditions",),
    "Pod": ("phase", "conditions", "qosClass"),
    "Deployment": ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"),
    "ReplicaSet": ("replicas", "readyReplicas"),
    "StatefulSet": ("replicas", "readyReplicas"),
    "Job": ("active", "ready"),
}
_OTHERS_ANNOTATIONS = ("node.alpha.kubernetes.io/ttl", "kwok.x-k8s.io/")


class Tidy:
    """Takes out of a case's answers what no two runs share. UIDs and resourceVersions become
    ``uid 1``, ``version 2`` in the order in which they are first seen, so that what stays the
    same and what changes can still be told."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = {"uid": {}, "version": {}}

    def answer(self, status: int, body: Any, retry_after: str, ignore: Any) -> Any:
        made: dict[str, Any] = {"status": status}
        if retry_after:
            made["retry-after"] = retry_after
        made["body"] = self._body(body, ignore)
        return made

    def _body(self, body: Any, ignore: Any) -> Any:
        if not isinstance(body, dict):
            return body
        if "lines" in body:
            # Bookmarks come or do not, by what else happens in the cluster.
            told = [line for line in body["lines"] if line["type"] != "BOOKMARK"]
            return {"lines": [self._line(line) for line in told]}
        kind = str(body.get("kind", ""))
        if kind == "Status":
            tidied = self._status(body)
        elif kind.endswith("List") and "items" in body:
            tidied = self._list(body, kind)
        else:
            tidied = self._object(body, kind)
        for path in ignore:
            _drop(tidied, path.split("."))
        return tidied

    def _line(self, line: Any) -> Any:
        item = line["object"]
        kind = str(item.get("kind", ""))
        tidied = self._status(item) if kind == "Status" else self._object(item, kind)
        return {"type": line["type"], "object": tidied}

    def _status(self, body: Any) -> Any:
        kept = {k: v for k, v in body.items() if k not in ("metadata", "apiVersion")}
        if (body.get("metadata") or {}).get("continue"):
            kept["continue"] = True
        return self._plain(kept)

    def _list(self, body: Any, kind: str) -> Any:
        item_kind = kind.removesuffix("List")
        meta = body.get("metadata") or {}
        tidied = {
            "kind": kind,
            "apiVersion": body["apiVersion"],
            "items": [self._object({"kind": item_kind, **one}, item_kind) for one in body["items"]],
        }
        if meta.get("continue"):
            tidied["continue"] = True
        if "remainingItemCount" in meta:
            tidied["remainingItemCount"] = meta["remainingItemCount"]
        for one in tidied["items"]:
            one.pop("kind", None)
        return tidied

    def _object(self, body: Any, kind: str) -> Any:
        kept = {k: v for k, v in body.items() if k not in ("metadata", "spec", "status")}
        meta = body.get("metadata") or {}
        kept["metadata"] = {f: meta[f] for f in _METADATA if meta.get(f)}
        annotations = {
            k: v for k, v in (meta.get("annotations") or {}).items()
            if not k.startswith(_OTHERS_ANNOTATIONS)
        }  # fmt: skip
        kept["metadata"].pop("annotations", None)
        if annotations:
            kept["metadata"]["annotations"] = annotations
        for field, family in (("uid", "uid"), ("resourceVersion", "version")):
            if meta.get(field):
                kept["metadata"][field] = self._nth(family, meta[field])
        for owner in meta.get("ownerReferences") or ():
            kept["metadata"].setdefault("owners", []).append(f"{owner['kind']} {owner['name']}")
        if "generateName" in meta:
            kept["metadata"]["name"] = _SUFFIX.sub("-<suffix>", meta["name"])
        for part, chosen in (("spec", _SPEC), ("status", _STATUS)):
            if part in body:
                fields = body[part]
                if kind in chosen:
                    fields = {f: fields[f] for f in chosen[kind] if f in fields}
                kept[part] = self._part(fields, kind)
        return self._plain(kept)

    def _part(self, fields: Any, kind: str) -> Any:
        tidied = dict(fields)
        if "conditions" in tidied:
            tidied["conditions"] = [
                {f: c[f] for f in ("type", "status", "reason", "message") if c.get(f)}
                for c in tidied["conditions"]
                if kind != "Node" or _NODE_CONDITIONS.match(c["type"])
            ]
            if not tidied["conditions"]:
                del tidied["conditions"]
        if "taints" in tidied:
            tidied["taints"] = [
                {k: v for k, v in t.items() if k != "timeAdded"} for t in tidied["taints"]
            ]
        if "containers" in tidied:
            tidied["containers"] = [
                {"name": c["name"], "image": c["image"]} for c in tidied["containers"]
            ]
        return tidied

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {k: self._plain(item) for k, item in value.items() if item is not None}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if not isinstance(value, str):
            return value
        if _TIME.match(value):
            return "<time>"
        value = _VERSIONS.sub("resource version: <old> (<oldest>)", value)
        value = _RECORD.sub(r"\1<version>", value)
        value = _WHOLE.sub("Invalid value: <object>: ", value)
        value = _UUID.sub(lambda found: self._nth("uid", found[0]), value)
        return value if len(value) <= LONG else f"<{len(value)} characters>"

    def _nth(self, family: str, value: str) -> str:
        known = self._seen[family]
        return known.setdefault(value, f"{family} {len(known) + 1}")


def _drop(document: Any, path: list[str]) -> None:
    here = document
    for part in path[:-1]:
        here = at(here, part)
    if isinstance(here, dict):
        here.pop(path[-1], None)


# the real one


class Wire:
    """Requests to an API server that a kubeconfig names, as its admin."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._host = urlsplit(cluster["server"]).netloc
        self._token = user["token"]
        self._tls = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
        if "certificate-authority-data" in cluster:
            import base64

            pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
            self._tls = ssl.create_default_context(cadata=pem)

    def send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> tuple[int, bytes, str]:
        connection = http.client.HTTPSConnection(self._host, timeout=120, context=self._tls)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
            if body or method in ("POST", "PUT", "PATCH"):
                headers["Content-Type"] = content_type
            target = f"{path}?{urlencode(query)}" if query else path
            connection.request(method, target, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get("Retry-After") or ""
        finally:
            connection.close()


def patience() -> Callable[[], bool]:
    """A ``pause`` for `play` on real time."""
    end = time.monotonic() + UNTIL_SECONDS

    def pause() -> bool:
        time.sleep(0.1)
        return time.monotonic() < end

    return pause


def stop_disruption_controller(send: Send) -> None:
    """Take its rights away, so that the status of budgets stays as it is written."""
    name = "system:controller:disruption-controller"
    rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    _ask(send, {"method": "DELETE", "path": f"{rbac}/{name}"})
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:serviceaccount:kube-system:disruption-controller",
            "resourceAttributes": {
                "verb": "update", "group": "policy", "resource": "poddisruptionbudgets",
                "subresource": "status",
            },
        },
    }  # fmt: skip
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    pause = patience()
    while True:
        _, raw, _ = _ask(send, {"method": "POST", "path": path, "body": review})
        if not _parsed(raw)["status"]["allowed"]:
            return
        if not pause():
            raise AssertionError("the disruption controller still has its rights")


FREQUENT_COMPACTION = {"kube-apiserver": ["--etcd-compaction-interval=2s"]}
"""For the control plane that is asked: what is too old shall be so within seconds."""


def load(case: str) -> Any:
    return json.loads((RECORDED / f"{case}.json").read_text())


def recorded_cases() -> list[str]:
    return sorted(file.stem for file in RECORDED.glob("*.json"))


TRIES = 2
"""Plays of a case before it counts as changed: the other controllers of a cluster write when they
come to it, and a step whose ``until`` is already true between two of their writes is answered now
so, now so. (A budget that was charged is counted once before and once after its pod is deleted.)
Such a step is to ask for more; a second play keeps one that nobody knows of yet from failing all.
"""


def ask_the_real_one(
    chosen: list[str], recorded: Mapping[str, list[Any]] | None = None
) -> Iterator[tuple[str, list[Step], list[Any]]]:
    """Boots a control plane and gives each case (all if none are named) with its answers.

    With ``recorded`` answers a case that differs from them is played again (`TRIES`): one that has
    truly changed differs each time.
    """
    with ControlPlane(extra_args=FREQUENT_COMPACTION) as real:
        wire = Wire(real.kubeconfig("admin"))
        for cases in (CASES, WITHOUT_DISRUPTION_CONTROLLER, AFTER_A_RESTART):
            wanted = [name for name in cases if not chosen or name in chosen]
            if wanted and cases is WITHOUT_DISRUPTION_CONTROLLER:
                stop_disruption_controller(wire.send)
            if wanted and cases is AFTER_A_RESTART:
                real.restart_apiserver()
            for name in wanted:
                yield name, cases[name], _answers(name, cases[name], wire.send, recorded)


def _answers(
    name: str, steps: list[Step], send: Send, recorded: Mapping[str, list[Any]] | None
) -> list[Any]:
    if recorded is None:
        return play(name, steps, send, patience())
    answers: list[Any] = []
    for _ in range(TRIES):
        try:
            answers = play(name, steps, send, patience())
        except AssertionError as never_was:
            answers = [str(never_was)]
        if answers == recorded.get(name):
            break
        _wait_until_gone(send, f"/api/v1/namespaces/case-{name}")
    return answers


def _wait_until_gone(send: Send, path: str) -> None:
    pause = patience()
    while _ask(send, {"method": "GET", "path": path})[0] != 404 and pause():
        pass


def main(chosen: list[str]) -> int:
    RECORDED.mkdir(exist_ok=True)
    for name, steps, answers in ask_the_real_one(chosen):
        document = [
            {**step, "answer": answer}
            for step, answer in zip(_shortened(steps), answers, strict=True)
        ]
        text = json.dumps(document, indent=1, ensure_ascii=False)
        (RECORDED / f"{name}.json").write_text(text + "\n")
        print(f"recorded {name}", flush=True)
    return 0


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, str) and len(value) > LONG:
        return f"<{len(value)} characters>"
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
