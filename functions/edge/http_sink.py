"""Posts events to a sink, such as a broker's ingress or a function itself.

One event a request in binary mode, as every sink takes it; or, to a function of ours, many as one
batch (``application/cloudevents-batch+json``), which it handles in one go.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from events import cloudevent
from events.cloudevent import CloudEvent
from functions.edge import answers, sender
from functions.edge.sqs_options import Result

UNKNOWN = "groundcrew-unknown"
"""Header of a function's success (`functions.edge.http`)."""
CONNECT_SECONDS = 2.0
READ_SECONDS = 15.0
"""A function answers within 5 s, and a broker at once."""
_QUOTED = 300


class HttpSink:
    """Threads share it. Redirects are not followed: they are a sink that is set up wrongly."""

    def __init__(
        self, url: str, *, connections: int, batch: bool = False, sender_key: str = ""
    ) -> None:
        from urllib3 import PoolManager, Retry, Timeout

        self._url, self._batch, self._key = url, batch, sender_key
        self._pool: Any = PoolManager(
            maxsize=connections,
            timeout=Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
            retries=Retry(0, redirect=False),
        )

    def __call__(self, events: Sequence[CloudEvent]) -> list[Result]:
        """One result for each of ``events``, which are signed on their way."""
        events = [sender.sign(event, self._key) for event in events]
        size = sum(len(event.data) for event in events)
        if self._batch and len(events) > 1 and size < cloudevent.MAX_BYTES // 2:
            body = msgspec.json.encode([_structured(event) for event in events])
            sent = self._post({"content-type": cloudevent.BATCH}, body)
            return [sent] * len(events)
        return [self._post(*answers.to_http(event)) for event in events]

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


def _structured(event: CloudEvent) -> dict[str, Any]:
    made: dict[str, Any] = {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "datacontenttype": event.datacontenttype,
        **event.extensions,
    }
    if event.data:
        made["data"] = msgspec.Raw(event.data)
    if event.subject:
        made["subject"] = event.subject
    if event.time:
        made["time"] = event.time
    return made


def _seconds(text: str) -> float:
    return float(text) if text.isdigit() and len(text) < 4 else 0.0
