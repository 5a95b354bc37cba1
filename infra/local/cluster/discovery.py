"""What kubectl and other clients ask before they ask for anything."""

from typing import Any

from infra.local.cluster.resources import ALL_VERBS, RESOURCES, Resource

VERSION = "v1.37.2"
"""The version whose answers are recorded, and so the one that we claim to be."""


def document(path: str) -> dict[str, Any] | None:
    """The discovery document at ``path``; None if there is none."""
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            major, minor, _ = VERSION.removeprefix("v").split(".")
            return {
                "major": major,
                "minor": minor,
                "gitVersion": VERSION,
                "gitCommit": "",
                "gitTreeState": "clean",
                "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "",
                "compiler": "",
                "platform": "linux/amd64",
            }
        case ["api"]:
            return {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            }
        case ["apis"]:
            groups = dict.fromkeys(one.group for one in RESOURCES if one.group)
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(group) for group in groups],
            }
        case ["apis", group] if any(one.group == group for one in RESOURCES):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
        case ["api", version]:
            return _resources("", version)
        case ["apis", group, version]:
            return _resources(group, version)
    return None


def _group(group: str) -> dict[str, Any]:
    version = next(one.version for one in RESOURCES if one.group == group)
    entry = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def _resources(group: str, version: str) -> dict[str, Any] | None:
    served = [one for one in RESOURCES if (one.group, one.version) == (group, version)]
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for one in served for entry in _entries(one)],
    }


def _entries(resource: Resource) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(ALL_VERBS) if resource.stored else ["create"],
    }
    if resource.short:
        entry["shortNames"] = list(resource.short)
    entries = [entry]
    for subresource in resource.subresources:
        sub: dict[str, Any] = {
            "name": f"{resource.plural}/{subresource}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": ["get", "patch", "update"],
        }
        if subresource == "eviction":
            sub.update(group="policy", version="v1", kind="Eviction", verbs=["create"])
        if subresource == "binding":
            sub.update(kind="Binding", verbs=["create"])
        entries.append(sub)
    return entries
