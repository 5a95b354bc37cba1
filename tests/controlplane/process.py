"""One child process of the control plane: started, watched until healthy, killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DIE_WITH_PARENT = Path(__file__).with_name("die_with_parent.py")
POLL_INTERVAL_SECONDS = 0.03
LOG_LINES_SHOWN = 15

# "The parent" of PR_SET_PDEATHSIG is the thread that forked, not the process. A test may restart
# a program from a thread of its own and end that thread: so all forks are made by one thread
# that lives as long as this process.
_forks = ThreadPoolExecutor(max_workers=1, thread_name_prefix="controlplane-forks")


class BootError(Exception):
    """A program ended or did not become healthy. Names it, its last log lines, the next step."""

    def __init__(self, program: str, what: str, log: Path) -> None:
        self.last_lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        super().__init__(
            "\n".join([
                f"{program} {what}. Its last log lines:",
                *(f"  {line}" for line in self.last_lines),
                f"Next step: read the whole log, {log}",
            ])
        )  # fmt: skip

    @property
    def port_was_taken(self) -> bool:
        return any("address already in use" in line for line in self.last_lines)


class Process:
    """A program, its log file, and the check that says that it is healthy."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        healthy: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.program = Path(command[0]).name
        self.log = folder / f"{self.program}.log"
        self._command = command
        self._healthy = healthy
        # A home of its own: kwok and others would read the user's configuration.
        self._environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder)}
        self._environment.update(environment or {})
        self._child = _forks.submit(self._fork).result()

    def _fork(self) -> subprocess.Popen[bytes]:
        launcher = [sys.executable, "-I", "-S", str(DIE_WITH_PARENT), str(os.getpid())]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*launcher, *self._command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment,
                start_new_session=True,  # a Ctrl-C in the terminal is for pytest only
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._child.pid

    def wait_healthy(self, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not self._healthy():
            if (code := self._child.poll()) is not None:
                raise BootError(self.program, f"ended with exit code {code}", self.log)
            if time.monotonic() > deadline:
                what = f"was not healthy after {timeout_seconds:.0f} s"
                raise BootError(self.program, what, self.log)
            time.sleep(POLL_INTERVAL_SECONDS)

    def kill(self) -> None:
        """SIGKILL the whole process group and wait for the end; nothing if it has ended."""
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()

    def terminate(self, timeout_seconds: float) -> None:
        """SIGTERM, then SIGKILL if it takes longer than the timeout."""
        self._child.terminate()
        try:
            self._child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
