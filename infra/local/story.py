"""A timeline as a story: decisions of one moment that say the same are one line.

What a person wants to know is when a node stopped taking work, when it was empty and when it
came back; that a drain still waits every five seconds is for the log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from functions.rules.decision import Action, Decision
from infra.local.timeline import Checked, Did, Entry, Happened, Trouble


@dataclass(frozen=True)
class Line:
    at: datetime
    tone: str
    """``world``, ``bad``, ``stop``, ``hold``, ``good``, ``quiet``, ``holds`` or ``fails``."""
    word: str = ""
    """What was done, in a word."""
    nodes: tuple[str, ...] = ()
    text: str = ""


@dataclass
class Story:
    """Takes entries in their order, and gives the lines of each moment when it is over."""

    _moment: list[Entry] = field(default_factory=list)
    _blocked: set[str] = field(default_factory=set)
    """Nodes whose drain was last told to be blocked."""

    def add(self, entry: Entry) -> list[Line]:
        """The lines of the moment before, if ``entry`` begins another."""
        lines = self.end() if self._moment and self._ends(entry) else []
        self._moment.append(entry)
        return lines

    def _ends(self, entry: Entry) -> bool:
        if isinstance(entry, Happened):
            return True
        if all(_only_keeps(one) for one in (*self._moment, entry)):
            return entry.at - self._moment[0].at >= _TOGETHER
        return entry.at != self._moment[-1].at

    def end(self) -> list[Line]:
        """The lines of what was added last."""
        entries, self._moment = self._moment, []
        did = [entry for entry in entries if isinstance(entry, Did)]
        lines = [_plain(e) for e in entries if isinstance(e, Happened | Trouble)]
        lines += _fold(self._told(did))
        lines += _checks([entry for entry in entries if isinstance(entry, Checked)])
        return lines

    def _told(self, did: list[Did]) -> list[tuple[Did, str, str]]:
        """The decisions worth a line, each with its word and tone."""
        by_node: dict[str, set[Action]] = {}
        for entry in did:
            by_node.setdefault(entry.decision.node, set()).add(entry.decision.action)
        told = []
        for entry in did:
            decision = entry.decision
            also = by_node[decision.node]
            if any(decision.action is less and also & more for less, more in _SAID_BY):
                continue
            word, tone = _WORDS[decision.action]
            if decision.shadow and decision.function == "replace":
                word = "would"
            if decision.action is Action.WAIT:
                if Action.START_DRAIN in also:
                    word, tone = "draining", "stop"
                elif decision.blocked_by:
                    word, tone = "blocked", "hold"
                    self._blocked.add(decision.node)
                elif decision.node in self._blocked:
                    word, tone = "goes on", "stop"
                    self._blocked.discard(decision.node)
                else:
                    continue
            if decision.action is Action.DRAINED and Action.START_DRAIN in also:
                tone = "quiet"  # of a drain that had nothing to do
            told.append((entry, word, tone))
        return told


_TOGETHER = timedelta(minutes=1)
"""So long is a moment in which nodes are held back and nothing else happens: events that were
recorded come one by one, also those of a monitor that accuses half the fleet at once."""


def _only_keeps(entry: Entry) -> bool:
    """Whether it changed nothing but what is known of a node that is held back."""
    return isinstance(entry, Did) and entry.decision.action in (Action.OPEN, Action.HOLD)


_WORDS = {
    Action.OPEN: ("noted", "quiet"),
    Action.CORDON: ("cordoned", "bad"),
    Action.RAISE: ("to drain", "bad"),
    Action.UNCORDON: ("released", "good"),
    Action.CLOSE: ("closed", "quiet"),
    Action.DISMISS: ("dismissed", "hold"),
    Action.HOLD: ("held back", "hold"),
    Action.NOTHING: ("nothing", "quiet"),
    Action.START_DRAIN: ("draining", "stop"),
    Action.EVICT: ("evicting", "stop"),
    Action.WAIT: ("waits", "quiet"),
    Action.DRAINED: ("emptied", "stop"),
    Action.STOP_DRAIN: ("left alone", "hold"),
    Action.HOOK: ("let go", "stop"),
    Action.RESET: ("resetting", "stop"),
    Action.REBOOT: ("rebooting", "stop"),
    Action.REBOOTED: ("rebooted", "good"),
    Action.COLLECT: ("evidence", "quiet"),
    Action.TERMINATE: ("ending", "bad"),
    Action.TERMINATED: ("gone", "stop"),
    Action.REPLACED: ("replaced", "good"),
    Action.MISSING: ("missing", "bad"),
    Action.AT_RISK: ("at risk", "hold"),
    Action.WITHDRAW: ("withdrawn", "hold"),
    Action.CLOCK_STOPPED: ("clock off", "quiet"),
    Action.GONE: ("gone", "hold"),
    Action.RETURNED: ("is back", "bad"),
}
_SAID_BY = (
    (Action.OPEN, {Action.CORDON, Action.HOLD}),
    (Action.CLOSE, {Action.UNCORDON}),
    (Action.START_DRAIN, {Action.WAIT, Action.DRAINED}),
    (Action.WAIT, {Action.DRAINED}),
)
"""Of two things said of a node in one moment, the first goes without saying."""


def _plain(entry: Happened | Trouble) -> Line:
    tone = "world" if isinstance(entry, Happened) else "fails"
    return Line(at=entry.at, tone=tone, text=entry.says)


def _fold(told: Iterable[tuple[Did, str, str]]) -> list[Line]:
    """One line for all nodes of a pool of which the same is said; numbers as they were last."""
    groups: dict[tuple[str, ...], list[tuple[Did, str, str]]] = {}
    for one in told:
        groups.setdefault(_sameness(one[0].decision, one[1]), []).append(one)
    lines = []
    for group in groups.values():
        entry, word, tone = group[-1]
        nodes = tuple(dict.fromkeys(did.decision.node for did, _, _ in group))
        text = entry.decision.reason.removeprefix(f"{word}: ")
        lines.append(Line(entry.at, tone, word, nodes, text))
    return lines


def _sameness(decision: Decision, word: str) -> tuple[str, ...]:
    if decision.action is Action.HOLD:
        # The reasons count up while more and more nodes are held back for one cause.
        pool = decision.pool if "breaker" in decision.blocked_by else ""
        return (word, pool, *decision.blocked_by)
    if decision.action in (Action.WAIT, Action.DRAINED):
        return (word, decision.reason)
    return (word, decision.incident, decision.reason)


def _checks(checked: list[Checked]) -> list[Line]:
    """What failed, each with what was seen; of what holds, the rule behind it."""
    lines = []
    failed = {check.because for check in checked if not check.holds}
    held = (check for check in checked if check.holds and check.because not in failed)
    for because in dict.fromkeys(check.because for check in held):
        if because:
            lines.append(Line(checked[0].at, "holds", text=because))
    for check in checked:
        if not check.holds:
            where = f" (line {check.line})" if check.line else ""
            text = f"expected: {check.expected}; seen: {check.seen}{where}"
            lines.append(Line(check.at, "fails", text=text))
    return lines
