"""Histories made up for a test: folders as ``groundcrew record`` writes them."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from events.recording import Recording
from infra.local.cluster import builders
from infra.local.history import Event

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
DOUBLE_BIT_ERROR = {
    "type": "AcceleratedHardwareReady",
    "status": "False",
    "reason": "NvidiaDoubleBitError",
    "message": "Uncorrectable ECC error on GPU 5",
}
NVLINK_ERROR = {
    "type": "AcceleratedHardwareReady",
    "status": "False",
    "reason": "NvidiaXID74Error",
    "message": "NVRM: Xid (PCI:0000:18:00): 74, pid=1, NVLink: fatal error detected on link 3",
}
WELL = {
    "type": "AcceleratedHardwareReady",
    "status": "True",
    "reason": "NvidiaAcceleratedHardwareIsReady",
    "message": "",
}


def node(name: str, *conditions: Mapping[str, str], machine: int = 0, **more: Any) -> Any:
    """A Node as the API server shows it: ``machine`` counts those behind the name."""
    made = builders.node(
        name,
        conditions=conditions or (WELL,),
        provider_id=f"aws:///us-east-1a/i-{name}-{machine}",
        boot_id=f"boot-{name}-{machine}",
        now=START,
        **more,
    )
    made["metadata"]["uid"] = f"uid-{name}-{machine}"
    return made


def marked(made: Any, state: str, record: Mapping[str, Any]) -> Any:
    """``made`` as it looks with our marks, cordoned."""
    made["metadata"]["labels"]["groundcrew.dev/state"] = state
    made["metadata"]["annotations"]["groundcrew.dev/incidents"] = json.dumps(record)
    made["spec"]["unschedulable"] = True
    return made


def told(seconds: float, item: Any, verb: str = "update") -> Event:
    """What the API server's watch said of ``item``."""
    kind, name = item["kind"], item["metadata"]["name"]
    at = START + timedelta(seconds=seconds)
    headers = {
        "Ce-Specversion": "1.0",
        "Ce-Id": f"{name}-{seconds}",
        "Ce-Source": "https://10.100.0.1:443",
        "Ce-Type": f"dev.knative.apiserver.resource.{verb}",
        "Ce-Kind": kind,
        "Ce-Name": name,
        "Content-Type": "application/json",
    }
    return Event(at, Recording(headers=headers, body=json.dumps(item).encode()))


def posted(seconds: float, path: str, body: str) -> Event:
    return Event(START + timedelta(seconds=seconds), Recording(path=path, body=body.encode()))


def write(folder: Path, objects: Iterable[Any], events: Iterable[Event]) -> Path:
    """The folder; without ``objects`` it has no starting point."""
    folder.mkdir(parents=True, exist_ok=True)
    found = list(objects)
    if found:
        starting = {"v": 1, "at": START.isoformat(), "objects": found}
        (folder / "cluster.json").write_text(json.dumps(starting))
    lines = [
        json.dumps(
            {
                "at": at.isoformat(timespec="milliseconds"),
                "method": "POST",
                "path": request.path,
                "headers": request.headers,
                "body": request.body.decode(),
            }
        )
        for at, request in events
    ]
    name = f"events-{START:%Y%m%dT%H%M%SZ}.jsonl"
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder
