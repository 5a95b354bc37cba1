"""A ``groundcrew record`` that runs beside a test."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.processes import running

PATIENCE = 30.0
EVENT = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/tests",
    "ce-type": "aws.health.AWS Health Event",
    "content-type": "application/json",
}


class Recorder:
    """A running ``groundcrew record``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert self.process.stderr
        self.said: list[str] = []
        for line in self.process.stderr:
            self.said.append(line)
            if "Ctrl-C" in line:
                break
        match = re.search(r"http://127\.0\.0\.1:(\d+)", self.said[0] if self.said else "")
        assert match, self.said
        self.port = int(match[1])

    def post(
        self,
        body: Any,
        path: str = "/",
        headers: dict[str, str] | None = None,
        method: str = "POST",
    ) -> tuple[int, dict[str, str], bytes]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, raw, EVENT if headers is None else headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, "".join(self.said) + rest


@contextlib.contextmanager
def recorder(folder: Path, *options: str) -> Iterator[Recorder]:
    command = [sys.executable, "-m", "infra.cli", "record", "--to", str(folder), "--port", "0"]
    with running([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        yield Recorder(process)
