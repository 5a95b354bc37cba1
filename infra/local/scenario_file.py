"""Reading scenario files. What is wrong in one is told with the file, the line and the field."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from functions.rules import policy
from functions.rules.decision import Action
from functions.rules.policy import PolicyError
from functions.rules.quantities import Duration
from infra.local.cloud import CALLS, REFUSALS
from infra.local.scenario import (
    ACTS,
    EXPECTATIONS,
    HUMAN_ACTS,
    CloudSays,
    Decided,
    Document,
    Expect,
    Names,
    Scenario,
    Step,
    Timed,
    names_of,
)

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WEEK = timedelta(days=7)
_AT = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\d\d):(\d\d)(?::(\d\d))?(?: \+(\d)w)?")
_PATH = re.compile(r"[^.\[\]]+|\[\d+\]")


class ScenarioError(ValueError):
    """The file is no scenario; says the file, the line (if there is one) and the field."""

    def __init__(self, file: str, path: str, problem: str, line: int = 0) -> None:
        self.path = path
        self.line = line
        where = f"{file}:{line}" if line else file
        super().__init__(f"{where}: {path}: {problem}" if path else f"{where}: {problem}")


def folder() -> Traversable:
    return resources.files("events").joinpath("scenarios")


def known() -> list[str]:
    """The names of the project's own scenarios."""
    found = folder().iterdir()
    return sorted(f.name.removesuffix(".yaml") for f in found if f.name.endswith(".yaml"))


def find(name: str) -> Scenario:
    """One of the project's scenarios by its name, or any file. Raises `ScenarioError`."""
    if name in known():
        file = folder().joinpath(f"{name}.yaml")
        return parse(file.read_text(), name, f"{name}.yaml")
    path = Path(name)
    if not path.is_file():
        raise ScenarioError(name, "", f"no such scenario or file; there are {', '.join(known())}")
    try:
        return parse(path.read_text(), path.stem, str(path))
    except (OSError, UnicodeDecodeError) as problem:
        raise ScenarioError(name, "", f"cannot be read: {problem}") from problem


def parse(text: str, name: str, file: str) -> Scenario:
    """``text`` as a scenario, checked throughout. Raises `ScenarioError`."""
    import yaml

    try:
        written = yaml.safe_load(text)
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 0
        raise ScenarioError(file, "", f"not YAML: {problem.problem}", line) from problem
    except yaml.YAMLError as problem:
        raise ScenarioError(file, "", f"not YAML: {problem}") from problem
    reader = _Reader(file, text)
    if not isinstance(written, dict):
        raise reader.wrong("", "a scenario is a mapping that begins with `shows:`")
    try:
        document = msgspec.convert(written, Document, dec_hook=_decode)
    except msgspec.ValidationError as problem:
        path, message = _where(str(problem))
        raise reader.wrong(path, message) from problem
    return reader.scenario(name, document, written)


