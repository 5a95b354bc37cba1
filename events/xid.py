"""XIDs: what the NVIDIA driver writes to the kernel log when a GPU goes wrong, and what it means.

The codes are those of NVIDIA's catalogue (https://docs.nvidia.com/deploy/xid-errors/); the
severity is ours, since the vendor, the clouds and the operators disagree (63 is "ignore" to one
and "replace the machine" to another). The table is `xid.csv`, versioned, so that it can be read
and changed without reading this. A code that the table does not know is watched, never more.

NVSwitches write SXids in the same form; their codes start at 10000 and need no table, because
each line says whether it is fatal.
"""

import csv
import functools
import importlib.resources
import re
from collections.abc import Iterator

import msgspec

from events.notice import Cause, Severity

VERSION_PREFIX = "# version "
FIRST_SXID = 10_000

RECOVERY_ACTIONS = {
    "None": None,
    "GPU Reset": Severity.CORDON,
    "GPU Reset Required": Severity.CORDON,
    "Drain P2P": Severity.CORDON,
    "Node Reboot": Severity.EVICT,
    "Node Reboot Required": Severity.EVICT,
    "Drain and Reset": Severity.EVICT,
}
"""What XID 154 recommends, as the driver words it. ``None`` takes back what it said before.
Told apart by word, not by number: the numbers differ between driver branches."""


class Row(msgspec.Struct, frozen=True):
    """One line of the table."""

    code: int
    name: str
    action: str
    severity: Severity
    cause: Cause
    application: bool
    ignored: bool
    decode: str


class Verdict(msgspec.Struct, frozen=True):
    """What a code means, as far as what was said with it tells."""

    severity: Severity
    cause: Cause
    name: str = ""
    application: bool = False
    """Caused by the program that ran, until it follows the GPU from job to job (13, 31, 43, 45)."""
    ignored: bool = False
    """Needs nothing: test messages, wear notes."""
    clears: bool = False
    """The driver takes back what it recommended (154 to None)."""


class Xid(msgspec.Struct, frozen=True, kw_only=True):
    """One XID (or an NVSwitch's SXid) that a text speaks of."""

    code: int
    switch: bool = False
    gpu: str = ""
    """PCI address of the GPU, or of the NVSwitch, as ``0000:0f:00``. Empty: it did not say."""
    pid: int | None = None
    process: str = ""
    detail: str = ""
    """What the line says after the code and the process."""
    verdict: Verdict

    @property
    def check(self) -> str:
        return f"{'sxid' if self.switch else 'xid'}-{self.code}"


# `NVRM: Xid (PCI:0000:0f:00): 94, pid=2503421, name=python3, Ch 00000008`, with or without `PCI:`;
# `nvidia-nvswitch2: SXid (PCI:0000:8a:00.0): 12028, Non-fatal, Link 61 ...`.
_LINE = re.compile(r"\b(S?)Xid \((?:PCI:)?([0-9a-f:.]+)\):\s*(\d{1,5})\b[, \t]*(.*)", re.I)
_PROCESS = re.compile(
    r"pid='?(<unknown>|\d{1,10})'?(?:,\s*name='?(<unknown>|[^,']*)'?)?(?:,\s*|\s*$)"
)
# `NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.`
_OFF_BUS = re.compile(r"\bGPU ([0-9a-f:.]+): GPU has fallen off the bus", re.I)
# At probe, without the word Xid, over two or three lines: `NVRM: The NVIDIA GPU 0000:b3:00.0` /
# `NVRM: (PCI ID: 10de:26b5) installed in this system has` / `NVRM: fallen off the bus and is not
# responding to commands.` Agents join the lines with blanks.
_OFF_BUS_AT_PROBE = re.compile(
    r"\bNVIDIA GPU ([0-9a-f:.]+)\b.{0,120}?installed in this system has.{0,40}?fallen off the bus",
    re.I | re.S,
)
# What agents make of them. EKS node monitoring agent: `NvidiaXID79Error` and `detected unknown
# XID-31`; GKE device plugin: `Caught XID error, XID=48`; NVSentinel: `ErrorCode:79 PCI:0001:00:00`.
_AGENT = re.compile(
    r"\bNvidiaS?XID(\d{1,5})(?=Error|Warning|\b)"
    r"|\bS?XID(?:-|=|: ?| )(\d{1,5})\b"
    r"|\bErrorCode:(\d{1,5})\b(?: PCI:([0-9A-Fa-f:.]+))?"
)
_MAP = re.compile(r'"(\d{1,5})"\s*:\s*true')
_RECOVERY_ACTION = re.compile(r"changed from \S+ \([^)]*\) to \S+ \(([^)]*)\)")
_FATAL = re.compile(r"\b(non-?fatal|(?:link-?)?fatal)\b", re.I)
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?", re.I)


def parse(text: str) -> Xid | None:
    """The first XID that ``text`` speaks of; None when it speaks of none."""
    return next(iter(parse_all(text)), None)


