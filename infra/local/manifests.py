"""The project's Knative manifests, read for what routes events: the same files that
``kubectl apply -k infra/knative`` applies, so that the laptop and the cluster cannot differ."""

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from events.cloudevent import CloudEvent
from infra.local import filters


class ManifestError(ValueError):
    """A manifest cannot be used here; the message names the file, the object and the field."""


@dataclass(frozen=True)
class Delivery:
    """How often, and how far apart, an event is offered to a subscriber that does not take it."""

    retries: int = 0
    exponential: bool = True
    backoff: timedelta = timedelta(0)
    timeout: timedelta | None = None
    """How long one attempt may take. None: for ever, as Knative's filter waits."""

    def wait_before(self, retry: int) -> float:
        """Seconds before the ``retry``-th retry, counted from 1: exponential 0.2 s waits 0.2,
        0.4, 0.8; linear waits 0, 0.2, 0.4, as Knative's in-memory channel was measured to do."""
        factor = 2.0 ** (retry - 1) if self.exponential else retry - 1
        return self.backoff.total_seconds() * factor


@dataclass(frozen=True)
class Trigger:
    name: str
    subscriber: str
    """Name of the Service, which is the name of the function."""
    matches: filters.Predicate
    delivery: Delivery

    def takes(self, event: CloudEvent) -> bool:
        return self.matches(event)


@dataclass(frozen=True)
class PingSource:
    name: str
    namespace: str
    schedule: str
    timezone: str
    data: str
    sink: str
    """Kind and name, ``Broker/groundcrew``."""

    @property
    def source(self) -> str:
        return f"/apis/v1/namespaces/{self.namespace}/pingsources/{self.name}"


def triggers(folder: Traversable | None = None) -> list[Trigger]:
    """The Triggers, each with the delivery of its own or its Broker's. Raises `ManifestError`."""
    found = list(documents(folder))
    brokers = {body["metadata"]["name"]: body.get("spec") or {} for _, body in found
               if body["kind"] == "Broker"}  # fmt: skip
    return [_trigger(where, body, brokers) for where, body in found if body["kind"] == "Trigger"]


def ping_sources(folder: Traversable | None = None) -> list[PingSource]:
    return [_ping(where, b) for where, b in documents(folder) if b["kind"] == "PingSource"]


def documents(folder: Traversable | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in the folder's YAML files, with where it stands. By default ours. Where there
    is a kustomization.yaml, only the files that it names: others are for those who want them."""
    import yaml

    folder = folder or resources.files("infra").joinpath("knative")
    kustomization = folder.joinpath("kustomization.yaml")
    named: Container[str] | None = None
    if kustomization.is_file():
        named = set(yaml.safe_load(kustomization.read_text())["resources"])
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".yaml") or file.name == "kustomization.yaml":
            continue
        if named is not None and file.name not in named:
            continue
        for body in yaml.safe_load_all(file.read_text()):
            if body:
                yield f"{file.name}: {body['kind']} {body['metadata']['name']}", body


def _trigger(where: str, body: dict[str, Any], brokers: Mapping[str, Any]) -> Trigger:
    spec = body["spec"]
    if spec.get("broker") not in brokers:
        raise ManifestError(f"{where}: spec.broker: no Broker {spec.get('broker')!r} here")
    try:
        matches = filters.of_trigger(spec)
    except filters.FilterError as problem:
        raise ManifestError(f"{where}: {problem}") from problem
    delivery = spec.get("delivery") or brokers[spec["broker"]].get("delivery") or {}
    return Trigger(
        name=body["metadata"]["name"],
        subscriber=_reference(spec.get("subscriber"), f"{where}: spec.subscriber")["name"],
        matches=matches,
        delivery=_delivery(delivery, where),
    )


def _ping(where: str, body: dict[str, Any]) -> PingSource:
    spec = body["spec"]
    sink = _reference(spec.get("sink"), f"{where}: spec.sink")
    return PingSource(
        name=body["metadata"]["name"],
        namespace=body["metadata"]["namespace"],
        schedule=spec["schedule"],
        timezone=spec.get("timezone") or "UTC",
        data=spec.get("data") or "",
        sink=f"{sink['kind']}/{sink['name']}",
    )


def _reference(target: Any, where: str) -> dict[str, str]:
    reference: dict[str, str] = (target or {}).get("ref") or {}
    if not reference.get("name"):
        raise ManifestError(f"{where}: must have a ref; a uri cannot be followed on a laptop")
    return reference


def _delivery(spec: Mapping[str, Any], where: str) -> Delivery:
    return Delivery(
        retries=int(spec.get("retry") or 0),
        exponential=spec.get("backoffPolicy", "exponential") == "exponential",
        backoff=_duration(spec.get("backoffDelay") or "PT0S", f"{where}: backoffDelay"),
        timeout=_duration(spec["timeout"], f"{where}: timeout") if spec.get("timeout") else None,
    )


def _duration(text: str, where: str) -> timedelta:
    """ISO 8601 as far as delivery specs use it: PT0.2S, PT5M."""
    match = re.fullmatch(r"PT(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?", text)
    if not match or not any(match.groups()):
        raise ManifestError(f"{where}: {text!r} is no duration; write PT0.2S or PT5M")
    return timedelta(minutes=float(match[1] or 0), seconds=float(match[2] or 0))
