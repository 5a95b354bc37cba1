"""What replace remembers of machines: when a clock began, what was tried, and what was ended.

It stands beside cordon's ledger in each pool's ConfigMap, under the key `KEY`, and is written by
replace alone, by compare-and-set on the object. An intent is written here before anything is asked
of a cloud: whoever reads it later knows that the call may have been made.

The cluster's own book (pool ``""``) holds the ends of the last day, which the caps count.
"""

import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

VERSION = 1
KEY = "replacements"
"""The key in the ledger's ConfigMap."""
MAX_BYTES = 250_000
"""Of one book; cordon's ledger, which shares the object, takes what is left of 800,000."""
KEPT = timedelta(days=30)
"""How long what is over is remembered."""
DAY = timedelta(days=1)
WORDS = 300
"""Characters of a refusal that are kept."""


class Phase(enum.StrEnum):
    SICK = "sick"
    """Its clock runs."""
    RESETTING = "resetting"
    """Whoever resets GPUs was asked to."""
    REBOOTING = "rebooting"
    """A reboot is asked for, or about to be; another boot ID confirms it."""
    ENDING = "ending"
    """Its end is asked for, or about to be; the cloud confirms it."""
    ENDED = "ended"
    """The cloud says that it is gone; its replacement is waited for."""
    CLOSED = "closed"
    """Over: see `Entry.outcome`."""


class Intent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is about to be asked, written before it is."""

    rung: str
    token: str
    """Of the call that means to ask. Another one takes it over when this one is long gone."""
    at: datetime
    asked: datetime | None = None
    """When the asking was answered. None: nobody knows whether it was asked."""
    taken: datetime | None = None
    """When whoever runs it was first seen to be ending it."""
    tries: int = 0
    earlier: tuple[str, ...] = ()
    """Tokens of the askings before: who took it by one of them has taken it."""
    said: str = ""
    """The last refusal."""
    again: datetime | None = None
    """When it may be asked again after a refusal."""
    way: str = ""
    boot: str = ""
    """Boot ID at that time."""
    why: str = ""
    """Why it was decided, for whoever asks later."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One VM, by provider ID."""

    node: str
    uid: str = ""
    phase: Phase = Phase.SICK
    changed: datetime
    noted: datetime | None = None
    """When this entry was begun: since then replace has looked at the machine."""
    began: datetime | None = None
    """Our first sight of what started its clock."""
    fault: str = ""
    """The incident that stands for what is wrong: source/check/ref."""
    first_boot: str = ""
    """Boot ID when the clock began."""
    seen_boot: str = ""
    boots: tuple[datetime, ...] = ()
    """When it was seen to have booted anew since the clock began, the last few."""
    empty: datetime | None = None
    """Since when no workload was left on it, without a break."""
    drained_from: datetime | None = None
    """When its drain began: from then on its work calls for another machine."""
    tried: tuple[str, ...] = ()
    """Rungs that are behind it since the clock began."""
    would: tuple[str, ...] = ()
    """Rungs that would have been taken, where it is only told."""
    reboots: tuple[datetime, ...] = ()
    """Those that we asked for."""
    warned: int = 0
    """So many of the times at which the seven days are at risk are told."""
    holding: tuple[str, ...] = ()
    """The guards that held when we last wanted to act: told once."""
    collecting: datetime | None = None
    """When the collecting of evidence began."""
    collected: str = ""
    """What came of it."""
    gpus: tuple[str, ...] = ()
    """UUIDs, where something says them."""
    host: str = ""
    owner: str = ""
    """Who makes its machines, where its Node shows that: ``karpenter``, ``cluster-api``."""
    beside: tuple[str, ...] = ()
    """Who else repaired nodes here when it was looked at closely last."""
    others: str = ""
    """Who mended it without us then, by the word of who owns it."""
    reserved: str = ""
    """Why its capacity may not come back, by the cloud's word then."""
    account: str = ""
    """Whose machine it was when the cloud was last asked; empty: it never answered."""
    intent: Intent | None = None
    ended: datetime | None = None
    """When the cloud's word that it is gone was read."""
    released: bool = False
    """What held its volumes was let go."""
    replacement: str = ""
    """Provider ID of the machine that came for it."""
    missing: bool = False
    """It was said that no replacement serves."""
    outcome: str = ""
    """How it ended: ``recovered: ...``, ``replaced by ...``, ``gone: ...``."""
    extra: dict[str, Any] = {}
    """Fields of a newer version, kept as they came."""

    @property
    def over(self) -> bool:
        return self.phase is Phase.CLOSED

    def close(self, outcome: str, now: datetime, replacement: str = "") -> "Entry":
        """It is over. Why it ended stays in the intent of an end that was asked for, and why it did
        not in what held."""
        kept = self.intent if self.ended else None
        return msgspec.structs.replace(
            self,
            phase=Phase.CLOSED,
            changed=now,
            intent=kept,
            outcome=outcome,
            replacement=replacement,
        )


