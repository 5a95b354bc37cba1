"""``groundcrew startable``: which of Azure's scheduled events may begin now."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from infra.cli import connect

if TYPE_CHECKING:
    from functions.rules.startable import Announced

DESCRIPTION = """\
Read what Azure's metadata service says about scheduled events, and print the request that starts
those whose machines are all out of service by groundcrew and empty. One of whose machines is not,
is held (groundcrew hold), or is no node of this cluster, is left to its time; stderr says what it
waits for.

Azure gives a reboot a quarter of an hour, and begins it at once when it is told to. Nothing is
sent: whoever asks the metadata service on one of the machines posts the request there."""

EPILOG = """\
examples:
  at=http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01
  curl -sH Metadata:true "$at" | groundcrew startable - | curl -sH Metadata:true -d @- "$at"

exit codes: 0 the request is printed, 1 nothing may begin and none is printed, 2 the document or
the cluster cannot be read"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("file", metavar="FILE", help="the document, or - for stdin")
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from events.errors import EventError
    from events.sources import azure_scheduled_events
    from functions.rules.startable import Announced

    try:
        body = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
        listed = [event for event, _ in azure_scheduled_events.listed(body)]
    except (OSError, EventError) as problem:
        print(f"groundcrew startable: {args.file}: {problem}", file=sys.stderr)
        return 2
    announced = [
        Announced(event.event_id, event.resources)
        for event in listed
        if event.event_status == "Scheduled" and event.resource_type == "VirtualMachine"
    ]
    return connect.run(args, lambda session: _judge(session, announced))


def _judge(session: connect.Session, announced: "Sequence[Announced]") -> int:
    import msgspec

    from functions.rules import hold, keys, startable
    from functions.rules.draining import NodeFacts
    from functions.steps import active, find, mark, pods

    cluster, now = session.cluster, session.clock.now()
    in_force = active.read(cluster, session.namespace)
    named = {machine for event in announced for machine in event.machines}
    machines: dict[str, list[startable.Machine]] = {}
    for node in cluster.list_nodes():
        instance = find.instance_id(node.provider_id)
        if instance not in named:
            continue
        view = mark.view(node, in_force.policy)
        held = hold.why(in_force.holds, view.machine, now)
        facts = NodeFacts(
            view=view,
            annotation=node.metadata.annotation(keys.DRAIN),
            paused=held or in_force.paused(view.pool, now),
        )
        found = startable.Machine(facts, pods.work_on(cluster, node.name))
        machines.setdefault(instance, []).append(found)
    ready = []
    for event in announced:
        reasons = startable.waits_for(event, machines)
        for why in reasons:
            print(f"{event.event_id} waits: {why}", file=sys.stderr)
        if not reasons:
            ready.append({"EventId": event.event_id})
    if not ready:
        return 1
    print(msgspec.json.encode({"StartRequests": ready}).decode())
    return 0
