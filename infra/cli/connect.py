"""Which cluster an operator's command is about, as whom, and what is said when it cannot be asked.

Every refusal ends as one line on stderr with the next step and exit code 2, never as a traceback.
"""

import argparse
import getpass
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from functions.edge.context import Settings
from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster


class Refused(Exception):
    """What was asked for cannot be done. The message is one sentence with the next step."""


@dataclass(frozen=True)
class Session:
    """What a command works with."""

    cluster: Cluster
    namespace: str
    """Where the ledger, the active policy and the pause stand."""
    operator: Callable[[], str]
    """Who is asking, for what is written down: called only by commands that write."""
    clock: Clock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which cluster")
    group.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="default: $KUBECONFIG, the pod that this runs in, ~/.kube/config",
    )
    group.add_argument("--context", metavar="NAME", help="default: the kubeconfig's own")
    group.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        default=os.environ.get("GROUNDCREW_NAMESPACE") or Settings.namespace,
        help="where groundcrew keeps its ledger, policy and pauses (default: %(default)s)",
    )


def run(args: argparse.Namespace, act: Callable[[Session], int]) -> int:
    """``act`` on the cluster that ``args`` name; what goes wrong is said in one line."""
    try:
        return act(reach(args))
    except Refused as problem:
        return _complain(str(problem))
    except errors.KubernetesError as problem:
        return _complain(_explained(problem))


def reach(args: argparse.Namespace) -> Session:
    from functions.gateways.kubernetes.connect import transport

    way = transport(args.kubeconfig, args.context)
    return Session(
        cluster=Cluster(way),
        namespace=args.namespace,
        operator=lambda: _operator(way.user),
        clock=SystemClock(),
    )


def no_namespace(namespace: str) -> Refused:
    return Refused(
        f"namespace {namespace} does not exist: `kubectl create namespace {namespace}`, or name "
        "the one that groundcrew runs in with --namespace"
    )


def _complain(sentence: str) -> int:
    print(f"groundcrew: {sentence}", file=sys.stderr)
    return 2


def _explained(problem: errors.KubernetesError) -> str:
    match problem:
        case errors.NotConfigured():
            return f"no cluster to ask: {problem} (--kubeconfig FILE, --context NAME)"
        case errors.Unreachable():
            return (
                f"the API server does not answer: {problem}; check with `kubectl cluster-info` "
                "that its address is right and that your network reaches it"
            )
        case errors.Unauthorized():
            return (
                f"the API server does not know you ({problem}): log in anew, or choose another "
                "user with --kubeconfig or --context"
            )
        case errors.Forbidden():
            return (
                f"not allowed: {problem.status.message or problem}; ask whoever administers the "
                "cluster for that right, or choose another user with --context"
            )
        case errors.TestFailed() | errors.Conflict():
            return (
                f"somebody else wrote at the same time, and nothing was changed: run it again "
                f"({problem})"
            )
        case _:
            return f"the API server refused: {problem}"


def _operator(there: str) -> str:
    """``jane as cluster-admin``: the user of this computer, and ``there``."""
    try:
        here = getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        here = ""
    return " as ".join(filter(None, (here, there))) or "unknown"
