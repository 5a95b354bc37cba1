"""The wheel works in an empty place, with everything that it reads inside it."""

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel is installed; what it needs comes from the environment of the tests."""
    wheels, place = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    build = [
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "-w",
        str(wheels),
        str(ROOT),
    ]
    _run([sys.executable, "-m", "pip", "-q", *build], cwd=wheels)
    (wheel,) = wheels.glob("*.whl")
    _run(
        [sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--no-index", "--target",
         str(place), str(wheel)],
        cwd=wheels,
    )  # fmt: skip
    return place


def _run(
    command: list[str], *, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=env, check=True, capture_output=True, text=True, timeout=180
    )


def groundcrew(installed: Path, cwd: Path, *arguments: str, module: str = "infra.cli") -> str:
    # What stands on PYTHONPATH comes before the checkout, which the tests' environment also knows.
    env = os.environ | {"PYTHONPATH": str(installed), "COLUMNS": "100"}
    return _run([sys.executable, "-m", module, *arguments], cwd=cwd, env=env).stdout


def test_it_is_the_wheel_that_runs_and_not_the_checkout(installed: Path, tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(installed)}
    where = "import infra, events, functions; print(infra.__file__, events.__file__)"
    printed = _run([sys.executable, "-c", where], cwd=tmp_path, env=env).stdout
    assert all(path.startswith(str(installed)) for path in printed.split())


def test_whatever_it_imports_is_installed_with_it(installed: Path) -> None:
    """The tests' environment has more than a user's."""
    (ours,) = importlib.metadata.distributions(path=[str(installed)])
    there, waiting = set[str](), _needs(ours.requires or ())
    while waiting:
        name = waiting.pop()
        if name not in there:
            there.add(name)
            try:
                waiting |= _needs(importlib.metadata.requires(name) or ())
            except importlib.metadata.PackageNotFoundError:
                continue  # for another system or version of Python
    packages = importlib.metadata.packages_distributions()
    missing = {
        module
        for module in _imported(installed)
        - sys.stdlib_module_names
        - {"events", "functions", "infra"}
        if not there & {_normal(name) for name in packages.get(module, ())}
    }
    assert missing == set()


def _imported(installed: Path) -> set[str]:
    def names(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module

    files = [installed / "main.py"]
    for folder in ("events", "functions", "infra"):
        files += (installed / folder).rglob("*.py")
    trees = [ast.parse(file.read_text()) for file in files]
    return {
        name.partition(".")[0] for tree in trees for node in ast.walk(tree) for name in names(node)
    }


def _needs(requirements: Iterable[str]) -> set[str]:
    needed = (line for line in requirements if "extra ==" not in line)
    return {_normal(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in needed}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("program", ["groundcrew", "kubectl-groundcrew"])
def test_its_programs_run(installed: Path, tmp_path: Path, program: str) -> None:
    env = os.environ | {"PYTHONPATH": str(installed)}
    said = _run([str(installed / "bin" / program), "replay", "--help"], cwd=tmp_path, env=env)
    assert said.stdout.startswith(f"usage: {program.replace('-', ' ')} replay ")


def test_a_scenario_plays(installed: Path, tmp_path: Path) -> None:
    said = groundcrew(installed, tmp_path, "replay", "node-came-back", "--json")
    assert json.loads(said.splitlines()[-1])


def test_a_report_is_written(installed: Path, tmp_path: Path) -> None:
    groundcrew(installed, tmp_path, "replay", "budget-paces", "--report", "out.html")
    assert "<!doctype html>" in (tmp_path / "out.html").read_text()[:200].lower()


def test_an_event_is_understood(installed: Path, tmp_path: Path) -> None:
    recorded = ROOT / "events/recorded/aws_health/multi_entity_one_page.json"
    assert len(groundcrew(installed, tmp_path, "notices", str(recorded)).splitlines()) >= 3


def test_a_policy_is_checked_against_the_defaults_inside(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("version: 1\nbudget: {pool: 20%}\n")
    assert "budget.pool" in groundcrew(installed, tmp_path, "policy", "check", "p.yaml")


def test_two_policies_are_compared(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("version: 1\nbudget: {pool: 100%, cluster: 100%}\n")
    said = groundcrew(
        installed, tmp_path, "backtest", "--policy", "default", "--policy", "p.yaml", "budget-paces"
    )
    assert said.strip()
