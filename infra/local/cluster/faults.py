"""What a test makes go wrong, request by request.

Each rule names the API's verb (``get``, ``list``, ``watch``, ``create``, ``update``, ``patch``,
``delete``; an eviction is a ``create``; ``*`` is any) and a regular expression that is searched
for in the path, and holds for the next ``times`` requests that match.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from infra.local.cluster.call import Answer, Call, refused
from infra.local.cluster.refusals import Refusal


class ConnectionDropped(Exception):
    """No answer reaches the one who asked."""


@dataclass
class _Rule:
    verb: str
    path: re.Pattern[str]
    times: int
    answer: Answer | None = None
    before: Callable[[Call], object] | None = None
    drop: bool = False
    carried_out: bool = False
    cut_after: int | None = None


@dataclass
class Faults:
    _rules: list[_Rule] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(
        self,
        verb: str,
        path: str,
        status: int,
        *,
        reason: str = "",
        message: str = "a fault of the test",
        cause: str = "",
        body: bytes | None = None,
        retry_after_seconds: int = 0,
        times: int = 1,
    ) -> None:
        """Answer with this status and do nothing. ``body`` instead of a Status object: what a
        proxy in between would say. ``cause`` is the reason of details.causes[0]."""
        details = {"causes": [{"reason": cause, "message": message}]} if cause else None
        answer = refused(
            Refusal(
                status,
                reason,
                message,
                details=details,
                retry_after_seconds=retry_after_seconds,
            )
        )
        if body is not None:
            answer = Answer(status, body, "text/plain", answer.headers)
        self._add(_Rule(verb, re.compile(path), times, answer=answer))

    def drop(self, verb: str, path: str, *, carried_out: bool = False, times: int = 1) -> None:
        """Lose the request, or (``carried_out``) do what it asks and lose the answer."""
        self._add(_Rule(verb, re.compile(path), times, drop=True, carried_out=carried_out))

    def before(
        self, verb: str, path: str, act: Callable[[Call], object], *, times: int = 1
    ) -> None:
        """Call ``act`` just before the request is handled: what somebody else did in between."""
        self._add(_Rule(verb, re.compile(path), times, before=act))

    def cut(self, path: str, *, after_lines: int = 0, times: int = 1) -> None:
        """Break the connection of a watch once it has given so many lines."""
        self._add(_Rule("watch", re.compile(path), times, cut_after=after_lines))

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def take(self, verb: str, call: Call) -> "list[_Rule]":
        """The rules that hold for this request; each is used up by one."""
        if not self._rules:
            return []
        with self._lock:
            found = [
                rule
                for rule in self._rules
                if rule.verb in (verb, "*") and rule.path.search(call.path)
            ]
            # One answer per request: a second rule that would answer waits for the next one.
            answering = [rule for rule in found if rule.before is None][:1]
            taken = [rule for rule in found if rule.before is not None] + answering
            for rule in taken:
                rule.times -= 1
            self._rules = [rule for rule in self._rules if rule.times > 0]
            return taken

    def _add(self, rule: _Rule) -> None:
        with self._lock:
            self._rules.append(rule)
