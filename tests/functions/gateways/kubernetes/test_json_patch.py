"""Where annotations and labels are in a patch."""

from typing import Any

import pytest

from functions.gateways.kubernetes import json_patch
from infra.local.cluster import patches
from infra.local.cluster.refusals import Refusal


@pytest.mark.parametrize("key", ["plain", "groundcrew.example/state", "a~b/c~1d"])
def test_a_key_with_any_character_is_one_step_of_the_path(key: str) -> None:
    stood: dict[str, Any] = {"metadata": {"annotations": {}, "labels": {}}}
    made = patches.json_patch(
        stood,
        [
            json_patch.add(json_patch.annotation(key), "x"),
            json_patch.add(json_patch.label(key), "y"),
        ],
    )
    assert made == {"metadata": {"annotations": {key: "x"}, "labels": {key: "y"}}}


def test_a_map_that_somebody_else_began_meanwhile_is_not_emptied() -> None:
    begin = json_patch.begin(json_patch.ANNOTATIONS)
    assert patches.json_patch({"metadata": {}}, begin) == {"metadata": {"annotations": {}}}
    with pytest.raises(Refusal):
        patches.json_patch({"metadata": {"annotations": {"theirs": "1"}}}, begin)
