"""Incidents: what is wrong with a node, since when, and what is done about it.

They live on the node in one annotation (`keys.INCIDENTS`), written by cordon alone, and are
inherited by whatever Node registers with the same provider ID. This module reads and writes
that record and applies what is said to it; what may then be done is for `rules.cordoning`.

Rules kept here: first-seen is ours, and flapping or new words restart nothing; a repeat changes
nothing (so nothing is written); what is older than what is already known is ignored; recovery
is a claim until it is proven (`rules.recovery`).
"""

import enum
import functools
import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from events.notice import Cause, Kind, Notice, Severity, evidence
from functions.rules import written_times
from functions.rules.node_view import NodeView
from functions.rules.policy import Policy

VERSION = 1
MAX_BYTES = 8 * 1024
REFRESH = timedelta(hours=1)
"""How often a repeat may move `Incident.last`: an incident lasts days, and each write of it
is sent to everybody who watches nodes."""
APPLICATION_XIDS = frozenset({"xid-13", "xid-31", "xid-43", "xid-45"})
"""XIDs that a faulty program causes on a healthy GPU (NVIDIA's XID catalogue)."""
KEPT_CLOSED = timedelta(days=7)
MAX_JOBS = 8
SKEW = timedelta(minutes=5)
"""How far a source's clock may run ahead of ours."""
SEVERAL = "several-checks"
"""Check of the incident that stands for many of one source, merged for space."""
UNCONFIRMED = "not confirmed: "
"""How the evidence of an incident begins that would empty the node if its sender were known."""
LONGEST_WORD = 160
"""Characters of a check, reason or ref that are kept: they come from outside (an alert's name)."""


class State(enum.StrEnum):
    OPEN = "open"
    DISMISSED = "dismissed"
    """Somebody uncordoned the node although the incident was open."""
    CLOSED = "closed"


class Cordon(msgspec.Struct, frozen=True, omit_defaults=True):
    """That the node is cordoned for an incident of ours."""

    at: datetime
    theirs: bool = False
    """It was cordoned already when we came: not ours to undo."""
    lb: bool = False
    """The label that keeps load balancers off was put on by us."""


