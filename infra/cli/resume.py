"""``groundcrew resume``: end a pause."""

import argparse

from functions.rules.pause import key
from infra.cli import connect, pausing, screen
from infra.cli.connect import Session

DESCRIPTION = """\
End the pause of the cluster, of one pool, or all of them. Pauses that are over, or that cannot be
read (these stop everything), go with it. What was held back is looked at anew within a minute."""

EPILOG = """\
examples:
  groundcrew resume
  groundcrew resume --pool h100-a

exit codes: 0 nothing of what was named is paused any more, 2 wrong usage or no answer"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pool", default="", help="of this pool (default: of the whole cluster)")
    which.add_argument("--all", action="store_true", help="of the cluster and of every pool")
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return connect.run(args, lambda session: _resume(args, session))


def _resume(args: argparse.Namespace, session: Session) -> int:
    now = session.clock.now()
    known = pausing.read(session)
    standing = {name: pause for name, pause in known.standing.items() if pause.until > now}
    named = set(standing) if args.all else {key(args.pool)}
    left = {name: pause for name, pause in standing.items() if name not in named}
    if left != known.standing or known.unreadable:
        pausing.write(session, known, left, keep={})

    for name in sorted(named & standing.keys()):
        over = standing[name]
        print(
            f"resumed: {pausing.where(name)}; it was paused until {screen.moment(over.until)}"
            f"{f' by {over.by}' if over.by else ''}: {over.reason}"
        )
    for name, problem in known.unreadable.items():
        print(f"resumed: the pause {name!r} that could not be read is gone ({problem})")
    if not named & standing.keys() and not known.unreadable:
        what = "nothing" if args.all else f"{pausing.where(key(args.pool))}"
        print(f"{what} was paused" if args.all else f"{what} was not paused")
    for name, pause in sorted(left.items()):
        pool = pausing.pool_of(name)
        how = f" --pool {pool}" if pool else ""
        print(
            f"still paused: {pausing.where(name)}, until {screen.ahead(pause.until, now)}: "
            f"{pause.reason} (groundcrew resume{how})"
        )
    return 0
