"""The manifests route what the functions read, and nothing goes round in circles."""

import argparse
import ast
import importlib
import inspect
import pkgutil
from datetime import UTC, datetime
from importlib import resources
from types import ModuleType
from typing import Any

import pytest

import functions
from events import registry
from events.cloudevent import CloudEvent
from infra.cli import record
from infra.local import manifests
from infra.local.clock import Ticks

TRIGGERS = manifests.triggers()
NOT_FOR_ALL = {"knative": ["record.yaml"]}
"""Files that are not in the kustomization: applied by those who want them."""
NAMES = {m.name for m in pkgutil.iter_modules(functions.__path__) if not m.ispkg}


def _objects(kind: str) -> dict[str, dict[str, Any]]:
    return {b["metadata"]["name"]: b for _, b in manifests.documents() if b["kind"] == kind}


def _event(type_: str, **extensions: str) -> CloudEvent:
    return CloudEvent(id="1", source="/test", type=type_, extensions=extensions)


def _takers(event: CloudEvent) -> set[str]:
    return {trigger.subscriber for trigger in TRIGGERS if trigger.takes(event)}


def test_every_trigger_names_a_service_that_is_deployed() -> None:
    assert {trigger.subscriber for trigger in TRIGGERS} == set(_objects("Service"))


def test_every_service_runs_a_function_that_exists() -> None:
    for name, service in _objects("Service").items():
        (container,) = service["spec"]["template"]["spec"]["containers"]
        target = {e["name"]: e.get("value") for e in container["env"]}["FUNCTION_TARGET"]
        assert target == name
        assert target in NAMES


def test_every_function_has_a_resync_behind_its_triggers() -> None:
    woken = {name for tick in _first_ticks() for name in _takers(tick)}
    assert woken == set(_objects("Service"))


def test_a_resync_wakes_one_function_only() -> None:
    for tick in _first_ticks():
        assert len(_takers(tick)) == 1, tick.source


def _first_ticks() -> list[CloudEvent]:
    ticks = Ticks()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = (ticks.next_after(start, source.name) for source in ticks.sources)
    return [tick.event for tick in found if tick]


@pytest.mark.parametrize("source", registry.SOURCES, ids=lambda source: source.name)
def test_every_type_that_somebody_reads_reaches_a_function(source: registry.Source) -> None:
    if source.name == "ping":
        return  # taken by its source, not by its type
    for pattern in source.types:
        if pattern.startswith("dev.knative.apiserver."):
            # Resource mode is what our sources send; there is nothing to do about deletions.
            for what in ("add", "update"):
                event = _event(f"dev.knative.apiserver.resource.{what}", kind=source.kind)
                assert "cordon" in _takers(event)
        else:
            assert "cordon" in _takers(_event(pattern.replace("*", "anything")))


def test_a_deleted_node_wakes_nobody() -> None:
    assert not _takers(_event("dev.knative.apiserver.resource.delete", kind="Node"))


def test_no_answer_has_a_type_that_its_own_function_is_woken_by() -> None:
    for name in _objects("Service"):
        answers = _answers(name)
        assert answers
        for kind in answers:
            assert name not in _takers(_event(kind)), kind


def _answers(name: str) -> set[str]:
    """Our event types among the constants of a function and of the rules and steps that it
    reaches, but those that it asks an event for."""
    module = importlib.import_module(f"functions.{name}")
    heard = {
        vars(module)[ast.unparse(constant)]
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Compare) and ast.unparse(node.left) == "event.type"
        for constant in node.comparators
    }
    ours = {
        value
        for reached in _reached(module, {module.__name__: module}).values()
        for constant, value in vars(reached).items()
        if constant.isupper() and isinstance(value, str) and value.startswith("dev.groundcrew.")
    }
    return ours - heard


def _reached(module: ModuleType, known: dict[str, ModuleType]) -> dict[str, ModuleType]:
    for value in list(vars(module).values()):
        name = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
        if name not in known and str(name).startswith(("functions.rules", "functions.steps")):
            known[name] = importlib.import_module(name)
            _reached(known[name], known)
    return known


def test_a_cordoned_node_wakes_drain() -> None:
    assert _takers(_event("dev.groundcrew.nodes.cordoned")) == {"drain"}


def test_an_event_that_nobody_reads_reaches_nobody() -> None:
    assert not _takers(_event("com.example.unknown"))
    assert not _takers(_event("dev.knative.apiserver.resource.update", kind="Pod"))


def test_no_more_requests_are_let_through_than_there_are_threads() -> None:
    for name, service in _objects("Service").items():
        spec = service["spec"]["template"]["spec"]
        env = {e["name"]: e.get("value") for e in spec["containers"][0]["env"]}
        assert str(spec["containerConcurrency"]) == env["THREADS"], name


