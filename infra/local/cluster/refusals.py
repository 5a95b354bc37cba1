"""Answers that refuse, as the real server words them (metav1.Status)."""

from collections.abc import Sequence
from typing import Any

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


def precondition_uid(resource: Resource, name: str, wanted: str, found: str) -> Refusal:
    return conflict(
        resource,
        name,
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
    )


def invalid(resource: Resource, name: str, problems: Sequence[FieldProblem]) -> Refusal:
    texts = [problem.text for problem in problems]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: dict[str, Any] = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.kind
    details["causes"] = [problem.cause for problem in problems]
    qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return Refusal(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', details=details)


def patch_does_not_apply() -> Refusal:
    """A JSON Patch whose ``test`` failed, or that names what is not there."""
    return Refusal(422, "Invalid", "the server rejected our request due to an error in our request")


def invalid_patch(why: str) -> Refusal:
    """What the patch made is no object of its kind."""
    problem = FieldProblem("Invalid", "patch", f"Invalid value: {why}")
    return Refusal(
        422,
        "Invalid",
        f' "" is invalid: {problem.text}',
        details={"causes": [problem.cause]},
    )


def unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    return Refusal(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


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
