"""``groundcrew status``: the fleet at a glance, and every node that is out of service, and why."""

import argparse

from infra.cli import connect
from infra.cli.connect import Session

DESCRIPTION = """\
Show the pools with their budgets, what is paused or doubted, and the nodes that carry groundcrew's
marks: what is wrong, what is done about it, what is in the way, and when it is looked at next."""

EPILOG = """\
examples:
  groundcrew status
  groundcrew status --all
  groundcrew status -o json | jq '.nodes[] | select(.state == "held")'

It reads the marked nodes and groundcrew's own ConfigMaps; pool sizes and other people's cordons
are as the last resync found them. --all reads every node instead, and counts anew; it also
names the machines that would have ended in the last 30 days, in pools where replace only tells,
and what became of each.

exit codes: 0 done, 1 groundcrew itself is not as it should be, 2 wrong usage or no answer"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument(
        "--all", action="store_true", help="read every node; also show those that others cordoned"
    )
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return connect.run(args, lambda session: _status(args, session))


def _status(args: argparse.Namespace, session: Session) -> int:
    from infra.cli import live, status_report, status_table

    read = live.read_all if args.all else live.read_marked
    fleet = read(session.cluster, session.namespace, session.clock.now())
    report = status_report.make(fleet, session.namespace, everything=args.all)
    if args.output == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        status_table.show(report, everything=args.all)
    return 1 if report.trouble else 0
