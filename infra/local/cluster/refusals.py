"""Answers that refuse, as the real server words them (metav1.Status)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from infra.local.cluster.resources import Resource


class Refusal(Exception):
    """A request that is not carried out. ``status`` is the body of the answer."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after_seconds: int = 0,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_seconds = retry_after_seconds
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata or {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        if retry_after_seconds:
            details = {**(details or {}), "retryAfterSeconds": retry_after_seconds}
        if details is not None:
            self.status["details"] = details
        self.status["code"] = code


class FieldProblem:
    """One error of a validation: what is wrong with which field."""

    def __init__(self, reason: str, field: str, message: str) -> None:
        self.cause = {"reason": f"FieldValue{reason}", "message": message, "field": field}
        self.text = f"{field}: {message}"


def named(resource: Resource, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> Refusal:
    return Refusal(
        404,
        "NotFound",
        f'{resource.qualified} "{name}" not found',
        details=named(resource, name),
    )


def no_such_resource() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> Refusal:
    return Refusal(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        details={},
    )


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def already_exists(resource: Resource, name: str) -> Refusal:
    return Refusal(
        409,
        "AlreadyExists",
        f'{resource.qualified} "{name}" already exists',
        details=named(resource, name),
    )


def conflict(resource: Resource, name: str, why: str) -> Refusal:
    return Refusal(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}',
        details=named(resource, name),
    )


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def precondition_uid(
    resource: Resource, namespace: str, name: str, wanted: str, found: str
) -> Refusal:
    """A PUT to an object of another UID: the storage says so, and shows its own key."""
    group = f"{resource.group}/" if resource.group not in ("", "apps", "batch", "policy") else ""
    plural = {"nodes": "minions"}.get(resource.plural, resource.plural)
    key = "/".join(part for part in ("/registry", group + plural, namespace, name) if part)
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, "
        f"UID in object meta: {found}",
    )


def failed_precondition(resource: Resource, name: str, why: str) -> Refusal:
    """A DELETE whose precondition does not hold: it names the kind, not the resource."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details: dict[str, Any] = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.kind
    return Refusal(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {kind} "{name}": {why}',
        details=details,
    )


def invalid(resource: Resource, name: str, problems: Sequence[FieldProblem]) -> Refusal:
    texts = [problem.text for problem in problems]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.kind
    details["causes"] = [problem.cause for problem in problems]
    qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return Refusal(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', details=details)


def patch_does_not_apply() -> Refusal:
    """A JSON Patch whose ``test`` failed, or that names what is not there."""
    return Refusal(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        details={},
    )


def invalid_patch(made: str, why: str) -> Refusal:
    """What the patch made is no object of its kind. ``made`` is the object as text."""
    problem = FieldProblem("Invalid", "patch", f"Invalid value: {_quoted(made)}: {why}")
    return Refusal(
        422,
        "Invalid",
        f' "" is invalid: {problem.text}',
        details={"causes": [problem.cause]},
    )


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def immutable_uid(resource: Resource, name: str, wanted: str) -> Refusal:
    problem = FieldProblem(
        "Invalid", "metadata.uid", f'Invalid value: "{wanted}": field is immutable'
    )
    return invalid(resource, name, [problem])


def must_name_version(resource: Resource, name: str) -> Refusal:
    """A PUT without resourceVersion to a kind that does not take it."""
    problem = FieldProblem(
        "Invalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
    )
    return Refusal(
        422,
        "Invalid",
        f'{resource.qualified} "{name}" is invalid: {problem.text}',
        details={**named(resource, name), "causes": [problem.cause]},
    )


def unrecognized(kind: str, why: str) -> Refusal:
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get "
        f"version/kind; json parse error: {why}"
    )


def wrong_kind(found: str, version: str, wanted: str, wanted_group: str = "core") -> Refusal:
    version = version.rpartition("/")[2]
    return bad_request(
        f'{found} in version "{version}" cannot be handled as a {wanted}: converting '
        f"({version}.{found}) to ({wanted_group}.{wanted}): unknown conversion"
    )


def unsupported_media_type() -> Refusal:
    """JSON is the only one of these that is really taken here."""
    return Refusal(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )


def unsupported_patch() -> Refusal:
    return Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def too_many_requests(message: str, cause: str, retry_after_seconds: int = 0) -> Refusal:
    return Refusal(
        429,
        "TooManyRequests",
        message,
        details={"causes": [{"reason": "DisruptionBudget", "message": cause}]},
        retry_after_seconds=retry_after_seconds,
    )


def expired(message: str, metadata: dict[str, Any] | None = None) -> Refusal:
    return Refusal(410, "Expired", message, metadata=metadata)
