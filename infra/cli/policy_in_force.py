"""``groundcrew policy show`` and ``apply``: the policy's validated copy in the cluster."""

import argparse
import sys
from collections import Counter

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.rules import keys, policy
from functions.rules.policy import Policy
from functions.rules.policy_change import MOST_MOVED, changes, loosened, moved, too_many
from functions.steps import active
from infra.cli import live, screen
from infra.cli.connect import Refused, Session, no_namespace
from infra.cli.policy import describe, load

NAMES_SHOWN = 5


def run(args: argparse.Namespace, session: Session) -> int:
    if args.action == "show":
        return _show(session)
    return _apply(args, session)


def _show(session: Session) -> int:
    import yaml

    found = active.read(session.cluster, session.namespace)
    broken = _broken(found)
    who = f"applied by {found.author}" if found.author else "the defaults: none was applied"
    if broken:
        print(f"groundcrew: {broken}", file=sys.stderr)
        who = "the defaults, since what was applied counts no more"
    print(f"# policy {policy.fingerprint(found.policy)}, {who}")
    if found.author and not broken:
        words = describe(changes(policy.default(), found.policy), "the defaults")
        print("\n".join(f"# {line}" for line in words.splitlines()))
    document = msgspec.json.decode(policy.dump(found.policy))
    print(yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=80), end="")
    return 1 if broken else 0


def _apply(args: argparse.Namespace, session: Session) -> int:
    new, mistakes = load(args.file)
    if new is None:
        for line in mistakes:
            print(line, file=sys.stderr)
        print("groundcrew: nothing was changed", file=sys.stderr)
        return 2
    fleet = live.read_all(session.cluster, session.namespace, session.clock.now())
    old, known = fleet.active.policy, _current(session)
    if broken := _broken(fleet.active):
        print(f"now: {broken}")
    elif known and policy.fingerprint(old) == policy.fingerprint(new):
        print(f"policy {policy.fingerprint(new)} is in force already")
        return 0
    than = "the defaults" if broken or not known else f"{policy.fingerprint(old)}, in force now,"
    print(f"policy {policy.fingerprint(new)} {describe(changes(old, new), than)}")
    waits = _grave(fleet, old, new)
    if waits and not args.confirm:
        print("nothing was changed: if this is meant, apply it with --confirm")
        return 1
    if args.dry_run:
        print("nothing was changed: this was a dry run")
        return 0
    _write(session, known, new, args.author or session.operator())
    print(f"in force: policy {policy.fingerprint(new)} (namespace {session.namespace})")
    return 0


def _broken(found: active.Active) -> str:
    """What is wrong with the policy in force, among all that may be wrong."""
    return found.trouble if active.POLICY_NAME in found.trouble else ""


def _current(session: Session) -> types.ConfigMap | None:
    try:
        return session.cluster.get_config_map(session.namespace, active.POLICY_NAME)
    except errors.NotFound:
        return None


def _grave(fleet: live.Fleet, old: Policy, new: Policy) -> bool:
    """Print what makes the change one to think twice about; whether there is any."""
    looser = loosened(old, new)
    if looser:
        print(f"it protects the fleet less by {', '.join(change.path for change in looser)}")
    ledgers = fleet.active.pools
    before, after = (live.facts_of(fleet.nodes, p, ledgers) for p in (old, new))
    changed = moved((before, after), ledgers, (old, new), fleet.now)
    many = too_many(len(changed), len(fleet.nodes))
    if changed:
        share = 100 * len(changed) / len(fleet.nodes)
        limit = f", over {MOST_MOVED}" if many else ""
        nodes = screen.count(len(fleet.nodes), "node")
        print(f"it decides otherwise about {len(changed)} of {nodes} ({share:.0f}%{limit}):")
        for (was, becomes), number in Counter(changed.values()).most_common():
            names = [name for name, pair in changed.items() if pair == (was, becomes)]
            more = f" and {number - NAMES_SHOWN} more" if number > NAMES_SHOWN else ""
            print(f"  {was} -> {becomes}: {', '.join(names[:NAMES_SHOWN])}{more}")
    else:
        nodes = screen.count(len(fleet.nodes), "node")
        print(f"it decides the same about all {nodes} as they are now")
    return bool(looser) or many


def _write(session: Session, known: types.ConfigMap | None, new: Policy, author: str) -> None:
    data, labels = active.policy_data(new, author), {keys.PART: "policy"}
    if known:
        session.cluster.replace_config_map_data(known, data, labels)
        return
    try:
        session.cluster.create_config_map(session.namespace, active.POLICY_NAME, data, labels)
    except errors.NotFound as problem:
        raise no_namespace(session.namespace) from problem
    except errors.Conflict as problem:
        raise Refused(
            "somebody else applied a policy at the same time: apply it again"
        ) from problem
