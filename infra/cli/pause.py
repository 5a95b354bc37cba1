"""``groundcrew pause``: stop every act but recoveries, for a time and with a reason.

Read by every function before every write, so that it holds from the next write on.
"""

import argparse
from datetime import timedelta

from functions.rules import drain_state, keys
from functions.rules.pause import Pause, key
from functions.rules.quantities import Duration
from functions.steps import active
from infra.cli import connect, live, pausing, screen
from infra.cli.connect import Refused, Session

DESCRIPTION = """\
Stop cordons, evictions and all else that groundcrew does, in the cluster or in one pool, for a
time. What is cordoned stays cordoned, what is wrong is still recorded, and nodes that recover are
still given back. It ends by itself, or with `groundcrew resume`."""

EPILOG = """\
examples:
  groundcrew pause --for 2h --reason "driver roll-out, INC-1234"
  groundcrew pause --pool h100-a --for 3d --reason "benchmark of the research team"

exit codes: 0 paused, 2 wrong usage or no answer"""

LONGEST = timedelta(days=30)
"""A pause that nobody remembers leaves a fleet without help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--pool", default="", help="only this pool (default: the whole cluster)")
    parser.add_argument(
        "--for", dest="length", type=_length, required=True, metavar="TIME", help="90m, 2h, 3d"
    )
    parser.add_argument("--reason", type=_reason, required=True, help="for those who find it")
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return connect.run(args, lambda session: _pause(args, session))


def _pause(args: argparse.Namespace, session: Session) -> int:
    now = session.clock.now()
    fleet = live.read_marked(session.cluster, session.namespace, now)
    pools = fleet.active.pools
    if args.pool and pools and args.pool not in pools:
        raise Refused(f"no pool is called {args.pool}; there are: {', '.join(sorted(pools))}")
    known = pausing.read(session)
    name = key(args.pool)
    made = Pause(until=now + args.length, reason=args.reason, by=session.operator())
    standing = {n: p for n, p in known.standing.items() if p.until > now}
    others = {n: text for n, text in _texts(known).items() if n != name}
    pausing.write(session, known, standing | {name: made}, others)

    size = live.use(fleet, args.pool).size
    nodes = f", {screen.count(size, 'node')}" if size else ""
    print(f"paused: {pausing.where(name)}{nodes}, until {screen.ahead(made.until, now)}")
    print(f"  reason   {made.reason} (by {made.by})")
    print("  stopped  cordons, evictions and terminations; recoveries go on")
    draining = [
        node.name
        for node in fleet.nodes
        if args.pool in ("", fleet.active.policy.pool_of(node.metadata.labels))
        and _is_draining(node.metadata.annotation(keys.DRAIN))
    ]
    if draining:
        print(f"  drains   stopped where they are: {', '.join(draining)}")
    if before := standing.get(name):
        print(f"  instead  of the one until {screen.moment(before.until)}: {before.reason}")
    pool = f" --pool {args.pool}" if args.pool else ""
    print(f"  end it   groundcrew resume{pool}")
    if not active.read(session.cluster, session.namespace).paused(args.pool, now):
        raise Refused("the pause was written and is not in force: somebody ended it just now")
    return 0


def _texts(known: pausing.Pauses) -> dict[str, str]:
    data = (known.config_map.data if known.config_map else None) or {}
    return {name: data[name] for name in known.unreadable}


def _is_draining(text: str | None) -> bool:
    if text is None:
        return False
    try:
        state = drain_state.decode(text).state
    except drain_state.Unreadable:
        return False
    return state in (drain_state.State.DRAINING, drain_state.State.BLOCKED)


def _length(text: str) -> Duration:
    try:
        length = Duration.parse(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
    if not timedelta(0) < length <= LONGEST:
        raise argparse.ArgumentTypeError(
            f"{text} is not between 1s and {LONGEST.days}d: a longer stop belongs in the policy "
            "(shadow), a node that is to be left alone gets the label "
            f"{keys.OPT_OUT}=false"
        )
    return length


def _reason(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise argparse.ArgumentTypeError("empty: say why, for those who find everything stopped")
    return line
