"""The report as one HTML file that asks nobody for anything.

What can be read without a script stands in the file as HTML: the summary, the story, the
expectations and every decision. The chart is drawn by the page's script from the same model.
Nothing that came from outside is ever markup: it is escaped here, and the script writes it as
text only. The file's own policy (CSP) lets it run the one script and the one style sheet whose
hashes it names, and reach nothing.
"""

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from importlib import resources

import msgspec

from infra.local.report import model, node_state, palette
from infra.local.report.build import WEEK

SCRIPTS = ("base", "glyphs", "rows", "draw", "head", "lanes", "panel", "keys", "controls", "main")
"""In this order: each is a part of one script."""

_NOTHING = "Nothing happens in this scenario."
_SHORT = 40
"""Lines of a history's story that are shown at once."""
_CHUNK = 200
"""Rows of the table of decisions in one ``tbody``, which a browser lays out when it is seen."""


def render(runs: Sequence[model.Run]) -> str:
    parts = resources.files("infra.local.report") / "page"
    style = palette.css() + (parts / "report.css").read_text(encoding="utf-8")
    script = "\n".join((parts / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    several = len(runs) > 1
    kind = "plays" if any(run.recorded for run in runs) else "scenarios"
    title = f"{len(runs)} {kind}" if several else runs[0].name
    filled = {
        "CSP": _policy(style, script),
        "TITLE": _text(f"{title} · groundcrew replay"),
        "STYLE": style,
        "HEADING": f"<h1>{_text(title)}</h1>" if several else "",
        "PICKER": _picker(runs) if several else "",
        "RUNS": "\n".join(_run(run, place, several) for place, run in enumerate(runs)),
        "MODEL": _json(runs),
        "SCRIPT": script,
    }
    text = (parts / "report.html").read_text(encoding="utf-8")
    before, *rest = text.split("{{")
    return before + "".join(
        filled[name] + after for name, _, after in (part.partition("}}") for part in rest)
    )


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(runs: Sequence[model.Run]) -> str:
    text = msgspec.json.encode({"runs": runs, "states": node_state.STATES}).decode()
    # In a script element only these could end it or begin a comment.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _text(text: str) -> str:
    return html.escape(text, quote=True)


def _picker(runs: Sequence[model.Run]) -> str:
    options = "".join(
        f'<option value="{place}">{_text(run.name)}{"" if run.ok else " (not as expected)"}'
        "</option>"
        for place, run in enumerate(runs)
    )
    kind = "Play" if any(run.recorded for run in runs) else "Scenario"
    return f'<label class="picker">{kind} <select id="picker">{options}</select></label>'


def _run(run: model.Run, place: int, several: bool) -> str:
    level = 2 if several else 1
    heads = f"h{level + 1}"
    when = _Times(run)
    sign = "✓" if run.ok else "✗"
    failures = "".join(f"<li>{_text(one)}</li>" for one in run.failures)
    failed = f'<ul class="failures">{failures}</ul>' if failures else ""
    rows = "".join(f"<div><dt>{_text(a)}</dt><dd>{_text(b)}</dd></div>" for a, b in run.summary)
    return f"""\
<section class="run" id="run-{place}" data-run="{place}" aria-labelledby="name-{place}">
<div class="title"><h{level} id="name-{place}">{_text(run.name)}</h{level}>
<p class="verdict {"holds" if run.ok else "fails"}"><span aria-hidden="true">{sign}</span> \
{_text(run.verdict)}</p></div>
<p class="shows">{_text(run.shows)} <span class="about">{_text(run.about)}</span></p>
{failed}<dl class="summary">{rows}</dl>
<div class="chart-home"></div>
<div class="columns{" alone" if run.recorded else ""}{" dated" if when.dated else ""}">
<section aria-labelledby="story-{place}"><{heads} id="story-{place}">What happened</{heads}>
{_story(run, when)}</section>
{_expected(run, place, heads, when)}</div>
<section aria-labelledby="decisions-{place}" class="decisions">
<{heads} id="decisions-{place}">Every decision</{heads}>
{_decisions(run, when)}</section>
</section>"""


def _story(run: model.Run, when: "_Times") -> str:
    if not run.story:
        return f'<p class="empty">{"Nothing is told." if run.recorded else _NOTHING}</p>'
    rows = "".join(
        f"<li{' class=bad' if said.bad else ''}>{when(said.t)} {_text(said.text)}</li>"
        for said in run.story
    )
    told = f'<ol class="story">{rows}</ol>'
    if not run.recorded or len(run.story) <= _SHORT:
        return told
    return f"<details><summary>{len(run.story)} lines</summary>{told}</details>"


def _expected(run: model.Run, place: int, heads: str, when: "_Times") -> str:
    if run.recorded:
        return ""
    return f"""\
<section aria-labelledby="checks-{place}"><{heads} id="checks-{place}">What was expected</{heads}>
{_checks(run, when)}</section>
"""


def _checks(run: model.Run, when: "_Times") -> str:
    if not run.checks:
        return '<p class="empty">The scenario expects nothing.</p>'
    rows = []
    for check in run.checks:
        sign, word = ("✓", "holds") if check.ok else ("✗", "fails")
        why = f' <span class="because">{_text(check.because)}</span>' if check.because else ""
        seen = f' <span class="seen">seen: {_text(check.seen)}</span>' if check.seen else ""
        rows.append(
            f'<li class="{word}"><span class="sign" aria-label="{word}" role="img">{sign}</span> '
            f"{when(check.t)} {_text(check.expected)}{why}{seen}</li>"
        )
    return f'<ul class="checks">{"".join(rows)}</ul>'


def _decisions(run: model.Run, when: "_Times") -> str:
    decided = [(place, mark) for place, mark in enumerate(run.marks) if mark.f]
    if not decided:
        return '<p class="empty">Nothing was decided: no event asked for anything.</p>'
    names = ("Time", "Node", "Pool", "Function", "Action", "Reason", "Incident", "Blocked by")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    bodies = "".join(
        f"<tbody>{''.join(_row(run, *one, when) for one in decided[at : at + _CHUNK])}</tbody>"
        for at in range(0, len(decided), _CHUNK)
    )
    return (
        f"<details><summary>{len(decided):,} decisions as a table</summary>"
        '<div class="wide" tabindex="0" role="group" aria-label="Table of decisions">'
        f"<table><thead><tr>{head}</tr></thead>{bodies}</table></div></details>"
    )


def _row(run: model.Run, place: int, mark: model.Mark, when: "_Times") -> str:
    node = run.nodes[mark.n]
    evidence = f"<br><small>{_text(mark.evidence)}</small>" if mark.evidence else ""
    shadow = " (shadow)" if mark.shadow else ""
    cells = (
        when(mark.t),
        f'<span class="name">{_text(node.name)}</span>',
        _text(node.pool),
        _text(mark.f),
        _text(f"{mark.k}{shadow}"),
        _text(mark.text) + evidence,
        _text(mark.incident),
        "<br>".join(_texts(mark.blocked)),
    )
    return f'<tr data-mark="{place}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _texts(texts: Iterable[str]) -> Iterable[str]:
    return (_text(one) for one in texts)


class _Times:
    """Moments of a run as elements."""

    def __init__(self, run: model.Run) -> None:
        self._start = datetime.fromisoformat(run.start)
        self.dated = timedelta(milliseconds=run.length) > WEEK
        """Whether they are more than a week apart, and a weekday does not say the day."""
        self._form = "%a %-d %b %H:%M:%S" if self.dated else "%a %H:%M:%S"

    def __call__(self, at: int) -> str:
        when = self._start + timedelta(milliseconds=at)
        stamp = when.isoformat().replace("+00:00", "Z")
        return f'<time datetime="{stamp}" data-t="{at}">{when:{self._form}}</time>'