def _environment(service: str) -> dict[str, str]:
    (container,) = _objects("Service")[service]["spec"]["template"]["spec"]["containers"]
    return {e["name"]: e["value"] for e in container["env"] if "value" in e}


def test_functions_never_scale_to_zero() -> None:
    for service in _objects("Service").values():
        annotations = service["spec"]["template"]["metadata"]["annotations"]
        assert int(annotations["autoscaling.knative.dev/min-scale"]) >= 1


def test_a_delivery_gives_a_call_its_time_and_the_next_event_its_own() -> None:
    for trigger in TRIGGERS:
        spec = trigger.delivery
        assert spec.timeout is not None
        call_seconds = float(_environment(trigger.subscriber)["GROUNDCREW_CALL_SECONDS"])
        assert spec.timeout.total_seconds() > call_seconds + 1.0
        assert call_seconds < 5.0
        waits = sum(spec.wait_before(n) for n in range(1, spec.retries + 1))
        # The sender of a synchronous channel waits for all of it.
        assert 0 < waits < 5


def test_everything_that_is_applied_is_named_in_the_kustomization() -> None:
    import yaml

    for folder in ("knative", "rbac"):
        root = resources.files("infra").joinpath(folder)
        listed = yaml.safe_load(root.joinpath("kustomization.yaml").read_text())["resources"]
        files = {f.name for f in root.iterdir() if f.name.endswith(".yaml")}
        not_for_all = {"kustomization.yaml", *NOT_FOR_ALL.get(folder, ())}
        assert {name for name in listed if name.endswith(".yaml")} == files - not_for_all


def test_the_recorder_is_for_those_who_apply_it_and_hears_all_that_the_broker_hears() -> None:
    import yaml

    assert "record" not in {trigger.name for trigger in TRIGGERS}
    file = resources.files("infra").joinpath("knative", "record.yaml")
    objects = {body["kind"]: body for body in yaml.safe_load_all(file.read_text())}
    trigger, service = objects["Trigger"]["spec"], objects["Service"]["metadata"]["name"]
    assert "filters" not in trigger
    assert trigger["broker"] in _objects("Broker")
    assert trigger["subscriber"]["ref"]["name"] == service
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    program, command, *options = container["args"]
    assert (program, command) == ("groundcrew", "record")
    parser = argparse.ArgumentParser()
    record.add_arguments(parser)
    args = parser.parse_args(options)
    (mount,) = container["volumeMounts"]
    assert str(args.to) == mount["mountPath"]
    assert container["ports"][0]["containerPort"] == args.port
    (room,) = objects["PersistentVolumeClaim"]["spec"]["resources"]["requests"].values()
    assert args.max_size < int(room.removesuffix("Gi")) * 2**30
    assert pod["automountServiceAccountToken"] is False


def test_service_accounts_are_those_that_rbac_makes() -> None:
    folder = resources.files("infra").joinpath("rbac")
    made = {
        body["metadata"]["name"]
        for _, body in manifests.documents(folder)
        if body["kind"] == "ServiceAccount"
    }
    used = {
        s["spec"]["template"]["spec"]["serviceAccountName"] for s in _objects("Service").values()
    }
    used |= {
        source["spec"]["serviceAccountName"] for source in _objects("ApiServerSource").values()
    }
    assert used == made


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("broker: groundcrew", "broker: other", "trigger.yaml: Trigger t: spec.broker: no Broker"),
        ("ref: {kind: Service, name: f}", "uri: http://x/", "spec.subscriber: must have a ref"),
        ("PT1S", "1s", "backoffDelay: '1s' is no duration"),
        ("exact", "cesql", "CESQL drops"),
    ],
)
def test_a_manifest_that_cannot_be_followed_is_refused_by_file_object_and_field(
    tmp_path: Any, old: str, new: str, message: str
) -> None:
    text = """
kind: Broker
metadata: {name: groundcrew}
spec: {delivery: {retry: 1, backoffDelay: PT1S}}
---
kind: Trigger
metadata: {name: t}
spec:
  broker: groundcrew
  filters: [{exact: {type: a}}]
  subscriber: {ref: {kind: Service, name: f}}
"""
    (tmp_path / "trigger.yaml").write_text(text)
    assert manifests.triggers(tmp_path)[0].subscriber == "f"
    (tmp_path / "trigger.yaml").write_text(text.replace(old, new))
    with pytest.raises(manifests.ManifestError, match=message):
        manifests.triggers(tmp_path)
