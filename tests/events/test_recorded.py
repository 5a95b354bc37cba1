"""Every recorded event is understood as the file beside it says."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from events import recording
from events.errors import EventError

RECORDED = Path(recording.__file__).parent / "recorded"
CASES = sorted(
    path for path in RECORDED.glob("*/*.json") if not path.name.endswith(recording.EXPECTED_SUFFIX)
)


def _understood(path: Path) -> dict[str, Any]:
    try:
        reading = recording.understand(recording.load(path.read_bytes()))
    except EventError as problem:
        return {"refused": str(problem)}
    if not reading.notices:
        return {"declined": reading.declined}
    return {
        "notices": msgspec.to_builtins(reading.notices, str_keys=True),
        "skipped": reading.skipped,
    }


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recorded_event_is_understood_as_written_beside_it(path: Path) -> None:
    beside = path.with_name(path.stem + recording.EXPECTED_SUFFIX)
    assert beside.exists(), f"{beside} is missing: write down how {path.name} is understood"
    expected = msgspec.json.decode(beside.read_bytes())
    if isinstance(expected, list):
        expected = {"notices": expected, "skipped": []}
    understood = _understood(path)
    if "refused" in expected:
        assert expected["refused"], "an empty text would let any refusal pass"
        assert expected["refused"] in str(understood.get("refused")), understood
    else:
        assert msgspec.json.decode(msgspec.json.encode(understood)) == expected


def test_every_expectation_belongs_to_a_recorded_event() -> None:
    lonely = [
        path.name
        for path in RECORDED.glob(f"*/*{recording.EXPECTED_SUFFIX}")
        if not path.with_name(path.name.replace(recording.EXPECTED_SUFFIX, ".json")).exists()
    ]
    assert not lonely
    assert len(CASES) > 100
