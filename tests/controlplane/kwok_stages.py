"""Timing of the pods that kwok plays, as tests need it: quick starts, exact grace periods."""

from __future__ import annotations

from pathlib import Path

import yaml

START_STEP_MILLISECONDS = 100
# jq: a duration ("2s") from the annotation, else the moment at which the grace period ends.
POD_ENDS = (
    '.metadata.annotations["pod-delete.stage.kwok.x-k8s.io/delay"] // .metadata.deletionTimestamp'
)


def write_test_stages(default_stages: Path, file: Path) -> None:
    """Copy kwok's default stages with other delays for pods.

    By default each step of a pod's start takes 1 to 5 seconds, and a deleted pod ends at a random
    moment within its grace period. Here a step takes a tenth of a second, and a deleted pod uses
    its whole grace period, as one that ignores SIGTERM does. A pod's annotation
    ``pod-delete.stage.kwok.x-k8s.io/delay`` says otherwise: "2s" ends two seconds after SIGTERM,
    "1h" is a pod that hangs, whatever its grace period.
    """
    stages = list(yaml.safe_load_all(default_stages.read_text()))
    for stage in stages:
        if stage["spec"]["resourceRef"]["kind"] == "Pod":
            if stage["metadata"]["name"] == "pod-delete":
                stage["spec"]["delay"] = {"durationFrom": {"expressionFrom": POD_ENDS}}
            else:
                stage["spec"]["delay"]["durationMilliseconds"] = START_STEP_MILLISECONDS
                stage["spec"]["delay"]["jitterDurationMilliseconds"] = START_STEP_MILLISECONDS
    file.write_text(yaml.safe_dump_all(stages))
