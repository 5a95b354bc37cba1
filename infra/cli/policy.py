"""``groundcrew policy``: what groundcrew may do, checked before it counts.

A policy acts only as its validated copy in the cluster, which ``apply`` writes. A file that was
merely edited, or that nobody could parse, changes nothing.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from functions.rules import policy
from functions.rules.policy import Policy, PolicyError
from functions.rules.policy_change import Change, changes
from infra.cli import connect

DESCRIPTION = """\
Check a policy, put it in force, or show what is in force.

A policy file names only what it changes; the rest is as `groundcrew policy show --default` says."""

EPILOG = """\
examples:
  groundcrew policy check policy.yaml
  groundcrew policy apply policy.yaml --dry-run
  groundcrew policy schema > policy.schema.json

exit codes: 0 done, 1 apply waits for --confirm (nothing was written), 2 wrong input or no answer"""

APPLY = """\
Put FILE in force. It is checked, compared with what is in force, and written as the ConfigMap
that the functions read. If it would change what happens to more than 5% of the nodes as they are
now, or if a budget, a breaker, a deadline or another protection gets looser, it says what would
change and waits for --confirm."""

APPLY_EXAMPLES = """\
  groundcrew policy apply policy.yaml --dry-run
  groundcrew policy apply policy.yaml --confirm --author "jane, ticket 4711\""""

CHECK_EXAMPLES = """\
  groundcrew policy check policy.yaml
  kubectl get configmap drafts -o json | jq -r '.data["policy.yaml"]' | groundcrew policy check -"""

SCHEMA_EXAMPLES = """\
  groundcrew policy schema > policy.schema.json"""

SHOW_EXAMPLES = """\
  groundcrew policy show > policy.yaml
  groundcrew policy show --default | less"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, words: str, examples: str, about: str = "") -> argparse.ArgumentParser:
        return actions.add_parser(
            name,
            help=words,
            description=about or f"{words[0].upper()}{words[1:]}.",
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    check = action("check", "find every mistake in a file, with line and field", CHECK_EXAMPLES)
    check.add_argument("files", nargs="+", metavar="FILE", help="a policy, or - for stdin")

    action("schema", "print the JSON Schema, for editors and CI", SCHEMA_EXAMPLES)

    show = action("show", "print what is in force, as a file to start from", SHOW_EXAMPLES)
    show.add_argument("--default", action="store_true", help="the defaults, with their reasons")
    connect.add_arguments(show)

    apply = action("apply", "put a file in force", APPLY_EXAMPLES, APPLY)
    apply.add_argument("file", metavar="FILE", help="a policy, or - for stdin")
    apply.add_argument("--confirm", action="store_true", help="although it moves or loosens much")
    apply.add_argument(
        "--dry-run", action="store_true", help="say what would change, write nothing"
    )
    apply.add_argument("--author", default="", help="default: you, as user and kubeconfig say")
    connect.add_arguments(apply)


def run(args: argparse.Namespace) -> int:
    if args.action == "check":
        return _check(args.files)
    if args.action == "schema":
        print(msgspec.json.format(msgspec.json.encode(policy.schema()), indent=2).decode())
        return 0
    if args.action == "show" and args.default:
        print(policy.default_text(), end="")
        return 0
    from infra.cli import policy_in_force

    return connect.run(args, lambda session: policy_in_force.run(args, session))


def load(name: str) -> tuple[Policy | None, list[str]]:
    """The policy in the file ``name``, or the mistakes in it, each as a line for people."""
    try:
        text = (sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()).decode()
    except OSError as problem:
        return None, [f"{name}: cannot be read: {problem.strerror}"]
    except UnicodeDecodeError as problem:
        return None, [f"{name}: not UTF-8 (byte {problem.start})"]
    mistakes = policy.mistakes(text)
    if mistakes:
        return None, [f"{name}{_where(mistake)}: {mistake.problem}" for mistake in mistakes]
    return policy.parse(text), []


def describe(differences: Sequence[Change], than: str) -> str:
    """``differences`` as lines, or that there are none."""
    if not differences:
        return f"the same as {than}"
    return f"differs from {than} in:\n" + "\n".join(f"  {change}" for change in differences)


def _check(files: Sequence[str]) -> int:
    failed = False
    for name in files:
        checked, mistakes = load(name)
        for line in mistakes:
            print(line, file=sys.stderr)
        if checked is None:
            failed = True
            continue
        words = describe(changes(policy.default(), checked), "the defaults")
        print(f"{name}: valid, policy {policy.fingerprint(checked)}; {words}")
    return 2 if failed else 0


def _where(mistake: PolicyError) -> str:
    """``:12: budget.pool``, as compilers say it, so that editors jump there."""
    line = f":{mistake.line}" if mistake.line else ""
    return f"{line}: {mistake.path}" if mistake.path else line
