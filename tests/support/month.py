"""A month of a GPU fleet, at the rates that operators report: 13 false alarms per 1,000 node-days
(504 B200 in 55 days) against 4 real faults (Llama 3 and Meta's RSC clusters: 2.3 to 6.5), 70 % of
the false ones gone within ten minutes, most of them on a few nodes that monitors dislike. Once in
it a monitor goes mad, and accuses a good part of the fleet together.

`of` makes one from a seed, as a scenario that the replay plays; `Month` says what was true, so that
whoever acted can be judged: `wrongly` ended, or left too `late`.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from infra.local import scenario_file
from infra.local.scenario import Scenario

START = datetime(2026, 3, 2, tzinfo=UTC)
POOL = "h100"
FALSE, REAL = 13 / 1000, 4 / 1000
"""For one node and day."""
SHORT = 0.7
"""Share of the false alarms that are gone within ten minutes."""
DISLIKED = 0.5
"""Share of the false alarms that are about the few nodes that monitors dislike."""
HEALED = 0.3
"""Share of the real faults that a reboot heals."""
LIMIT = timedelta(days=7)
AFTER = timedelta(days=8)
"""Played on for, so that the last fault has its seven days."""

ALARMS = (
    ("AcceleratedHardwareReady", "NvidiaDoubleBitError", "Uncorrectable ECC error on GPU 5"),
    ("AcceleratedHardwareReady", "NvidiaNVLinkError", "NVLink error on GPU 2"),
    ("StorageReady", "IODelays", "Process (pid 4711) has waited for I/O for 12 s"),
    ("NetworkingReady", "InterfaceNotUp", "Interface eth3 is down"),
)
"""What monitors say without need: type, reason, message."""
FAULTS = (
    (
        "AcceleratedHardwareReady",
        "NvidiaXID79Error",
        "NVRM: Xid (PCI:0000:9b:00): 79, pid=1911, GPU has fallen off the bus.",
    ),
    (
        "AcceleratedHardwareReady",
        "NvidiaXID48Error",
        "NVRM: Xid (PCI:0000:19:00): 48, Double Bit ECC Error",
    ),
    ("AcceleratedHardwareReady", "NvidiaDoubleBitError", "Uncorrectable ECC error on GPU 1"),
    ("StorageReady", "IODelays", "Process (pid 4711) has waited for I/O for 12 s"),
)
"""Broken hardware; two of them look as false alarms do."""


@dataclass(frozen=True)
class Alarm:
    node: str
    began: datetime
    lasts: timedelta | None
    """None: as long as the hardware is broken."""
    says: tuple[str, str, str]
    healed: bool = False
    """By a reboot."""

    @property
    def real(self) -> bool:
        return self.lasts is None


@dataclass(frozen=True)
class Month:
    nodes: int
    end: datetime
    alarms: tuple[Alarm, ...]

    @property
    def broken(self) -> list[Alarm]:
        return [alarm for alarm in self.alarms if alarm.real]

    def wrongly(self, ended: Iterable[tuple[datetime, str]]) -> list[str]:
        """Of the ends (when, of which node) those of machines that were not broken."""
        broken = {alarm.node: alarm.began for alarm in self.broken}
        return [node for at, node in ended if node not in broken or at < broken[node]]

    def late(self, replaced: Mapping[str, datetime], slack: timedelta) -> list[str]:
        """Broken nodes that no reboot healed, and that nothing had replaced within seven days."""
        never = datetime.max.replace(tzinfo=UTC)
        return [
            alarm.node
            for alarm in self.broken
            if not alarm.healed and replaced.get(alarm.node, never) - alarm.began > LIMIT + slack
        ]

    def after(self, patience: timedelta) -> list[tuple[datetime, str]]:
        """Whom a rule would end that ends what has been accused for so long, as a node repair
        controller does that has no other guard."""
        return [
            (alarm.began + patience, alarm.node)
            for alarm in self.alarms
            if alarm.lasts is None or alarm.lasts > patience
        ]


def of(seed: int, *, nodes: int = 60, days: int = 30, factor: float = 1.0) -> Month:
    """``factor``: how many times the usual rates."""
    dice = random.Random(seed)
    names = [f"{POOL}-{number:02}" for number in range(1, nodes + 1)]
    dice.shuffle(names)
    disliked = names[:3]
    real = _poisson(dice, REAL * factor * nodes * days)
    broken, well = names[3 : 3 + real], names[3 + real :]
    alarms = []
    for node in broken:
        says = dice.choice(FAULTS)
        healed = dice.random() < HEALED
        alarms.append(Alarm(node, _some_time(dice, days), None, says, healed))
    for _ in range(_poisson(dice, FALSE * factor * nodes * days)):
        node = dice.choice(disliked if dice.random() < DISLIKED else well)
        if dice.random() < SHORT:
            lasts = timedelta(seconds=dice.uniform(30, 600))
        else:
            lasts = timedelta(minutes=min(10 + dice.expovariate(1 / 600), 5 * 24 * 60))
        alarms.append(Alarm(node, _some_time(dice, days), lasts, dice.choice(ALARMS)))
    alarms += _mad(dice, [*disliked, *well], days)
    alarms.sort(key=lambda alarm: alarm.began)
    return Month(nodes, START + timedelta(days=days) + AFTER, tuple(_apart(alarms)))


def _mad(dice: random.Random, names: list[str], days: int) -> Iterator[Alarm]:
    """One monitor accuses 5 to 80 % of the nodes for 5 to 60 minutes, all within a minute."""
    at, lasts = _some_time(dice, days), timedelta(minutes=dice.uniform(5, 60))
    says = dice.choice(ALARMS)
    for node in dice.sample(names, round(dice.uniform(0.05, 0.8) * len(names))):
        yield Alarm(node, at + timedelta(seconds=round(dice.uniform(0, 60))), lasts, says)


def scenario(month: Month) -> Scenario:
    return scenario_file.parse(text(month), "a-month", "a-month.yaml")


def text(month: Month) -> str:
    """The month as a scenario file. Whatever is quiet on a Monday, Wednesday or Friday morning is
    tested by people then, who give it back."""
    steps = [
        (at, f"{says}\n    condition: {{{condition}}}")
        for alarm in month.alarms
        for at, says, condition in _told(alarm)
    ]
    for alarm in month.alarms:
        over = alarm.began + (alarm.lasts or timedelta(hours=3))
        if alarm.real and not alarm.healed:
            continue
        says = f"Tests on {alarm.node} pass, and its people give it back."
        steps.append((_morning(over), f"{says}\n    human: {{uncordon: {alarm.node}}}"))
    lines = [f"  - at: {_at(at)}\n    says: {what}" for at, what in sorted(steps)]
    healed = [alarm.node for alarm in month.broken if alarm.healed]
    ends = sum(not alarm.healed for alarm in month.broken)
    return "\n".join(
        [
            "shows: >-",
            f"  A month of false alarms: {len(month.alarms) - len(month.broken)} of them on "
            f"{month.nodes} nodes,",
            f"  {len(month.broken)} real faults in between. No machine ends for a false one.",
            f"start: {START:%Y-%m-%dT%H:%M:%SZ}",
            f"until: {_at(month.end)}",
            "cluster:",
            f"  pools: {{{POOL}: {{count: {month.nodes}, instance_type: p5.48xlarge}}}}",
            f"  cloud: {{heals: [{', '.join(healed)}]}}",
            f"policy: {{replace: {{act_in: [{POOL}]}}}}",
            "steps:",
            *lines,
            "expect:",
            f"  - {{ended: {{at_least: {ends}, at_most: {ends}}}}}",
        ]
    )


def _told(alarm: Alarm) -> Iterator[tuple[datetime, str, str]]:
    kind, reason, message = alarm.says
    what = "breaks" if alarm.real else "is accused for nothing"
    bad = f'node: {alarm.node}, type: {kind}, status: "False", reason: {reason}, '
    yield alarm.began, f"{alarm.node} {what}.", bad + f'message: "{message}"'
    if alarm.lasts is not None:
        says = f"Its monitor takes back what it said of {alarm.node}."
        well = f'node: {alarm.node}, type: {kind}, status: "True", reason: IsReady'
        yield alarm.began + alarm.lasts, says, well


def _apart(alarms: Iterable[Alarm]) -> Iterator[Alarm]:
    """Without those that a node has while another one of its is not over."""
    until: dict[str, datetime] = {}
    for alarm in alarms:
        if alarm.began >= until.get(alarm.node, START):
            yield alarm
            until[alarm.node] = _morning(alarm.began + (alarm.lasts or AFTER)) + timedelta(hours=1)


def _morning(at: datetime) -> datetime:
    """The next Monday, Wednesday or Friday, 9 o'clock."""
    nine = at.replace(hour=9, minute=0, second=0, microsecond=0)
    while nine <= at or nine.weekday() not in (0, 2, 4):
        nine += timedelta(days=1)
    return nine


def _some_time(dice: random.Random, days: int) -> datetime:
    return START + timedelta(seconds=round(dice.uniform(3600, days * 86400)))


def _poisson(dice: random.Random, mean: float) -> int:
    count, left = 0, dice.expovariate(1.0)
    while left < mean:
        count += 1
        left += dice.expovariate(1.0)
    return count


def _at(at: datetime) -> str:
    week = (at - START).days // 7
    return f"{at:%a %H:%M:%S}" + (f" +{week}w" if week else "")
