"""What ``groundcrew drain`` may be told, in kubectl's words where they mean the same."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from functions.rules.quantities import Duration

LONGEST_REASON = 200
YES, NO = ("true", "1", "t"), ("false", "0", "f")


@dataclass(frozen=True, kw_only=True)
class Options:
    nodes: tuple[str, ...] = ()
    selector: str = ""
    pod_selector: str = ""
    ignore_daemon_sets: bool = True
    delete_empty_dir: bool = False
    force: bool = False
    grace_seconds: int | None = None
    """None: each pod's own."""
    timeout: timedelta | None = None
    """None: for as long as it takes."""
    skip_after: timedelta | None = None
    gang_notice: timedelta | None = None
    """None: what the policy says."""
    dry_run: str = ""
    """``client`` or ``server``."""
    output: str = "table"
    reason: str = ""
    """Why the nodes are taken out of service, in the operator's words."""

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Options":
        return cls(
            nodes=tuple(dict.fromkeys([*args.nodes, *args.more_nodes])),
            selector=args.selector,
            pod_selector=args.pod_selector,
            ignore_daemon_sets=args.ignore_daemonsets,
            delete_empty_dir=args.delete_emptydir_data,
            force=args.force,
            grace_seconds=args.grace_period,
            timeout=args.timeout or None,
            skip_after=args.skip_wait_for_delete_timeout,
            gang_notice=args.gang_notice,
            dry_run=args.dry_run,
            output=args.output,
            reason=args.reason,
        )


def add_nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", metavar="NODE", nargs="*", help="one or more, by name")
    parser.add_argument(
        "-l", "--selector", metavar="LABELS", default="", help="or all nodes with these labels"
    )
    parser.set_defaults(more_nodes=[])


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run",
        action=_Word,
        choices=("none", "client", "server"),
        const="client",
        default="",
        metavar="client|server",
        help="write nothing: client tells the plan, server has each step checked as well",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_nodes(parser)
    pods = parser.add_argument_group("which pods")
    pods.add_argument(
        "--pod-selector", metavar="LABELS", default="", help="only pods with these labels"
    )
    for name, default, words in (
        ("--force", False, "evict pods that nobody would make anew, too"),
        ("--delete-emptydir-data", False, "evict pods with emptyDir volumes, whose data is lost"),
        ("--ignore-daemonsets", True, "leave pods of DaemonSets alone (the default)"),
    ):
        pods.add_argument(name, action=_Flag, default=default, help=words)
    time = parser.add_argument_group("how long")
    time.add_argument(
        "--grace-period",
        type=_grace,
        metavar="SECONDS",
        help="instead of each pod's own; at least 1, -1 is the pod's own (the default)",
    )
    time.add_argument(
        "--timeout",
        type=_length,
        metavar="TIME",
        help="give up after it, from the start of the command: 90s, 5m; 0s is never (the default)",
    )
    time.add_argument(
        "--skip-wait-for-delete-timeout",
        type=_skip,
        metavar="SECONDS",
        help="do not wait for pods that should have been gone for longer; 0 waits (the default)",
    )
    time.add_argument(
        "--gang-notice",
        type=_length,
        metavar="TIME",
        help="warn a gang that long before its first pod goes, or until it says that it is ready; "
        "0s evicts at once (default: the policy's drain.gang_notice)",
    )
    pods.add_argument("--disable-eviction", action=_NotOurs, help=argparse.SUPPRESS)
    add_dry_run(parser)
    parser.add_argument(
        "--reason",
        type=_reason,
        metavar="TEXT",
        default="",
        help="kept on the node, for whoever asks why it is out of service (groundcrew explain)",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")


class _Word(argparse.Action):
    """``--name``, ``--name=word``; as with kubectl, a word that is no value of it and follows
    without ``=`` is a node."""

    def __init__(
        self, option_strings: Sequence[str], dest: str, choices: Sequence[str], **more: Any
    ) -> None:
        super().__init__(option_strings, dest, nargs="?", **more)
        self.words = tuple(choices)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        value = self.const if values is None else values
        if value not in self.words:
            namespace.more_nodes = [*namespace.more_nodes, value]
            value = self.const
        setattr(namespace, self.dest, self.meaning(value))

    def meaning(self, word: str) -> object:
        return "" if word == "none" else word


class _Flag(_Word):
    """``--name``, ``--name=true``, ``--name=false``."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(
            option_strings, dest, choices=(*YES, *NO), const="true", metavar="true|false", **more
        )

    def meaning(self, word: str) -> object:
        return word in YES


class _NotOurs(argparse.Action):
    """kubectl's way past disruption budgets."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs="?", **more)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.error(
            "--disable-eviction is not taken: it deletes pods past their disruption budgets. What "
            "a budget holds is named, so that its owner can be asked; a deadline past which pods "
            "are deleted belongs in the policy (drain.past_deadline)"
        )


def _grace(text: str) -> int | None:
    seconds = _whole(text)
    if seconds == -1:
        return None
    if seconds < 1:
        raise argparse.ArgumentTypeError(
            f"{seconds}: 0 would remove pods from the API while their containers still run, so "
            "that a StatefulSet's could run twice; the least is 1"
        )
    return seconds


def _reason(text: str) -> str:
    if len(text.encode()) > LONGEST_REASON:
        raise argparse.ArgumentTypeError(
            f"{len(text.encode())} bytes: at most {LONGEST_REASON} are kept on a node"
        )
    return text


def _skip(text: str) -> timedelta | None:
    seconds = _whole(text)
    return timedelta(seconds=seconds) if seconds > 0 else None


def _length(text: str) -> timedelta:
    try:
        return Duration.parse("0s" if text == "0" else text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of seconds") from problem
