"""What the server refuses to store, as far as our functions and a drain can come near it."""

import re
from collections.abc import Sequence

import msgspec

from infra.local.cluster.objects import (
    Object,
    is_terminating,
    labels_of,
    metadata,
    name_of,
    namespace_of,
    spec_of,
)
from infra.local.cluster.refusals import FieldProblem, invalid
from infra.local.cluster.resources import CONFIG_MAPS, EVENTS, NODES, PDBS, PODS, Resource

ANNOTATIONS_BYTES = 256 * 1024
CONFIG_MAP_BYTES = 1024 * 1024

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_SUBDOMAIN_HELP = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_HELP = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_HELP = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    "  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POD_MAY_CHANGE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")


def check(resource: Resource, item: Object, old: Object | None = None) -> None:
    """Raises a 422 `Refusal` that names each field in error."""
    problems = [
        *_metadata(item),
        *_no_new_finalizers(item, old),
        *_KINDS.get(resource, _nothing)(item, old),
    ]
    if problems:
        raise invalid(resource, name_of(item), problems)


def _nothing(item: Object, old: Object | None) -> Sequence[FieldProblem]:
    return ()


def _metadata(item: Object) -> list[FieldProblem]:
    problems = []
    name = name_of(item)
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        problems.append(
            FieldProblem("Invalid", "metadata.name", f'Invalid value: "{name}": {_SUBDOMAIN_HELP}')
        )
    for key, value in labels_of(item).items():
        if not _QUALIFIED.fullmatch(key):
            problems.append(
                FieldProblem(
                    "Invalid", "metadata.labels", f'Invalid value: "{key}": {_QUALIFIED_HELP}'
                )
            )
        if not _LABEL_VALUE.fullmatch(value or ""):
            problems.append(
                FieldProblem(
                    "Invalid", "metadata.labels", f'Invalid value: "{value}": {_LABEL_VALUE_HELP}'
                )
            )
    annotations = metadata(item).get("annotations") or {}
    size = 0
    for key, value in annotations.items():
        size += len(key) + len((value or "").encode())
        if not _QUALIFIED.fullmatch(key.lower()):
            problems.append(
                FieldProblem(
                    "Invalid", "metadata.annotations", f'Invalid value: "{key}": {_QUALIFIED_HELP}'
                )
            )
    if size > ANNOTATIONS_BYTES:
        problems.append(
            FieldProblem(
                "TooLong",
                "metadata.annotations",
                f"Too long: may not be more than {ANNOTATIONS_BYTES} bytes",
            )
        )
    return problems


def _no_new_finalizers(item: Object, old: Object | None) -> Sequence[FieldProblem]:
    if old is None or not is_terminating(old):
        return ()
    before = metadata(old).get("finalizers") or ()
    added = sorted(set(metadata(item).get("finalizers") or ()) - set(before))
    if not added:
        return ()
    listed = ", ".join(f'"{one}"' for one in added)
    return [
        FieldProblem(
            "Forbidden",
            "metadata.finalizers",
            "Forbidden: no new finalizers can be added if the object is being deleted, found new "
            f"finalizers []string{{{listed}}}",
        )
    ]


def _node(item: Object, old: Object | None) -> list[FieldProblem]:
    problems = []
    seen: set[tuple[str, str]] = set()
    for place, taint in enumerate(spec_of(item).get("taints") or ()):
        path = f"metadata.taints[{place}]"  # so the server says
        key, effect = str(taint.get("key") or ""), str(taint.get("effect") or "")
        if not key:
            problems.append(
                FieldProblem(
                    "Invalid", f"{path}.key", 'Invalid value: "": name part must be non-empty'
                )
            )
        if not effect:
            problems.append(FieldProblem("Required", f"{path}.effect", "Required value"))
        elif effect not in _EFFECTS:
            supported = ", ".join(f'"{one}"' for one in _EFFECTS)
            problems.append(
                FieldProblem(
                    "NotSupported",
                    f"{path}.effect",
                    f'Unsupported value: "{effect}": supported values: {supported}',
                )
            )
        if (key, effect) in seen:
            problems.append(
                FieldProblem(
                    "Duplicate",
                    path,
                    f"Duplicate value: {_go_taint(taint)}: taints must be unique by key and "
                    "effect pair",
                )
            )
        seen.add((key, effect))
    before = spec_of(old).get("providerID") if old else None
    after = spec_of(item).get("providerID")
    if before and after != before:
        done = "modified" if after else "cleared"
        why = f"Invalid value: null: field cannot be {done} once set"
        problems.append(FieldProblem("Invalid", "spec.providerID", why))
    return problems


