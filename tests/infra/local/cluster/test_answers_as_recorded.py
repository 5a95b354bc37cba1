"""The embedded cluster answers as a real API server was recorded to answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from infra.local.cluster import EmbeddedCluster
from infra.local.cluster.call import Answer, Call
from tests.controlplane.exchanges import AFTER_A_RESTART, CASES, WITHOUT_DISRUPTION_CONTROLLER
from tests.controlplane.recordings import load, play, recorded_cases
from tests.infra.local.cluster.conftest import SetClock

ALL_CASES = {**CASES, **WITHOUT_DISRUPTION_CONTROLLER, **AFTER_A_RESTART}


def test_every_case_is_recorded() -> None:
    assert recorded_cases() == sorted(ALL_CASES)


@pytest.mark.parametrize("case", recorded_cases())
def test_it_answers_as_the_real_one(case: str, cluster: EmbeddedCluster, clock: SetClock) -> None:
    if case in WITHOUT_DISRUPTION_CONTROLLER:
        cluster.held.add("disruption")
    if case in AFTER_A_RESTART:
        cluster.compact()
    waits = 0

    def send(
        method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> tuple[int, bytes, str]:
        call = Call(method, path, query, body, content_type)
        if not call.is_watch:
            return _plain(cluster.handle(call))
        found = cluster.watch(call)
        if isinstance(found, Answer):
            return _plain(found)
        return 200, b"".join([*cluster.lines(found), *cluster.bookmark(found)]), ""

    def pause() -> bool:
        nonlocal waits
        waits += 1
        clock.forward(seconds=0.5)
        if waits % 20 == 0:
            # The recorded server forgets its past every few seconds.
            cluster.compact()
        return waits < 200

    answers = play(case, ALL_CASES[case], send, pause)

    recorded = load(case)
    differences = [
        f"{step['method']} {step['path']} {step.get('query', '')} {step.get('body', '')}\n"
        + "\n".join(_differences(step["answer"], answer))
        for step, answer in zip(recorded, answers, strict=True)
        if step["answer"] != answer
    ]
    assert not differences, "real against embedded:\n\n" + "\n\n".join(differences)


def _plain(answer: Answer) -> tuple[int, bytes, str]:
    return answer.status, answer.body, answer.headers.get("retry-after", "")


def _differences(real: Any, ours: Any, path: str = "") -> list[str]:
    if isinstance(real, dict) and isinstance(ours, dict):
        found = []
        for key in [*real, *(key for key in ours if key not in real)]:
            found += _differences(real.get(key), ours.get(key), f"{path}.{key}")
        return found
    if isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        found = []
        for place, (one, other) in enumerate(zip(real, ours, strict=True)):
            found += _differences(one, other, f"{path}.{place}")
        return found
    return [] if real == ours else [f"  {path}: {real!r}\n    embedded: {ours!r}"]
