"""Processes that a test starts and that are over when it is, whatever came in between."""

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """``command`` while the block lasts; what has not ended by then is killed. One that nobody
    waited for would be a warning in whichever test comes later."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()
