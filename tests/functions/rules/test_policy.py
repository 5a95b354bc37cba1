"""The policy document: complete, strict, and its errors name the field and the line."""

import json
from typing import Any

import msgspec
import pytest
import yaml

from events.notice import Severity
from functions.rules import policy
from tests.support.facts import notice

_WINDOWS = "version: 1\nmaintenance:\n  windows: "
_WINDOW = "maintenance.windows[0]."


def test_every_default_is_written_out_in_the_file() -> None:
    written = yaml.safe_load(policy.default_text())
    fields = {f.name for f in msgspec.structs.fields(policy.Policy)}
    assert set(written) == fields
    for name in fields:
        section = getattr(policy.default(), name)
        if isinstance(section, msgspec.Struct):
            assert set(written[name]) == {f.name for f in msgspec.structs.fields(type(section))}


def test_what_a_document_leaves_out_is_as_the_defaults_say() -> None:
    changed = policy.parse("version: 1\nbudget: {pool: 30%}")
    assert changed.budget.pool == pytest.approx(0.3)
    assert changed.budget.cluster == policy.default().budget.cluster


@pytest.mark.parametrize(
    ("text", "line", "path"),
    [
        ("", 0, ""),
        ("just words", 0, ""),
        ("version: 1\nbudget: {", 2, ""),
        ("budget: {pool: 10%}", 0, "version"),
        ("version: 2", 1, "version"),
        ("version: 1\nbudget:\n  poool: 10%", 3, "budget.poool"),
        ("version: 1\nbudget:\n  pool: 10", 3, "budget.pool"),
        ("version: 1\nbudget:\n  pool: 110%", 3, "budget.pool"),
        ("version: 1\ndrain:\n  gang_notice: soon", 3, "drain.gang_notice"),
        ("version: 1\nwaits:\n- {check: A, wait: 1m}\n- {check: B}", 4, "waits[1].wait"),
        ("version: 1\nseverity:\n- {check: A, severity: kill}", 3, "severity[0].severity"),
        ("version: 1\ndrain:\n  parallel: 0", 3, "drain.parallel"),
        ("version: 1\nmaintenance:\n  drain_before: 25h", 3, "maintenance.drain_before"),
        (
            "version: 1\nmaintenance:\n  leads:\n  - {cordon_before: 1h, drain_before: 2h}",
            4,
            "maintenance.leads[0].drain_before",
        ),
        (_WINDOWS + "[{days: [], opens: '20:00', closes: '06:00'}]", 3, _WINDOW + "days"),
        (_WINDOWS + "[{days: [sat], opens: '8 pm', closes: '06:00'}]", 3, _WINDOW + "opens"),
        (_WINDOWS + "[{days: [sat], opens: '20:00', closes: '24:00'}]", 3, _WINDOW + "closes"),
        (
            _WINDOWS + "[{days: [sat], opens: '20:00', closes: '06:00', zone: Moon/Crater}]",
            3,
            _WINDOW + "zone",
        ),
        ("version: 1\npools: []", 2, "pools"),
        ("version: 1\nladder: [{rungs: [replace, reboot]}]", 2, "ladder[0].rungs"),
        ("version: 1\nladder: [{rungs: [reboot, reboot]}]", 2, "ladder[0].rungs"),
        ("version: 1\nladder:\n- {rungs: [explode]}", 3, "ladder[0].rungs[0]"),
        ("version: 1\nseven_days:\n  limit: 23h\n  at_risk: []", 3, "seven_days.limit"),
        ("version: 1\nseven_days:\n  at_risk: [3d, 8d]", 3, "seven_days.at_risk[1]"),
        ("version: 1\nterminate:\n  per_hour: 0", 3, "terminate.per_hour"),
        ("version: 1\nbuget: {}", 2, "buget"),
    ],
)
def test_a_mistake_names_its_field_and_line(text: str, line: int, path: str) -> None:
    with pytest.raises(policy.PolicyError) as caught:
        policy.parse(text)
    assert (caught.value.line, caught.value.path) == (line, path)
    assert str(caught.value).startswith(f"line {line}: " if line else path)


def test_a_dump_reads_back_as_the_same_policy() -> None:
    once = policy.parse("version: 1\nbudget: {pool: 12.5%}\ndrain: {deadline: 1h30m}")
    again = policy.parse(policy.dump(once).decode())
    assert again == once
    assert policy.fingerprint(again) == policy.fingerprint(once)
    assert policy.fingerprint(once) != policy.fingerprint(policy.default())


def test_the_first_rule_that_matches_gives_the_severity() -> None:
    rules = policy.parse(
        "version: 1\n"
        "severity:\n"
        "- {check: xid-*, source: alertmanager, severity: watch}\n"
        "- {check: xid-79, severity: evict}\n"
        "- {reason: Nvidia*, severity: watch}\n"
    )
    assert rules.severity_of(notice("other", reason="NvidiaXID31Error")) is Severity.WATCH
    assert rules.severity_of(notice("xid-79")) is Severity.EVICT
    assert rules.severity_of(notice("xid-79", source="alertmanager")) is Severity.WATCH
    assert rules.severity_of(notice("other")) is Severity.CORDON


def test_nothing_is_rebooted_or_ended_until_a_pool_is_named() -> None:
    assert not policy.default().acts_in("h100")
    made = policy.parse("version: 1\nreplace: {act_in: ['h*'], reserved: [h200]}")
    assert [made.acts_in(pool) for pool in ("h100", "a100")] == [True, False]
    assert made.is_reserved("h200")


def test_the_first_rule_that_matches_gives_the_ladder() -> None:
    made = policy.parse(
        "version: 1\nladder: [{check: Ready, pool: a*, rungs: []}, {rungs: [replace]}]"
    )
    words = ("kubernetes.node", "Ready", "", "unknown")
    assert made.ladder_of(*words, "a100") == ()
    assert made.ladder_of(*words, "h100") == ("replace",)
    assert policy.default().ladder_of(*words, "h100") == ("reboot", "replace")


def test_the_schema_accepts_a_document_that_names_only_what_it_changes() -> None:
    schema = policy.schema()
    json.dumps(schema)
    assert schema["$defs"]["Policy"]["required"] == ["version"]
    assert "required" not in schema["$defs"]["Budget"]
    assert schema["$defs"]["WaitRule"]["required"] == ["wait"]


@pytest.mark.parametrize(
    ("labels", "pool"),
    [
        ({"karpenter.sh/nodepool": "a100", "node.kubernetes.io/instance-type": "p4d"}, "a100"),
        ({"node.kubernetes.io/instance-type": "p4d"}, "p4d"),
        ({"groundcrew.dev/pool": "own", "karpenter.sh/nodepool": "a100"}, "own"),
        ({}, "default"),
        (None, "default"),
    ],
)
def test_the_first_label_that_is_there_names_the_pool(
    labels: dict[str, Any] | None, pool: str
) -> None:
    assert policy.default().pool_of(labels) == pool


def test_the_active_copy_is_json_and_needs_no_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes YAML in Python a hundred times as long, for each command and each call."""
    full = policy.dump(policy.parse("version: 1\nbudget: {pool: 5%}")).decode()
    monkeypatch.setattr("yaml.safe_load", None)
    assert policy.parse(full).budget.pool == 0.05


def test_what_only_begins_like_json_is_yaml() -> None:
    assert policy.parse("{version: 1, budget: {pool: 5%}}").budget.pool == 0.05
