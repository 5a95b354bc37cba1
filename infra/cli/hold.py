"""``groundcrew hold``: keep one machine from being rebooted or ended, for a time."""

import argparse
from datetime import UTC, datetime, timedelta

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.rules import hold, keys
from functions.rules.hold import Hold
from functions.rules.quantities import Duration
from functions.steps import active
from infra.cli import connect, machine, screen
from infra.cli.connect import Refused, Session, no_namespace

DESCRIPTION = """\
Keep the machine of a node from being rebooted or ended, until then. It belongs to the machine: a
Node that is deleted and made anew is held all the same. Cordons and drains go on (`groundcrew
pause` stops those), and its seven days run. NODE is a node's name, its provider ID or its cloud's
instance ID. Without --until and --release the holds are listed."""

EPILOG = """\
examples:
  groundcrew hold gpu-h100-07 --until 2d --reason "vendor looks at GPU 5, INC-1234"
  groundcrew hold gpu-h100-07 --until 2026-03-09T12:00Z --reason "bug report"
  groundcrew hold gpu-h100-07 --release
  groundcrew hold

exit codes: 0 done, 2 no such node or machine, wrong usage or no answer"""

LONGEST = timedelta(days=90)
"""A hold that nobody remembers keeps a sick machine for ever."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("node", metavar="NODE", nargs="?", default="")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--until", metavar="TIME", default="", help="2d, 12h, or 2026-03-09T12:00Z")
    what.add_argument("--release", action="store_true", help="end the hold now")
    parser.add_argument("--reason", default="", help="for those who find it")
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return connect.run(args, lambda session: _hold(args, session))


def _hold(args: argparse.Namespace, session: Session) -> int:
    now = session.clock.now()
    known, standing = _read(session)
    if not args.node:
        return _list(standing, now)
    name, provider_id = _machine(args.node, session, standing)
    key = hold.key(provider_id)
    if args.release:
        if key not in standing:
            print(f"{name}: nobody holds its machine {provider_id}")
            return 0
        _write(session, known, {k: t for k, t in standing.items() if k != key})
        print(f"{name}: released; its machine {provider_id} is replace's again")
        return 0
    if not args.until:
        raise Refused("say --until TIME and --reason TEXT, or --release")
    reason = " ".join(args.reason.split())
    if not reason:
        raise Refused("--reason is empty: say why, for those who find the machine left alone")
    made = Hold(
        machine=provider_id,
        node=name,
        until=_until(args.until, now),
        reason=reason,
        by=session.operator(),
    )
    kept = {k: t for k, t in standing.items() if not _is_over(t, now)}
    _write(session, known, {**kept, key: msgspec.json.encode(made).decode()})
    print(f"{name}: held until {screen.ahead(made.until, now)}")
    print(f"  machine  {provider_id}")
    print(f"  reason   {reason} (by {made.by})")
    print("  stopped  its reboot and its end; its seven days run on")
    print(f"  end it   groundcrew hold {name} --release")
    return 0


def _read(session: Session) -> tuple[types.ConfigMap | None, dict[str, str]]:
    try:
        found = session.cluster.get_config_map(session.namespace, active.HOLD_NAME)
    except errors.NotFound:
        return None, {}
    return found, dict(found.data or {})


def _write(session: Session, known: types.ConfigMap | None, data: dict[str, str]) -> None:
    labels = {keys.PART: "hold"}
    if known:
        session.cluster.replace_config_map_data(known, data, labels)
        return
    try:
        session.cluster.create_config_map(session.namespace, active.HOLD_NAME, data, labels)
    except errors.NotFound as problem:
        raise no_namespace(session.namespace) from problem
    except errors.Conflict as problem:
        raise Refused("somebody else held a machine at the same time: run it again") from problem


def _machine(name: str, session: Session, standing: dict[str, str]) -> tuple[str, str]:
    """Name and provider ID of what is meant, also of a machine that only its hold remembers."""
    for text in standing.values():
        found = _decoded(text)
        if found and name in (found.node, found.machine):
            return found.node, found.machine
    looked = machine.look_up(session, name)
    if looked.node is not None:
        if not looked.node.provider_id:
            raise Refused(f"{name} has no provider ID: nothing ends its machine anyway")
        return looked.node.name, looked.node.provider_id
    if not looked.remembered:
        raise Refused(f"{name}: no node or machine of that name is known")
    newest = looked.remembered[0]
    return newest.entry.node, newest.provider_id


def _list(standing: dict[str, str], now: datetime) -> int:
    holds = [(_decoded(text), key) for key, text in standing.items()]
    for found, key in holds:
        if found is None:
            print(f"{key}: cannot be read, and holds: groundcrew hold NODE --release")
        elif found.until > now:
            by = f" (by {found.by})" if found.by else ""
            print(f"{found.node}: until {screen.ahead(found.until, now)}: {found.reason}{by}")
    if not any(found is None or found.until > now for found, _ in holds):
        print("no machine is held")
    return 0


def _decoded(text: str) -> Hold | None:
    try:
        return msgspec.json.decode(text, type=Hold)
    except msgspec.DecodeError:
        return None


def _is_over(text: str, now: datetime) -> bool:
    found = _decoded(text)
    return found is not None and found.until <= now


def _until(text: str, now: datetime) -> datetime:
    try:
        at = now + Duration.parse(text)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise Refused(f"--until {text}: write 2d, 12h, or 2026-03-09T12:00Z") from None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if not now < at <= now + LONGEST:
        raise Refused(
            f"--until {text} is not within the next {LONGEST.days} days: a node that is to be left "
            f"alone for good gets the label {keys.OPT_OUT}=false"
        )
    return at