class _Reader:
    def __init__(self, file: str, text: str) -> None:
        import yaml

        self.file = file
        self._root: Any = yaml.compose(text)
        self._start = datetime.min.replace(tzinfo=UTC)
        self._nodes: list[str] = []

    def wrong(self, path: str, problem: str) -> ScenarioError:
        return ScenarioError(self.file, path, problem, self.line(path))

    def line(self, path: str) -> int:
        """Where the deepest part of ``path`` that is in the file stands, from 1."""
        import yaml

        node, line = self._root, 0
        for part in _PATH.findall(path):
            if isinstance(node, yaml.MappingNode):
                found = next(((k, v) for k, v in node.value if k.value == part), None)
                if not found:
                    break
                line, node = found[0].start_mark.line + 1, found[1]
            elif isinstance(node, yaml.SequenceNode) and part.startswith("["):
                node = node.value[int(part[1:-1])]
                line = node.start_mark.line + 1
            else:
                break
        return line

    def scenario(self, name: str, document: Document, written: Mapping[str, Any]) -> Scenario:
        if document.start.tzinfo is None:
            raise self.wrong("start", "has no time zone; write 2026-03-02T08:00:00Z")
        self._start = document.start.astimezone(UTC)
        self._check_cluster(document)
        end = self.moment(document.until, "until")
        steps: list[Timed] = []
        for place, step in enumerate(document.steps):
            path = f"steps[{place}]"
            at = self.moment(step.at, f"{path}.at")
            if steps and at < steps[-1].at:
                raise self.wrong(f"{path}.at", "is before the step above; steps stand in order")
            if at > end:
                raise self.wrong(f"{path}.at", f"is after the end ({document.until})")
            self._check_step(step, path)
            steps.append(Timed(at, step, self.line(path)))
        for place, expect in enumerate(document.expect):
            self._check_expect(expect, f"expect[{place}]")
        return Scenario(
            name=name,
            file=self.file,
            shows=" ".join(document.shows.split()),
            start=self._start,
            end=end,
            cluster=document.cluster,
            policy=self._policy(document),
            steps=tuple(steps),
            expect=tuple(
                (expect, self.line(f"expect[{place}]"))
                for place, expect in enumerate(document.expect)
            ),
        )

    def moment(self, text: str, path: str) -> datetime:
        try:
            return moment(text, self._start)
        except ValueError as problem:
            raise self.wrong(path, str(problem)) from problem

    def _policy(self, document: Document) -> str:
        if not document.policy:
            return ""
        import yaml

        text: str = yaml.safe_dump({"version": 1, **document.policy})
        try:
            policy.parse(text)
        except PolicyError as problem:
            raise self.wrong(f"policy.{problem.path}", problem.problem) from problem
        return text

    def _check_cluster(self, document: Document) -> None:
        pools = document.cluster.pools
        if not pools:
            raise self.wrong("cluster.pools", "empty: name at least one pool")
        for key, pool in pools.items():
            if pool.count < 1:
                raise self.wrong(f"cluster.pools.{key}.count", "is less than 1")
            if not pool.zones:
                raise self.wrong(f"cluster.pools.{key}.zones", "empty: name at least one zone")
            self._nodes += names_of(key, pool)
        for field in ("heals", "same_host"):
            if names := getattr(document.cluster.cloud, field):
                self._check_nodes(names, f"cluster.cloud.{field}")
        for place, workload in enumerate(document.cluster.workloads):
            path = f"cluster.workloads[{place}]"
            if workload.pool and workload.pool not in pools:
                raise self.wrong(f"{path}.pool", f"no pool {workload.pool!r}: {', '.join(pools)}")
            if workload.nodes:
                self._check_nodes(workload.nodes, f"{path}.nodes")

    def _check_nodes(self, names: Names, path: str) -> None:
        for name in [names] if isinstance(names, str) else names:
            if not fnmatch.filter(self._nodes, name):
                raise self.wrong(path, f"no node is called {name!r}")

    def _check_step(self, step: Step, path: str) -> None:
        acts = [act for act in ACTS if getattr(step, act) is not None]
        if len(acts) > 1:
            raise self.wrong(f"{path}.{acts[1]}", f"a step is one act, and has {acts[0]}, too")
        if not acts and not step.expect and not step.says:
            raise self.wrong(path, f"nothing happens; one of {', '.join(ACTS)}, or expect")
        if step.times < 1:
            raise self.wrong(f"{path}.times", "is less than 1")
        for act in acts:
            self._check_act(step, act, f"{path}.{act}")
        for place, expect in enumerate(step.expect):
            self._check_expect(expect, f"{path}.expect[{place}]")

    def _check_act(self, step: Step, act: str, path: str) -> None:
        body = getattr(step, act)
        if names := getattr(body, "node", ""):
            self._check_nodes(names, f"{path}.node")
        if step.event:
            self._check_event(step, path)
        if step.cloud:
            self._check_cloud(step.cloud, path)
        if human := step.human:
            done = [one for one in HUMAN_ACTS if getattr(human, one)]
            if len(done) != 1:
                raise self.wrong(path, f"is to be exactly one of {', '.join(HUMAN_ACTS)}")
            for field in ("cordon", "uncordon"):
                if names := getattr(human, field):
                    self._check_nodes(names, f"{path}.{field}")
            for field in ("annotate", "label"):
                for name in getattr(human, field):
                    self._check_nodes(name, f"{path}.{field}.{name}")
            if human.pause:
                self.moment(human.pause.until, f"{path}.pause.until")

    def _check_cloud(self, said: CloudSays, path: str) -> None:
        for call, how in said.refuses.items():
            if call not in CALLS:
                raise self.wrong(f"{path}.refuses.{call}", f"is none of {', '.join(CALLS)}")
            if how not in REFUSALS:
                raise self.wrong(f"{path}.refuses.{call}", f"is none of {', '.join(REFUSALS)}")
        if said.strangers:
            self._check_nodes(said.strangers, f"{path}.strangers")

    def _check_event(self, step: Step, path: str) -> None:
        event = step.event
        assert event is not None
        if bool(event.recorded) == (event.body is not None):
            raise self.wrong(path, "is to have either `recorded` or a `body` of its own")
        if event.recorded:
            file = recorded(event.recorded)
            if not file.is_file():
                raise self.wrong(f"{path}.recorded", f"no file events/recorded/{event.recorded}")
        elif event.set or event.node:
            raise self.wrong(path, "`set` and `node` change a recorded event; write the body so")

    def _check_expect(self, expect: Expect, path: str) -> None:
        kinds = [kind for kind in EXPECTATIONS if getattr(expect, kind)]
        if len(kinds) != 1:
            raise self.wrong(path, f"is to have exactly one of {', '.join(EXPECTATIONS)}")
        if expect.node:
            self._check_nodes(expect.node, f"{path}.node")
            if (
                expect.schedulable is None
                and expect.state is None
                and not expect.incidents
                and expect.emptied is None
            ):
                raise self.wrong(path, "says nothing of the node: schedulable, state, emptied ...")
        for kind in ("decided", "never"):
            if decided := getattr(expect, kind):
                self._check_decided(decided, f"{path}.{kind}")
        for key in expect.most_out:
            if key != "all" and not any(n.startswith(f"{key}-") for n in self._nodes):
                raise self.wrong(f"{path}.most_out.{key}", "no such pool; `all` is the cluster")

    def _check_decided(self, decided: Decided, path: str) -> None:
        if decided.action not in tuple(Action):
            actions = ", ".join(Action)
            raise self.wrong(f"{path}.action", f"no action {decided.action!r}: {actions}")
        self._check_nodes(decided.node, f"{path}.node")
        for field in ("since", "by"):
            if text := getattr(decided, field):
                self.moment(text, f"{path}.{field}")


