"""The policy document: typed, strict, every default written out in ``policy.yaml`` beside this.

A document is laid over the defaults field by field (lists replace lists), then decoded
strictly: an unknown field or a wrong type is an error that names the field, so that a typing
mistake never quietly leaves a default in force.
"""

import contextlib
import fnmatch
import functools
import hashlib
import re
from collections.abc import Mapping
from datetime import timedelta
from importlib import resources
from typing import Any, Literal

import msgspec
import yaml

from events.notice import Notice, Severity
from functions.rules import windows
from functions.rules.quantities import Duration, Share


class PolicyError(ValueError):
    """The document cannot be a policy. ``path`` is the field (``budget.pool``), ``line`` is
    where it stands, counted from 1, or 0 when the field is nowhere in the text."""

    def __init__(self, path: str, problem: str, line: int = 0) -> None:
        self.path = path
        self.problem = problem
        self.line = line
        super().__init__(f"{f'line {line}: ' if line else ''}{path or 'policy'}: {problem}")


RUNGS = ("reset", "reboot", "replace")
MIN_LIMIT = Duration(days=1)
"""Of the seven days: what ends running work is never a matter of hours."""


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class _Match(_Document, frozen=True):
    """Which incidents a rule is about; every pattern given must match (globs)."""

    source: str = "*"
    check: str = "*"
    reason: str = "*"
    cause: str = "*"

    def matches(self, source: str, check: str, reason: str, cause: str) -> bool:
        return (
            fnmatch.fnmatchcase(source, self.source)
            and fnmatch.fnmatchcase(check, self.check)
            and fnmatch.fnmatchcase(reason, self.reason)
            and fnmatch.fnmatchcase(cause, self.cause)
        )


class SeverityRule(_Match, frozen=True, kw_only=True):
    severity: Severity


class ShadowRule(_Match, frozen=True, kw_only=True):
    pool: str = "*"


class WaitRule(_Match, frozen=True, kw_only=True):
    wait: Duration


class LeadRule(_Match, frozen=True, kw_only=True):
    pool: str = "*"
    cordon_before: Duration
    drain_before: Duration


class WindowRule(_Document, frozen=True, kw_only=True):
    pool: str = "*"
    days: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]]
    opens: str
    closes: str
    zone: str = "UTC"


class Maintenance(_Document, frozen=True):
    cordon_before: Duration
    drain_before: Duration
    leads: list[LeadRule]
    windows: list[WindowRule]


class DomainBudget(_Document, frozen=True):
    label: str
    share: Share


class Budget(_Document, frozen=True):
    pool: Share
    cluster: Share
    domains: list[DomainBudget]
    reservation: Duration


class Breaker(_Document, frozen=True):
    share: Share
    within: Duration
    more_than: int
    day_share: Share
    quiet: Duration


class Recovery(_Document, frozen=True):
    quiet: Duration
    gpus: dict[str, int]
    releases: int
    releases_within: Duration


class ApplicationFaults(_Document, frozen=True):
    jobs: int
    within: Duration


class Dismissed(_Document, frozen=True):
    override: Duration


class Drain(_Document, frozen=True):
    deadline: Duration | None
    past_deadline: Literal["keep", "delete"]
    before_loss: Duration
    evictions_per_second: int
    parallel: int
    bare_pods: Literal["block", "evict"]
    empty_dir: Literal["evict", "block"]
    gang_notice: Duration


class LadderRule(_Match, frozen=True, kw_only=True):
    pool: str = "*"
    rungs: list[Literal["reset", "reboot", "replace"]]


class WayRule(_Document, frozen=True):
    pool: str
    way: Literal["auto", "autoscaling", "ec2", "karpenter", "cluster-api", "event"]


class Replace(_Document, frozen=True):
    act_in: list[str]
    reserved: list[str]
    ways: list[WayRule]
    after_end: Literal["delete-node", "out-of-service", "nothing"]
    joined_within: Duration
    startup_taint: str
    handed_over_within: Duration
    evidence_within: Duration
    beside: list[Literal["nvsentinel", "aws-node-termination-handler"]]


class Reboots(_Document, frozen=True):
    most: int
    within: Duration
    settle: Duration
    confirmed_within: Duration
    watched: Duration


class SevenDays(_Document, frozen=True):
    limit: Duration
    at_risk: list[Duration]


