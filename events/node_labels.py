"""What other agents say of a node by labels and taints: HyperPod, GKE, IBM's Autopilot, Google's
cluster health scanner. The rows are `node_labels.csv`.

- HyperPod: docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-labels
- GKE: https://cloud.google.com/kubernetes-engine/docs/how-to/node-upgrades-maintenance (the label
  holds the start of the maintenance as seconds of the Unix epoch)
- Autopilot: `autopilot.ibm.com/dcgm.level.3` is ``ERR_<time>_<tests>`` or ``PASS_<time>``, and
  ``gpuhealth`` is EVICT for fatal findings only; while it tests, the label says TESTING

The taints of the node readiness controller (``readiness.k8s.io/...``) are not read: they follow
from node conditions, which are (`conditions.csv`).

These agents say it as long as they mean it: a value that turns good, or a label that is taken
away, is their own word that it is over.
"""

import csv
import fnmatch
import functools
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import NamedTuple

from events.decoding import EARLIEST, LATEST
from events.node_facts import NodeLike
from events.notice import Cause, Identity, Kind, Notice, Severity, evidence


class Row(NamedTuple):
    key: str
    value: str
    kind: Kind
    severity: Severity
    cause: Cause
    time: str
    quoted: str
    """Labels whose key begins so are quoted as evidence."""


def notices(node: NodeLike, source: str, identity: Identity, marks: str | None) -> Iterator[Notice]:
    """A notice for each label or taint that says something; that all is well, and that something
    was taken away, only of what ``marks`` (what we wrote on the node) speaks of."""
    labels = node.metadata.labels or {}
    spec = node.spec
    taints = {taint.key: taint.value or "" for taint in (spec.taints if spec else None) or ()}
    for (where, key), rows in _table().items():
        said: Mapping[str, str] = labels if where == "label" else taints
        value = said.get(key)
        if value is None:
            if marks and f'"{key}"' in marks:
                yield _over(key, "", f"the {where} {key} is gone", source, identity)
            continue
        row = next((row for row in rows if fnmatch.fnmatchcase(value, row.value)), None)
        if row is None:
            continue
        if row.kind is not Kind.RECOVERY:
            yield _notice(row, value, labels, source, identity)
        elif marks and f'"{key}"' in marks:
            yield _over(key, value, f"{key}={value}", source, identity)


def _notice(
    row: Row, value: str, labels: Mapping[str, str], source: str, identity: Identity
) -> Notice:
    severity, said = row.severity, f"{row.key}={value}" if value else row.key
    deadline = _epoch(value) if row.time == "epoch" else None
    if row.time == "epoch" and deadline is None:
        severity, said = Severity.WATCH, f"{said} (no time: when is not known)"
    if row.quoted:
        others = sorted(key for key in labels if key.startswith(row.quoted) and key != row.key)
        said = ", ".join((said, *(f"{key.rpartition('/')[2]}={labels[key]}" for key in others)))
    return Notice(
        kind=row.kind,
        severity=severity,
        cause=row.cause,
        source=source,
        check=row.key,
        reason=evidence(value) if row.time != "epoch" else "",
        identity=identity,
        since=_stamp(value) if row.time == "stamp" else None,
        deadline=deadline,
        evidence=evidence(said),
    )


def _over(key: str, value: str, said: str, source: str, identity: Identity) -> Notice:
    return Notice(
        kind=Kind.RECOVERY,
        severity=Severity.WATCH,
        cause=Cause.UNKNOWN,
        source=source,
        check=key,
        reason=evidence(value),
        identity=identity,
        evidence=evidence(said),
    )


_STAMP = re.compile(r"[A-Z]+_(\d{4}-\d\d-\d\d_\d\d\.\d\d\.\d\d)UTC(_.*)?", re.ASCII)


def _epoch(value: str) -> datetime | None:
    if not re.fullmatch("[0-9]{1,12}", value):
        return None
    try:
        when = datetime.fromtimestamp(int(value), UTC)
    except (OverflowError, ValueError, OSError):  # beyond the year 9999
        return None
    return when if EARLIEST <= when < LATEST else None


def _stamp(value: str) -> datetime | None:
    match = _STAMP.fullmatch(value)
    if not match:
        return None
    try:
        when = datetime.strptime(match[1], "%Y-%m-%d_%H.%M.%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return when if EARLIEST <= when < LATEST else None


@functools.cache
def _table() -> dict[tuple[str, str], list[Row]]:
    """Rows by what they are about, in the order of the file. Read on first use."""
    text = resources.files("events").joinpath("node_labels.csv").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    rows: dict[tuple[str, str], list[Row]] = {}
    for line in csv.DictReader(lines):
        row = Row(
            line["key"],
            line["value"],
            Kind(line["kind"]),
            Severity(line["severity"]),
            Cause(line["cause"]),
            line["time"],
            line["evidence"],
        )
        rows.setdefault((line["where"], row.key), []).append(row)
    return rows
