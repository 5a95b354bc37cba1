"""What comes in the body of a request: an object, options, or a patch."""

from collections.abc import Callable
from typing import Any

import msgspec

from functions.gateways.kubernetes.transport import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from infra.local.cluster import refusals
from infra.local.cluster.call import JSON, Call
from infra.local.cluster.forms import FormError, formed
from infra.local.cluster.objects import Object
from infra.local.cluster.patches import json_kind, json_patch, merge_patch
from infra.local.cluster.resources import Resource
from infra.local.cluster.strategic import go_text, strategic_patch

MAX_BODY_BYTES = 3 * 1024 * 1024


def too_large() -> refusals.Refusal:
    return refusals.Refusal(
        413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}"
    )


def decode(call: Call) -> Any:
    """The JSON in the body; None if there is none."""
    if not call.body:
        return None
    if len(call.body) > MAX_BODY_BYTES:
        raise too_large()
    try:
        return msgspec.json.decode(call.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise refusals.bad_request(f"the body is not JSON: {problem}") from None


def decode_json(call: Call) -> Any:
    """As `decode`, for requests whose body may be JSON and nothing else."""
    if call.body and call.content_type.split(";")[0].strip() not in (JSON, ""):
        raise refusals.unsupported_media_type()
    return decode(call)


def decode_object(call: Call, kind: str, api_version: str, group: str = "core") -> Object:
    """The object in the body, which is of this kind or says nothing about it."""
    if call.content_type.split(";")[0].strip() not in (JSON, ""):
        raise refusals.unsupported_media_type()
    try:
        item = msgspec.json.decode(call.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        shown = call.body.decode(errors="replace") or "<empty>"
        raise refusals.unrecognized(kind, f"unexpected end of JSON input ({shown})") from None
    if not isinstance(item, dict):
        raise refusals.unrecognized(
            kind,
            f"json: cannot unmarshal {json_kind(item)} into Go value of type struct "
            '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
            f'"json:\\"kind,omitempty\\"" }} ({call.body.hex()})',
        )
    found = str(item.get("kind") or kind), str(item.get("apiVersion") or api_version)
    if found != (kind, api_version):
        raise refusals.wrong_kind(*found, kind, group)
    return item


def decode_resource(call: Call, resource: Resource) -> Object:
    if len(call.body) > MAX_BODY_BYTES:
        raise too_large()
    item = decode_object(call, resource.kind, resource.api_version, resource.group or "core")
    try:
        return formed(resource, item)  # type: ignore[no-any-return]
    except FormError as problem:
        raise refusals.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {problem}"
        ) from None


PATCHES: dict[str, Callable[[Any, Any], Any]] = {
    JSON_PATCH: json_patch,
    MERGE_PATCH: merge_patch,
    STRATEGIC_PATCH: strategic_patch,
}


def patch_in(call: Call) -> Callable[[Resource, Object], Object]:
    """The patch as a function that makes the changed object. Raises a `Refusal` where it is of
    an unknown kind, as the function does where the patch is none, does not apply, or makes what
    is no object of the kind."""
    kind = call.content_type.split(";")[0].strip()
    apply = PATCHES.get(kind)
    if apply is None:
        raise refusals.unsupported_patch()

    def patched(resource: Resource, old: Object) -> Object:
        document = {"kind": resource.kind, "apiVersion": resource.api_version, **old}
        if len(call.body) > MAX_BODY_BYTES:
            raise too_large()
        try:
            operations = msgspec.json.decode(call.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise refusals.bad_request("invalid JSON patch") from None
        made = apply(document, operations)
        try:
            return formed(resource, made)  # type: ignore[no-any-return]
        except FormError as problem:
            if kind == STRATEGIC_PATCH:
                shown, why = go_text(operations), "unrecognized type"
                wanted = str(problem).split()[-1]
                raise refusals.invalid_patch(shown, f"{why}: {wanted}") from None
            text = msgspec.json.encode(made, order="sorted").decode()
            raise refusals.invalid_patch(text, str(problem)) from None

    return patched
