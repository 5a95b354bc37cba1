"""Reads the API server's audit log: who asked for what, and what was the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class AuditEntry:
    """One audit.k8s.io/v1 Event. ``code`` is the HTTP status, ``body`` the request's object.

    The body is None except for what audit-policy.yaml logs at level Request.
    """

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    body: Any
    raw: Mapping[str, Any]

    @classmethod
    def parse(cls, line: bytes) -> AuditEntry:
        event = json.loads(line)
        target = event.get("objectRef", {})
        return cls(
            user=event["user"].get("username", ""),
            verb=event["verb"],
            resource=target.get("resource", ""),
            subresource=target.get("subresource", ""),
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            code=event.get("responseStatus", {}).get("code", 0),
            body=event.get("requestObject"),
            raw=event,
        )

    @property
    def request_uri(self) -> str:
        return str(self.raw["requestURI"])


def read_audit_log(log: Path, offset: int = 0) -> Iterator[AuditEntry]:
    """Entries that begin at or after a byte offset; a last line still being written is left."""
    with log.open("rb") as lines:
        lines.seek(offset)
        for line in lines:
            if line.endswith(b"\n"):
                yield AuditEntry.parse(line)
