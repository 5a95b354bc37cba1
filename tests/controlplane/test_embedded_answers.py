"""The recorded answers, to which the embedded cluster is held, are what a real one says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.conftest import require_build
from tests.controlplane.recordings import ask_the_real_one, load, recorded_cases


@pytest.fixture(scope="module")
def real_answers() -> dict[str, list[Any]]:
    """By case. All of them in one control plane of its own, since some cases take rights away
    from it and restart it."""
    require_build()
    recorded = {case: [step["answer"] for step in load(case)] for case in recorded_cases()}
    return {name: answers for name, _, answers in ask_the_real_one([], recorded)}


@pytest.mark.parametrize("case", recorded_cases())
def test_the_recording_is_up_to_date(case: str, real_answers: dict[str, list[Any]]) -> None:
    recorded = [step["answer"] for step in load(case)]
    assert real_answers[case] == recorded, (
        f"record anew: python -m tests.controlplane.recordings {case}"
    )
