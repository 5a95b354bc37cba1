"""The Job that collects evidence on a node before its machine ends.

It is made from the template in ConfigMap `active.EVIDENCE_NAME` (key ``job.yaml``), bound to the
node without a scheduler (the node takes no new work), in a namespace of its own, under a name that
follows from what the book says: who asks twice makes one. What it writes to its termination
message (``/dev/termination-log``, 4 KiB) outlives node and pod in the book.
"""

import hashlib
from typing import Any

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.rules import keys
from functions.rules.replacing.book import Entry, cut
from functions.steps.replacing.crew import Crew

JOBS = f"/apis/batch/v1/namespaces/{keys.EVIDENCE_NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{keys.EVIDENCE_NAMESPACE}/pods"
KEPT_SECONDS = 7 * 24 * 3600
"""How long a finished Job is kept, unless the template says otherwise."""


class BadTemplate(ValueError):
    """It is no Job; says what to put right."""


def job_name(machine: str, entry: Entry) -> str:
    """The same for each call about one end of one machine: by the machine and by when the book says
    that collecting began, which one call alone could write."""
    began = entry.collecting.isoformat() if entry.collecting else ""
    text = f"{machine} {began}"
    return "evidence-" + hashlib.sha256(text.encode()).hexdigest()[:16]


def collect(crew: Crew, machine: str, entry: Entry) -> str:
    """What came of it, in a sentence; empty while nothing has. A refusal is an answer, too: the
    machine's end waits for evidence, and not for what keeps us from collecting it.

    Raises `errors.KubernetesError` where there was no answer: the next look asks again.
    """
    name = job_name(machine, entry)
    try:
        found = _job(crew, machine, entry, name)
    except BadTemplate as problem:
        return f"not collected: the template of the Job {problem}"
    except (errors.TooManyRequests, errors.ServerError):
        return ""
    except errors.ApiError as problem:
        return cut(f"not collected: {problem}")
    return _outcome(crew.cluster, name, found.get("status") or {})


def _job(crew: Crew, machine: str, entry: Entry, name: str) -> dict[str, Any]:
    try:
        return crew.cluster.get_object(f"{JOBS}/{name}")
    except errors.NotFound:
        made = job(crew.active.evidence, machine, entry, name, _seconds(crew))
    try:
        return crew.cluster.create_object(JOBS, made)
    except errors.Conflict:
        return {}  # another instance was faster, and looks after the same one


def _seconds(crew: Crew) -> int:
    return max(1, round(crew.policy.replace.evidence_within.total_seconds()))


def job(template: str, machine: str, entry: Entry, name: str, seconds: int) -> dict[str, Any]:
    """The Job of one machine. Raises `BadTemplate`."""
    import yaml

    try:
        made = yaml.safe_load(template)
    except yaml.YAMLError as problem:
        raise BadTemplate(f"is not YAML: {problem}") from problem
    if not isinstance(made, dict) or made.get("kind") != "Job":
        raise BadTemplate("is no manifest of kind Job (apiVersion batch/v1)")
    labels = {keys.EVIDENCE: name}
    about = {
        "GROUNDCREW_NODE": entry.node,
        "GROUNDCREW_MACHINE": machine,
        "GROUNDCREW_INCIDENT": entry.fault,
    }
    try:
        spec = made["spec"]
        pod = spec["template"]["spec"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            told = [{"name": key, "value": value} for key, value in about.items()]
            container["env"] = [*(container.get("env") or ()), *told]
        meta = made.get("metadata") or {}
        made["metadata"] = {
            **{key: meta[key] for key in ("annotations",) if meta.get(key)},
            "name": name,
            "namespace": keys.EVIDENCE_NAMESPACE,
            "labels": {**(meta.get("labels") or {}), **labels},
        }
        inner = spec["template"].setdefault("metadata", {})
        inner["labels"] = {**(inner.get("labels") or {}), **labels}
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        why = f"lacks spec.template.spec.containers, or has them wrong: {problem}"
        raise BadTemplate(why) from problem
    spec["activeDeadlineSeconds"] = min(spec.get("activeDeadlineSeconds") or seconds, seconds)
    spec.setdefault("backoffLimit", 0)
    spec.setdefault("ttlSecondsAfterFinished", KEPT_SECONDS)
    pod["nodeName"] = entry.node
    pod["tolerations"] = [{"operator": "Exists"}]
    pod["restartPolicy"] = "Never"
    return {**made, "apiVersion": "batch/v1"}


def _outcome(cluster: Cluster, name: str, status: dict[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("status") != "True":
            continue
        if condition.get("type") == "Complete":
            return cut(f"collected by Job {name}{_message(cluster, name)}")
        if condition.get("type") == "Failed":
            why = condition.get("reason") or "no reason given"
            return cut(f"not collected: Job {name} failed ({why}){_message(cluster, name)}")
    return ""


def _message(cluster: Cluster, name: str) -> str:
    """What its containers wrote into their termination messages."""
    said = []
    for pod in cluster.list_objects(PODS, f"{keys.EVIDENCE}={name}"):
        for container in pod.get("status", {}).get("containerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            said.append(" ".join(str(ended.get("message") or "").split()))
    words = "; ".join(filter(None, said))
    return f": {words}" if words else ""
