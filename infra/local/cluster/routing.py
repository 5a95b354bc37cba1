"""From a path to what it names."""

from dataclasses import dataclass

from infra.local.cluster.resources import BY_PATH, Resource


@dataclass(frozen=True)
class Target:
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str) -> Target | None:
    """None if nothing is served there."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = ""
    match rest:
        case ["namespaces", namespace, plural, *rest] if (group, version, plural) in BY_PATH:
            resource = BY_PATH[group, version, plural]
            if not resource.namespaced:
                return None
        case [plural, *rest] if (group, version, plural) in BY_PATH:
            resource = BY_PATH[group, version, plural]
            if resource.namespaced and rest:
                return None
        case _:
            return None
    match rest:
        case []:
            return Target(resource, namespace)
        case [name]:
            return Target(resource, namespace, name)
        case [name, subresource] if subresource in resource.subresources:
            return Target(resource, namespace, name, subresource)
    return None


def verb_of(method: str, target: Target, *, watch: bool) -> str:
    """The verb of the API for an HTTP method; empty if the target does not take it."""
    if not target.resource.stored:
        return "create" if method == "POST" and not target.name else ""
    if target.subresource in ("eviction", "binding"):
        return "create" if method == "POST" else ""
    if not target.name:
        if method == "POST" and target.resource.namespaced and not target.namespace:
            return ""
        if method == "GET":
            return "watch" if watch else "list"
        return {"POST": "create", "DELETE": "deletecollection"}.get(method, "")
    found = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, "")
    return "" if found == "delete" and target.subresource else found
