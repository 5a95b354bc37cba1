"""The command line. ``groundcrew``, and ``kubectl groundcrew`` when it is installed as a plugin.

One module a command, imported when that command is called: ``--help`` and a short command load
neither the Kubernetes client nor the terminal library. A module has

    add_arguments(parser: argparse.ArgumentParser) -> None   its options, its description, and an
                                                             epilog with an example
    run(args: argparse.Namespace) -> int                     the exit code

Exit codes: 0 done, 1 done and something is not as it should be, 2 wrong usage or input.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Command(NamedTuple):
    name: str
    help: str

    @property
    def module(self) -> str:
        return f"infra.cli.{self.name}"


COMMANDS = (
    Command("replay", "play scenarios on an embedded cluster, a week in seconds"),
    Command("backtest", "compare what two policies would have done with the same history"),
    Command("record", "keep what a cluster is told, to replay it"),
    Command("consume", "hand on what AWS puts into an SQS queue"),
    Command("notices", "print how events are understood, one JSON line a notice"),
    Command("startable", "name Azure's scheduled events whose machines are all empty"),
    Command("status", "show the nodes that are out of service, and why"),
    Command("explain", "tell what was decided about one node, and from what"),
    Command("drain", "cordon nodes and empty them, now and by hand"),
    Command("uncordon", "give nodes back, whoever took them out of service"),
    Command("hold", "keep one machine from being rebooted or ended, for a time"),
    Command("approve", "agree to the end of a machine whose capacity is reserved"),
    Command("pause", "stop every act but recoveries, for a time and with a reason"),
    Command("resume", "end a pause"),
    Command("policy", "check, print the schema of, or apply a policy"),
    Command("completion", "print a completion script for your shell"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; ``argv`` is without the program's name. Returns the exit code.

    Wrong usage ends with SystemExit(2), as argparse does it.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Options of the program itself take no values, so the first word is the command.
    chosen = next((word for word in arguments if not word.startswith("-")), "")
    args = parser(chosen).parse_args(arguments)
    try:
        code: int = importlib.import_module(args.module).run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # `groundcrew ... | head`: whoever read has enough. What is still buffered goes nowhere,
        # or the interpreter would complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def parser(chosen: str = "", *, every: bool = False) -> argparse.ArgumentParser:
    """The parser of the program, in which only the ``chosen`` command knows its options, or
    ``every`` one (which imports them all)."""
    made = argparse.ArgumentParser(
        prog=_program(sys.argv[0]),
        description="The ground crew of a GPU fleet: takes sick nodes out of service, empties "
        "them and gives them back.",
        epilog="example: %(prog)s replay a-bad-week",
    )
    made.add_argument("--version", action=_Version, nargs=0, help="print it and end")
    commands = made.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        one = commands.add_parser(
            command.name,
            help=command.help,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if every or command.name == chosen:
            importlib.import_module(command.module).add_arguments(one)
        one.set_defaults(module=command.module)
    return made


class _Version(argparse.Action):
    """Looked up when it is asked for: that takes longer than the parser."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        print(f"groundcrew {metadata.version('k8s-groundcrew')}")
        parser.exit()


def _program(path: str) -> str:
    return "kubectl groundcrew" if "kubectl-groundcrew" in os.path.basename(path) else "groundcrew"
