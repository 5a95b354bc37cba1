"""``groundcrew approve``: agree to the end of a machine whose capacity is reserved."""

import argparse

from functions.gateways.kubernetes import errors, json_patch
from functions.gateways.kubernetes.json_patch import Operation
from functions.rules import keys
from infra.cli import connect, machine
from infra.cli.connect import Refused, Session

DESCRIPTION = """\
Agree that the machine of a node ends, although its capacity is reserved and may not come back. It
ends only if every other guard passes, too (`groundcrew explain NODE` shows them), and the word is
for this machine: another one under the same name needs another."""

EPILOG = """\
examples:
  groundcrew approve gpu-h100-07
  groundcrew approve gpu-h100-07 --take-back

exit codes: 0 done, 2 no such node, wrong usage or no answer"""

_PATH = json_patch.annotation(keys.APPROVED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("--take-back", action="store_true", help="it may not end after all")
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return connect.run(args, lambda session: _approve(args, session))


def _approve(args: argparse.Namespace, session: Session) -> int:
    node = machine.look_up(session, args.node).node
    if node is None:
        raise Refused(f"no Node stands for {args.node}: nothing ends without one")
    if not node.provider_id:
        raise Refused(f"{node.name} has no provider ID: nothing ends its machine")
    known = node.metadata.annotation(keys.APPROVED)
    operations: list[Operation] = [
        json_patch.test("/metadata/uid", node.metadata.uid),
        json_patch.test("/spec/providerID", node.provider_id),
    ]
    if args.take_back:
        if known is None:
            print(f"{node.name}: nobody had agreed to the end of its machine")
            return 0
        operations.append(json_patch.remove(_PATH))
        said = f"{node.name}: taken back; its machine {node.provider_id} may not end"
    else:
        if node.metadata.annotations is None:
            operations += json_patch.begin(json_patch.ANNOTATIONS)
        operations.append(json_patch.add(_PATH, node.provider_id))
        said = f"{node.name}: its machine {node.provider_id} may end, if every guard passes"
    try:
        session.cluster.patch_node(node.name, operations)
    except (errors.TestFailed, errors.NotFound) as problem:
        raise Refused(f"{node.name} is another machine by now: look again") from problem
    print(said)
    return 0
