"""Facts about sick machines for tests of the rules: everything speaks for the end unless told."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from events.notice import Cause, Kind, Severity
from functions.rules import drain_state, policy, replacing
from functions.rules.drain_state import DrainState
from functions.rules.incidents import Cordon, Incident, Record
from functions.rules.ledger import Ledger
from functions.rules.policy import Policy
from functions.rules.replacing import Closer, Facts, MachineFacts, Seen, Step
from functions.rules.replacing.book import Book, Entry
from tests.support.facts import NOW, node

MACHINE = "aws:///us-east-1a/i-n1"
MARKED: dict[str, Any] = {"unschedulable": True, "state": "evict", "incidents": "{}"}
"""A Node as cordon has marked it."""
ACTS = policy.parse("version: 1\nreplace: {act_in: ['*']}\nladder: [{rungs: [replace]}]")
FULL = policy.parse("version: 1\nreplace: {act_in: ['*']}")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
CLOSER = Closer(seen=Seen.RUNNING, says="EC2 says running", way="ec2", account="1")


def incident(**more: Any) -> Incident:
    made: dict[str, Any] = {
        "source": "kubernetes.node",
        "check": "AcceleratedHardwareReady",
        "kind": Kind.FAULT,
        "severity": Severity.EVICT,
        "cause": Cause.HARDWARE,
        "first": NOW - 2 * HOUR,
        "last": NOW,
        "boot": "boot-1",
        "in_log": True,
        "latched": True,
        "evidence": "Xid 79",
    }
    return Incident(**(made | more))


def record(*found: Incident, **more: Any) -> Record:
    made: dict[str, Any] = {"machine": MACHINE, "cordon": Cordon(at=NOW - 2 * HOUR)}
    return Record(incidents=found or (incident(),), **(made | more))


def drained(at: datetime = NOW - 2 * HOUR) -> DrainState:
    return DrainState(state=drain_state.State.DRAINED, started=at, changed=at)


def machine(**more: Any) -> MachineFacts:
    made: dict[str, Any] = {
        "machine": MACHINE,
        "pool": "gpu",
        "view": node(**MARKED),
        "record": record(),
        "state": "evict",
        "drain": drained(),
        "closer": CLOSER,
        "entry": entry(),
    }
    return MachineFacts(**(made | more))


def entry(**more: Any) -> Entry:
    made: dict[str, Any] = {
        "node": "n1",
        "uid": "uid-n1",
        "changed": NOW - 2 * HOUR,
        "noted": NOW - 2 * HOUR,
        "began": NOW - 2 * HOUR,
        "fault": "kubernetes.node/AcceleratedHardwareReady",
        "first_boot": "boot-1",
        "seen_boot": "boot-1",
        "empty": NOW - 2 * HOUR,
        "account": "1",
    }
    return Entry(**(made | more))


def book(**more: Any) -> Book:
    made: dict[str, Any] = {"began": NOW - 30 * DAY, "seen": NOW - HOUR, "awake": NOW - 20 * DAY}
    return Book(**(made | more))


def facts(*machines: MachineFacts, **more: Any) -> Facts:
    made: dict[str, Any] = {
        "books": {"": book(), "gpu": book()},
        "ledgers": {"gpu": Ledger(pool="gpu", size=100, rebuilt=more.pop("read", NOW))},
    }
    return Facts(machines=machines or (machine(),), **(made | more))


def decide(
    one: MachineFacts | None = None,
    rules: Policy = ACTS,
    at: datetime = NOW,
    **more: Any,
) -> Step:
    more.setdefault("read", at)
    (step,) = replacing.decide(facts(one or machine(), **more), rules, at)
    return step


def holding(step: Step) -> list[str]:
    return [v.guard.value for v in step.guards if not v.passed]


def without_closer(one: MachineFacts) -> MachineFacts:
    return replace(one, closer=None)


def with_policy(text: str) -> Policy:
    return policy.parse(f"version: 1\nreplace: {{act_in: ['*']}}\n{text}")


def changed(value: Any, **more: Any) -> Any:
    return msgspec.structs.replace(value, **more)
