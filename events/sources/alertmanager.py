"""Alertmanager's webhook, version 4: one POST, many alerts.

https://prometheus.io/docs/alerting/latest/configuration/#webhook_config

Which node an alert means is said by its labels, and by none but these, the first that is there:
``exported_node`` (what the series itself said, where Prometheus put ``node`` on the exporter's
pod), ``node``, ``kubernetes_node``, ``Hostname`` and ``hostname`` (dcgm-exporter, before and
after it changed the spelling); and ``provider_id`` and ``instance_id`` beside them. Never
``instance``: that is the address from which the number was scraped, often a pod's. An alert
without any of them is about no node.

How much is done about it is ``watch``, unless the alert rule says otherwise with the label
``groundcrew_severity: watch|cordon|evict``, or the alert carries a counted XID (label ``xid`` of
``DCGM_EXP_XID_ERRORS_COUNT``), which the XID table knows.

``DCGM_FI_DEV_XID_ERRORS`` is a gauge that keeps the last code until the exporter restarts, and
has no time: an alert made of it is watched, whatever its labels ask for. ``resolved`` means that
the series went below the threshold or just away (a dead agent resolves alerts too), so it
proves nothing. Alertmanager repeats what still fires every few hours, with the same startsAt.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

from events import decoding, names, xid
from events.cloudevent import CloudEvent
from events.errors import MalformedEvent
from events.notice import Cause, Identity, Kind, Notice, Reading, Severity, evidence

TYPE = "dev.groundcrew.alertmanager"
SOURCE = "alertmanager"

SEVERITY_LABEL = "groundcrew_severity"
NODE_LABELS = ("exported_node", "node", "kubernetes_node", "Hostname", "hostname")
STICKY_GAUGE = "DCGM_FI_DEV_XID_ERRORS"

Labels = dict[str, str]


class Alert(msgspec.Struct, frozen=True, rename="camel"):
    status: Literal["firing", "resolved"]
    labels: Labels
    starts_at: str
    fingerprint: str
    annotations: Labels | None = None
    generator_url: str | None = msgspec.field(default=None, name="generatorURL")
    # endsAt is not read: while an alert fires it is the year 1, or a guess.


class Payload(msgspec.Struct, frozen=True, rename="camel"):
    version: Literal["4"]
    alerts: list[msgspec.Raw]
    receiver: str = ""
    external_url: str = msgspec.field(default="", name="externalURL")
    truncated_alerts: int = 0


_DECODER = msgspec.json.Decoder(Payload)
_ALERT = msgspec.json.Decoder(Alert)


def read(event: CloudEvent) -> Reading:
    """A notice for each alert that names a node. Raises `MalformedEvent`."""
    payload = decoding.decode(_DECODER, event.data)
    notices, skipped = [], []
    for index, raw in enumerate(payload.alerts):
        # One by one, so that what is wrong is said of the alert that it is wrong with.
        where = f"alerts[{index}]"
        alert = decoding.decode(_ALERT, bytes(raw), field=where, within=f"{where}.")
        name = alert.labels.get("alertname", "")
        if name:
            decoding.name(name, field=f"{where}.labels.alertname")
        identity = _identity(alert.labels)
        if not name:
            skipped.append(f"{where}: no label alertname to know it by")
        elif isinstance(identity, str):
            skipped.append(f"{where} {name}: {identity}")
        else:
            notices.append(_notice(alert, name, identity, event.time, where))
    if payload.truncated_alerts:
        skipped.append(f"{payload.truncated_alerts} alerts were cut off by max_alerts")
    if not notices:
        return Reading(declined="; ".join(skipped[:10]) or "no alerts")
    return Reading(tuple(notices), skipped=tuple(skipped))


def from_raw(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The whole POST as one event, whose ID is made of the body. Raises `MalformedEvent`."""
    payload = decoding.decode(_DECODER, body, field="body")
    return [
        CloudEvent(
            id=hashlib.sha256(body).hexdigest()[:32],
            source=payload.external_url or f"/alertmanager/{payload.receiver}",
            type=TYPE,
            data=body,
        )
    ]


