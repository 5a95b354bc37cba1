"""WCAG AA, computed from the colours themselves."""

from collections.abc import Mapping

import pytest

from infra.local.report import node_state, palette

THEMES = {"light": palette.LIGHT, "dark": palette.DARK}
TEXT, SHAPE = 4.5, 3.0
TONES = ("ink", "muted", "bad", "stop", "hold", "good", "quiet", "world", "fail", "focus")
BANDS = ("breaker", "pause", "away")


@pytest.fixture(params=THEMES)
def colours(request: pytest.FixtureRequest) -> Mapping[str, str]:
    return THEMES[request.param]


def test_contrast_is_computed_as_wcag_does_it() -> None:
    assert palette.contrast("#ffffff", "#000000") == pytest.approx(21)
    assert palette.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_both_themes_know_the_same_colours() -> None:
    assert list(palette.LIGHT) == list(palette.DARK)


@pytest.mark.parametrize("tone", TONES)
def test_words_can_be_read_on_the_page(colours: Mapping[str, str], tone: str) -> None:
    assert palette.contrast(colours[tone], colours["bg"]) >= TEXT


@pytest.mark.parametrize("tone", ["ink", "muted"])
def test_words_can_be_read_on_keys_and_hovered_buttons(
    colours: Mapping[str, str], tone: str
) -> None:
    assert palette.contrast(colours[tone], colours["soft"]) >= TEXT


@pytest.mark.parametrize("state", [*list(node_state.STATES)[1:], *BANDS])
def test_a_bar_has_an_edge_that_is_seen_and_words_that_are_read(
    colours: Mapping[str, str], state: str
) -> None:
    assert palette.contrast(colours[f"{state}-edge"], colours["bg"]) >= SHAPE
    assert palette.contrast(colours["ink"], colours[state]) >= TEXT


def test_edges_of_controls_are_seen(colours: Mapping[str, str]) -> None:
    assert palette.contrast(colours["edge"], colours["bg"]) >= SHAPE


def test_the_style_sheet_asks_the_system_and_can_be_told() -> None:
    css = palette.css()
    assert "prefers-color-scheme:dark" in css
    assert css.count(f"--bg:{palette.DARK['bg']}") == 2
