"""``groundcrew consume``: what AWS puts into an SQS queue, handed on as CloudEvents."""

import argparse
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from infra.cli import connect

if TYPE_CHECKING:
    from functions.edge.sqs_consumer import Consumer
    from functions.gateways.aws.queue import Queue

DESCRIPTION = """\
Receive what EventBridge, Auto Scaling and SNS put into an SQS queue, and have it handled: by a sink
that takes CloudEvents (a broker's ingress, or a function itself), or by the functions in this
process, which are then woken by their clocks, too.

A message is deleted after it was handled and not before. Interruptions overtake everything else.
What cannot be read stays in the queue, whose dead-letter queue has it after some receptions.

Events that are there at the same time are sent as one (dev.groundcrew.from.queue), since a broker
hands a function one event at a time: a hundred interruptions are then one call, and not a hundred.

--foreign says what becomes of messages about machines that no node of this cluster stands for. An
account's events come from all of its machines: `leave` is for a queue that several clusters share,
`delete` for one that is this cluster's alone. Whose a machine is a function knows and a broker does
not: behind a broker, what the broker has taken is deleted."""

EPILOG = """\
examples:
  groundcrew consume --queue https://sqs.us-east-1.amazonaws.com/111122223333/groundcrew \\
    --sink http://broker-ingress.knative-eventing/groundcrew-system/groundcrew
  groundcrew consume --queue URL --in-process --foreign delete
  groundcrew consume --queue URL --in-process --foreign forward OTHER-URL

SIGTERM ends it: what is being handled is finished, what waits is given back to the queue.

exit codes: 0 ended by a signal, 2 wrong usage, or queue or cluster cannot be had"""

