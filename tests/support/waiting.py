"""Waiting for what other threads and processes do, in real time."""

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Returns when ``holds`` is true; it may take long on a busy machine, and costs nothing there
    where it is fast."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it never came to be"
        time.sleep(0.01)
