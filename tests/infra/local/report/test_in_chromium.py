"""The page in a browser: what a reader sees, clicks and types. Skipped where there is none."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from infra.local.report import model, page, palette
from tests.infra.local.report.test_page import EVIL, evil
from tests.support import chromium, large_run
from tests.support.chromium import Chromium

PROGRAM = chromium.find()
if PROGRAM is None:
    pytest.skip("no chromium here (apt-get install chromium)", allow_module_level=True)

WIDE = (1440, 900)
NAMED = "document.activeElement.getAttribute('aria-label')"
DETAILS = "document.getElementById('details').innerText"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    assert PROGRAM is not None
    browser = Chromium(PROGRAM)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def week(folder: Path, html: str) -> Path:
    file = folder / "one-of-each.html"
    file.write_text(html)
    return file


@pytest.fixture(autouse=True)
def _fresh(browser: Chromium) -> None:
    browser.size(*WIDE)
    browser.media(prefers_color_scheme="light")


def place(run: model.Run, node: str, kind: str) -> int:
    return next(
        at for at, mark in enumerate(run.marks) if mark.k == kind and run.nodes[mark.n].name == node
    )


def item(run: model.Run, node: str) -> str:
    at = next(at for at, one in enumerate(run.nodes) if one.name == node)
    return f"#lanes [data-row='node:{at}']"


def test_the_page_opens_without_a_complaint_and_asks_for_nothing(
    browser: Chromium, week: Path
) -> None:
    browser.open(week)
    assert browser.log == []
    assert [url for url in browser.requests if not url.startswith("file:")] == []
    assert len([url for url in browser.requests if url.startswith("file:")]) == 1


def test_its_own_policy_stops_any_request(browser: Chromium, week: Path) -> None:
    browser.open(week)
    stopped = browser.js("fetch('https://example.invalid/').then(() => 'went', () => 'stopped')")
    assert stopped == "stopped"
    assert any("Content Security Policy" in line for line in browser.log)


def test_a_click_on_a_mark_tells_the_decision_behind_it(
    browser: Chromium, week: Path, run: model.Run
) -> None:
    browser.open(week)
    browser.click(f"{item(run, 'h100-19')}:not([data-item='n'])")
    told = browser.js(DETAILS)
    for words in (
        "h100-19",
        "drain: wait",
        "kubernetes.node/AcceleratedHardwareReady",
        "Uncorrectable ECC error",
        "PodDisruptionBudget default/vectors can never allow it",
        "Looks again",
        "dev.groundcrew.nodes.cordoned",
        "patch nodes",
    ):
        assert words in told, words
    call = run.calls[run.marks[place(run, "h100-19", "cordon")].call or 0]
    assert call.id in told
    assert browser.js("document.getElementById('details').getAttribute('aria-live')") == "polite"
    browser.press("Escape")
    assert browser.js(DETAILS) == ""


def test_the_keyboard_reaches_every_mark_and_comes_back(
    browser: Chromium, week: Path, run: model.Run
) -> None:
    browser.open(week)
    browser.js("document.getElementById('overview').focus()")
    browser.press("Tab")
    assert browser.js("document.querySelectorAll('#lanes [tabindex=\"0\"]').length") == 1
    assert "A GPU of h100-03 falls off the bus" in browser.js(NAMED)
    browser.press("Enter")
    assert "A GPU of h100-03 falls off the bus" in browser.js(DETAILS)
    browser.press("Escape")
    assert "A GPU of h100-03" in browser.js(NAMED)
    seen = []
    for _ in range(60):
        browser.press("ArrowDown")
        seen.append(browser.js(NAMED))
        if seen[-1].startswith("h100-03"):
            break
    assert seen[-1].startswith("h100-03, Mon 08:10"), seen
    browser.press("Enter")
    assert "cordon: cordon" in browser.js(DETAILS)
    browser.press("Escape", "Home")
    assert browser.js(NAMED).startswith("Node h100-03")
    browser.press("Enter")
    assert "Incidents" in browser.js(DETAILS)
    browser.press("Escape", "End")
    assert browser.js(NAMED).startswith("h100-03, Mon 20:")


def test_quiet_nodes_are_folded_and_can_be_unfolded(browser: Chromium, week: Path) -> None:
    browser.open(week)
    assert browser.js("rows.some(row => row.node && row.node.name === 'h100-12')") is False
    browser.click("#lanes [data-row='fold:h100']")
    assert browser.js("rows.some(row => row.node && row.node.name === 'h100-12')") is True


def test_filters_leave_what_fits_in_the_chart_and_in_the_table(
    browser: Chromium, week: Path, run: model.Run
) -> None:
    browser.open(week)
    browser.js("document.getElementById('find').focus()")
    browser.send("Input.insertText", text="spot-03")
    browser.settle()
    assert browser.js("rows.filter(row => row.node).map(row => row.node.name)") == ["spot-03"]
    about = sum(bool(m.f) for m in run.marks if run.nodes[m.n].name == "spot-03")
    assert browser.js("document.querySelectorAll('tr[data-mark]:not([hidden])').length") == about
    assert "1 of 30 nodes fit" in browser.js("document.getElementById('count').textContent")
    browser.js("document.getElementById('find').select()")
    browser.send("Input.insertText", text="no such thing")
    browser.settle()
    assert "Nothing fits" in browser.js("document.getElementById('count').textContent")


def test_the_address_opens_what_was_looked_at(
    browser: Chromium, week: Path, run: model.Run
) -> None:
    browser.open(week)
    browser.click(f"{item(run, 'h100-10')}:not([data-item='n'])")
    browser.press("+")
    fragment, told = browser.js("location.hash.slice(1)"), browser.js(DETAILS)
    assert "time=" in fragment
    browser.open(week, fragment)
    assert browser.js(DETAILS) == told
    assert browser.js("location.hash.slice(1)") == fragment


def test_zoom_and_pan_keep_inside_the_time(browser: Chromium, week: Path, run: model.Run) -> None:
    browser.open(week)
    for _ in range(40):
        browser.js("zoom(.5)")
    span = browser.js("state.view[1] - state.view[0]")
    assert 0 < span <= 20_001
    browser.js("pan(-1e9)")
    assert browser.js("state.view[0]") == 0
    browser.js("pan(1e9)")
    assert browser.js("state.view[1]") == pytest.approx(run.length)
    browser.press("0")
    assert browser.js("state.view") == [0, run.length]
    assert browser.log == []


@pytest.mark.parametrize("width", [1440, 900, 400])
def test_nothing_is_wider_than_the_window_and_the_chart_has_most_of_it(
    browser: Chromium, week: Path, width: int
) -> None:
    browser.size(width, 800)
    browser.open(week)
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert browser.js("document.getElementById('lanes').clientWidth") > width * 0.6


def test_the_theme_follows_the_system_until_it_is_chosen(browser: Chromium, week: Path) -> None:
    colour = "getComputedStyle(document.documentElement).getPropertyValue('--bg')"
    for system, colours in (("light", palette.LIGHT), ("dark", palette.DARK)):
        browser.media(prefers_color_scheme=system)
        browser.open(week)
        assert browser.js(colour) == colours["bg"]
    browser.click("#theme")
    assert browser.js(colour) == palette.LIGHT["bg"]
    browser.click("#theme")
    assert browser.js(colour) == palette.DARK["bg"]


def test_words_from_outside_stay_words(browser: Chromium, folder: Path, run: model.Run) -> None:
    file = folder / "evil.html"
    file.write_text(page.render([evil(run)]))
    browser.open(file)
    assert browser.log == []
    browser.js("choose('node:0', 'm0')")
    browser.settle()
    assert EVIL in browser.js(DETAILS).replace("\n", "")
    assert browser.js("document.querySelectorAll('img').length") == 0
    assert browser.js("document.querySelectorAll('script').length") == 2
    assert browser.log == []


def test_every_control_has_a_name_and_every_id_is_its_own(browser: Chromium, week: Path) -> None:
    browser.open(week)
    nameless = browser.js(
        "[...document.querySelectorAll('button,select,input,[role=button],[role=slider]')]"
        ".filter(e => !e.getAttribute('aria-label') && !e.textContent.trim() && !e.labels?.length)"
        ".map(e => e.outerHTML)"
    )
    assert nameless == []
    assert (
        browser.js(
            "(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);"
            "return ids.filter((id, at) => ids.indexOf(id) !== at); })()"
        )
        == []
    )
    levels = browser.js(
        "[...document.querySelectorAll('h1,h2,h3,h4')].map(e => Number(e.tagName[1]))"
    )
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels)), levels


FAINT = """
(() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
  const solid = color => { const found = parts(color); return (found[3] ?? 1) > .9; };
  const ground = one => {
    for (let e = one; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if (solid(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim(), one = walker.currentNode.parentElement;
    if (!text || !one.checkVisibility() || one.closest("script, style")) continue;
    const style = getComputedStyle(one), ink = one.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(parts(ink)), light(parts(ground(one)))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) faint.push(`${text}: ${ink} on ${ground(one)}`);
  }
  return [...new Set(faint)];
})()
"""
"""What is written with less contrast than WCAG 2 wants of text (AA), as the browser draws it."""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_that_is_written_can_be_read_as_it_is_drawn(
    browser: Chromium, week: Path, run: model.Run, theme: str
) -> None:
    browser.media(prefers_color_scheme=theme)
    browser.open(week)
    assert browser.js(FAINT) == []
    browser.click(f"{item(run, 'h100-19')}:not([data-item='n'])")
    assert browser.js(FAINT) == [], "beside the chart"
    browser.js("document.querySelector('h1').style.color = 'var(--line)'")
    assert len(browser.js(FAINT)) == 1, "and what is faint is seen"


def test_the_report_can_be_printed(browser: Chromium, week: Path) -> None:
    browser.media(prefers_color_scheme="dark")
    browser.open(week)
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12
    assert browser.js("state.print") is False
    browser.media("print")
    browser.settle()
    assert browser.js("getComputedStyle(document.querySelector('.toolbar')).display") == "none"
    assert browser.js("getComputedStyle(document.body).getPropertyValue('--bg')") == "#ffffff"
    assert browser.js("rows.filter(row => row.node).every(row => !state.run.quiet[row.node.place])")


@pytest.mark.parametrize("width", [900, 1440])
def test_on_paper_of_any_width_the_axis_stands_above_what_it_measures(
    browser: Chromium, week: Path, width: int
) -> None:
    browser.size(width, 800)
    browser.open(week)
    browser.media("print")
    browser.settle()
    assert browser.js("state.print")
    lines = (
        "(home => [...document.querySelector(home).querySelectorAll('path.day, path.grid')]"
        ".map(e => e.getBoundingClientRect().left))"
    )
    on_axis = browser.js(f"{lines}('#axis')")
    assert len(on_axis) > 5
    assert browser.js(f"{lines}('#lanes svg')") == pytest.approx(on_axis, abs=1)


def test_several_scenarios_are_chosen_from(browser: Chromium, folder: Path, run: model.Run) -> None:
    file = folder / "two.html"
    file.write_text(page.render([run, msgspec.structs.replace(run, name="another")]))
    browser.open(file)
    shown = "[...document.querySelectorAll('.run:not([hidden])')].map(e => e.id)"
    assert browser.js(shown) == ["run-0"]
    browser.js(
        "(() => { const p = document.getElementById('picker'); p.value = '1';"
        "p.dispatchEvent(new Event('change')); })()"
    )
    browser.settle()
    assert browser.js(shown) == ["run-1"]
    assert browser.js("location.hash") == "#run=another"
    assert browser.log == []


def test_three_thousand_nodes_are_drawn_as_far_as_they_are_seen(
    browser: Chromium, folder: Path
) -> None:
    file = folder / "large.html"
    file.write_text(page.render([large_run.run()]))
    browser.open(file)
    assert browser.log == []
    browser.js("state.run.pools.forEach(pool => state.unfolded.add(pool.name)); renderNow()")
    assert browser.js("rows.filter(row => row.kind === 'lane').length") == 3_000
    assert browser.js("document.querySelectorAll('#lanes *').length") < 4_000
    browser.js("scrollTo(0, 40000)")
    browser.settle()
    assert browser.js("document.querySelectorAll('#lanes [data-item=n]').length") > 10
    browser.js("document.querySelector('#lanes [data-item=n]').focus()")
    before = browser.js(NAMED)
    browser.press("PageDown")
    after = browser.js(NAMED)
    assert after.startswith("Node ")
    assert after != before


def test_a_crowded_story_is_told_by_pins_that_stand_for_several_lines(
    browser: Chromium, folder: Path
) -> None:
    large = large_run.run(nodes=60, faults=20)
    each = large.length // 400
    said = tuple(model.Said(t=at * each, text=f"node-{at}: says so") for at in range(400))
    file = folder / "crowded.html"
    file.write_text(page.render([msgspec.structs.replace(large, story=said, recorded=True)]))
    browser.open(file)
    assert browser.log == []
    pins = "document.querySelectorAll('#lanes [data-row=story]').length"
    assert 20 < browser.js(pins) < 90
    browser.click("#lanes [data-row=story]")
    told = browser.js(DETAILS)
    assert "What happened · " in told
    assert told.count(": says so") > 3
    browser.press("ArrowRight", "Enter")
    assert browser.js(DETAILS) != told
    assert browser.js("document.querySelectorAll('#lanes .item.open').length") == 1
    browser.click("#details p button")  # Zoom in on these
    assert browser.js("state.view[1] - state.view[0]") < large.length / 20
    assert browser.js("storyClusters().every(pin => pin.all.length === 1)")
    browser.open(file, "open=story+s3")
    assert "node-3: says so" in browser.js(DETAILS)
    browser.js("state.run.story = state.run.story.slice(0, 3); renderNow()")
    assert browser.js(pins) == 3


def test_teams_have_bands_and_can_be_filtered_by(browser: Chromium, folder: Path) -> None:
    file = folder / "teams.html"
    file.write_text(page.render([large_run.run(nodes=60, faults=40, teams=3)]))
    browser.open(file)
    assert browser.log == []
    bands = "rows.filter(row => row.isTeam).map(row => row.group.name)"
    assert browser.js(bands) == ["team-00", "team-01", "team-02"]
    assert "team of 20, at most 9 out" in browser.js("document.getElementById('lanes').innerHTML")
    browser.js(
        "(() => { const s = document.getElementById('by-team'); s.value = 'team-01';"
        "s.dispatchEvent(new Event('input')); })()"
    )
    browser.settle()
    assert browser.js(bands) == ["team-01"]
    shown = "[...new Set(rows.filter(row => row.node).map(row => row.node.team))]"
    assert browser.js(shown) == ["team-01"]
    left = browser.js("[...document.querySelectorAll('tr[data-mark]:not([hidden])')].length")
    assert 0 < left < browser.js("document.querySelectorAll('tr[data-mark]').length")
    assert browser.js("location.hash") == "#team=team-01"
    browser.js("choose(rows.find(row => row.node).key, 'n')")
    browser.settle()
    assert "· team team-01 ·" in browser.js(DETAILS)
    assert browser.log == []


def test_of_many_teams_those_that_lost_no_node_are_folded(
    browser: Chromium, folder: Path, week: Path
) -> None:
    file = folder / "many-teams.html"
    file.write_text(page.render([large_run.run(nodes=60, faults=10, teams=20)]))
    browser.open(file)
    bands = "rows.filter(row => row.isTeam).length"
    assert browser.js(bands) == 1
    fold = "#lanes [data-row='fold: teams']"
    assert browser.js(f"document.querySelector(\"{fold}\").getAttribute('aria-label')") == (
        "Show 19 teams lost no node"
    )
    browser.click(fold)
    assert browser.js(bands) == 20
    browser.open(week)
    assert browser.js("document.getElementById('by-team').parentElement.hidden")
    assert browser.js(
        "getComputedStyle(document.getElementById('by-team').parentElement).display"
    ) == ("none")