def parse_all(text: str) -> tuple[Xid, ...]:
    """Every XID in ``text``, each code once per GPU, in the order in which they stand there.

    Takes kernel log lines (also several, also joined) and what the agents make of them,
    including the GKE device plugin's ``{"48":true}``.
    """
    found: dict[tuple[int, str], Xid] = {}
    for xid in _kernel_lines(text) or _agent_words(text):
        found.setdefault((xid.code, xid.gpu), xid)
    return tuple(found.values())


def classify(code: int, detail: str = "") -> Verdict:
    """What ``code`` means, with what was said after it: 154 goes by the recovery action, 144-150
    and SXids by the word Fatal or Nonfatal. Without the word that decides, it is watched."""
    if code >= FIRST_SXID:
        severity = Severity.CORDON if _is_fatal(detail) else Severity.WATCH
        return Verdict(severity, Cause.HARDWARE, name="NVSwitch error")
    row = table().get(code)
    if row is None:
        return Verdict(Severity.WATCH, Cause.UNKNOWN, name="a code that the table does not know")
    severity, clears = row.severity, False
    if row.decode == "fatal-word" and not _is_fatal(detail):
        severity = Severity.WATCH
    elif row.decode == "recovery-action":
        severity, clears = _recommended(detail)
    return Verdict(severity, row.cause, row.name, row.application, row.ignored, clears)


def severity_of(code: int) -> Severity:
    """The severity of a bare code, as a metric or a label carries it."""
    return classify(code).severity


@functools.cache
def table() -> dict[int, Row]:
    """`xid.csv` by code; read on first use, since most events speak of no XID."""
    return {row.code: row for row in _read()}


def version() -> str:
    """Which edition of the catalogue the table follows, e.g. ``2025-10``."""
    first = _text().partition("\n")[0]
    return first.removeprefix(VERSION_PREFIX).partition(":")[0]


def _text() -> str:
    return (importlib.resources.files("events") / "xid.csv").read_text(encoding="utf-8")


def _read() -> Iterator[Row]:
    lines = (line for line in _text().splitlines() if not line.startswith("#"))
    for line in csv.DictReader(lines):
        ignored = line["severity"] == "ignore"
        yield Row(
            code=int(line["code"]),
            name=line["name"],
            action=line["action"],
            severity=Severity.WATCH if ignored else Severity(line["severity"]),
            cause=Cause(line["cause"]),
            application=line["application"] == "true",
            ignored=ignored,
            decode=line["decode"],
        )


def _kernel_lines(text: str) -> list[Xid]:
    found = []
    for match in _LINE.finditer(text):
        address, code, rest = match[2], int(match[3]), match[4].strip()
        pid, process = None, ""
        if said := _PROCESS.match(rest):
            pid = int(said[1]) if said[1].isdigit() else None
            process = "" if said[2] in (None, "<unknown>") else said[2].strip()
            rest = rest[said.end() :]
        found.append(_xid(code, address, detail=rest, pid=pid, process=process))
    for pattern in (_OFF_BUS, _OFF_BUS_AT_PROBE):
        found += [
            _xid(79, match[1], detail="GPU has fallen off the bus.")
            for match in pattern.finditer(text)
        ]
    return found


def _agent_words(text: str) -> list[Xid]:
    if text.lstrip().startswith("{"):
        return [_xid(int(code)) for code in _MAP.findall(text)]
    return [
        _xid(int(match[1] or match[2] or match[3]), match[4] or "", detail=_after(text, match))
        for match in _AGENT.finditer(text)
    ]


def _after(text: str, match: re.Match[str]) -> str:
    # Agents join what several faults said with "; ".
    return text[match.end() :].partition(";")[0].lstrip(" :,")


def _xid(
    code: int, address: str = "", *, detail: str = "", pid: int | None = None, process: str = ""
) -> Xid:
    return Xid(
        code=code,
        switch=code >= FIRST_SXID,
        gpu=pci_address(address),
        pid=pid,
        process=process,
        detail=detail,
        verdict=classify(code, detail),
    )


def pci_address(text: str) -> str:
    """``text`` as ``0000:0f:00``: lower case, four digits of domain, no function. Empty when it
    is no PCI address."""
    match = _PCI.fullmatch(text)
    if match is None:
        return ""
    domain = (match[1] or "").lstrip("0").rjust(4, "0")
    return f"{domain}:{match[2]}:{match[3]}".lower()


def _is_fatal(detail: str) -> bool:
    word = _FATAL.search(detail)
    return word is not None and not word[1].lower().startswith("non")


def _recommended(detail: str) -> tuple[Severity, bool]:
    action = _RECOVERY_ACTION.search(detail)
    if action is None or action[1] not in RECOVERY_ACTIONS:
        return Severity.WATCH, False
    severity = RECOVERY_ACTIONS[action[1]]
    return severity or Severity.WATCH, severity is None
