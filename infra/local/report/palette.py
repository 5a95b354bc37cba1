"""The page's colours, in light and in dark, and how far they stand out from each other.

They live here and not in the style sheet so that their contrast can be computed (WCAG 2.2, 1.4.3
and 1.4.11). No meaning rests on a colour alone: every state has its own pattern and every mark
its own shape.
"""

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "bg": "#ffffff",
    "soft": "#f4f5f7",
    "line": "#dfe2e6",
    "edge": "#7b8490",
    "ink": "#191d22",
    "muted": "#545d69",
    "focus": "#0b57d0",
    # decisions and happenings: shapes and words
    "bad": "#9a4a00",
    "stop": "#1550b8",
    "hold": "#8a1a94",
    "good": "#14692f",
    "quiet": "#545d69",
    "world": "#191d22",
    "fail": "#b3150f",
    # states: the bar, its edge, and the words on it
    "watch": "#fdf3d0",
    "watch-edge": "#97700a",
    "held": "#fbe9fc",
    "held-edge": "#a33bad",
    "cordon": "#ffd9a3",
    "cordon-edge": "#b45f06",
    "evict": "#ffd0bd",
    "evict-edge": "#c2410c",
    "draining": "#ffd0bd",
    "draining-edge": "#c2410c",
    "blocked": "#f6d4f8",
    "blocked-edge": "#8a1a94",
    "drained": "#dbe7fb",
    "drained-edge": "#1550b8",
    "others": "#e4e6e9",
    "others-edge": "#545d69",
    "dismissed": "#ece4fb",
    "dismissed-edge": "#6941c6",
    "gone": "#ffffff",
    "gone-edge": "#7b8490",
    "breaker": "#fde3e1",
    "breaker-edge": "#b3150f",
    "pause": "#e6eaf0",
    "pause-edge": "#545d69",
    "away": "#ececec",
    "away-edge": "#545d69",
}
DARK: Mapping[str, str] = {
    "bg": "#14171b",
    "soft": "#1d2126",
    "line": "#31373f",
    "edge": "#808a96",
    "ink": "#e9ebee",
    "muted": "#a5aeb9",
    "focus": "#8ab4f8",
    "bad": "#ffb561",
    "stop": "#8ab8ff",
    "hold": "#eb9df3",
    "good": "#6fd58f",
    "quiet": "#a5aeb9",
    "world": "#e9ebee",
    "fail": "#ff8d85",
    "watch": "#342d14",
    "watch-edge": "#c9a437",
    "held": "#37203a",
    "held-edge": "#d27fdb",
    "cordon": "#5a3a10",
    "cordon-edge": "#f0a040",
    "evict": "#5c2a15",
    "evict-edge": "#f58a5b",
    "draining": "#5c2a15",
    "draining-edge": "#f58a5b",
    "blocked": "#4d1f53",
    "blocked-edge": "#eb9df3",
    "drained": "#1b3158",
    "drained-edge": "#7aaafa",
    "others": "#343a42",
    "others-edge": "#a5aeb9",
    "dismissed": "#33264f",
    "dismissed-edge": "#b79cf2",
    "gone": "#14171b",
    "gone-edge": "#808a96",
    "breaker": "#45201f",
    "breaker-edge": "#ff8d85",
    "pause": "#2b313a",
    "pause-edge": "#a5aeb9",
    "away": "#2a2a2a",
    "away-edge": "#a5aeb9",
}


def css() -> str:
    """Custom properties: light; dark where the reader's system asks for it or the page does."""
    light, dark = (_properties(colours) for colours in (LIGHT, DARK))
    return (
        f":root{{color-scheme:light;{light}}}\n"
        "@media screen and (prefers-color-scheme:dark){"
        f":root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n"
    )


def contrast(one: str, other: str) -> float:
    """Between 1 (the same) and 21 (black and white), as WCAG defines it."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _properties(colours: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