class End(msgspec.Struct, frozen=True, omit_defaults=True):
    """A machine that ends for us: what the caps count."""

    at: datetime
    pool: str = ""
    token: str = ""
    """Of the call that took this place: no other one gives it back."""


class Book(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    v: int = VERSION
    began: datetime | None = None
    """When this book was begun: what was done before is not in it."""
    seen: datetime | None = None
    """When replace last looked, written now and then."""
    awake: datetime | None = None
    """Since when it looks without a long break."""
    machines: dict[str, Entry] = {}
    """By provider ID."""
    ends: dict[str, End] = {}
    """The cluster's book only: of the last day, by provider ID."""
    extra: dict[str, Any] = {}


class Unreadable(ValueError):
    """The book is not one that we can read: nothing ends in that pool until it is put right."""


_BOOK = frozenset(Book.__struct_fields__) - {"extra"}
_ENTRY = frozenset(Entry.__struct_fields__) - {"extra"}


def decode(text: str | None) -> Book:
    """An empty book where there is none yet. Raises `Unreadable`."""
    if not text:
        return Book()
    try:
        raw = msgspec.json.decode(text)
        version = raw.get("v", 0)
        if not isinstance(version, int) or version < 1:
            raise Unreadable("no version field `v`: not written by groundcrew")
        known = {k: v for k, v in raw.items() if k in _BOOK and k != "machines"}
        machines = {m: _entry(item) for m, item in raw.get("machines", {}).items()}
        extra = {k: v for k, v in raw.items() if k not in _BOOK}
        made = msgspec.convert(known, Book)
        return msgspec.structs.replace(made, machines=machines, extra=extra)
    except (msgspec.DecodeError, AttributeError, TypeError) as problem:
        raise Unreadable(str(problem)) from problem


def _entry(item: Mapping[str, Any]) -> Entry:
    known = {k: v for k, v in item.items() if k in _ENTRY}
    extra = {k: v for k, v in item.items() if k not in _ENTRY}
    return msgspec.structs.replace(msgspec.convert(known, Entry), extra=extra)


def encode(book: Book, room: int = MAX_BYTES) -> str:
    """Its text, at most ``room`` bytes: of what is over the oldest goes first. What is not over
    stays, whatever room it takes."""
    text = _encode(book)
    while len(text) > room:
        over = sorted((e.changed, m) for m, e in book.machines.items() if e.over)
        if not over:
            break
        gone = {machine for _, machine in over[: max(1, len(over) // 10)]}
        kept = {m: e for m, e in book.machines.items() if m not in gone}
        book = msgspec.structs.replace(book, machines=kept)
        text = _encode(book)
    return text.decode()


def _encode(book: Book) -> bytes:
    body = msgspec.to_builtins(book)
    body.pop("extra", None)
    machines = {}
    for machine, entry in book.machines.items():
        item = msgspec.to_builtins(entry)
        item.pop("extra", None)
        machines[machine] = {**entry.extra, **item}
    if machines:
        body["machines"] = machines
    return msgspec.json.encode({**book.extra, **body, "v": book.v}, order="deterministic")


def tidy(book: Book, now: datetime) -> Book:
    """Without what was over so long ago that nobody asks for it. The same object if nothing is."""
    machines = {m: e for m, e in book.machines.items() if not (e.over and now - e.changed >= KEPT)}
    ends = {m: end for m, end in book.ends.items() if now - end.at < DAY}
    if len(machines) == len(book.machines) and len(ends) == len(book.ends):
        return book
    return msgspec.structs.replace(book, machines=machines, ends=ends)


def with_entry(book: Book, machine: str, entry: Entry | None) -> Book:
    """``book`` with ``entry`` for ``machine``; None takes it out."""
    machines = {m: e for m, e in book.machines.items() if m != machine}
    if entry is not None:
        machines[machine] = entry
    return msgspec.structs.replace(book, machines=machines)


def cut(words: str) -> str:
    return words if len(words) <= WORDS else words[: WORDS - 3] + "..."
