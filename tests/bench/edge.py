"""What it costs to decline an event: from headers and bytes to "nothing to do", on one core.

    python -m tests.bench.edge

Almost every event needs nothing (on a real fleet of 288 nodes 99 % of 190,000 health events a
day), so this is what listening costs. The web framework is not counted. Beside it the obvious
way: the cloudevents package, json.loads and a walk over the dicts, in turns with ours, so that
the ratio (how many times as long it takes) can be compared between machines. That way checks
nothing: no attribute, no field, no time.

Counted is the processor time of this thread, which is wall time on an idle core, and does not
count what other processes of a busy machine take meanwhile.
"""

import gc
import json
import statistics
import time
from collections.abc import Callable
from importlib import resources
from typing import Any, NamedTuple

from events import recording
from events.recording import Recording

BATCH = 20
BATCHES = 200


class Case(NamedTuple):
    name: str
    recorded: str
    """Below ``events/recorded``; must be declined."""
    naive: Callable[[Recording], bool]
    """The obvious way to the same answer: whether anything needs doing."""
    wanted_ms: float


def naive_node(request: Recording) -> bool:
    from cloudevents.http import from_http

    node: Any = from_http(request.headers, request.body).get_data()
    bad_when_false = ("Ready", "AcceleratedHardwareReady", "ContainerRuntimeReady", "KernelReady")
    marked = "groundcrew.dev/incidents" in node["metadata"].get("annotations", {})
    bad = [
        c
        for c in node["status"].get("conditions", [])
        if c["status"] == ("False" if c["type"] in bad_when_false else "Unknown")
    ]
    return marked or bool(bad)


def naive_health(request: Recording) -> bool:
    from cloudevents.http import CloudEvent

    body = json.loads(request.body)
    attributes = {"id": body["id"], "source": body["source"], "type": body["detail-type"]}
    event: Any = CloudEvent(attributes, body).get_data()
    detail = event["detail"]
    return detail["service"] == "EC2" and bool(detail.get("affectedEntities"))


CASES = (
    Case("node-decline", "kubernetes_node/healthy_9_kb.json", naive_node, 0.1),
    Case("health-decline", "aws_health/other_service_ebs.json", naive_health, 0.2),
)


def measure(case: Case) -> dict[str, float]:
    """Median milliseconds of one event, of many small batches, and the ratio to the naive way."""
    text = (resources.files("events") / "recorded" / case.recorded).read_bytes()
    request = recording.load(text)
    reading = recording.understand(request)
    if not reading.declined:
        raise SystemExit(f"{case.recorded} is not declined: {reading.notices}")
    if case.naive(request):
        raise SystemExit(f"{case.recorded} is not declined the naive way")
    ours, naive = _medians_ms(
        lambda: recording.understand(request),
        lambda: case.naive(request),
    )
    return {
        "ms": round(ours, 4),
        "naive_ms": round(naive, 4),
        "ratio": round(naive / ours, 2),
        "bytes": len(request.body),
    }


def _medians_ms(*calls: Callable[[], object]) -> list[float]:
    """The median of each, their batches taken in turns: a slow moment hits all alike."""
    taken: list[list[float]] = [[] for _ in calls]
    gc.collect()
    for _ in range(BATCHES):
        for call, of_call in zip(calls, taken, strict=True):
            start = time.thread_time_ns()
            for _ in range(BATCH):
                call()
            of_call.append((time.thread_time_ns() - start) / BATCH / 1e6)
    return [statistics.median(of_call) for of_call in taken]


def main() -> None:
    measured = {case.name: measure(case) for case in CASES}
    print(f"{'case':16}{'bytes':>7}{'ms':>9}{'wanted':>9}{'naive ms':>10}{'ratio':>7}")
    for case in CASES:
        found = measured[case.name]
        print(
            f"{case.name:16}{found['bytes']:7}{found['ms']:9.4f}{case.wanted_ms:>9}"
            f"{found['naive_ms']:10.4f}{found['ratio']:7.1f}"
        )
    print(json.dumps({"bench": "edge", "cases": measured}))


if __name__ == "__main__":
    main()
