"""What another policy would change: its fields, what protects the fleet less, and which nodes
would be decided about otherwise.

Asked before a policy is applied. Policies are changed for many reasons, and the expensive ones
are changed by mistake: a check that is raised to evict, a share of 50% that was meant to be 5%.
"""

import enum
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from functions.rules import budget, cordoning, incidents
from functions.rules.cordoning import Facts, NodeFacts, Verdict
from functions.rules.ledger import Ledger
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy, dump
from functions.rules.quantities import Duration, Share
from functions.rules.rebuild import Census, rebuild

MOST_MOVED = Share(0.05)
"""Of all nodes: the cluster's own default budget for nodes out of service at once."""
IN_SERVICE = "in service"


class Change(NamedTuple):
    path: str
    before: str
    """Empty: it was not there."""
    after: str
    """Empty: it is gone."""

    def __str__(self) -> str:
        if not self.before:
            return f"{self.path}: new: {self.after}"
        if not self.after:
            return f"{self.path}: gone: {self.before}"
        return f"{self.path}: {self.before} -> {self.after}"


class Looser(enum.Enum):
    """When a field protects less."""

    LARGER = "larger"
    SMALLER = "smaller"


LOOSER = {
    # More nodes out of service at once.
    "budget.pool": Looser.LARGER,
    "budget.cluster": Looser.LARGER,
    "budget.reservation": Looser.SMALLER,
    # A check gone mad takes more nodes with it.
    "breaker.share": Looser.LARGER,
    "breaker.within": Looser.SMALLER,
    "breaker.more_than": Looser.LARGER,
    "breaker.day_share": Looser.LARGER,
    "breaker.quiet": Looser.SMALLER,
    # A sick node serves again on less proof.
    "recovery.quiet": Looser.SMALLER,
    "recovery.releases": Looser.LARGER,
    "recovery.releases_within": Looser.SMALLER,
    # What applications cause, and what a person judged, is acted on sooner.
    "application_faults.jobs": Looser.SMALLER,
    "application_faults.within": Looser.LARGER,
    "dismissed.override": Looser.SMALLER,
    # Work is lost sooner.
    "drain.deadline": Looser.SMALLER,
    "drain.before_loss": Looser.LARGER,
    "drain.gang_notice": Looser.SMALLER,
    # Machines are rebooted or end sooner, more often, or on less proof.
    "reboots.most": Looser.LARGER,
    "reboots.within": Looser.SMALLER,
    "reboots.settle": Looser.SMALLER,
    "seven_days.limit": Looser.SMALLER,
    "terminate.settle": Looser.SMALLER,
    "terminate.settle_cordon": Looser.SMALLER,
    "terminate.per_hour": Looser.LARGER,
    "terminate.per_day": Looser.LARGER,
    "terminate.pool_per_day": Looser.LARGER,
    "terminate.after_silence": Looser.SMALLER,
}
LOOSE_WORDS = {
    "drain.past_deadline": "delete",
    "drain.bare_pods": "evict",
    "drain.empty_dir": "evict",
}
"""Fields of words, and the word that protects less."""


def changes(old: Policy, new: Policy) -> list[Change]:
    """Field by field; of a list of rules, those that went and those that came."""
    before, after = _flat(old), _flat(new)
    found: list[Change] = []
    for path in [*before, *(path for path in after if path not in before)]:
        was, becomes = before.get(path), after.get(path)
        if was == becomes:
            continue
        if isinstance(was, list) and isinstance(becomes, list):
            gone = [item for item in was if item not in becomes]
            came = [item for item in becomes if item not in was]
            found += (Change(path, _words(item), "") for item in gone)
            found += (Change(path, "", _words(item)) for item in came)
            if not gone and not came:
                found.append(Change(path, _words(was), _words(becomes)))
        else:
            there, here = path in before, path in after
            found.append(
                Change(path, _words(was) if there else "", _words(becomes) if here else "")
            )
    return found


def loosened(old: Policy, new: Policy) -> list[Change]:
    """What would protect the fleet less than it does."""
    found = []
    for path, looser in LOOSER.items():
        was, becomes = _at(old, path), _at(new, path)
        before, after = (timedelta.max if value is None else value for value in (was, becomes))
        if after > before if looser is Looser.LARGER else after < before:
            found.append(Change(path, _words(was), _words(becomes)))
    for path, loose in LOOSE_WORDS.items():
        was, becomes = _at(old, path), _at(new, path)
        if becomes == loose != was:
            found.append(Change(path, was, becomes))
    return [*found, *_loosened_rules(old, new)]


def _loosened_rules(old: Policy, new: Policy) -> Iterable[Change]:
    shares = {domain.label: domain.share for domain in new.budget.domains}
    for domain in old.budget.domains:
        share = shares.get(domain.label)
        if share is None or share > domain.share:
            after = "" if share is None else str(share)
            yield Change(f"budget.domains {domain.label}", str(domain.share), after)
    for rule in old.waits:
        words = (rule.source, rule.check, rule.reason, rule.cause)
        # A pattern of an old rule, taken as words, is matched by the rules that cover it.
        wait = Duration(seconds=new.wait_of(*words).total_seconds())
        if wait < rule.wait:
            yield Change(f"waits {rule.source}/{rule.check}", str(rule.wait), str(wait))
    for shadow in old.shadow:
        if not any(_covers(other, shadow) for other in new.shadow):
            yield Change("shadow", _words(msgspec.to_builtins(shadow)), "")
    yield from _loosened_ends(old, new)
    for kind, gpus in old.recovery.gpus.items():
        fewer = new.recovery.gpus.get(kind, 0)
        if fewer < gpus:
            yield Change(f"recovery.gpus.{kind}", str(gpus), str(fewer or ""))


