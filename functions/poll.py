"""poll: asks AWS what no event told.

Woken by a clock, each minute. Answers ``dev.groundcrew.from.aws-poll``, which cordon reads as it
reads the events (`events.sources.aws_poll`): scheduled events and failed status checks, spot
instances that are marked to end, instances that a lifecycle hook holds; and for what cordon has
recorded of those, that it is over.

Reads nodes and AWS, and writes nothing. It asks for what there is to say, not for each machine:
some six calls a region, whatever the size of the fleet. What is not ours, and what is on the node
already, is left out, so that the usual minute ends here. docs/aws.md has what is found so, and
what is not.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from events.cloudevent import CloudEvent
from events.sources import autoscaling, aws_poll, ec2, ec2_instance_status
from functions.edge import log
from functions.edge.context import Answer, Context, Outcome
from functions.gateways.aws import errors as aws_errors
from functions.gateways.aws.client import Aws
from functions.gateways.kubernetes import types
from functions.rules import incidents
from functions.rules.incidents import Incident
from functions.rules.policy import default as default_policy
from functions.steps import find, mark

PING = "dev.knative.sources.ping"
FOUND = aws_poll.TYPE
NEWS = (
    (
        "event.code",
        (
            "instance-reboot",
            "system-reboot",
            "system-maintenance",
            "instance-retirement",
            "instance-stop",
        ),
    ),
    ("instance-status.status", ("impaired",)),
    ("system-status.status", ("impaired",)),
    ("attached-ebs-status.status", ("impaired",)),
)
"""Filters of DescribeInstanceStatus, each in a call of its own: in one, all would have to match."""
_SPOT = (ec2.SOURCE, "spot-interruption")
_HELD = (autoscaling.SOURCE, autoscaling.TERMINATION)
_CHECK = (ec2.SOURCE, ec2_instance_status.CHECK)

Nodes = Mapping[str, types.Node]
"""By instance ID."""


def handle(event: CloudEvent, context: Context) -> Outcome:
    if event.type != PING:
        return Outcome(declined=f"poll has nothing to do with {event.type}")
    if not context.settings.regions:
        return Outcome(declined="no region is set (GROUNDCREW_REGIONS, AWS_REGION): nobody to ask")
    marked = {
        find.instance_id(node.provider_id): node
        for node in context.cluster.list_nodes(mark.UNSETTLED)
    }
    answers = [
        answer
        for region in context.settings.regions
        if (answer := _Region(context, region, marked).ask())
    ]
    requests = dict(context.cluster.requests)
    if not answers:
        return Outcome(declined="AWS says nothing new of any machine of ours", requests=requests)
    return Outcome(answer=Answer(FOUND, {"Answers": answers}), requests=requests)


class _Region:
    def __init__(self, context: Context, region: str, marked: Nodes) -> None:
        self._context, self._region, self._marked = context, region, marked
        self._aws: Aws = context.aws.bounded(lambda: context.settings.call_seconds)
        self._open = {instance: list(_open(node)) for instance, node in marked.items()}

    def ask(self) -> dict[str, Any]:
        """The region's part of the document; empty when there is nothing new."""
        statuses = self._statuses()
        spot = self._asked(
            lambda: list(self._aws.spot_requests_by_status(self._region, aws_poll.MARKED))
        )
        held = self._asked(
            lambda: [
                {"InstanceId": one.instance_id, "AutoScalingGroupName": group.name}
                for group in self._aws.all_groups(self._region)
                for one in group.instances
                if one.state == aws_poll.HELD
            ]
        )
        said: dict[str, Any] = {
            "InstanceStatuses": self._new(statuses, self._is_old_status),
            "SpotInstanceRequests": self._new(spot, lambda one: self._has(one, _SPOT)),
            "Held": self._new(held, lambda one: self._has(one, _HELD)),
            **self._recovered(),
        }
        recovered = said.pop("Recovered")
        said["InstanceStatuses"] += recovered
        filled = {name: found for name, found in said.items() if found}
        return {"Region": self._region, **filled} if filled else {}

    def _statuses(self) -> list[Any]:
        """Instances for which an event is scheduled, or of which a check fails."""
        found: dict[str, Any] = {}
        for name, values in NEWS:
            for one in self._asked(
                lambda n=name, v=values: list(self._aws.statuses_by(self._region, n, v))  # type: ignore[misc]
            ):
                found[one["InstanceId"]] = one
        return list(found.values())

    def _asked(self, ask: Callable[[], list[Any]]) -> list[Any]:
        try:
            return ask()
        except aws_errors.AwsError as problem:
            # What the other calls say holds all the same, and the next minute asks again.
            log.write(logging.WARNING, f"not polled: {problem}", region=self._region)
            return []

    def _new(self, found: Iterable[Any], is_old: Callable[[Any], bool]) -> list[Any]:
        """Those about our nodes of which the node does not show it yet."""
        fresh = [one for one in found if not is_old(one)]
        unmarked = {one["InstanceId"] for one in fresh} - self._marked.keys()
        ours = self._marked.keys() | find.stamped(self._context.cluster, sorted(unmarked))
        return [one for one in fresh if one["InstanceId"] in ours]

    def _has(self, one: Any, about: tuple[str, str], ref: str | None = None) -> bool:
        return any(
            (i.source, i.check) == about
            and (ref is None or i.ref == ref)
            and not i.evidence.startswith(incidents.UNCONFIRMED)
            for i in self._open.get(one["InstanceId"], ())
        )

    def _is_old_status(self, status: Any) -> bool:
        events = all(
            self._has(status, (ec2.SOURCE, event["Code"]), event.get("InstanceEventId", ""))
            or event.get("Description", "").startswith("[")
            for event in status.get("Events", ())
        )
        return events and (_passes(status) or self._has(status, _CHECK))

    def _recovered(self) -> dict[str, list[Any]]:
        """What is recorded on our nodes and over by AWS's word."""
        watched = {
            instance: [i for i in found if i.source == ec2.SOURCE and _is_listed(i)]
            for instance, found in self._open.items()
            if self._marked[instance].provider_id.startswith(f"aws:///{self._region}")
        }
        ids = [instance for instance, found in watched.items() if found]
        answers = self._asked(lambda: list(self._aws.statuses(self._region, ids))) if ids else []
        statuses = {one["InstanceId"]: one for page in answers for one in page["InstanceStatuses"]}
        over = [
            {"InstanceId": instance, "Code": i.check, "InstanceEventId": i.ref}
            for instance, status in statuses.items()
            for i in watched.get(instance, ())
            if i.ref and i.ref not in _listed(status)
        ]
        passed = [
            status
            for instance, status in statuses.items()
            if (_passes(status) and any(_is_check(i) for i in watched.get(instance, ())))
            or any(e.get("Description", "").startswith("[") for e in status.get("Events", ()))
        ]
        return {"Recovered": passed, "Over": over}


_CHECKS = ("SystemStatus", "InstanceStatus", "AttachedEbsStatus")


def _open(node: types.Node) -> Iterable[Incident]:
    try:
        record = incidents.read(mark.view(node, default_policy()))
    except incidents.Unreadable:
        return ()
    return (one for one in record.incidents if one.open)


def _passes(status: Any) -> bool:
    return all(status.get(name, {}).get("Status") != "impaired" for name in _CHECKS)


def _is_check(incident: Incident) -> bool:
    """A failed status check, of which nobody has said yet that it is passed."""
    return incident.check == ec2_instance_status.CHECK and incident.claimed is None


def _is_listed(incident: Incident) -> bool:
    """Whether DescribeInstanceStatus says such a thing, and so can say that it is over."""
    return _is_check(incident) or bool(incident.ref)


def _listed(status: Any) -> set[str]:
    return {event.get("InstanceEventId", "") for event in status.get("Events", ())}
