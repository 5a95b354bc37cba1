"""Scenario files: read, and refused with the file, the line and the field."""

from datetime import UTC, datetime

import pytest

from infra.local import scenario_file
from infra.local.scenario_file import ScenarioError, find, known, moment, parse, pick

MONDAY = datetime(2026, 3, 2, 8, tzinfo=UTC)
HEAD = """\
shows: a test
start: 2026-03-02T08:00:00Z
until: Mon 09:00
cluster:
  pools:
    gpu: {count: 3, instance_type: p5.48xlarge}
"""


def refused(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as problem:
        parse(text, "mine", "mine.yaml")
    return problem.value


def test_every_scenario_of_the_project_can_be_read() -> None:
    names = known()
    assert "a-bad-week" in names
    for name in names:
        assert find(name).steps, name


def test_steps_have_their_times_and_lines() -> None:
    found = parse(
        HEAD + "steps:\n  - at: Mon 08:10:30\n    says: x\n  - {at: Mon 08:20, says: y}\n",
        "mine",
        "mine.yaml",
    )
    assert [(f"{s.at:%H:%M:%S}", s.line) for s in found.steps] == [
        ("08:10:30", 8),
        ("08:20:00", 10),
    ]
    assert list(found.nodes) == ["gpu-01", "gpu-02", "gpu-03"]


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("Mon 08:00", "02 08:00:00"),
        ("Sun 20:00", "08 20:00:00"),
        ("Mon 07:59", "09 07:59:00"),
        ("Tue 01:02:03", "03 01:02:03"),
    ],
)
def test_a_weekday_means_the_first_such_day_after_the_start(text: str, when: str) -> None:
    assert f"{moment(text, MONDAY):%d %H:%M:%S}" == when


@pytest.mark.parametrize("text", ["Monday 08:00", "Mon 24:00", "Mon 08:61", "08:00", "Mon 8:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        moment(text, MONDAY)


def test_nodes_are_picked_by_name_pattern_or_list_and_in_their_own_order() -> None:
    nodes = ["a-01", "a-02", "b-01"]
    assert pick("a-02", nodes) == ["a-02"]
    assert pick("a-*", nodes) == ["a-01", "a-02"]
    assert pick(["b-*", "a-01"], nodes) == ["a-01", "b-01"]


STEP = "steps:\n  - at: Mon 08:10\n"


@pytest.mark.parametrize(
    ("text", "line", "path", "problem"),
    [
        ("shows: [", 1, "", "not YAML"),
        ("- a list", 0, "", "a scenario is a mapping"),
        (HEAD + "steps: 3\n", 7, "steps", "Expected `array`"),
        (HEAD, 0, "steps", "missing"),
        (HEAD.replace("T08:00:00Z", "T08:00:00") + "steps: []\n", 2, "start", "no time zone"),
        (HEAD.replace("Mon 09:00", "noon") + "steps: []\n", 3, "until", "is no time"),
        (HEAD.replace("count: 3", "count: 0") + "steps: []\n", 6, "cluster.pools.gpu.count", "1"),
        (HEAD + STEP + "    sez: x\n", 9, "steps[0].sez", "no such field"),
        (HEAD + STEP, 8, "steps[0]", "nothing happens"),
        (HEAD + STEP + "    reboot: {node: cpu-01}\n", 9, "steps[0].reboot.node", "no node"),
        (
            HEAD + STEP + "    reboot: {node: gpu-01}\n    gone: {node: gpu-02}\n",
            10,
            "steps[0].gone",
            "a step is one act, and has reboot, too",
        ),
        (
            HEAD + STEP + "    condition: {node: gpu-01, type: Ready, status: False}\n",
            9,
            "steps[0].condition.status",
            "",
        ),
        (
            HEAD + STEP + "    says: x\n  - at: Mon 08:09\n    says: y\n",
            10,
            "steps[1].at",
            "is before the step above",
        ),
        (HEAD + "steps: [{at: Mon 09:01, says: x}]\n", 7, "steps[0].at", "is after the end"),
        (
            HEAD + STEP + "    event: {recorded: aws_health/nothing}\n",
            9,
            "steps[0].event.recorded",
            "no file events/recorded/aws_health/nothing",
        ),
        (HEAD + STEP + "    event: {path: /}\n", 9, "steps[0].event", "either `recorded` or a"),
        (HEAD + STEP + "    human: {}\n", 9, "steps[0].human", "exactly one of"),
        (HEAD + STEP + "    says: x\n    times: 0\n", 10, "steps[0].times", "less than 1"),
        (HEAD + STEP + "    api_server: {down: soon}\n", 9, "steps[0].api_server.down", "duration"),
        (HEAD + "steps: []\nexpect: [{because: x}]\n", 8, "expect[0]", "exactly one of"),
        (HEAD + "steps: []\nexpect: [{node: gpu-01}]\n", 8, "expect[0]", "says nothing"),
        (
            HEAD + "steps: []\nexpect: [{decided: {action: cordoned}}]\n",
            8,
            "expect[0].decided.action",
            "no action 'cordoned'",
        ),
        (
            HEAD + "steps: []\nexpect: [{most_out: {cpu: 1}}]\n",
            8,
            "expect[0].most_out.cpu",
            "no such pool",
        ),
        (HEAD + "steps: []\npolicy: {budget: {pool: many}}\n", 8, "policy.budget.pool", "share"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_field(
    text: str, line: int, path: str, problem: str
) -> None:
    error = refused(text)
    assert (error.line, error.path) == (line, path)
    where = f"mine.yaml:{line}: " if line else "mine.yaml: "
    assert str(error).startswith(f"{where}{path}")
    assert problem in str(error)


def test_a_bare_true_is_explained() -> None:
    text = HEAD + STEP + "    condition: {node: gpu-01, type: True, status: 'True'}\n"
    assert 'write "True"' in str(refused(text))


def test_a_name_that_is_none_says_which_there_are() -> None:
    with pytest.raises(ScenarioError, match=r"no such scenario or file; there are .*a-bad-week"):
        scenario_file.find("a-good-week")
