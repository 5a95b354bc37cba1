"""The recorded requests that are damaged, by their folders."""

import functools
from pathlib import Path

from events import recording
from events.recording import Recording

RECORDED = Path(recording.__file__).parent / "recorded"


@functools.cache
def corpus() -> dict[str, list[Recording]]:
    found: dict[str, list[Recording]] = {}
    for path in sorted(RECORDED.glob("*/*.json")):
        if not path.name.endswith(recording.EXPECTED_SUFFIX):
            found.setdefault(path.parent.name, []).append(recording.load(path.read_bytes()))
    return found
