"""Reading the changes of pods in a thread, one watch after the other."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

from functions.gateways.kubernetes import errors, types
from functions.gateways.kubernetes.exchange import Watch

PodEvent = types.WatchEvent[types.Pod]
TRY_AGAIN = (errors.Gone, *errors.AWAY)
"""What ends a watch without saying that we may not have one: list again, then watch anew."""

LONGEST_WATCH = 600.0
_BETWEEN_SECONDS = 0.1
"""Between two watches: something in between might end each of them at once."""


@dataclass(frozen=True)
class Lost:
    """The watch ended before its time; changes may have been missed."""

    problem: BaseException


Into = Callable[[PodEvent | Lost | BaseException], None]
"""Told in the thread of the watch. An exception is one that nobody thought of."""


class Watcher:
    """The thread that reads one watch after the other, each from where the last one ended."""

    def __init__(
        self,
        watch_from: Callable[[str], Watch[types.Pod]],
        node: str,
        version: str,
        delay: float,
        into: Into,
    ) -> None:
        self._watch_from = watch_from
        self._version = version
        self._delay = delay
        self._into = into
        self._stopped = threading.Event()
        self._watch: Watch[types.Pod] | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{node}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._watch:
            # A transport whose lines are a plain generator cannot be closed while it is read;
            # its watch ends by itself at its timeout.
            with contextlib.suppress(ValueError):
                self._watch.close()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        try:
            self._stopped.wait(self._delay)
            while not self._stopped.is_set():
                self._read_one()
                self._stopped.wait(_BETWEEN_SECONDS)
        except TRY_AGAIN as problem:
            if not self._stopped.is_set():
                self._into(Lost(problem))
        except Exception as problem:  # noqa: BLE001  handed to the thread that waits for us
            if not self._stopped.is_set():
                self._into(problem)

    def _read_one(self) -> None:
        with self._watch_from(self._version) as watch:
            self._watch = watch
            if self._stopped.is_set():
                return
            for event in watch:
                if self._stopped.is_set():
                    return
                self._version = event.object.metadata.resource_version
                if event.type != "BOOKMARK":
                    self._into(event)