def _loosened_ends(old: Policy, new: Policy) -> Iterable[Change]:
    """What would let more machines be rebooted or end."""
    for pool in new.replace.act_in:
        if not any(fnmatch.fnmatchcase(pool, wide) for wide in old.replace.act_in):
            yield Change("replace.act_in", "", pool)
    for who in new.replace.beside:
        if who not in old.replace.beside:
            yield Change("replace.beside", "", who)
    for pool in old.replace.reserved:
        if not any(fnmatch.fnmatchcase(pool, wide) for wide in new.replace.reserved):
            yield Change("replace.reserved", pool, "")
    for proof in new.terminate.confirmed_by:
        if proof not in old.terminate.confirmed_by:
            yield Change("terminate.confirmed_by", "", proof)
    said = set()
    for rule in (*old.ladder, *new.ladder):
        # The patterns of a rule, taken as words, are matched by the rules that cover it.
        words = (rule.source, rule.check, rule.reason, rule.cause, rule.pool)
        before, after = old.ladder_of(*words), new.ladder_of(*words)
        if words not in said and not set(after) <= set(before):
            said.add(words)
            name = f"ladder {rule.source}/{rule.check} in {rule.pool}"
            yield Change(name, _words(list(before)), _words(list(after)))


def moved(
    nodes: tuple[Sequence[NodeFacts], Sequence[NodeFacts]],
    ledgers: Mapping[str, Ledger],
    policies: tuple[Policy, Policy],
    now: datetime,
) -> dict[str, tuple[str, str]]:
    """Nodes that the second policy would decide about otherwise than the first: name -> state
    under each. ``nodes`` are the same nodes, as each policy sees them (their pools).

    Judged at the end of the waiting times, so that a rule that acts in five minutes counts.
    """
    waits = [rule.wait for policy in policies for rule in policy.waits]
    later = now + max(waits, default=timedelta(0))
    before, after = (
        _outcomes(facts, ledgers, policy, now, later)
        for facts, policy in zip(nodes, policies, strict=True)
    )
    return {name: (before[name], after[name]) for name in before if before[name] != after.get(name)}


def too_many(count: int, nodes: int) -> bool:
    return count > MOST_MOVED * nodes


def _outcomes(
    nodes: Sequence[NodeFacts],
    known: Mapping[str, Ledger],
    policy: Policy,
    now: datetime,
    later: datetime,
) -> dict[str, str]:
    census = Census()
    for one in nodes:
        census.count(one.view, cordoning.domains_of(one.view, policy))
    ledgers = rebuild(known, census, now)
    cluster = Ledger(rebuilt=now)
    first = cordoning.decide(
        Facts(tuple(nodes), ledgers, cluster, _out((n.view for n in nodes), policy)), policy, now
    )
    views = [_after(verdict) for verdict in first.verdicts]
    second = cordoning.decide(
        Facts(
            tuple(NodeFacts(view) for view in views),
            {**ledgers, **first.ledgers},
            first.cluster or cluster,
            _out(views, policy),
        ),
        policy,
        later,
    )
    return {verdict.view.name: verdict.state or IN_SERVICE for verdict in second.verdicts}


def _out(views: Iterable[NodeView], policy: Policy) -> tuple[budget.Place, ...]:
    return tuple(
        budget.Place(view.machine, view.pool, cordoning.domains_of(view, policy))
        for view in views
        if view.state in cordoning.ACTED
    )


def _after(verdict: Verdict) -> NodeView:
    """The node as it would be once the verdict was written on it."""
    view = verdict.view
    if not verdict.changed:
        return view
    unschedulable = view.unschedulable if verdict.unschedulable is None else verdict.unschedulable
    return msgspec.structs.replace(
        view,
        incidents=incidents.encode(verdict.record) if verdict.state else None,
        state=verdict.state,
        unschedulable=unschedulable,
    )


def _covers(wide: Any, narrow: Any) -> bool:
    return all(
        fnmatch.fnmatchcase(getattr(narrow, field), getattr(wide, field))
        for field in ("source", "check", "reason", "cause", "pool")
    )


def _at(policy: Policy, path: str) -> Any:
    value: Any = policy
    for step in path.split("."):
        value = getattr(value, step)
    return value


def _flat(policy: Policy) -> dict[str, Any]:
    flat: dict[str, Any] = {}

    def add(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                add(f"{path}.{key}" if path else key, inner)
        else:
            flat[path] = value

    for section, value in msgspec.json.decode(dump(policy)).items():
        add(section, value)
    return flat


def _words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        said = ", ".join(f"{k}: {v}" for k, v in value.items() if v != "*")
        return f"{{{said}}}"
    if isinstance(value, list):
        return "[" + ", ".join(_words(item) for item in value) + "]"
    return str(value)
