"""What is in force now: the active policy, the pauses and the ledgers, in one request.

A policy acts only as its validated copy, the ConfigMap ``groundcrew-policy-active`` that
``groundcrew policy apply`` writes with its fingerprint: one that was edited by hand, is broken,
or is gone after it was in force, stops every act but recoveries until it is put right. The
defaults, for want of any, may do what it kept from being done.
"""

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.types import ConfigMap
from functions.rules import hold, keys, ledger, pause, policy
from functions.rules.ledger import Ledger
from functions.rules.policy import Policy

if TYPE_CHECKING:
    from functions.rules.replacing import book

POLICY_NAME = "groundcrew-policy-active"
PAUSE_NAME = "groundcrew-pause"
HOLD_NAME = "groundcrew-hold"
EVIDENCE_NAME = "groundcrew-evidence"
LEDGER_NAME = "groundcrew-ledger"
CLUSTER = ""
"""The cluster's own ledger, among those of the pools."""


@dataclass(frozen=True)
class Active:
    policy: Policy
    pauses: Mapping[str, pause.Pause] = field(default_factory=dict)
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)
    """By pool; `CLUSTER` is the cluster's. What is missing or unreadable is not in it."""
    shelf: Mapping[str, ConfigMap] = field(default_factory=dict)
    """The ledgers' ConfigMaps as read, to write against."""
    trouble: str = ""
    """What is wrong with policy or pauses; nothing but recoveries is done while there is any."""
    author: str = ""
    """Who applied the policy; empty where none was."""
    evidence: str = ""
    """The template of the Job that collects evidence, as YAML."""
    holds: Mapping[str, hold.Hold | str] = field(default_factory=dict)
    """By `hold.key`; a text says what is wrong with one that cannot be read."""
    applied: bool = False
    """``policy`` is one that was applied, and not the defaults for want of it."""

    def paused(self, pool: str, now: datetime) -> str:
        """Why nothing may be done in ``pool``; empty when it may."""
        return self.trouble or pause.why(self.pauses, pool, now)

    @property
    def pools(self) -> dict[str, Ledger]:
        return {pool: found for pool, found in self.ledgers.items() if pool != CLUSTER}


def read(cluster: Cluster, namespace: str) -> Active:
    """Everything in force. One LIST of our own ConfigMaps."""
    in_force, present, author, evidence = policy.default(), False, "", ""
    wrong_policy = wrong_pause = ""
    pauses: dict[str, pause.Pause] = {}
    ledgers: dict[str, Ledger] = {}
    shelf: dict[str, ConfigMap] = {}
    holds: dict[str, hold.Hold | str] = {}
    for found in cluster.list_config_maps(namespace, keys.PART):
        part, name = found.metadata.label(keys.PART), found.metadata.name
        if part == "policy" and name == POLICY_NAME:
            in_force, wrong_policy = _policy(found, in_force)
            present = True
            author = (found.data or {}).get("author", "")
        elif part == "pause" and name == PAUSE_NAME:
            pauses, wrong_pause = _pauses(found)
        elif part == "hold" and name == HOLD_NAME:
            holds = {key: _hold(text) for key, text in (found.data or {}).items()}
        elif part == "evidence" and name == EVIDENCE_NAME:
            evidence = (found.data or {}).get("job.yaml", "")
        elif part == "ledger":
            pool = (found.data or {}).get("pool", "")
            shelf[pool] = found
            try:
                ledgers[pool] = ledger.decode((found.data or {}).get("ledger", ""))
            except ledger.Unreadable:
                continue  # as good as missing: the resync rebuilds it over the ConfigMap
    known = ledgers.get(CLUSTER, Ledger()).policy
    if known and not present:
        wrong_policy = (
            f"ConfigMap {POLICY_NAME} is gone, or has lost its label {keys.PART}=policy, and "
            f"policy {known} was in force: apply it anew with `groundcrew policy apply FILE` "
            "(one that says only `version: 1` puts the defaults in force)"
        )
    return Active(
        policy=in_force,
        pauses=pauses,
        ledgers=ledgers,
        shelf=shelf,
        trouble="; ".join(filter(None, (wrong_policy, wrong_pause))),
        author=author,
        evidence=evidence,
        holds=holds,
        applied=present and not wrong_policy,
    )


