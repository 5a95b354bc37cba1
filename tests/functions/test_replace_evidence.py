"""Evidence is collected before a machine ends, for a bounded time, on the embedded cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from events.notice import Severity
from functions.rules import keys
from functions.rules.replacing.book import Phase
from functions.steps import active
from functions.steps.replacing import collect
from infra.local.cluster import builders
from tests.support.ending_world import MINUTE, POLICY, EndingWorld

TEMPLATE = (Path(__file__).parents[2] / "infra" / "evidence" / "job.yaml").read_text()
JOBS = keys.EVIDENCE_NAMESPACE


def world_with(template: str = TEMPLATE, rules: str = POLICY) -> EndingWorld:
    world = EndingWorld(rules)
    world.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": JOBS}})
    world.config_map(active.EVIDENCE_NAME, "evidence", {"job.yaml": template})
    return world


def jobs(world: EndingWorld) -> list[dict[str, Any]]:
    return [j for j in world.server.all("jobs") if j["metadata"]["namespace"] == JOBS]


def say_of(world: EndingWorld, kind: str, reason: str = "", message: str = "") -> None:
    """The Job ends so, and its container leaves a message."""
    (found,) = jobs(world)
    condition = {"type": kind, "status": "True", "reason": reason}
    world.server.apply(
        {"apiVersion": "batch/v1", "kind": "Job", **found, "status": {"conditions": [condition]}}
    )
    pod = builders.pod("evidence-pod", namespace=JOBS, node="n0")
    pod["metadata"]["labels"] = {keys.EVIDENCE: found["metadata"]["name"]}
    pod["status"] = {
        "phase": "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": {"message": message}}}],
    }
    world.server.apply(pod)


def test_a_machine_ends_after_its_evidence_is_collected_and_the_book_keeps_its_words() -> None:
    world = world_with()
    world.minutes(18)
    assert world.cloud.asked == []
    (job,) = jobs(world)
    assert job["spec"]["template"]["spec"]["nodeName"] == "n0"
    assert job["spec"]["activeDeadlineSeconds"] == 600
    told = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "GROUNDCREW_MACHINE", "value": world.machine()} in told
    say_of(world, "Complete", message="0, 1653121000123, GPU-7\n")
    world.minutes(3)
    assert len(world.cloud.ended) == 1
    assert "1653121000123, GPU-7" in world.entry().collected
    assert world.actions() == ["collect-evidence", "collect-evidence", "terminate"]
    assert len(jobs(world)) == 1


@pytest.mark.parametrize("how", ["fails", "hangs", "never-made"])
def test_no_end_waits_for_evidence_longer_than_its_time(how: str) -> None:
    world = world_with()
    if how == "never-made":
        world.server.delete("namespaces", "", JOBS)
    world.minutes(18)
    if how == "fails":
        say_of(world, "Failed", "BackoffLimitExceeded")
    if how == "hangs":
        assert world.cloud.asked == []
    world.minutes(10 if how == "hangs" else 3)
    assert len(world.cloud.ended) == 1
    words = {"fails": "failed (BackoffLimitExceeded)", "never-made": "not found"}
    if how == "hangs":
        assert world.entry().collected == ""
    else:
        assert words[how] in world.entry().collected


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{", "is not YAML"),
        ("kind: Pod", "is no manifest of kind Job"),
        ("kind: Job\nspec: {template: {}}", "lacks spec.template.spec.containers"),
        ("kind: Job\nspec: []", "lacks spec.template.spec.containers"),
    ],
)
def test_a_template_that_is_no_job_is_said_and_holds_nothing_up(template: str, says: str) -> None:
    world = world_with(template)
    world.minutes(20)
    assert len(world.cloud.ended) == 1
    assert says in world.entry().collected


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_has_no_time_for_the_job_now_is_asked_again(status: int) -> None:
    world = world_with()
    world.server.faults.fail("create", "/jobs", status, times=2)
    world.minutes(20)
    assert world.cloud.asked == []
    assert (len(jobs(world)), world.entry().collected) == (1, "")


def test_two_instances_that_make_the_job_at_once_make_one_and_wait_for_it() -> None:
    world = world_with()
    world.server.faults.before("create", "/jobs", lambda _: world.call())
    world.minutes(20)
    assert [r.status for r in world.server.requests("create", "/jobs")] == [201, 409]
    assert (len(jobs(world)), world.entry().collected, world.cloud.asked) == (1, "", [])


def test_without_a_template_or_time_for_it_nothing_is_collected() -> None:
    no_time = world_with(rules=POLICY.replace("{act_in", "{evidence_within: 0s, act_in"))
    for world in (EndingWorld(), no_time):
        world.minutes(18)
        assert (len(world.cloud.ended), jobs(world)) == (1, [])


def test_where_it_is_only_told_or_something_else_holds_nothing_is_collected() -> None:
    told = world_with(rules="ladder: [{rungs: [replace]}]\n")
    told.minutes(20)
    assert (told.entry().would, jobs(told)) == (("replace",), [])
    held = world_with()
    held.add("n8", provider_id=held.machine())
    held.minutes(20)
    assert (held.entry().holding, jobs(held)) == (("node",), [])


def test_the_pod_that_collects_is_no_workload() -> None:
    world = world_with()
    world.minutes(18)
    pod = builders.pod("evidence-pod", namespace=JOBS, node="n0")
    pod["metadata"]["labels"] = {keys.EVIDENCE: "x"}
    world.server.apply(pod)
    world.minutes(12)
    assert len(world.cloud.ended) == 1
    # Anybody may write that label: outside our namespace it is work like any other.
    other = world_with()
    other.minutes(14)
    pod["metadata"]["namespace"] = "default"
    other.server.apply(pod)
    other.minutes(14)
    assert other.cloud.asked == []


def test_one_job_is_made_whatever_else_is_said_of_the_machine_and_whoever_asks() -> None:
    world = world_with()
    world.minutes(18)
    entry = world.entry()
    assert jobs(world)[0]["metadata"]["name"] == collect.job_name(world.machine(), entry)
    assert entry.phase is Phase.SICK
    world.sick("n0", check="xid-48", severity=Severity.EVICT)  # the worst is another one now
    for _ in range(3):
        world.wait(MINUTE)
        world.call()
        world.call()  # another instance
    assert world.entry().fault != entry.fault
    assert len(jobs(world)) == 1


def test_the_template_asks_for_no_more_than_it_says() -> None:
    spec = yaml.safe_load(TEMPLATE)["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec
