"""What a drain says while it goes on: a live line for each node on a terminal, else plain lines."""

import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import TextIO

from functions.rules.draining import Result, explain
from infra.cli import screen
from infra.cli.drain_report import Node, State

_PLAIN_SECONDS = 10.0
"""How often a plain line repeats how far a node is, where nothing else is news."""
_CLEAR_BELOW = "\x1b[J"


class Silent:
    """For ``-o json``: the report says it all."""

    def say(self, line: str) -> None: ...

    def progress(self, node: str, result: Result) -> None: ...

    def done(self, node: Node) -> None: ...

    def refresh(self) -> None: ...


class Plain:
    """Lines as things happen, for logs. Threads may share it."""

    def __init__(self, now: Callable[[], datetime], out: TextIO | None = None) -> None:
        self._now = now
        self._out = out or sys.stdout
        self._lock = threading.RLock()
        self._told: dict[str, tuple[str, float]] = {}

    def say(self, line: str) -> None:
        with self._lock:
            print(line, file=self._out, flush=True)

    def progress(self, node: str, result: Result) -> None:
        line, at = progress_words(result, self._now()), time.monotonic()
        blocked = "; ".join(explain(result.blocked))
        with self._lock:
            before, when = self._told.get(node, ("", at))
            if blocked == before and at - when < _PLAIN_SECONDS:
                self._told.setdefault(node, (blocked, at))
                return
            self._told[node] = (blocked, at)
            self.say(f"{node}: {line}")

    def done(self, node: Node) -> None:
        self.say(f"{node.node}: {end_words(node)}")

    def refresh(self) -> None: ...


class Live(Plain):
    """One line for each node that is worked on, below what was said."""

    def __init__(self, now: Callable[[], datetime], out: TextIO | None = None) -> None:
        super().__init__(now, out)
        self._results: dict[str, Result] = {}
        self._shown: list[str] = []

    def say(self, line: str) -> None:
        with self._lock:
            self._draw(line)

    def progress(self, node: str, result: Result) -> None:
        with self._lock:
            self._results[node] = result

    def done(self, node: Node) -> None:
        with self._lock:
            self._results.pop(node.node, None)
            self._draw(f"{node.node}: {end_words(node)}")

    def refresh(self) -> None:
        with self._lock:
            self._draw()

    def _draw(self, *said: str) -> None:
        size = shutil.get_terminal_size()
        room = max(1, size.lines - 2)
        now = self._now()
        lines = [f"{n}: {progress_words(r, now)}" for n, r in sorted(self._results.items())]
        if len(lines) > room:
            lines = [*lines[: room - 1], f"and {len(lines) - room + 1} nodes more"]
        cut = [line[: size.columns - 1] for line in lines]
        if not said and cut == self._shown:
            return
        up = f"\x1b[{len(self._shown)}F" if self._shown else ""
        text = "".join(f"{line}\n" for line in (*said, *cut))
        self._out.write(f"{up}{_CLEAR_BELOW}{text}")
        self._out.flush()
        self._shown = cut


def choose(output: str, now: Callable[[], datetime]) -> Plain | Silent:
    if output == "json":
        return Silent()
    live = sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"
    return Live(now) if live else Plain(now)


def progress_words(result: Result, now: datetime) -> str:
    words = [f"{screen.count(len(result.left), 'pod')} left"]
    if result.leaving:
        words.append(f"{len(result.leaving)} leaving")
    if result.held:
        until = min((u for u in result.held.values() if u), default=None)
        words.append(
            f"{', '.join(sorted(result.held))} warned"
            + (f" until {until:%H:%M:%S}Z" if until else "")
        )
    if result.blocked:
        words.append(f"in the way: {'; '.join(explain(result.blocked))}")
    if longest := result.longest:
        grace = longest.gone_by - longest.asked
        words.append(
            f"longest wait: {longest.pod}, {screen.span(now - longest.asked)} of "
            f"{screen.span(grace)}"
        )
    return ", ".join(words)


def end_words(node: Node) -> str:
    """How it ended, and what follows from it."""
    evicted = f"{screen.count(len(node.evicted), 'pod')} evicted"
    stays = f"; left alone: {kinds(node.ignored)}" if node.ignored else ""
    if node.state is State.DRAINED:
        return f"drained in {node.seconds:.1f}s, {evicted}{stays}"
    also = f"; {node.why}" if node.why else ""
    words = {
        State.BLOCKED: "not drained: what is left will not leave by waiting",
        State.TIMED_OUT: f"not drained: the time was over after {node.seconds:.1f}s{also}",
        State.STOPPED: f"stopped: {node.why}",
        State.GONE: f"ended: {node.why}",
        State.FAILED: f"not drained: {node.why}",
        State.INTERRUPTED: "interrupted",
    }[node.state]
    words += f"; {evicted}"
    if node.left:
        words += f", {len(node.left)} left"
    if node.state is State.INTERRUPTED or (node.left and not node.blocked):
        some = ", ".join(node.left[:3]) + (", ..." if len(node.left) > 3 else "")
        words += f" ({some})" if some else ""
    for line in blockers(node):
        words += f"\n  {line}"
    if node.state not in (State.GONE, State.STOPPED):
        words += f"\n  it stays cordoned; `groundcrew uncordon {node.node}` gives it back"
    return words


def blockers(node: Node) -> list[str]:
    """Each cause once, with the pods that it holds."""
    by_why: dict[str, list[str]] = {}
    for blocker in node.blocked:
        by_why.setdefault(blocker.why, []).append(blocker.pod)
    lines = []
    for why, found in by_why.items():
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        lines.append(f"{', '.join(found[:3])}{more}: {why}")
    return lines


def kinds(ignored: dict[str, str]) -> str:
    """``12 of DaemonSets, 1 static pod``."""
    counts = Counter(_kind(why) for why in ignored.values())
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))


def _kind(why: str) -> str:
    if why.startswith("of DaemonSet"):
        return "of DaemonSets"
    if "static" in why:
        return "static"
    return "balloons" if "balloon" in why else "not waited for"