class Terminate(_Document, frozen=True):
    settle: Duration
    settle_cordon: Duration
    confirmed_by: list[Literal["active-test", "second-source", "kernel-log"]]
    per_hour: int
    per_day: int
    pool_per_day: Share
    after_silence: Duration


class Lifecycle(_Document, frozen=True):
    at_end: Literal["CONTINUE", "ABANDON"]
    heartbeat: Share
    longest: Duration
    launch_within: Duration


class Policy(_Document, frozen=True):
    version: Literal[1]
    severity: list[SeverityRule]
    shadow: list[ShadowRule]
    waits: list[WaitRule]
    maintenance: Maintenance
    budget: Budget
    breaker: Breaker
    recovery: Recovery
    application_faults: ApplicationFaults
    dismissed: Dismissed
    drain: Drain
    ladder: list[LadderRule]
    replace: Replace
    reboots: Reboots
    seven_days: SevenDays
    terminate: Terminate
    lifecycle: Lifecycle
    pools: list[str]

    def severity_of(self, notice: Notice) -> Severity:
        """The severity that this policy gives ``notice``."""
        for rule in self.severity:
            if rule.matches(notice.source, notice.check, notice.reason, notice.cause):
                return rule.severity
        return notice.severity

    def wait_of(self, source: str, check: str, reason: str, cause: str) -> timedelta:
        for rule in self.waits:
            if rule.matches(source, check, reason, cause):
                return rule.wait
        return timedelta(0)

    def lead_of(
        self, source: str, check: str, reason: str, cause: str, pool: str
    ) -> tuple[timedelta, timedelta]:
        """How long before such a maintenance a node of ``pool`` is cordoned, and drained."""
        for rule in self.maintenance.leads:
            if rule.matches(source, check, reason, cause) and fnmatch.fnmatchcase(pool, rule.pool):
                return rule.cordon_before, rule.drain_before
        return self.maintenance.cordon_before, self.maintenance.drain_before

    def windows_of(self, pool: str) -> list[WindowRule]:
        return [w for w in self.maintenance.windows if fnmatch.fnmatchcase(pool, w.pool)]

    def shadows(self, source: str, check: str, reason: str, cause: str, pool: str) -> bool:
        """Whether this policy only watches what it would do about that check in that pool."""
        return any(
            rule.matches(source, check, reason, cause) and fnmatch.fnmatchcase(pool, rule.pool)
            for rule in self.shadow
        )

    def ladder_of(
        self, source: str, check: str, reason: str, cause: str, pool: str
    ) -> tuple[str, ...]:
        """What is tried with a machine of ``pool`` that has such a fault, in this order."""
        for rule in self.ladder:
            if rule.matches(source, check, reason, cause) and fnmatch.fnmatchcase(pool, rule.pool):
                return tuple(rule.rungs)
        return ()

    def acts_in(self, pool: str) -> bool:
        """Whether machines of ``pool`` may be rebooted and terminated, or it is only told."""
        return any(fnmatch.fnmatchcase(pool, one) for one in self.replace.act_in)

    def is_reserved(self, pool: str) -> bool:
        return any(fnmatch.fnmatchcase(pool, one) for one in self.replace.reserved)

    def way_of(self, pool: str) -> str:
        """How a machine of ``pool`` is ended; ``auto``: by what its node shows."""
        found = (rule.way for rule in self.replace.ways if fnmatch.fnmatchcase(pool, rule.pool))
        return next(found, "auto")

    def pool_of(self, labels: Mapping[str, str] | None) -> str:
        """Name of the pool of a node with these labels: ``default`` when none names one."""
        found = labels or {}
        return next((found[key] for key in self.pools if found.get(key)), "default")


def parse(text: str) -> Policy:
    """``text`` (YAML or JSON) laid over the defaults. Raises `PolicyError`."""
    try:
        document = _load(text)
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 0
        raise PolicyError("", f"not YAML: {problem.problem}", line) from problem
    except yaml.YAMLError as problem:
        raise PolicyError("", f"not YAML: {problem}") from problem
    if not isinstance(document, dict) or not document:
        raise PolicyError("", "empty: a policy is a mapping; start with `version: 1`")
    try:
        return _typed(document)
    except PolicyError as problem:
        raise PolicyError(problem.path, problem.problem, _line_of(text, problem.path)) from problem


