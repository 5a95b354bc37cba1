"""``groundcrew policy``: nothing acts that was not checked, and nothing grave unconfirmed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from functions.rules import policy
from functions.steps import active
from tests.support.fleet import NAMESPACE, Fleet, Shell

Put = Callable[..., str]
"""Writes a policy file (text, name) and returns its path."""


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def write(text: str, name: str = "policy.yaml") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


TIGHTER = "version: 1\nbudget: {pool: 5%}\n"
LOOSER = "version: 1\nbudget: {pool: 50%}\n"
WRONG = """\
version: 1
budget: {pool: 10}
severity:
  - {check: a, severity: watch}
  - {check: b, severity: fatal}
  - {check: c}
  - {check: d, severity: watch, unit: x}
drain:
  paralel: 3
  parallel: 0
"""


def in_force(groundcrew: Shell) -> active.Active:
    return active.read(groundcrew.cluster, NAMESPACE)


def test_check_names_line_and_field_of_every_mistake(groundcrew: Shell, put: Put) -> None:
    path = put(WRONG)
    code, out, err = groundcrew("policy", "check", path)
    assert (code, out) == (2, "")
    assert [line.removeprefix(path).split(": ")[:2] for line in err.splitlines()] == [
        [":2", "budget.pool"],
        [":5", "severity[1].severity"],
        [":6", "severity[2].severity"],
        [":7", "severity[3].unit"],
        [":9", "drain.paralel"],
        [":10", "drain.parallel"],
    ]


def test_check_says_what_a_valid_file_changes(groundcrew: Shell, put: Put) -> None:
    code, out, err = groundcrew("policy", "check", put(TIGHTER))
    assert (code, err) == (0, "")
    assert "valid" in out
    assert "budget.pool: 10% -> 5%" in out


def test_check_reads_all_files_although_one_is_wrong(
    groundcrew: Shell, put: Put, tmp_path: Path
) -> None:
    good, bad = put(TIGHTER, "good.yaml"), put("version: 2\n", "bad.yaml")
    code, out, err = groundcrew("policy", "check", str(tmp_path / "none.yaml"), bad, good)
    assert code == 2
    assert "none.yaml: cannot be read" in err
    assert "bad.yaml:1: version" in err
    assert "good.yaml: valid" in out


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "[]\n", "a: [\n", "{}"])
def test_an_empty_or_broken_file_is_refused_and_changes_nothing(
    groundcrew: Shell, fleet: Fleet, put: Put, text: str
) -> None:
    before = fleet.written()
    code, _, err = groundcrew("policy", "apply", put(text), "--confirm")
    assert code == 2
    assert "nothing was changed" in err
    assert fleet.written() == before


def test_schema_accepts_what_check_accepts(groundcrew: Shell) -> None:
    code, out, _ = groundcrew("policy", "schema")
    assert code == 0
    schema = json.loads(out)
    assert schema["title"] == "groundcrew policy"
    assert "budget" in schema["$defs"]["Policy"]["properties"]


def test_apply_writes_what_the_functions_then_read(
    groundcrew: Shell, fleet: Fleet, put: Put
) -> None:
    code, out, _ = groundcrew("policy", "apply", put(TIGHTER))
    assert code == 0
    found = in_force(groundcrew)
    assert (found.trouble, found.author) == ("", "jane")
    assert found.policy == policy.parse(TIGHTER)
    assert policy.fingerprint(found.policy) in out


def test_apply_replaces_what_is_in_force_and_names_another_author(
    groundcrew: Shell, put: Put
) -> None:
    groundcrew("policy", "apply", put("version: 1\nbudget: {pool: 6%}\n"))
    assert groundcrew("policy", "apply", put(TIGHTER), "--author", "ci")[0] == 0
    found = in_force(groundcrew)
    assert (found.policy, found.author) == (policy.parse(TIGHTER), "ci")


def test_what_is_in_force_already_is_not_written_again(
    groundcrew: Shell, fleet: Fleet, put: Put
) -> None:
    groundcrew("policy", "apply", put(TIGHTER))
    before = fleet.written()
    code, out, _ = groundcrew("policy", "apply", put(TIGHTER))
    assert (code, fleet.written()) == (0, before)
    assert "in force already" in out


def test_a_looser_policy_waits_for_confirm(groundcrew: Shell, fleet: Fleet, put: Put) -> None:
    before = fleet.written()
    code, out, _ = groundcrew("policy", "apply", put(LOOSER))
    assert (code, fleet.written()) == (1, before)
    assert "protects the fleet less by budget.pool" in out
    assert "--confirm" in out
    assert groundcrew("policy", "apply", put(LOOSER), "--confirm")[0] == 0
    assert in_force(groundcrew).policy == policy.parse(LOOSER)


def test_a_policy_that_moves_many_nodes_waits_for_confirm(
    groundcrew: Shell, fleet: Fleet, put: Put
) -> None:
    for number in range(1, 4):
        fleet.server.set_condition(f"a-{number:02}", "DiskPressure", "True")
    raised = put("version: 1\nseverity: [{check: DiskPressure, severity: cordon}]\n")
    before = fleet.written()
    code, out, _ = groundcrew("policy", "apply", raised)
    assert (code, fleet.written()) == (1, before)
    assert "otherwise about 3 of 40 nodes (8%, over 5%)" in out
    assert "a-01" in out


def test_a_policy_that_moves_few_nodes_is_applied_and_says_which(
    groundcrew: Shell, fleet: Fleet, put: Put
) -> None:
    fleet.server.set_condition("a-01", "DiskPressure", "True")
    raised = put("version: 1\nseverity: [{check: DiskPressure, severity: cordon}]\n")
    code, out, _ = groundcrew("policy", "apply", raised)
    assert code == 0
    assert "watch -> cordon: a-01" in out


def test_pools_named_by_another_label_are_counted_as_the_new_policy_sees_them(
    groundcrew: Shell, fleet: Fleet, put: Put
) -> None:
    # Five of twenty are over a breaker's share, five of forty are not.
    for number in range(1, 6):
        fleet.server.set_condition(f"a-{number:02}", "KernelDeadlock", "True")
    renamed = put("version: 1\npools: [topology.kubernetes.io/zone]\n")
    code, out, _ = groundcrew("policy", "apply", renamed)
    assert code == 0
    assert "held -> cordon: a-01, a-02\n" in out


@pytest.mark.parametrize(("text", "expected"), [(TIGHTER, 0), (LOOSER, 1)])
def test_a_dry_run_writes_nothing_and_ends_as_the_apply_would(
    groundcrew: Shell, fleet: Fleet, put: Put, text: str, expected: int
) -> None:
    before = fleet.written()
    assert groundcrew("policy", "apply", put(text), "--dry-run")[0] == expected
    assert groundcrew("policy", "apply", put(text), "--dry-run", "--confirm")[0] == 0
    assert fleet.written() == before


def test_an_edit_by_hand_is_told_and_put_right_by_apply(
    groundcrew: Shell, fleet: Fleet, put: Put
) -> None:
    groundcrew("policy", "apply", put(TIGHTER))
    data = fleet.data(active.POLICY_NAME)
    edited = data["policy.json"].replace('"5%"', '"90%"')
    fleet.config_map(active.POLICY_NAME, "policy", {**data, "policy.json": edited})

    code, out, err = groundcrew("policy", "show")
    assert code == 1
    assert "changed by hand" in err
    assert "90%" not in out

    code, out, _ = groundcrew("policy", "apply", put(TIGHTER))
    assert code == 0
    assert "changed by hand" in out
    assert in_force(groundcrew).trouble == ""


def test_a_config_map_that_lost_its_label_gets_it_back(
    groundcrew: Shell, fleet: Fleet, put: Put
) -> None:
    # Without it the functions do not find the policy, and act by the defaults.
    fleet.config_map(active.POLICY_NAME, "", {})
    assert groundcrew("policy", "apply", put(TIGHTER))[0] == 0
    assert in_force(groundcrew).policy == policy.parse(TIGHTER)


def test_show_prints_a_file_that_can_be_applied(groundcrew: Shell, put: Put) -> None:
    groundcrew("policy", "apply", put(TIGHTER))
    code, out, _ = groundcrew("policy", "show")
    assert code == 0
    assert "applied by jane" in out
    assert policy.parse(out) == policy.parse(TIGHTER)


def test_show_without_any_applied_says_that_the_defaults_hold(groundcrew: Shell) -> None:
    code, out, _ = groundcrew("policy", "show")
    assert code == 0
    assert "the defaults: none was applied" in out
    assert policy.parse(out) == policy.default()


def test_show_default_prints_the_reasons_and_asks_no_cluster(groundcrew: Shell) -> None:
    code, out, _ = groundcrew("policy", "show", "--default")
    assert (code, out) == (0, policy.default_text())
    assert yaml.safe_load(out)["version"] == 1
    assert groundcrew.asked == []


def test_two_who_apply_at_once_do_not_overwrite_each_other(
    groundcrew: Shell, fleet: Fleet, put: Put
) -> None:
    groundcrew("policy", "apply", put("version: 1\nbudget: {pool: 6%}\n"))
    theirs = active.policy_data(policy.parse("version: 1\nbudget: {pool: 7%}\n"), "joe")
    fleet.server.faults.before(
        "patch", "configmaps", lambda call: fleet.config_map(active.POLICY_NAME, "policy", theirs)
    )
    code, _, err = groundcrew("policy", "apply", put(TIGHTER))
    assert code == 2
    assert "somebody else wrote at the same time" in err
    assert in_force(groundcrew).author == "joe"


def test_a_missing_namespace_is_named_with_the_next_step(groundcrew: Shell, put: Put) -> None:
    code, _, err = groundcrew("policy", "apply", put(TIGHTER), "-n", "elsewhere")
    assert code == 2
    assert "kubectl create namespace elsewhere" in err
