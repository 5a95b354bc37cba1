"""``groundcrew drain``: take nodes out of service and empty them, now and by hand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from infra.cli import connect, drain_options
from infra.cli.connect import Refused, Session
from infra.cli.drain_options import Options

if TYPE_CHECKING:
    from functions.steps.drain_call import Call
    from infra.cli.drain_before import Prepared

DESCRIPTION = """\
Cordon the nodes, then evict their pods, all nodes side by side, and wait until the pods are gone.
Disruption budgets are respected, gangs are warned first, pods of DaemonSets and static pods stay.

What cannot be done is found before anything is changed: a missing right, a pod that nobody would
make anew (--force), one that would lose its emptyDir volumes (--delete-emptydir-data). The nodes
then stay in service. A node cordoned this way is yours: groundcrew does not give it back, you do
(`groundcrew uncordon`)."""

EPILOG = """\
examples:
  groundcrew drain gpu-a-17 --reason "swap the NIC, ticket 4711"
  groundcrew drain gpu-a-17 gpu-a-18 --timeout 10m --delete-emptydir-data
  groundcrew drain -l pool=a100 --dry-run=server
  groundcrew drain gpu-a-17 -o json | jq '.nodes[].left'

Ctrl-C asks for nothing more, waits for the answers that are due, and says how far each node is; the
nodes stay cordoned, and the same command goes on from there.

exit codes: 0 drained (or, in a dry run, nothing is in the way), 1 a node is not drained: what is
left, and why, is said, 2 nothing was changed: refused, wrong usage or no answer, 130 interrupted"""

OUTAGE_SECONDS = 120.0
"""How long an API server that is away is waited for once nodes are cordoned."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    drain_options.add_arguments(parser)
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    options = Options.of(args)
    try:
        return connect.run(args, lambda session: _drain(options, session))
    except KeyboardInterrupt:
        # Once something may have been written, an interrupt is no exception any more.
        print("groundcrew: interrupted; nothing was changed", file=sys.stderr)
        return 130


def _drain(options: Options, session: Session) -> int:
    from functions.steps.drain_call import Call
    from infra.cli import drain_before

    if bool(options.nodes) == bool(options.selector):
        raise Refused("name the nodes, or choose them with --selector; one of the two")
    seconds = options.timeout.total_seconds() if options.timeout else float("inf")
    cluster = session.cluster
    policy, found = drain_before.read(session, options)
    with Call(
        cluster, session.clock, policy, seconds, session.namespace, outage_seconds=OUTAGE_SECONDS
    ) as call:
        names = [node.name for node in found]
        call.read_together(names, pods=options.pod_selector, labels=options.selector)
        prepared = drain_before.prepare(call, found, options)
        if options.dry_run:
            from infra.cli import drain_dry_run

            return drain_dry_run.show(call, prepared, options)
        if any(one.refused for one in prepared):
            return _refuse(prepared, options)
        if rights := drain_before.missing_rights(call, prepared):
            raise Refused(f"you may not {'; nor '.join(rights)}; nothing was changed")
        return _work(call, session, prepared, options)


def _refuse(prepared: Sequence[Prepared], options: Options) -> int:
    from infra.cli import drain_report
    from infra.cli.drain_report import Node, Report, State

    told = [Node(node=one.name, state=State.REFUSED, blocked=one.refused) for one in prepared]
    if options.output == "json":
        print(drain_report.encode(Report(ok=False, dry_run="", nodes=told)))
    for node in told:
        for blocker in node.blocked:
            print(f"groundcrew: {node.node}: {blocker.pod} {blocker.why}", file=sys.stderr)
    print("groundcrew: refused; nothing was changed", file=sys.stderr)
    return 2


def _work(call: Call, session: Session, prepared: Sequence[Prepared], options: Options) -> int:
    from infra.cli import drain_report, drain_screen, drain_work
    from infra.cli.drain_report import Report, State

    screen = drain_screen.choose(options.output, call.now)
    for one in prepared:
        for warning in one.warnings:
            screen.say(f"{one.name}: warning: {warning}")
    with drain_work.interrupts(call, screen):
        try:
            cordoned = drain_work.cordon_all(
                call, prepared, session.operator, options.reason, screen
            )
        except drain_work.Interrupted as end:
            print(f"groundcrew: {end}", file=sys.stderr)
            return drain_work.INTERRUPTED
        told = drain_work.drain_all(call, session, prepared, cordoned, options, screen)
    ok = all(node.state is State.DRAINED for node in told)
    if options.output == "json":
        print(drain_report.encode(Report(ok=ok, dry_run="", nodes=told)))
    if any(node.state is State.INTERRUPTED for node in told):
        return drain_work.INTERRUPTED
    return 0 if ok else 1