def _pod(item: Object, old: Object | None) -> list[FieldProblem]:
    spec = spec_of(item)
    if not spec.get("containers"):
        return [FieldProblem("Required", "spec.containers", "Required value")]
    if old is not None and any(
        len(spec.get(field) or ()) != len(spec_of(old).get(field) or ())
        for field in ("containers", "initContainers")
    ):
        return [
            FieldProblem(
                "Forbidden",
                "spec.containers",
                "Forbidden: pod updates may not add or remove containers",
            )
        ]
    if old is not None and _frozen(spec) != _frozen(spec_of(old)):
        return [
            FieldProblem(
                "Forbidden",
                "spec",
                "Forbidden: pod updates may not change fields other than "
                "`spec.containers[*].image`,`spec.initContainers[*].image`,"
                "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
                "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
                "was previously negative)",
            )
        ]
    return []


def _frozen(spec: Object) -> Object:
    kept = {key: value for key, value in spec.items() if key not in _POD_MAY_CHANGE}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{**one, "image": ""} for one in kept[field]]
    return kept


def _config_map(item: Object, old: Object | None) -> list[FieldProblem]:
    size = sum(len(str(value).encode()) for value in (item.get("data") or {}).values())
    size += sum(len(str(value)) * 3 // 4 for value in (item.get("binaryData") or {}).values())
    if size > CONFIG_MAP_BYTES:
        message = f"Too long: may not be more than {CONFIG_MAP_BYTES} bytes"
        return [FieldProblem("TooLong", "[]", message)]
    return []


def _event(item: Object, old: Object | None) -> list[FieldProblem]:
    involved = item.get("involvedObject") or {}
    wanted = involved.get("namespace") or "default"
    if namespace_of(item) != wanted:
        value = involved.get("namespace") or ""
        return [
            FieldProblem(
                "Invalid",
                "involvedObject.namespace",
                f'Invalid value: "{value}": does not match event.namespace',
            )
        ]
    return []


def _pdb(item: Object, old: Object | None) -> list[FieldProblem]:
    spec = spec_of(item)
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        return [
            FieldProblem(
                "Invalid",
                "spec",
                f"Invalid value: {_go_pdb(spec)}: minAvailable and maxUnavailable cannot be both "
                "set",
            )
        ]
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy not in (None, "IfHealthyBudget", "AlwaysAllow"):
        return [
            FieldProblem(
                "NotSupported",
                "spec.unhealthyPodEvictionPolicy",
                f'Unsupported value: "{policy}": supported values: "AlwaysAllow", '
                '"IfHealthyBudget"',
            )
        ]
    return []


def _go_taint(taint: Object) -> str:
    fields = {
        "Key": taint.get("key"),
        "Value": taint.get("value") or "",
        "Effect": taint.get("effect"),
        "TimeAdded": taint.get("timeAdded"),
    }
    return msgspec.json.encode(fields).decode()


def _go_pdb(spec: Object) -> str:
    fields = {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": spec.get("selector"),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }
    return msgspec.json.encode(fields).decode()


_KINDS = {NODES: _node, PODS: _pod, CONFIG_MAPS: _config_map, EVENTS: _event, PDBS: _pdb}
