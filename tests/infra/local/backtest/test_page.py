"""The page: whole in itself, and nothing from outside is markup in it."""

import re
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from functions.rules import policy
from infra.local.backtest import sides
from infra.local.backtest.document import Document, document
from infra.local.backtest.page import render
from infra.local.backtest.sides import Choice
from infra.local.history import History
from tests.support import chromium
from tests.support.histories import DOUBLE_BIT_ERROR, node, told, write

NASTY = '<script>alert("x")</script>'
VOID = {"meta", "link", "br"}


@pytest.fixture
def made(tmp_path: Path) -> Document:
    fault = {**DOUBLE_BIT_ERROR, "message": NASTY, "reason": NASTY}
    names = [f"gpu-{number:02}" for number in range(1, 41)]
    events = [*[told(60, node(name, fault)) for name in names[:2]], told(7200, node("gpu-05"))]
    history = History.open(write(tmp_path / "week", [node(n) for n in names], events))
    loose = "version: 1\nwaits: [{check: AcceleratedHardwareReady, wait: 1h}]"
    chosen = [Choice("a", policy.default()), Choice("b<i>", policy.parse(loose))]
    played = sides.play_history(history, chosen, lambda name, now, events: None)
    return document(chosen, [played], timedelta(minutes=5))


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None: ...

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_what_came_from_outside_is_text(made: Document) -> None:
    page = render(made)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "b<i>" not in page


def test_the_page_asks_for_nothing_and_is_well_formed(made: Document) -> None:
    page = render(made)
    assert re.findall(r"""(?:src|href)=["'](?!data:,)""", page) == []
    assert "default-src 'none'" in page
    parser = Balanced()
    parser.feed(page)
    assert (parser.wrong, parser.open) == ([], [])


def test_each_line_shows_both_policies(made: Document) -> None:
    page = render(made)
    assert page.count("<li><time") == 1  # two nodes of which the same is said
    assert "taken out 1 h later under b&lt;i&gt;" in page
    assert page.count('class="s0"') == page.count('class="s1"') == 1


@pytest.mark.skipif(chromium.find() is None, reason="no Chromium here")
def test_a_browser_has_nothing_to_say_about_it(made: Document, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(render(made))
    program = chromium.find()
    assert program is not None
    browser = chromium.Chromium(program)
    try:
        browser.open(file)
        assert browser.log == []
        assert {asked.partition(":")[0] for asked in browser.requests} <= {"file", "data"}
        written = (
            "getComputedStyle(document.querySelector('{} th'), '::first-letter').textTransform"
        )
        assert browser.js(written.format(".sums tbody")) == "uppercase"
        assert browser.js(written.format(".sums thead")) == "none", "a policy is called as its file"
    finally:
        browser.close()