SINK_WORKERS = 8
"""And half as many for what is urgent: together fewer than a function takes at once, or the broker
is told 429."""
MOST_WORKERS = SINK_WORKERS + SINK_WORKERS // 2
TOGETHER = 100
BROKER_FAILURES = 10
"""A broker whose channel is synchronous answers 500, too, when a function was busy (429) or away
for longer than it tries by itself. These attempts take two minutes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--queue", required=True, metavar="URL", help="of the SQS queue")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--sink", metavar="URL", default=os.environ.get("K_SINK"), help="default: $K_SINK"
    )
    where.add_argument("--in-process", action="store_true", help="run the functions here")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--batch",
        action="store_true",
        help="the sink is one of our functions, which takes batches of CloudEvents",
    )
    how.add_argument(
        "--each",
        action="store_true",
        help="never send several events as one: the broker has other triggers for them",
    )
    parser.add_argument(
        "--foreign",
        nargs="+",
        default=["leave"],
        metavar=("leave|delete|forward", "URL"),
        help="messages about machines of others (default: leave)",
    )
    tuning = parser.add_argument_group("how much at once")
    tuning.add_argument(
        "--polls", type=_count(1, 32), default=4, help="long polls at once (default: %(default)s)"
    )
    tuning.add_argument(
        "--wait",
        type=_count(0, 20),
        default=5,
        metavar="SECONDS",
        help="of one long poll, which the end waits for (default: %(default)s)",
    )
    tuning.add_argument(
        "--visibility",
        type=_count(10, 3600),
        default=30,
        metavar="SECONDS",
        help="hide messages from others that long at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--region", default=os.environ.get("AWS_REGION", ""), help="where the URL does not say"
    )
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from functions.edge import log
    from functions.edge.sqs_options import Foreign

    try:
        foreign, other = _foreign(args.foreign)
        if not (args.sink or args.in_process):
            raise _Unusable("give --sink URL (or $K_SINK), or --in-process")
        queue = _queue(args, args.queue)
        forward_to = _queue(args, other) if foreign is Foreign.FORWARD else None
        log.configure()
        _check(queue)
        if args.in_process:
            return connect.run(args, lambda session: _in_process(args, session, queue, forward_to))
        return _to_sink(args, queue, forward_to)
    except _Unusable as problem:
        print(f"groundcrew consume: {problem}", file=sys.stderr)
        return 2


class _Unusable(Exception):
    """What was asked for cannot be done; one sentence with the next step."""


def _to_sink(args: argparse.Namespace, queue: "Queue", forward_to: "Queue | None") -> int:
    import dataclasses

    from functions.edge.context import Settings
    from functions.edge.http_sink import HttpSink, Many
    from functions.edge.sqs_consumer import Consumer

    if urlsplit(args.sink).scheme not in ("http", "https") or not urlsplit(args.sink).hostname:
        raise _Unusable(f"--sink {args.sink!r} is no URL")
    workers = 2 if args.batch else SINK_WORKERS
    options = _options(args, workers=workers, together=1 if args.each else TOGETHER)
    if not args.batch:
        options = dataclasses.replace(options, failures=BROKER_FAILURES)
    sink = HttpSink(
        args.sink,
        connections=workers + options.urgent_workers,
        many=Many.BATCH if args.batch else Many.EACH if args.each else Many.ONE,
        sender_key=Settings.from_environment().sender_key,
    )
    _until_signalled(Consumer(queue, sink, options, forward_to=forward_to), args.sink)
    return 0


def _in_process(
    args: argparse.Namespace,
    session: connect.Session,
    queue: "Queue",
    forward_to: "Queue | None",
) -> int:
    import dataclasses

    from functions.edge.context import Settings
    from functions.edge.sqs_consumer import Consumer
    from infra.local.in_process import InProcess, functions, poll

    # Nobody but our own queue can bring an event here: there is no signature to ask for.
    settings = dataclasses.replace(
        Settings.from_environment(), namespace=session.namespace, sender_key=""
    )
    if not settings.regions:
        # The queue's region is the machines': EventBridge does not cross regions by itself.
        settings = dataclasses.replace(settings, regions=(queue.region,))
    connect_to = session.cluster.fresh
    crew = InProcess(functions(connect_to, settings), poll=poll(connect_to, settings))
    options = _options(args, workers=1, together=TOGETHER)
    crew.start()
    try:
        _until_signalled(Consumer(queue, crew.act, options, forward_to=forward_to), "this process")
    finally:
        crew.stop()
    return 0


def _options(args: argparse.Namespace, *, workers: int, together: int) -> Any:
    from functions.edge.sqs_options import Options

    return Options(
        receivers=args.polls,
        workers=workers,
        urgent_workers=max(1, workers // 2),
        together=together,
        visibility_seconds=args.visibility,
        foreign=_foreign(args.foreign)[0],
    )


def _until_signalled(consumer: "Consumer", sink: str) -> None:
    import logging

    from functions.edge import log

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: consumer.stop())
    log.write(logging.INFO, f"consuming, for {sink}")
    consumer.run()
    log.write(logging.INFO, "ended", counts=consumer.counts.shown())


def _queue(args: argparse.Namespace, url: str) -> "Queue":
    from functions.gateways.aws.queue import Queue

    try:
        return Queue(
            url,
            region=args.region,
            wait_seconds=args.wait,
            # A connection for each long poll and each worker that deletes, and the keeper's.
            connections=args.polls + MOST_WORKERS + 1,
        )
    except ValueError as problem:
        raise _Unusable(f"--queue {problem}") from problem


def _check(queue: "Queue") -> None:
    """Whether there is such a queue. What may pass (throttling, the network) is left to the
    consumer, which tries again; so is a right that only this question needs."""
    import logging

    from functions.edge import log
    from functions.gateways.aws import errors
    from functions.gateways.aws.queue import explained

    try:
        about = queue.about()
    except (errors.NotFound, errors.NotConfigured, errors.CredentialsExpired) as problem:
        raise _Unusable(explained(problem, queue.url)) from problem
    except errors.AwsError as problem:
        log.write(logging.WARNING, explained(problem, queue.url), queue=queue.url)
        return
    if not about.dead_letters:
        log.write(
            logging.WARNING,
            "the queue has no dead-letter queue: what cannot be read is received again and again "
            "until its retention is over; infra/aws/template.yaml has one",
            queue=queue.url,
        )


def _foreign(words: list[str]) -> Any:
    from functions.edge.sqs_options import Foreign

    if words[0] not in list(Foreign):
        raise _Unusable(f"--foreign {words[0]!r}: is leave, delete, or forward URL")
    foreign = Foreign(words[0])
    if len(words) != (2 if foreign is Foreign.FORWARD else 1):
        raise _Unusable(f"--foreign {' '.join(words)}: only forward takes a URL, and it needs one")
    return foreign, words[-1]


def _count(least: int, most: int) -> Any:
    def count(text: str) -> int:
        if not re.fullmatch(r"\d{1,5}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {most}")
        return int(text)

    return count
