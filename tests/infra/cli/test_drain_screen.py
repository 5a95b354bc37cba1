"""What a drain says while it goes on."""

import io
import os
import re
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from functions.rules.draining import Blocker, Ended, Leaving, Result
from infra.cli import drain_screen
from infra.cli.drain_report import Blocker as Told
from infra.cli.drain_report import Node, State

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
HELD = Result(
    ended=Ended.UNFINISHED,
    left=("default/a", "default/b", "default/c"),
    leaving=("default/a",),
    longest=Leaving("default/a", NOW - timedelta(seconds=12), NOW + timedelta(seconds=48)),
    blocked=(Blocker("default/b", "PodDisruptionBudget default/web allows none now", False),),
)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    size = os.terminal_size((60, 5))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *given, **more: size)


def test_progress_names_what_is_left_what_is_in_the_way_and_the_longest_wait() -> None:
    assert drain_screen.progress_words(HELD, NOW) == (
        "3 pods left, 1 leaving, in the way: default/b: PodDisruptionBudget default/web allows "
        "none now, longest wait: default/a, 12s of 1m"
    )


def test_plain_lines_come_when_something_is_news_and_not_before() -> None:
    out = io.StringIO()
    plain = drain_screen.Plain(lambda: NOW, out)
    quiet = Result(ended=Ended.UNFINISHED, left=("default/a",), leaving=("default/a",))
    plain.progress("n1", quiet)
    assert out.getvalue() == ""
    plain.progress("n1", HELD)
    plain.progress("n1", HELD)
    assert out.getvalue().count("\n") == 1
    assert "in the way" in out.getvalue()


@pytest.mark.usefixtures("narrow")
def test_a_terminal_has_a_line_for_each_node_cut_to_its_width() -> None:
    out = io.StringIO()
    live = drain_screen.Live(lambda: NOW, out)
    for number in range(9):
        live.progress(f"n{number}", HELD)
    live.refresh()
    lines = out.getvalue().replace("\x1b[J", "").splitlines()
    assert len(lines) == 3, "what fits, and how many more there are"
    assert lines[-1] == "and 7 nodes more"
    assert max(map(len, lines)) < 60


@pytest.mark.usefixtures("narrow")
def test_what_is_said_stays_above_the_live_lines() -> None:
    out = io.StringIO()
    live = drain_screen.Live(lambda: NOW, out)
    live.progress("n1", HELD)
    live.refresh()
    live.done(Node(node="n1", state=State.DRAINED, seconds=1.5, evicted=["default/a"]))
    shown = screen_of(out.getvalue())
    assert shown == ["n1: drained in 1.5s, 1 pod evicted"]


def screen_of(written: str) -> list[str]:
    """What a terminal shows after that."""
    lines: list[str] = [""]
    for part in re.split(r"(\x1b\[\d*[FJ]|\n)", written):
        if part == "\n":
            lines.append("")
        elif part.endswith("F") and part.startswith("\x1b"):
            lines = [*lines[: -1 - int(part[2:-1])], ""]
        elif part != "\x1b[J":
            lines[-1] += part
    return [line for line in lines if line]


@pytest.mark.parametrize(
    ("state", "why", "words"),
    [
        (State.BLOCKED, "", "what is left will not leave by waiting"),
        (State.TIMED_OUT, "", "the time was over after 3.0s"),
        (State.FAILED, "the API server stays away", "the API server stays away"),
        (State.INTERRUPTED, "", "interrupted"),
        (State.STOPPED, "somebody uncordoned the node", "stopped: somebody uncordoned"),
        (State.GONE, "the node was deleted", "the node was deleted"),
    ],
)
def test_every_end_is_told_with_what_is_left_and_what_to_do(
    state: State, why: str, words: str
) -> None:
    node = Node(
        node="n1", state=state, why=why, seconds=3.0, evicted=["default/a"],
        left=["default/b"], blocked=[Told("default/b", "held by finalizer x")],
    )  # fmt: skip
    said = drain_screen.end_words(node)
    assert words in said
    assert "default/b: held by finalizer x" in said
    stays = state not in (State.STOPPED, State.GONE)
    assert ("groundcrew uncordon n1" in said) is stays
