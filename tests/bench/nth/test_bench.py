"""What the bench promises that can be checked without a control plane."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.nth import build
from tests.bench.nth.__main__ import CASES, figures, verdict
from tests.bench.nth.stand import Seen
from tests.controlplane.build import EXIT_GO_MISSING

ROOT = Path(__file__).parents[3]
NODES = {f"i-{n}": f"n{n}" for n in range(10)}
SENT = dict.fromkeys(NODES, 1000.0)
GOOD = {"cordon_p90": 1.0, "drain_p90": 9.0, "lost": 0, "requests_per_node": 18.0, "acting_mb": 80}


def test_without_go_one_line_says_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    environment = {"PATH": "", "GROUNDCREW_CONTROLPLANE_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.nth.build"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == EXIT_GO_MISSING
    [line] = done.stderr.splitlines()
    wanted = r"go is not on the PATH: install Go 1\S+ or later, then run: .*bench\.nth\.build"
    assert re.fullmatch(wanted, line)


def test_another_version_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build._pins()
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_text((build.GOMOD / name).read_text().replace(" v1.25.6", " v9"))
    monkeypatch.setattr(build, "GOMOD", tmp_path)
    assert (build.version(), build._pins() != before) == ("v9", True)


def test_a_node_that_is_not_empty_when_its_notice_is_over_is_lost() -> None:
    seconds = [1.0, 2.0, 119.0, 121.0, *[3.0] * 5]
    drained = {f"n{place}": 1000.0 + took for place, took in enumerate(seconds)}
    cordoned = dict.fromkeys(drained, 1000.5)
    found = figures(SENT, Seen(cordoned, drained), NODES, 400.0)
    assert found["lost"] == 2, "one was late, and one never came to it"
    assert (found["cordon_p50"], found["drain_max"]) == (0.5, 400.0)


def test_a_shorter_limit_makes_no_node_found_that_was_not() -> None:
    found = figures(SENT, Seen(), NODES, 60.0)
    assert (found["lost"], found["cordon_p50"], found["drain_p90"]) == (10, 60.0, 60.0)


@pytest.mark.parametrize("name", GOOD)
def test_what_is_over_what_is_wanted_is_named(name: str) -> None:
    [ours] = [case for case in CASES if case.name == "spot-100"]
    assert verdict(ours, GOOD) == "holds"
    assert verdict(ours, GOOD | {name: 1000}).startswith(f"{name} over ")


def test_a_consumer_by_itself_may_have_less() -> None:
    names = {case.name: case for case in CASES}
    assert verdict(names["spot-20"], GOOD | {"rss_mb": 100}) == "holds"
    assert verdict(names["apart-20"], GOOD | {"rss_mb": 100}) == "rss_mb over 80"


def test_ours_and_theirs_are_measured_in_turns() -> None:
    names = [case.name for case in CASES if case.who != "apart"]
    assert names == ["spot-1", "nth-1", "spot-20", "nth-20", "spot-100", "nth-100"]