def policy_data(document: Policy, author: str) -> dict[str, str]:
    """What ``policy apply`` writes and `read` accepts."""
    text = policy.dump(document).decode()
    return {"policy.json": text, "sha256": _hash(text), "author": author}


def _policy(found: ConfigMap, fallback: Policy) -> tuple[Policy, str]:
    data = found.data or {}
    text = data.get("policy.json", "")
    if data.get("sha256") != _hash(text):
        return fallback, (
            f"ConfigMap {POLICY_NAME} was changed by hand (its hash does not match): "
            "apply the policy anew with `groundcrew policy apply FILE`"
        )
    try:
        return _parsed(text), ""
    except policy.PolicyError as problem:
        return fallback, f"ConfigMap {POLICY_NAME} is no valid policy: {problem}"


@functools.lru_cache(maxsize=4)
def _parsed(text: str) -> Policy:
    """Reading one takes longer than all else that most calls do, and it changes once a month."""
    return policy.parse(text)


def _pauses(found: ConfigMap) -> tuple[dict[str, pause.Pause], str]:
    pauses: dict[str, pause.Pause] = {}
    for name, text in (found.data or {}).items():
        try:
            pauses[name] = msgspec.json.decode(text, type=pause.Pause)
        except msgspec.DecodeError as problem:
            # Somebody wanted a pause: an unreadable one is a pause, not none.
            return pauses, f"ConfigMap {PAUSE_NAME}, key {name}: {problem}; `groundcrew resume`"
    return pauses, ""


def _hold(text: str) -> hold.Hold | str:
    try:
        return msgspec.json.decode(text, type=hold.Hold)
    except msgspec.DecodeError as problem:
        return str(problem)


def write_ledger(
    cluster: Cluster, namespace: str, active: Active, pool: str, new: Ledger
) -> Active:
    """Compare-and-set: raises one of `LOST_RACE` when somebody else wrote since ``active`` was
    read. Returns ``active`` with the ledger as it is now."""
    known = active.shelf.get(pool)
    # The object is shared: replace keeps its book in it, and a newer version who knows what.
    others = {k: v for k, v in ((known.data if known else None) or {}).items() if k != "ledger"}
    taken = sum(len(k) + len(v.encode()) for k, v in others.items())
    data = {**others, "pool": pool, "ledger": ledger.encode(new, ledger.MAX_BYTES - taken)}
    if known is None:
        name = ledger_name(pool)
        try:
            kept = cluster.create_config_map(namespace, name, data, {keys.PART: "ledger"})
        except errors.NotFound as problem:
            raise errors.KubernetesError(
                f"namespace {namespace} does not exist, and the ledger {name} belongs there: "
                f"`kubectl create namespace {namespace}`, or set GROUNDCREW_NAMESPACE"
            ) from problem
    else:
        kept = cluster.replace_config_map_data(known, data)
    return replace(
        active,
        ledgers={**active.ledgers, pool: new},
        shelf={**active.shelf, pool: kept},
    )


def write_book(cluster: Cluster, active: Active, pool: str, new: "book.Book") -> Active:
    """Compare-and-set of replace's book of ``pool``, beside cordon's ledger. Raises one of
    `LOST_RACE`, and KeyError where the ConfigMap is missing: cordon's resync makes it."""
    # Beside replace nobody needs it, and all its rules would come along.
    from functions.rules.replacing import book

    known = active.shelf[pool]
    data = {**(known.data or {}), book.KEY: book.encode(new)}
    kept = cluster.replace_config_map_data(known, data)
    return replace(active, shelf={**active.shelf, pool: kept})


LOST_RACE = (errors.TestFailed, errors.Conflict, errors.NotFound)


def ledger_name(pool: str) -> str:
    """Name of a pool's ledger. Pools are named by label values, which may hold what the names of
    objects may not; those get a short hash so that two of them never share a ledger."""
    if pool == CLUSTER:
        return LEDGER_NAME
    safe = re.sub(r"[^a-z0-9-]+", "-", pool.lower()).strip("-")
    if safe != pool:
        safe = f"{safe[:40]}-{_hash(pool)[:8]}".strip("-")
    return f"{LEDGER_NAME}-{safe}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