def moment(text: str, start: datetime) -> datetime:
    """``Tue 14:05`` within the seven days after ``start``, ``Tue 14:05 +2w`` two weeks after that.
    Raises ValueError."""
    match = _AT.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is no time; write Tue 14:05 or Tue 14:05:30")
    day, *clock, weeks = match.groups()
    hour, minute, second = (int(part or 0) for part in clock)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is no time of day")
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    days = (DAYS.index(day) - start.weekday()) % 7
    at = midnight + timedelta(days=days, hours=hour, minutes=minute, seconds=second)
    return (at if at >= start else at + WEEK) + WEEK * int(weeks or 0)


def recorded(name: str) -> Traversable:
    return resources.files("events").joinpath("recorded", f"{name}.json")


def pick(names: Names, nodes: Iterable[str]) -> list[str]:
    """The nodes that ``names`` mean, in their own order."""
    wanted = [names] if isinstance(names, str) else names
    return [node for node in nodes if any(fnmatch.fnmatchcase(node, one) for one in wanted)]


def _decode(kind: type, value: object) -> object:
    if kind is Duration:
        return Duration.parse(value)
    raise NotImplementedError(kind)


def _where(message: str) -> tuple[str, str]:
    """msgspec's message as field and problem."""
    text, _, path = message.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if match := re.match(r"Object (contains unknown|missing required) field `(.+)`", text):
        field = f"{path}.{match[2]}" if path else match[2]
        return field, "no such field" if match[1] == "contains unknown" else "missing"
    if text == "Expected `str`, got `bool`":
        text += ' (YAML takes a bare True for more than a word: write "True")'
    return path, text