class Incident(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    source: str
    check: str
    ref: str = ""
    reason: str = ""
    kind: Kind
    severity: Severity
    cause: Cause = Cause.UNKNOWN
    state: State = State.OPEN
    first: datetime
    """Our own first sight. Never moved."""
    last: datetime
    """Our last sight, moved at most hourly."""
    raised: datetime | None = None
    """When it came to take the machine out of service for its hardware, where that was not from
    the first: the days for which it was harmless are none of a sick machine's."""
    told: datetime | None = None
    """The source's own time of the newest word that we took: older words are stale."""
    boot: str = ""
    """Boot ID under which it was last accused."""
    deadline: datetime | None = None
    latched: bool = False
    in_log: bool = False
    """The kernel log itself says something as bad as `severity`: milder lines of the same check, or
    of another one merged with it, prove nothing worse."""
    evidence: str = ""
    claimed: datetime | None = None
    """Since when its source no longer says it. None while it does."""
    rebooted: datetime | None = None
    """When we first saw the machine under another boot ID, and it was not accused again."""
    ended: datetime | None = None
    """When it was closed or dismissed."""
    why: str = ""
    """Why it was closed or dismissed."""
    jobs: dict[str, dict[str, datetime]] = {}
    """Application faults: per GPU, the jobs that were hit there and when."""
    extra: dict[str, Any] = {}
    """Fields of a newer version, kept as they came."""

    @property
    def key(self) -> str:
        return f"{self.source}/{self.check}" + (f"/{self.ref}" if self.ref else "")

    @property
    def open(self) -> bool:
        return self.state is State.OPEN

    @property
    def is_hardware(self) -> bool:
        """Whether it takes the machine out of service, for its hardware or for nobody knows what:
        what its seven days run for (`rules.replacing.clock`)."""
        return (
            self.kind is Kind.FAULT
            and self.severity >= Severity.CORDON
            and self.cause in (Cause.HARDWARE, Cause.UNKNOWN)
        )

    @property
    def sick_since(self) -> datetime:
        return self.raised or self.first


class Record(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that our annotation on one node says."""

    v: int = VERSION
    machine: str = ""
    boot: str = ""
    """Boot ID of the node when this was last written."""
    cordon: Cordon | None = None
    incidents: tuple[Incident, ...] = ()
    releases: tuple[datetime, ...] = ()
    """When we took our cordon off, for the limit on fault-and-release rounds."""
    gpus: int = 0
    """The most GPUs that the node has shown while it was marked."""
    held: tuple[str, ...] = ()
    """What kept us from acting when we last wanted to (`budget`, `breaker`, ...): so that it is
    told once."""
    extra: dict[str, Any] = {}

    @property
    def open(self) -> tuple[Incident, ...]:
        return tuple(i for i in self.incidents if i.open)

    @property
    def cordoned_by_us(self) -> bool:
        return self.cordon is not None and not self.cordon.theirs

    def find(self, source: str, check: str, ref: str) -> Incident | None:
        """The newest incident of that key, whatever its state."""
        return next(
            (
                i
                for i in reversed(self.incidents)
                if i.source == source and i.check == check and i.ref == ref
            ),
            None,
        )

    def with_incident(self, changed: Incident, instead_of: Incident | None) -> "Record":
        if instead_of is None:
            return msgspec.structs.replace(self, incidents=(*self.incidents, changed))
        kept = tuple(changed if i is instead_of else i for i in self.incidents)
        return msgspec.structs.replace(self, incidents=kept)


class Unreadable(ValueError):
    """The annotation is not one that we can read; the message says what to do."""


_INCIDENT_FIELDS = frozenset(Incident.__struct_fields__) - {"extra"}
_RECORD_FIELDS = frozenset(Record.__struct_fields__) - {"extra"}


@functools.lru_cache(maxsize=1024)  # the same texts are read each time that a node is looked at
def decode(text: str) -> Record:
    """The record in an annotation. Fields that this version does not know are kept.

    Raises `Unreadable` for what is no record, or one of a newer version whose known fields no
    longer mean what they did.
    """
    try:
        raw = msgspec.json.decode(text)
        version = raw.get("v", 0) if isinstance(raw, dict) else 0
        if not isinstance(version, int) or version < 1:
            raise Unreadable("no version field `v`: not written by groundcrew")
        incidents = tuple(
            msgspec.structs.replace(
                msgspec.convert({k: v for k, v in item.items() if k in _INCIDENT_FIELDS}, Incident),
                extra={k: v for k, v in item.items() if k not in _INCIDENT_FIELDS},
            )
            for item in raw.get("incidents", ())
        )
        known = {k: v for k, v in raw.items() if k in _RECORD_FIELDS and k != "incidents"}
        record = msgspec.structs.replace(
            msgspec.convert(known, Record),
            incidents=incidents,
            extra={k: v for k, v in raw.items() if k not in _RECORD_FIELDS},
        )
        if wrong := written_times.trouble(_times(record)):
            raise Unreadable(wrong)
        return record
    except (msgspec.DecodeError, AttributeError, TypeError) as problem:
        raise Unreadable(str(problem)) from problem


def _times(record: Record) -> Iterator[object]:
    """All times in it, among others."""
    if record.cordon:
        yield record.cordon.at
    yield from record.releases
    for incident in record.incidents:
        yield from msgspec.structs.astuple(incident)
        for jobs in incident.jobs.values():
            yield from jobs.values()


def encode(record: Record) -> str:
    """The annotation's text, at most `MAX_BYTES`: closed incidents go first, then evidence;
    what is open is never dropped, but merged by source when nothing else is left to give."""
    shrunk = record
    text = _encode(shrunk)
    if len(text) > MAX_BYTES:
        shrunk = msgspec.structs.replace(
            shrunk, incidents=tuple(i for i in shrunk.incidents if i.state is not State.CLOSED)
        )
        text = _encode(shrunk)
    if len(text) > MAX_BYTES:
        shrunk = msgspec.structs.replace(
            shrunk,
            incidents=tuple(
                msgspec.structs.replace(i, evidence=i.evidence[:40], jobs={}, why=i.why[:40])
                for i in shrunk.incidents
            ),
        )
        text = _encode(shrunk)
    if len(text) > MAX_BYTES:
        text = _encode(msgspec.structs.replace(shrunk, incidents=_merged(shrunk.incidents)))
    return text.decode()


def _encode(record: Record) -> bytes:
    body = msgspec.to_builtins(record)
    body.pop("extra", None)
    body["v"] = record.v
    items = []
    for incident in record.incidents:
        item = msgspec.to_builtins(incident)
        item.pop("extra", None)
        items.append({**incident.extra, **item})
    if items:
        body["incidents"] = items
    return msgspec.json.encode({**record.extra, **body})


def _merged(incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """One incident a source and state: the worst severity, the earliest first-seen."""
    merged: dict[tuple[str, State], Incident] = {}
    for incident in incidents:
        place = (incident.source, incident.state)
        seen = merged.get(place)
        if seen is None:
            merged[place] = incident
            continue
        worst = max(seen, incident, key=lambda i: i.severity.rank)
        merged[place] = msgspec.structs.replace(
            worst,
            # Under a name of its own: what one of them takes back is not taken back by all.
            check=SEVERAL,
            ref="",
            reason="",
            first=min(seen.first, incident.first),
            raised=min((i.sick_since for i in (seen, incident) if i.is_hardware), default=None),
            last=max(seen.last, incident.last),
            told=max((t for t in (seen.told, incident.told) if t), default=None),
            deadline=min((d for d in (seen.deadline, incident.deadline) if d), default=None),
            latched=seen.latched or incident.latched,
            in_log=any(i.in_log for i in (seen, incident) if i.severity is worst.severity),
            claimed=_if_both(seen.claimed, incident.claimed),
            rebooted=_if_both(seen.rebooted, incident.rebooted),
            evidence="several checks, merged for space",
        )
    return tuple(merged.values())


def _if_both(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(one, other) if one and other else None


def read(view: NodeView) -> Record:
    """The record on the node; empty when there is none, or when it belongs to another machine
    (a Node that was made anew under the same name). Raises `Unreadable`."""
    if view.incidents is None:
        return Record(machine=view.machine)
    record = decode(view.incidents)
    # A cloud controller fills the provider ID in some time after the Node has registered: until
    # then the machine was known by the Node's UID, and it is still that machine.
    if record.machine not in ("", view.machine, f"uid:{view.uid}"):
        return Record(machine=view.machine)
    return record


def bounded(notice: Notice) -> Notice:
    """``notice`` with its words cut to `LONGEST_WORD`; two that differ stay different."""
    longest = max(map(len, (notice.check, notice.reason, notice.ref, notice.gpu, notice.job)))
    if longest <= LONGEST_WORD:  # almost all, and each time that a node is looked at
        return notice
    words = {name: getattr(notice, name) for name in ("check", "reason", "ref", "gpu", "job")}
    long = {name: word for name, word in words.items() if len(word) > LONGEST_WORD}
    cut = {
        name: f"{word[: LONGEST_WORD - 17]}-{hashlib.sha256(word.encode()).hexdigest()[:16]}"
        for name, word in long.items()
    }
    return msgspec.structs.replace(notice, **cut)


def about(record: Record, notice: Notice) -> Incident | None:
    """The newest incident that ``notice`` is about: its own, or the one that stands for many."""
    known = record.find(notice.source, notice.check, notice.ref)
    if known is not None:
        return known
    several = record.find(notice.source, SEVERAL, "")
    return several if several is not None and several.open else None


def hear(
    record: Record,
    view: NodeView,
    notices: Iterable[Notice],
    policy: Policy,
    now: datetime,
    *,
    live: bool = False,
) -> Record:
    """``record`` after ``notices`` about that node. Equal to ``record`` when nothing is new.

    ``live``: they are what the Node said of itself as it was read just now, and so are newer than
    everything that was said before, whatever times they carry. (The times of a node's conditions
    come from several clocks: the kubelet's, its agents', the control plane's.)
    """
    for notice in notices:
        if notice.kind is Kind.RECOVERY and not _of_this_boot(notice, view):
            # Late: an earlier boot was well. A fault of an earlier boot is heard, since it may
            # still be true of the hardware; the new boot then counts towards its recovery.
            continue
        if notice.kind is Kind.INFORMATIONAL:
            continue
        if notice.kind is Kind.RECOVERY:
            record = _claim(record, notice, now, live=live)
        else:
            record = _accuse(record, view, notice, policy, now, live=live)
    return record


def _accuse(
    record: Record, view: NodeView, notice: Notice, policy: Policy, now: datetime, *, live: bool
) -> Record:
    known = about(record, notice)
    severity = policy.severity_of(notice)
    if notice.unconfirmed and severity is Severity.EVICT:
        severity = Severity.WATCH
        told = evidence(UNCONFIRMED + notice.evidence)
        notice = msgspec.structs.replace(notice, evidence=told)
    boot = notice.identity.boot_id or view.boot_id
    stale = known is not None and _stale(notice, known)
    if known is not None and known.state is State.OPEN:
        fresh = not stale and _of_this_boot(notice, view)
        again = _again(known, notice, severity, boot, policy, now, fresh=fresh, live=live)
        return record.with_incident(again, known)
    if known is not None and known.state is State.CLOSED:
        if stale and not live:
            return record
        known = None
    dismissed = known or _dismissed(record, notice)
    if dismissed and _keeps_quiet(dismissed, severity, view, policy, now):
        if known is not None and known.claimed and (live or not stale):
            return record.with_incident(msgspec.structs.replace(known, claimed=None), known)
        return record
    opened = Incident(
        source=notice.source,
        check=notice.check,
        ref=notice.ref,
        reason=notice.reason,
        kind=notice.kind,
        severity=severity,
        cause=notice.cause,
        first=now,
        last=now,
        told=_newest(known, notice, now),
        # Said before the machine booted anew, and not since: the new boot counts as such.
        boot=known.boot if known is not None and stale else boot,
        deadline=notice.deadline,
        latched=notice.latched,
        in_log=notice.in_log,
        evidence=notice.evidence,
        jobs=known.jobs if known is not None else {},
        extra=known.extra if known is not None else {},
    )
    return record.with_incident(_count_job(opened, notice, policy, now), known)


def _again(
    known: Incident,
    notice: Notice,
    severity: Severity,
    boot: str,
    policy: Policy,
    now: datetime,
    *,
    fresh: bool,
    live: bool,
) -> Incident:
    """An open incident that is accused once more: the same object when nothing is new.

    A word that we know already does not become one about a new boot: after a boot the old
    conditions stand on the Node until their agents have started, and Events are sent again.
    """
    if known.claimed is not None and not (fresh or live):
        return known
    new_boot = fresh and (known.rebooted is not None or bool(boot and boot != known.boot))
    worse = severity > known.severity
    counted = _count_job(known, notice, policy, now)
    deadline = _deadline(known, notice)
    news = (
        worse
        or deadline != known.deadline
        or counted is not known
        or known.claimed is not None
        or new_boot
        or now - known.last >= REFRESH
    )
    if not news:
        return known
    made = msgspec.structs.replace(
        counted,
        severity=max(severity, counted.severity, key=lambda s: s.rank),
        cause=notice.cause if worse else counted.cause,
        reason=notice.reason if worse else known.reason,
        evidence=notice.evidence if worse else counted.evidence,
        in_log=_in_log(known, notice, severity),
        deadline=deadline,
        told=_newest(known, notice, now),
        boot=boot if new_boot else known.boot,
        last=now,
        claimed=None,
        rebooted=None if new_boot else known.rebooted,
    )
    if made.is_hardware and not known.is_hardware:
        return msgspec.structs.replace(made, raised=now)
    return made


def _in_log(known: Incident, notice: Notice, severity: Severity) -> bool:
    if severity > known.severity:
        return notice.in_log
    return known.in_log or (notice.in_log and severity is known.severity)


def _deadline(known: Incident, notice: Notice) -> datetime | None:
    """The provider's newest word about when; of several windows in one incident, the first."""
    if notice.deadline is None or (notice.unconfirmed and known.severity is Severity.EVICT):
        return known.deadline
    if not notice.unconfirmed and known.evidence.startswith(UNCONFIRMED):
        return notice.deadline
    if known.deadline is None:
        return notice.deadline
    if known.check == SEVERAL:
        return min(known.deadline, notice.deadline)
    older = notice.since is not None and known.told is not None and notice.since < known.told
    return known.deadline if older else notice.deadline


def _claim(record: Record, notice: Notice, now: datetime, *, live: bool) -> Record:
    """A source no longer says it: noted for each of its incidents that this is about."""
    for incident in record.incidents:
        if incident.state is State.CLOSED or incident.claimed is not None:
            continue
        if (incident.source, incident.check) != (notice.source, notice.check):
            continue
        if notice.ref and notice.ref != incident.ref:
            continue
        if notice.unconfirmed and incident.severity is Severity.EVICT:
            continue
        if not live and notice.since and incident.told and notice.since < incident.told:
            continue
        claimed = msgspec.structs.replace(
            incident,
            claimed=now,
            told=_newest(incident, notice, now),
            latched=incident.latched or notice.latched,
        )
        record = record.with_incident(claimed, incident)
    return record


def _count_job(incident: Incident, notice: Notice, policy: Policy, now: datetime) -> Incident:
    """Application faults follow a job; one that follows a GPU through several jobs is the GPU's."""
    if notice.check not in APPLICATION_XIDS or not notice.gpu or not notice.job:
        return incident
    horizon = now - policy.application_faults.within
    jobs = {job: at for job, at in incident.jobs.get(notice.gpu, {}).items() if at > horizon}
    if notice.job in jobs:
        return incident
    jobs[notice.job] = now
    kept = dict(sorted(jobs.items(), key=lambda item: item[1])[-MAX_JOBS:])
    counted = msgspec.structs.replace(incident, jobs={**incident.jobs, notice.gpu: kept})
    if len(kept) < policy.application_faults.jobs:
        return counted
    return msgspec.structs.replace(
        counted,
        severity=max(counted.severity, Severity.CORDON, key=lambda s: s.rank),
        cause=Cause.HARDWARE,
        evidence=f"{notice.check} on GPU {notice.gpu} in {len(kept)} jobs: "
        + ", ".join(kept)[:120],
    )


def _dismissed(record: Record, notice: Notice) -> Incident | None:
    """A dismissal covers the source and check, whatever the ref: the person who uncordoned
    judged the check, not one message of it."""
    return next(
        (
            i
            for i in record.incidents
            if i.state is State.DISMISSED and i.source == notice.source and i.check == notice.check
        ),
        None,
    )


def _keeps_quiet(
    dismissed: Incident, severity: Severity, view: NodeView, policy: Policy, now: datetime
) -> bool:
    # The node's boot ID, not the event's: a late event of an earlier boot is no new boot.
    ended = dismissed.ended or dismissed.last
    return (
        severity <= dismissed.severity
        and (not view.boot_id or view.boot_id == dismissed.boot)
        and now - ended < policy.dismissed.override
    )


def _of_this_boot(notice: Notice, view: NodeView) -> bool:
    return not view.boot_id or notice.identity.boot_id in ("", view.boot_id)


def _stale(notice: Notice, known: Incident) -> bool:
    """Whether the notice is no newer than what ended the incident, or claimed its end."""
    return notice.since is not None and known.told is not None and notice.since <= known.told


def _newest(known: Incident | None, notice: Notice, now: datetime) -> datetime | None:
    told = known.told if known else None
    return max(filter(None, (told, _not_ahead(notice.since, now))), default=None)


def _not_ahead(since: datetime | None, now: datetime) -> datetime | None:
    """What is dated far ahead of us is dated now: else no later word would be newer. By a little
    it is kept as it came, so that the same word is known again."""
    if since is None:
        return None
    return since if since <= now + SKEW else now


def tidy(record: Record, policy: Policy, now: datetime) -> Record:
    """Without what was closed or released so long ago that no rule asks for it."""
    kept_releases = max(KEPT_CLOSED, policy.recovery.releases_within)
    return msgspec.structs.replace(
        record,
        incidents=tuple(
            i
            for i in record.incidents
            if i.state is not State.CLOSED or now - (i.ended or i.last) < KEPT_CLOSED
        ),
        releases=tuple(at for at in record.releases if now - at < kept_releases),
    )
