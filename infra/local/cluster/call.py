"""One request to the embedded cluster, and its answer, as bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from infra.local.cluster.refusals import Refusal

JSON = "application/json"


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    @property
    def is_watch(self) -> bool:
        return self.method == "GET" and self.query.get("watch") in ("true", "1")


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def answered(document: Any, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(document))


def refused(refusal: Refusal) -> Answer:
    headers = {}
    if refusal.retry_after_seconds:
        headers["retry-after"] = str(refusal.retry_after_seconds)
    return Answer(refusal.code, msgspec.json.encode(refusal.status), headers=headers)