def mistakes(text: str) -> list[PolicyError]:
    """Everything that is wrong with ``text``, by line, where `parse` stops at the first: a field
    that is wrong is put back to its default before the next one is looked for."""
    try:
        parse(text)
        return []
    except PolicyError as first:
        if not first.path:
            return [first]
    found: list[PolicyError] = []
    document = _load(text)
    numbers: dict[str, list[int]] = {}
    while True:
        try:
            _typed(document)
        except PolicyError as problem:
            path, put_back = _put_back(document, problem.path, numbers)
            found.append(PolicyError(path, problem.problem, _line_of(text, path)))
            if put_back:
                continue
        return sorted(found, key=lambda mistake: mistake.line)


@functools.cache
def default() -> Policy:
    """The policy of ``policy.yaml``: what holds where nothing else is said."""
    return _check(msgspec.convert(_defaults(), Policy, dec_hook=_decode))


def default_text() -> str:
    return resources.files("functions.rules").joinpath("policy.yaml").read_text()


def schema() -> dict[str, Any]:
    """JSON Schema of a full policy document."""
    made = msgspec.json.schema(Policy, schema_hook=_schema)
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = "groundcrew policy"
    return _without_required(made)


def fingerprint(policy: Policy) -> str:
    """12 hex digits that are the same for the same policy, however its file was written."""
    return hashlib.sha256(dump(policy)).hexdigest()[:12]


def dump(policy: Policy) -> bytes:
    """The whole policy as JSON, defaults included."""
    return msgspec.json.encode(policy, enc_hook=_encode, order="deterministic")


def _typed(document: dict[str, Any]) -> Policy:
    if "version" not in document:
        raise PolicyError("version", "missing; this groundcrew reads `version: 1`")
    try:
        return _check(msgspec.convert(_overlay(_defaults(), document), Policy, dec_hook=_decode))
    except msgspec.ValidationError as problem:
        raise PolicyError(*_where(str(problem))) from problem


def _put_back(
    document: dict[str, Any], path: str, numbers: dict[str, list[int]]
) -> tuple[str, bool]:
    """Take the field at ``path`` out of ``document``, or the rule of a list that it stands in.
    Returns where it stood before anything was taken out (``numbers`` keeps the places of the
    rules that are left), and whether it was there at all."""
    if path == "version":
        document[path] = 1
        return path, True
    steps, index, inside = re.fullmatch(r"([^\[]*)(?:\[(\d+)\])?(.*)", path).groups()  # type: ignore[union-attr]
    *above, last = steps.split(".")
    place: Any = document
    for step in above:
        place = place.get(step) if isinstance(place, dict) else None
    if not isinstance(place, dict) or last not in place:
        return path, False
    if index is None:
        del place[last]
        return path, True
    del place[last][int(index)]
    known = numbers.setdefault(steps, list(range(len(place[last]) + 1)))
    return f"{steps}[{known.pop(int(index))}]{inside}", True


def _check(policy: Policy) -> Policy:
    """What types cannot say."""
    _check_maintenance(policy.maintenance)
    for path, number in (
        ("drain.evictions_per_second", policy.drain.evictions_per_second),
        ("drain.parallel", policy.drain.parallel),
        ("breaker.more_than", policy.breaker.more_than),
        ("application_faults.jobs", policy.application_faults.jobs),
        ("recovery.releases", policy.recovery.releases),
        ("reboots.most", policy.reboots.most),
        ("terminate.per_hour", policy.terminate.per_hour),
        ("terminate.per_day", policy.terminate.per_day),
    ):
        if number < 1:
            raise PolicyError(path, f"{number} is less than 1")
    for place, rule in enumerate(policy.ladder):
        if rule.rungs != [rung for rung in RUNGS if rung in rule.rungs]:
            raise PolicyError(
                f"ladder[{place}].rungs",
                f"{', '.join(rule.rungs)}: each at most once, and in this order: "
                f"{', '.join(RUNGS)}",
            )
    for place, at in enumerate(policy.seven_days.at_risk):
        if not timedelta(0) < at < policy.seven_days.limit:
            raise PolicyError(
                f"seven_days.at_risk[{place}]",
                f"{at} is not before the limit ({policy.seven_days.limit})",
            )
    if policy.seven_days.limit < MIN_LIMIT:
        raise PolicyError(
            "seven_days.limit",
            f"{policy.seven_days.limit} is less than {MIN_LIMIT}: at the limit a machine is "
            "replaced whether its work has left it or not",
        )
    if not policy.pools:
        raise PolicyError("pools", "empty: name at least one node label")
    return policy


