"""``groundcrew explain``: everything that was decided about one node, and from what."""

import argparse

from infra.cli import connect
from infra.cli.connect import Session

DESCRIPTION = """\
Tell what is known of one node and why it is treated as it is: its incidents with their evidence,
what each asks for and when, what is in the way, how it may end, the drain, and the Events.

NODE is a node's name, its provider ID or its cloud's instance ID; a machine whose Node is gone is
explained from the ledger. Nothing is written."""

EPILOG = """\
examples:
  groundcrew explain gpu-h100-07
  groundcrew explain i-0123456789abcdef0
  groundcrew explain gpu-h100-07 -o json

exit codes: 0 done, 2 no such node or machine, wrong usage or no answer"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return connect.run(args, lambda session: _explain(args, session))


def _explain(args: argparse.Namespace, session: Session) -> int:
    from infra.cli import explain_report, explain_text

    report = explain_report.make(session, args.node)
    if args.output == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        explain_text.show(report)
    return 0
