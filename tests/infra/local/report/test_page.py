"""The page as a file: what holds before any browser has seen it."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib import resources

import msgspec

from functions.rules.decision import Action
from infra.local.report import model, node_state, page
from tests.infra.local.report.conftest import SCENARIO
from tests.support import large_run
from tests.support.reports import record

EVIL = '</script><script>alert(1)</script><img src=x onerror="alert(2)">&amp;'


class Outline(HTMLParser):
    """The elements of a page in their order, and what is wrong with its nesting."""

    VOID = frozenset({"meta", "link", "br", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def evil(run: model.Run) -> model.Run:
    """The run with names and words that would be markup anywhere else."""
    first = run.nodes[0]
    mark = model.Mark(
        n=0, t=1, k="hold", text=EVIL, f=EVIL, incident=f"a/{EVIL}", evidence=EVIL, blocked=(EVIL,)
    )
    return msgspec.structs.replace(
        run,
        name=EVIL,
        shows=EVIL,
        verdict=EVIL,
        failures=(EVIL,),
        summary=((EVIL, EVIL),),
        nodes=(msgspec.structs.replace(first, name=EVIL), *run.nodes[1:]),
        marks=(mark, *run.marks),
        story=(model.Said(t=1, text=EVIL),),
        checks=(model.Check(t=1, ok=False, expected=EVIL, because=EVIL, seen=EVIL),),
        bands=(model.Band(kind="pause", a=1, b=2, text=EVIL, pool="h100"),),
    )


def test_the_same_scenario_makes_the_same_bytes(html: str) -> None:
    assert page.render([record(SCENARIO)]) == html


def test_words_from_outside_are_never_markup(run: model.Run) -> None:
    found, plain = Outline(page.render([evil(run)])), Outline(page.render([run]))
    assert not found.open
    assert len(found.named("script")) == len(plain.named("script")) == 2
    assert found.named("img") == []
    assert sum(EVIL in text for text in found.texts) >= 10


def test_the_model_comes_out_of_the_page_as_it_went_in(run: model.Run) -> None:
    text = page.render([evil(run)])
    (inside,) = re.findall(r'<script type="application/json" id="model">(.*?)</script>', text)
    assert "<" not in inside
    read = msgspec.json.decode(inside)
    assert msgspec.convert(read["runs"][0], model.Run) == evil(run)


def test_the_page_may_run_its_own_script_and_style_and_reach_nothing(html: str) -> None:
    (rule,) = [
        str(meta["content"])
        for meta in Outline(html).named("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    said = dict(part.strip().split(" ", 1) for part in rule.split(";"))
    assert said["default-src"] == "'none'"
    assert set(said) == {
        "default-src", "style-src", "script-src", "img-src", "base-uri", "form-action"
    }  # fmt: skip
    script = html.rpartition("<script>")[2].partition("</script>")[0]
    style = html.partition("<style>")[2].partition("</style>")[0]
    for text, name in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert said[name] == f"'sha256-{digest}'"


def test_nothing_in_the_page_has_an_address_outside_it(html: str) -> None:
    for tag, attributes in Outline(html).elements:
        for name in ("src", "href", "action", "srcset", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,", (tag, value)
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    style = html.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_the_page_has_one_first_heading_and_every_decision_as_a_table(
    html: str, run: model.Run
) -> None:
    found = Outline(html)
    assert len(found.named("h1")) == 1
    assert found.named("html")[0]["lang"] == "en"
    assert len(found.named("main")) == 1
    assert len(found.named("tr")) == 1 + sum(bool(mark.f) for mark in run.marks)
    assert all(cell.get("scope") == "col" for cell in found.named("th"))


def test_no_id_is_given_twice_whatever_the_number_of_scenarios(run: model.Run) -> None:
    other = msgspec.structs.replace(run, name="another")
    found = Outline(page.render([run, other]))
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(found.named("h1")) == 1
    for _, attributes in found.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name) is None or attributes[name] in ids


def test_a_run_in_which_nothing_happens_says_so(run: model.Run) -> None:
    empty = msgspec.structs.replace(run, marks=(), calls=(), story=(), checks=(), bands=())
    text = page.render([empty])
    assert "Nothing happens in this scenario." in text
    assert "The scenario expects nothing." in text
    assert "Nothing was decided" in text


def test_what_failed_is_said_in_words_and_not_by_colour_alone(run: model.Run) -> None:
    failed = msgspec.structs.replace(
        run, ok=False, verdict="1 not as expected", failures=("line 3: expected: x; seen: y",)
    )
    text = page.render([failed])
    assert "✗" in text
    assert "line 3: expected: x; seen: y" in text


def test_three_thousand_nodes_fit_into_a_few_megabytes() -> None:
    assert len(page.render([large_run.run()]).encode()) < 4_000_000


def test_every_kind_of_mark_has_a_shape_and_a_word(run: model.Run) -> None:
    script = (resources.files("infra.local.report") / "page" / "glyphs.js").read_text()
    known = set(re.findall(r'^  "?([a-z-]+)"?: \["', script, re.MULTILINE))
    assert {action.value for action in Action} <= known
    assert {mark.k for mark in run.marks} <= known
    bars = script.partition("const BARS")[2].partition("};")[0]
    assert set(re.findall(r"(\w+): \{", bars)) == set(node_state.STATES) - {"service"}
