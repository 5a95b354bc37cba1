"""The template is one that CloudFormation takes, and its rules let in what is read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from cfnlint.api import ManualArgs, lint_file
from moto.events.models import EventPattern

from events.cloudevent import CloudEvent
from events.registry import SOURCES
from functions import poll
from infra.local import filters, manifests

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "infra" / "aws" / "template.yaml"
RECORDED = ROOT / "events" / "recorded"
BRIDGED = ("aws_health", "ec2_spot", "ec2_rebalance", "ec2_state", "ec2_capacity_reservation",
           "ec2_capacity_block", "autoscaling")  # fmt: skip


class _Loader(yaml.SafeLoader):
    """Reads CloudFormation's short functions as what they are given."""


_Loader.add_multi_constructor(
    "!",
    lambda loader, suffix, node: {
        suffix: loader.construct_scalar(node)
        if isinstance(node, yaml.ScalarNode)
        else loader.construct_sequence(node, deep=True)
    },
)


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(TEMPLATE.read_text(), _Loader)["Resources"]
    return found


def test_cloudformation_takes_it() -> None:
    found = lint_file(TEMPLATE, ManualArgs(regions=["us-east-1", "eu-west-1"]))
    assert [f"{one.linenumber}: {one.rule.id} {one.message}" for one in found] == []


def patterns(resources: dict[str, Any]) -> list[dict[str, Any]]:
    rules = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::Events::Rule"]
    return [rule["EventPattern"] for rule in rules if "EventPattern" in rule]


def recorded() -> list[Any]:
    made = []
    for source in BRIDGED:
        for path in sorted((RECORDED / source).glob("*.notices.json")):
            said = json.loads(path.read_text())
            body = json.loads((path.parent / path.name.replace(".notices", "")).read_text())["body"]
            if isinstance(body, dict) and "detail-type" in body and isinstance(said, list):
                made.append(pytest.param(body, id=f"{source}/{path.stem}"))
    return made


@pytest.mark.parametrize("body", recorded())
def test_every_recorded_event_that_says_something_passes_a_rule(
    body: dict[str, Any], resources: dict[str, Any]
) -> None:
    loaded: list[Any] = [EventPattern.load(json.dumps(one)) for one in patterns(resources)]
    assert any(pattern.matches_event(body) for pattern in loaded)


def test_rules_and_sources_know_the_same_types(resources: dict[str, Any]) -> None:
    let_in = {
        f"{source}.{kind}"
        for one in patterns(resources)
        for source in one["source"]
        for kind in one["detail-type"]
    }
    read = {kind for source in SOURCES for kind in source.types if kind.startswith("aws.")}
    # Their own form, which comes without EventBridge.
    read -= {kind for kind in read if kind.startswith(("aws.sns.", "aws.autoscaling.autoscaling:"))}
    assert {kind for kind in let_in if not kind.startswith("aws.health.")} == read - {
        "aws.health.*"
    }
    assert "aws.health.AWS Health Event" in let_in


def test_who_acts_may_act_on_this_clusters_machines_alone(resources: dict[str, Any]) -> None:
    statements = resources["ActPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    for statement in statements:
        assert statement["Resource"] != "*"
        (tags,) = statement["Condition"].values()
        ((key, value),) = tags.items()
        assert re.fullmatch(r"(aws|autoscaling):ResourceTag/\S+", key)
        assert value == {"Ref": "ClusterName"}


ASKED = re.compile(r'"(ec2|autoscaling|eks)",\s*(?:machine\.)?region,\s*"([A-Z][A-Za-z]+)"')


def test_all_that_is_asked_of_aws_is_allowed(resources: dict[str, Any]) -> None:
    source = (ROOT / "functions" / "gateways" / "aws" / "client.py").read_text()
    asked = {f"{service}:{operation}" for service, operation in ASKED.findall(source)}
    assert len(asked) >= 12
    allowed = {
        action
        for name in ("LookPolicy", "ActPolicy")
        for statement in resources[name]["Properties"]["PolicyDocument"]["Statement"]
        for action in statement["Action"]
    }
    assert asked == allowed


def test_whoever_looks_or_consumes_may_change_nothing_but_its_own_queue(
    resources: dict[str, Any],
) -> None:
    look = resources["LookPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert all("Describe" in action for one in look for action in one["Action"])
    consume = resources["ConsumePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert [one["Resource"] for one in consume] == [{"GetAtt": "Queue.Arn"}]


def test_the_manifests_name_what_there_is() -> None:
    for name in ("rbac", "consume"):
        for body in yaml.safe_load_all((TEMPLATE.parent / f"{name}.yaml").read_text()):
            assert body["metadata"].get("namespace", "groundcrew-system") in (
                "groundcrew-system", "default",
            )  # fmt: skip
    roles = {
        (body["kind"], body["metadata"]["name"])
        for file in (ROOT / "infra" / "rbac").glob("*.yaml")
        for body in yaml.safe_load_all(file.read_text())
        if body["kind"] in ("Role", "ClusterRole")
    }
    bound = {
        (body["roleRef"]["kind"], body["roleRef"]["name"])
        for body in yaml.safe_load_all((TEMPLATE.parent / "rbac.yaml").read_text())
    }
    assert bound <= roles
    acting = {trigger.subscriber for trigger in manifests.triggers()}
    assert {name.removeprefix("groundcrew-") for _, name in bound} == acting


def test_the_poll_is_woken_by_its_clock_and_its_answer_by_nobody_but_cordon() -> None:
    bodies = {
        body["kind"]: body
        for body in yaml.safe_load_all((TEMPLATE.parent / "poll.yaml").read_text())
    }
    takes = filters.of_trigger(bodies["Trigger"]["spec"])
    name = bodies["PingSource"]["metadata"]["name"]
    tick = CloudEvent(id="1", source=f"/x/pingsources/{name}", type=poll.PING)
    found = CloudEvent(id="1", source="/groundcrew/poll", type=poll.FOUND)
    assert takes(tick)
    assert not takes(found)
    assert {t.subscriber for t in manifests.triggers() if t.takes(found)} == {"cordon"}
    assert not any(t.takes(tick) for t in manifests.triggers())
