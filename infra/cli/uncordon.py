"""``groundcrew uncordon``: give nodes back, whoever took them out of service."""

import argparse

from infra.cli import connect, drain_options
from infra.cli.connect import Refused, Session

DESCRIPTION = """\
Make nodes schedulable again, whoever cordoned them. Where groundcrew had done it for an incident,
this is a human's decision about that incident: it is dismissed, a drain of the node stops, and the
same source and check keep quiet until a proven recovery, a new boot, a higher severity, or the
policy's override (24 hours). `groundcrew explain NODE` tells."""

EPILOG = """\
examples:
  groundcrew uncordon gpu-a-17
  groundcrew uncordon -l pool=a100 --dry-run

exit codes: 0 the nodes are in service, 1 one of them is not, 2 wrong usage or no answer"""

PATIENCE_SECONDS = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    drain_options.add_nodes(parser)
    drain_options.add_dry_run(parser)
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    options = drain_options.Options(
        nodes=tuple(dict.fromkeys([*args.nodes, *args.more_nodes])),
        selector=args.selector,
        dry_run=args.dry_run,
    )
    return connect.run(args, lambda session: _uncordon(options, session))


def _uncordon(options: drain_options.Options, session: Session) -> int:
    from functions.gateways.kubernetes import errors
    from functions.rules.policy import default
    from functions.steps import cordon_by_hand
    from functions.steps.cordon_by_hand import Replaced
    from functions.steps.drain_call import Call
    from infra.cli import cordon_words, drain_before

    if bool(options.nodes) == bool(options.selector):
        raise Refused("name the nodes, or choose them with --selector; one of the two")
    code = 0
    drain = default().drain
    with Call(session.cluster, session.clock, drain, PATIENCE_SECONDS, session.namespace) as call:
        for node in drain_before.nodes(session.cluster, options):
            if not node.unschedulable:
                print(f"{node.name}: is in service already")
                continue
            record = cordon_by_hand.record_of(node)
            try:
                if options.dry_run != "client":
                    cordon_by_hand.uncordon(call, node, dry_run=bool(options.dry_run))
            except (errors.KubernetesError, Replaced) as problem:
                print(f"{node.name}: not uncordoned: {problem}")
                code = 1
                continue
            would = "would be " if options.dry_run else ""
            print(f"{node.name}: {would}uncordoned")
            if record.cordon:
                print(f"  this dismisses {cordon_words.incidents(record)}, and a drain of it stops")
    return code
