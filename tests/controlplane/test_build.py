"""The build's promises that can be checked without building for ten minutes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import build
from tests.controlplane.conftest import require_build

ROOT = Path(__file__).parents[2]


def run_build(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.controlplane.build"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip


def test_without_go_one_line_says_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    done = run_build({"PATH": "", "GROUNDCREW_CONTROLPLANE_CACHE": str(tmp_path)})
    assert done.returncode == build.EXIT_GO_MISSING
    [line] = done.stderr.splitlines()
    assert re.fullmatch(r"go is not on the PATH: install Go 1\S+ or later, then run: .*build", line)


def test_a_finished_build_is_found_without_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUNDCREW_CONTROLPLANE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    digest = build._pins_digest()
    (tmp_path / f".partial-{digest}-go1.2.3-x").mkdir()
    (tmp_path / f"{digest}-go1.2.3.lock").touch()
    assert build.cached() is None
    (tmp_path / f"{digest}-go1.2.3").mkdir()
    assert build.cached() == build.Binaries(tmp_path / f"{digest}-go1.2.3")


def test_other_pins_are_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build._pins_digest()
    monkeypatch.setattr(build, "GOMOD", Path(shutil.copytree(build.GOMOD, tmp_path / "gomod")))
    assert build._pins_digest() == before
    with (tmp_path / "gomod" / "etcd" / "go.sum").open("a") as sums:
        sums.write("example.com/other v1.0.0 h1:\n")
    assert build._pins_digest() != before


@pytest.mark.parametrize(
    ("replacement", "refusal"),
    [(r"\1AAAA", "checksum mismatch"), ("", "missing go.sum entry")],
    ids=["another checksum", "no checksum"],
)
def test_a_module_without_its_pinned_checksum_stops_the_build(
    tmp_path: Path, replacement: str, refusal: str
) -> None:
    if shutil.which("go") is None:
        pytest.skip("go is not on the PATH")
    module = Path(shutil.copytree(build.GOMOD / "etcd", tmp_path / "etcd"))
    sums = (module / "go.sum").read_text()
    zap = r"(?m)^(go\.uber\.org/zap v\S+ h1:)...." + ("" if replacement else r".*\n")
    tampered = re.sub(zap, replacement, sums)
    assert tampered != sums
    (module / "go.sum").write_text(tampered)
    with pytest.raises(build.BuildError, match=refusal):
        build.build_program("etcd", module, "go.etcd.io/etcd/server/v3", tmp_path / "out", [])


def test_all_programs_of_the_build_are_of_the_pinned_version() -> None:
    require_build()
    binaries = build.cached()
    assert binaries is not None
    assert all(binaries[program].is_file() for program in build.PROGRAMS)
    version = subprocess.check_output([binaries["kubectl"], "version", "--client"], text=True)
    assert f"Client Version: {build.kubernetes_version()}" in version