def _notice(
    alert: Alert, name: str, identity: Identity, told: datetime | None, where: str
) -> Notice:
    decoding.name(alert.fingerprint, field=f"{where}.fingerprint", most=64)
    since = decoding.time(alert.starts_at, field=f"{where}.startsAt")
    if told is not None and since > told:
        # A clock that is ahead: what has been said has begun.
        since = told
    severity, cause, check = _meaning(alert, name, where)
    resolved = alert.status == "resolved"
    return Notice(
        kind=Kind.RECOVERY if resolved else Kind.FAULT,
        severity=Severity.WATCH if resolved else severity,
        cause=cause,
        source=SOURCE,
        check=check,
        reason=name if name != check else "",
        ref=alert.fingerprint,
        dedup=f"{alert.fingerprint}/{alert.starts_at}/{alert.status}",
        identity=identity,
        since=since,
        latched=resolved,
        gpu=evidence(_gpu(alert.labels)),
        job=evidence(_job(alert.labels)),
        evidence=evidence(f"{name} {alert.status}: {_summary(alert)}"),
    )


def _meaning(alert: Alert, name: str, where: str) -> tuple[Severity, Cause, str]:
    """Severity, cause and check of an alert that fires."""
    labels = alert.labels
    asked = labels.get(SEVERITY_LABEL)
    if asked is not None and asked not in tuple(Severity):
        raise MalformedEvent(
            f"{where}.labels.{SEVERITY_LABEL}", f"{asked!r} is none of {', '.join(Severity)}"
        )
    if _is_sticky(alert):
        return Severity.WATCH, Cause.UNKNOWN, name
    severity, cause, check = Severity.WATCH, Cause.UNKNOWN, name
    if "xid" in labels:
        code = labels["xid"]
        if not re.fullmatch("[0-9]{1,5}", code):
            raise MalformedEvent(f"{where}.labels.xid", f"{code!r} is no XID")
        verdict = xid.classify(int(code))
        severity, cause, check = verdict.severity, verdict.cause, f"xid-{int(code)}"
    return Severity(asked) if asked else severity, cause, check


def _is_sticky(alert: Alert) -> bool:
    """Whether the gauge of the last XID is behind it: by the expression of the rule, by the name
    of the series, or by the label that only this gauge carries."""
    labels = alert.labels
    return (
        STICKY_GAUGE in (alert.generator_url or "")
        or labels.get("__name__") == STICKY_GAUGE
        or ("err_code" in labels and "xid" not in labels)
    )


def _identity(labels: Labels) -> Identity | str:
    """The machine that the labels name, or why they name none."""
    said = {
        "node": next((labels[key] for key in NODE_LABELS if labels.get(key)), ""),
        "provider_id": labels.get("provider_id", ""),
        "instance_id": labels.get("instance_id", ""),
    }
    for field, text in said.items():
        if text and not _FORMS[field].fullmatch(text):
            return f"{text[:80]!r} cannot be a {field}"
    if any(said.values()):
        return Identity(**said)
    return (
        "no label names a node; looked for "
        f"{', '.join((*NODE_LABELS, 'provider_id', 'instance_id'))}"
    )


_FORMS = {"node": names.NODE, "provider_id": names.PROVIDER, "instance_id": names.INSTANCE}


def _gpu(labels: Labels) -> str:
    """UUID, else PCI address; the bare index of ``gpu`` changes from boot to boot and is none."""
    for key in ("UUID", "uuid", "gpu"):
        if labels.get(key, "").startswith(("GPU-", "MIG-")):
            return labels[key]
    return xid.pci_address(labels.get("pci_bus_id", ""))


def _job(labels: Labels) -> str:
    """The pod that used the GPU.

    Where Prometheus does not honour the exporter's labels, that is ``exported_pod``, and ``pod``
    is the exporter itself; which it also is for a GPU that nobody used.
    """
    for prefix in ("exported_", ""):
        namespace, pod = labels.get(f"{prefix}namespace"), labels.get(f"{prefix}pod")
        if namespace and pod:
            own = not prefix and ("exporter" in pod or "kube-state-metrics" in pod)
            return "" if own else f"{namespace}/{pod}"
    return ""


def _summary(alert: Alert) -> str:
    said = alert.annotations or {}
    for key in ("summary", "message", "description"):
        if said.get(key):
            return said[key]
    return ", ".join(f"{key}={value}" for key, value in sorted(alert.labels.items()))
