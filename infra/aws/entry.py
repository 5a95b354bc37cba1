"""The entry of the Lambda function (``infra.aws.entry.handler``): all functions behind one queue,
routed by the project's Triggers, against an EKS cluster.

GROUNDCREW_CLUSTER names the cluster; AWS_REGION is Lambda's own. A schedule of EventBridge, each
minute, is the clock: it wakes every function once, and while a drain goes on those that are due
again within the minute. A warm process keeps connections and credentials, and nothing else.
"""

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from events.cloudevent import CloudEvent
from functions.edge import aws_lambda, log
from functions.edge.context import Settings
from functions.edge.sqs_options import Result
from functions.gateways.aws import eks
from functions.gateways.clock import Clock, SystemClock
from infra.local.broker import Delivery
from infra.local.clock import Ticks
from infra.local.in_process import InProcess, functions, poll

MINUTE = timedelta(minutes=1)
PAUSE_SECONDS = 5.0
"""Between two looks at the same drain."""
KEPT_SECONDS = 10.0
"""Of the time of an invocation, for ending in."""


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Raises `aws_lambda.NotHandled` for what Lambda is to try again."""
    crew = _crew()

    def left() -> float:
        return float(context.get_remaining_time_in_millis()) / 1000 - KEPT_SECONDS

    def act(events: Sequence[CloudEvent]) -> list[Result]:
        return crew.act_and_follow(events, left)

    return aws_lambda.handle(event, act, lambda: ticks(crew, left, SystemClock()))


def ticks(crew: InProcess, left: Callable[[], float], clock: Clock) -> None:
    """Wake every function, and those that are due again soon once more, while a minute and the time
    of the invocation last."""
    began = clock.now()
    due = {tick.source.name: tick.event for tick in Ticks().due(began - MINUTE, began)}
    crew.poll()
    while due:
        again, pause = {}, PAUSE_SECONDS
        for name, event in due.items():
            deliveries = crew.publish(_at(event, clock.now()))
            if any(delivery.reply.more for delivery in deliveries):
                again[name], pause = event, 0.0
            elif _is_due_soon(deliveries, began + MINUTE):
                again[name] = event
        due = again
        if not due or left() < PAUSE_SECONDS or clock.now() + _PAUSE >= began + MINUTE:
            return
        clock.sleep(pause)


_PAUSE = timedelta(seconds=PAUSE_SECONDS)


def _is_due_soon(deliveries: list[Delivery], until: datetime) -> bool:
    looks = (o.look_again for delivery in deliveries for o in delivery.reply.outcomes)
    return any(look is not None and look < until for look in looks)


def _at(event: CloudEvent, now: datetime) -> CloudEvent:
    import msgspec

    return msgspec.structs.replace(event, id=f"{event.id}/{now.isoformat()}", time=now)


@functools.cache
def _crew() -> InProcess:
    log.configure()
    name, region = os.environ["GROUNDCREW_CLUSTER"], os.environ["AWS_REGION"]
    started = time.perf_counter()
    cluster = eks.connect(region, name)
    seconds = round(time.perf_counter() - started, 2)
    log.write(20, f"for cluster {name} in {region}", seconds=seconds)
    # Whoever may invoke the function, or write to its queue, is said by IAM: no signature beside.
    settings = replace(Settings.from_environment(), sender_key="")
    return InProcess(functions(cluster.fresh, settings), poll=poll(cluster.fresh, settings))
