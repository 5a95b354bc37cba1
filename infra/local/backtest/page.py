"""A backtest as one HTML page that asks nobody for anything: no script, one style sheet whose hash
its own policy (CSP) names. What came from outside is escaped, and never markup."""

import base64
import hashlib
import html
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib import resources

from infra.local.backtest import rows
from infra.local.backtest.compare import Side
from infra.local.backtest.document import Document, Past
from infra.local.backtest.rows import Line, Row
from infra.local.report import palette

WIDTH, LANE = 1000, 9
"""Of the drawing of one line: its width, and the height of each policy's bar."""
NAMED = 12
"""So many of a line's nodes are named before the others are folded away."""


def render(made: Document) -> str:
    style = palette.css() + (resources.files("infra.local.backtest") / "page.css").read_text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'"
    one, other = (under.name for under in made.policies)
    title = f"{_text(one)} and {_text(other)} · groundcrew backtest"
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header class="top"><span class="brand">groundcrew <b>backtest</b></span></header>
<main>
<h1>{_text(made.headline)}</h1>
<ul class="pasts">{"".join(map(_past, made.histories))}</ul>
{_sums(made)}
{_differences(made)}
<section aria-labelledby="limits"><h2 id="limits">What this cannot know</h2>
<ul class="limits">{"".join(f"<li>{_text(limit)}</li>" for limit in made.limits)}</ul></section>
</main>
</body>
</html>
"""


def _past(past: Past) -> str:
    notes = "".join(f'<br><span class="note">{_text(note)}</span>' for note in past.notes)
    failed = f'<br><b class="bad">{past.failures:,} calls failed</b>' if past.failures else ""
    refused = f", {past.refused:,} were refused" if past.refused else ""
    return (
        f"<li><b>{_text(past.name)}</b> {_time(past.start)} to {_time(past.end)}: "
        f"{past.nodes:,} nodes, {past.events:,} events, of which {past.needed_nothing:,} needed "
        f"nothing{refused}{notes}{failed}</li>"
    )


def _sums(made: Document) -> str:
    one, other = (_text(under.name) for under in made.policies)
    body = "".join(map(_row, rows.summary(made)))
    return f"""\
<section aria-labelledby="sums"><h2 id="sums">In all</h2>
<table class="sums"><thead><tr><td></td><th scope="col">{one}</th><th scope="col">{other}</th>
<th scope="col">Difference</th></tr></thead><tbody>{body}</tbody></table></section>"""


def _row(row: Row) -> str:
    part = ' class="part"' if row.part else ""
    return (
        f'<tr{part}><th scope="row">{_text(row.title)}</th><td>{row.one}</td><td>{row.other}</td>'
        f"<td><b>{_text(row.difference)}</b></td></tr>"
    )


def _differences(made: Document) -> str:
    count = len(made.differences)
    noun = "difference" if count == 1 else "differences"
    pasts = {past.name: past for past in made.histories}
    items = "".join(_lines(made, pasts))
    alike = f"{made.same:,} times out of service are alike under both." if made.same else ""
    return f"""\
<section aria-labelledby="differences"><h2 id="differences">{count:,} {noun}</h2>
<p class="alike">{alike}</p>
<ol class="differences">{items}</ol></section>"""


def _lines(made: Document, pasts: Mapping[str, Past]) -> Iterator[str]:
    names = [under.name for under in made.policies]
    for line in rows.lines(made):
        past = pasts[line.history]
        where = f'<span class="past">{_text(past.name)}</span> ' if len(pasts) > 1 else ""
        sides = "".join(
            f'<div class="side s{place}"><dt>{_text(name)}</dt><dd>{_text(said)}</dd></div>'
            for place, (name, said) in enumerate(zip(names, line.sides, strict=True))
        )
        yield (
            f"<li>{where}{_time(line.at)} <b>{_text(line.what)}</b>{_nodes(line)}"
            f'<p class="why">{_text(line.why)}</p>{_drawing(line, past)}<dl>{sides}</dl></li>'
        )


def _nodes(line: Line) -> str:
    names = [f'<span class="name">{_text(name)}</span>' for name in line.nodes]
    shown = ", ".join(names[:NAMED])
    if len(names) <= NAMED:
        return f'<p class="nodes">{shown}</p>'
    return (
        f'<details class="nodes"><summary>{len(names):,} nodes of {_text(line.pool)}</summary>'
        f"{', '.join(names)}</details>"
    )


def _drawing(line: Line, past: Past) -> str:
    """When the line's first node was out of service under each policy, within the history."""
    first = line.differences[0]
    bars = "".join(
        _bar(side, past, place) for place, side in enumerate(first.sides) if not side.instead
    )
    height = 2 * LANE + 2
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{_text(first.node)}: when it was out of service">'
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>{bars}</svg>'
    )


def _bar(side: Side, past: Past, place: int) -> str:
    assert side.since is not None
    length = (past.end - past.start).total_seconds() or 1.0
    begins = (side.since - past.start).total_seconds() / length * WIDTH
    ends = ((side.until or past.end) - past.start).total_seconds() / length * WIDTH
    width = max(2.0, ends - begins)
    return (
        f'<rect class="s{place}" x="{begins:.1f}" y="{place * (LANE + 2)}" '
        f'width="{width:.1f}" height="{LANE}"/>'
    )


def _time(at: datetime) -> str:
    stamp = at.isoformat().replace("+00:00", "Z")
    return f'<time datetime="{stamp}">{at:%a %d %b %Y %H:%M}</time>'


def _text(text: str) -> str:
    return html.escape(text, quote=True)
