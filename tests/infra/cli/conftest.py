import pytest

from infra.cli import connect
from tests.support.fleet import Fleet, Shell


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
def groundcrew(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """``groundcrew("status", "--all")`` on the fleet; in a pipe, so plain and wide."""
    shell = Shell(fleet, capsys)
    monkeypatch.setattr(connect, "reach", shell.reach)
    monkeypatch.delenv("GROUNDCREW_NAMESPACE", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    return shell
