"""Posts events to a sink, such as a broker's ingress or a function itself: see `Many`."""

import enum
from collections.abc import Sequence
from typing import Any

import msgspec

from events import cloudevent
from events.cloudevent import CloudEvent
from events.sources import queue
from functions.edge import answers, sender
from functions.edge.sqs_options import Result

UNKNOWN = "groundcrew-unknown"
"""Header of a function's success (`functions.edge.http`)."""
CONNECT_SECONDS = 2.0
READ_SECONDS = 15.0
"""A function answers within 5 s, and a broker at once."""
_QUOTED = 300


class Many(enum.Enum):
    """How several events are sent."""

    EACH = "each by itself, in binary mode, as every sink takes it"
    ONE = "as one event that holds them (`events.sources.queue`), which a broker takes, too"
    BATCH = "as one batch (application/cloudevents-batch+json), which a function of ours takes"


class HttpSink:
    """Threads share it. Redirects are not followed: they are a sink that is set up wrongly."""

    def __init__(
        self, url: str, *, connections: int, many: Many = Many.EACH, sender_key: str = ""
    ) -> None:
        from urllib3 import PoolManager, Retry, Timeout

        self._url, self._many, self._key = url, many, sender_key
        self._pool: Any = PoolManager(
            maxsize=connections,
            timeout=Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
            retries=Retry(0, redirect=False),
        )

    def __call__(self, events: Sequence[CloudEvent]) -> list[Result]:
        """One result for each of ``events``, which are signed on their way."""
        if self._many is Many.EACH:
            return [self._send(event) for event in events]
        return [
            result
            for part in queue.shares(events)
            for result in [self._send_many(part)] * len(part)
        ]

    def _send_many(self, events: Sequence[CloudEvent]) -> Result:
        if len(events) == 1:
            return self._send(events[0])
        if self._many is Many.ONE:
            return self._send(queue.of(events))
        signed = [cloudevent.structured(sender.sign(event, self._key)) for event in events]
        return self._post({"content-type": cloudevent.BATCH}, msgspec.json.encode(signed))

    def _send(self, event: CloudEvent) -> Result:
        return self._post(*answers.to_http(sender.sign(event, self._key)))

    def _post(self, headers: Any, body: bytes) -> Result:
        from urllib3.exceptions import HTTPError

        try:
            answer = self._pool.request("POST", self._url, body=body, headers=headers)
        except HTTPError as problem:
            return Result(0, problem=f"{self._url}: {problem}")
        if 200 <= answer.status < 300:
            unknown = answer.headers.get(UNKNOWN, "")
            return Result(answer.status, unknown=frozenset(filter(None, unknown.split(","))))
        said = answer.data[:_QUOTED].decode(errors="replace")
        return Result(
            answer.status,
            problem=f"{self._url}: {said or 'no reason given'}",
            retry_after_seconds=_seconds(answer.headers.get("retry-after", "")),
        )


def _seconds(text: str) -> float:
    return float(text) if text.isdigit() and len(text) < 4 else 0.0