def _check_maintenance(maintenance: Maintenance) -> None:
    leads: list[tuple[str, Maintenance | LeadRule]] = [("maintenance.", maintenance)]
    leads += [(f"maintenance.leads[{n}].", lead) for n, lead in enumerate(maintenance.leads)]
    for path, lead in leads:
        if lead.drain_before > lead.cordon_before:
            raise PolicyError(
                f"{path}drain_before",
                f"{lead.drain_before} is before the cordon ({lead.cordon_before}): a "
                "node is cordoned first; set cordon_before at least as long",
            )
    for number, window in enumerate(maintenance.windows):
        where = f"maintenance.windows[{number}]"
        if not window.days:
            raise PolicyError(f"{where}.days", "empty: name at least one of mon, tue, ... sun")
        for field, text in (("opens", window.opens), ("closes", window.closes)):
            try:
                windows.clock_time(text)
            except ValueError as problem:
                raise PolicyError(f"{where}.{field}", f"{text!r}: write it as 22:00") from problem
        try:
            windows.zone(window.zone)
        except (LookupError, ValueError) as problem:
            raise PolicyError(
                f"{where}.zone", f"{window.zone!r} is no time zone here; write Europe/Berlin or UTC"
            ) from problem


@functools.cache
def _defaults() -> dict[str, Any]:
    # libyaml, where PyYAML has it: ten times as fast, and each command waits for this. It counts
    # the lines of mistakes otherwise, so that what people wrote is not read by it.
    loaded: dict[str, Any] = yaml.load(
        default_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return loaded


def _load(text: str) -> Any:
    """YAML; where it is JSON, as that of the active copy, a hundred times as fast."""
    if text.startswith("{"):
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(text)
    return yaml.safe_load(text)


def _overlay(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {
            key: _overlay(below.get(key), above[key]) if key in above else below[key]
            for key in [*below, *(key for key in above if key not in below)]
        }
    return above


def _decode(kind: type, value: object) -> object:
    if kind in (Duration, Share):
        return kind.parse(value)
    raise NotImplementedError(kind)


def _encode(value: object) -> object:
    if isinstance(value, Duration | Share):
        return str(value)
    raise NotImplementedError(type(value))


def _schema(kind: type) -> dict[str, Any]:
    if kind is Duration:
        return {"type": "string", "pattern": r"^(\d+(ms|[smhd]))+$", "examples": ["90s", "7d"]}
    if kind is Share:
        return {"type": "string", "pattern": r"^\d+(\.\d+)?%$", "examples": ["10%"]}
    raise NotImplementedError(kind)


def _without_required(made: dict[str, Any]) -> dict[str, Any]:
    # A document names only what it changes, so the sections and their fields are optional; the
    # fields of a rule in a list are not.
    for name, definition in made.get("$defs", {}).items():
        if name == "Policy":
            definition["required"] = ["version"]
        elif not name.endswith("Rule") and name != "DomainBudget":
            definition.pop("required", None)
    return made


def _where(message: str) -> tuple[str, str]:
    """msgspec's message as field and problem: ``Expected `int` - at `$.drain.parallel```."""
    text, _, path = message.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if unknown := re.match(r"Object contains unknown field `(.+)`", text):
        field = f"{path}.{unknown[1]}" if path else unknown[1]
        return field, "no such field; see `groundcrew policy schema`"
    if missing := re.match(r"Object missing required field `(.+)`", text):
        return (f"{path}.{missing[1]}" if path else missing[1]), "missing"
    return path, text


def _line_of(text: str, path: str) -> int:
    """Where the deepest part of ``path`` that stands in the document begins."""
    node: Any = yaml.compose(text)
    line = 0
    for part in re.findall(r"[^.\[\]]+|\[\d+\]", path):
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == part), None)
            if not found:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and part.startswith("["):
            index = int(part[1:-1])
            if index >= len(node.value):
                break
            node = node.value[index]
            line = node.start_mark.line + 1
        else:
            break
    return line
