"""A report from the first scenario that is played to the file that is written."""

from collections.abc import Sequence
from pathlib import Path

from functions.rules import policy as policies
from infra.local.player import Played
from infra.local.report import build, page
from infra.local.report.model import Run
from infra.local.report.recorder import Recorder
from infra.local.scenario import Scenario


class Report:
    """Into ``file``. Raises `OSError` at once where it could not be written."""

    def __init__(self, file: str) -> None:
        self.file = Path(file)
        self.runs: list[Run] = []
        # Not at the end of a long play; and a play that fails leaves no empty page behind.
        is_new = not self.file.exists()
        with self.file.open("a"):
            pass
        if is_new:
            self.file.unlink()

    def recorder(self, scenario: Scenario, policy: str | None) -> Recorder:
        """For a play of ``scenario``, under ``policy`` if that replaces the scenario's own."""
        text = scenario.policy if policy is None else policy
        return Recorder(scenario, policies.parse(text) if text else policies.default())

    def add(self, recorder: Recorder, played: Played, notes: Sequence[str] | None = None) -> None:
        """``notes``: of recorded history."""
        self.runs.append(build.build(recorder, played, notes))

    def write(self) -> int:
        """How many bytes were written."""
        text = page.render(self.runs).encode()
        self.file.write_bytes(text)
        return len(text)
