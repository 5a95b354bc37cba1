"""Draining nodes for a person: all are cordoned, then all are emptied, side by side.

Nothing is evicted before every node is cordoned; when one cannot be, those that were are given
back. An interrupt ends all of it: what was asked is waited for, and nothing more is asked.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import FrameType
from typing import Protocol

from functions.gateways.kubernetes import errors, types
from functions.rules import drain_plan
from functions.rules.draining import Ended, Result
from functions.steps import cordon_by_hand, pods, volumes, warn
from functions.steps.cordon_by_hand import Before, Cordoned, Replaced
from functions.steps.drain_call import Call
from functions.steps.drain_target import list_pods
from functions.steps.evict import evict
from functions.steps.evict_wait import Wait
from infra.cli import cordon_words
from infra.cli.connect import Refused, Session
from infra.cli.drain_before import Prepared, side_by_side, target_of
from infra.cli.drain_options import Options
from infra.cli.drain_report import Blocker, Node, State

NODES_AT_ONCE = 64
AGAIN_SECONDS = 2.0
"""Between two looks at a node where only a gang's answer, or a new owner's mind, can help."""
_ATTACHED_SECONDS = 1.0
_CLOSING_SECONDS = 10.0
_LOOK_SECONDS = 0.2
INTERRUPTED = 130


class Interrupted(Exception):
    """Before anything was evicted; says what became of the cordons."""


class Screen(Protocol):
    def say(self, line: str) -> None: ...

    def progress(self, node: str, result: Result) -> None: ...

    def done(self, node: Node) -> None: ...

    def refresh(self) -> None: ...


def cordon_all(
    call: Call,
    prepared: Sequence[Prepared],
    operator: Callable[[], str],
    reason: str,
    screen: Screen,
) -> list[Cordoned]:
    """Raises `Refused` when one of them cannot be cordoned, and `Interrupted`; then none is."""
    needs = any(p.cordoned in (Before.FREE, Before.INCIDENT) for p in prepared)
    by = operator() if needs else ""

    def one(found: Prepared) -> Cordoned | Exception:
        try:
            return cordon_by_hand.cordon(call, found.node, by, reason=reason)
        except (errors.KubernetesError, Replaced) as problem:
            return problem

    outcomes = side_by_side(prepared, one, threads=call.threaded)
    wrong = [(p, o) for p, o in outcomes if isinstance(o, Exception)]
    done = [o for _, o in outcomes if isinstance(o, Cordoned)]
    if wrong or call.cancelled:
        kept = [c.node.name for c in done if c.made and not _take_back(call, c)]
        still = f"; still cordoned by us: {', '.join(kept)}" if kept else ""
        if call.cancelled:
            raise Interrupted(f"nothing was evicted, and cordons just made were taken back{still}")
        first, problem = wrong[0]
        raise Refused(
            f"node {first.name} could not be cordoned: {problem}; nothing was evicted, and "
            f"cordons just made were taken back{still}"
        )
    for cordoned in done:
        screen.say(f"{cordoned.node.name}: {cordon_words.cordoned(cordoned, by)}")
    return done


def drain_all(
    call: Call,
    session: Session,
    prepared: Sequence[Prepared],
    cordoned: Sequence[Cordoned],
    options: Options,
    screen: Screen,
) -> list[Node]:
    now = call.clock.monotonic()
    jobs = [
        _OneNode(call, session, cordon, before, options, screen, now)
        for before, cordon in zip(prepared, cordoned, strict=True)
    ]
    if not call.threaded:
        return [job() for job in jobs]
    with ThreadPoolExecutor(min(NODES_AT_ONCE, len(jobs))) as threads:
        waiting: set[Future[Node]] = set()
        futures = [threads.submit(job) for job in jobs]
        waiting = set(futures)
        while waiting:
            _, waiting = wait(waiting, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            screen.refresh()
        return [future.result() for future in futures]


@dataclass
class _OneNode:
    call: Call
    session: Session
    cordoned: Cordoned
    before: Prepared
    options: Options
    screen: Screen
    seen_at: float
    """See `Target.seen_at`."""
    evicted: list[str] = field(default_factory=list)
    warned: set[str] = field(default_factory=set)
    returned: dict[str, int] = field(default_factory=dict)
    last: Result | None = None

    @property
    def node(self) -> types.Node:
        return self.cordoned.node

    def __call__(self) -> Node:
        started = self.call.clock.monotonic()
        try:
            state, why = self._work()
        except errors.KubernetesError as problem:
            state = State.INTERRUPTED if self.call.cancelled else State.FAILED
            if self.call.left() <= 0:
                state = State.TIMED_OUT
            why = "" if state is not State.FAILED else f"the API server: {problem}"
        if state is not State.DRAINED and self.warned:
            self._withdraw()
        seconds = round(self.call.clock.monotonic() - started, 2)
        last = self.last or Result(ended=Ended.UNFINISHED)
        told = Node(
            node=self.node.name,
            state=state,
            cordon=cordon_words.short(self.cordoned.before),
            why=why,
            seconds=seconds,
            evicted=self.evicted,
            left=last.left if state is not State.DRAINED else (),
            blocked=[Blocker(b.pod, b.why) for b in last.blocked],
            ignored=dict(last.ignored),
            warned=sorted(self.warned),
            warnings=self.before.warnings,
        )
        self.screen.done(told)
        return told

    def _work(self) -> tuple[State, str]:
        call = self.call
        started = call.now()
        while True:
            result = self._once(started)
            match result.ended:
                case Ended.EMPTY:
                    return self._detached()
                case Ended.STOPPED:
                    return State.STOPPED, result.why
                case Ended.NODE_GONE:
                    return State.GONE, result.why
            if call.cancelled:
                return State.INTERRUPTED, ""
            if call.left() <= AGAIN_SECONDS / 10:
                return State.TIMED_OUT, ""
            if result.why:
                return State.FAILED, result.why
            if not _may_change(result):
                return State.BLOCKED, ""
            call.sleep(min(AGAIN_SECONDS, call.left()))

    def _detached(self) -> tuple[State, str]:
        """Waits for the volumes of the pods that left: mounted elsewhere they cannot be before."""
        call, told = self.call, False
        while held := volumes.attached(call, self.node.name, self.before.volumes):
            if call.cancelled:
                return State.INTERRUPTED, ""
            if call.left() <= _ATTACHED_SECONDS:
                return State.TIMED_OUT, f"still attached to the node: {', '.join(held)}"
            if not told:
                told = True
                self.screen.say(f"{self.node.name}: waiting for {', '.join(held)} to be detached")
            call.sleep(_ATTACHED_SECONDS)
        return State.DRAINED, ""

    def _once(self, started: datetime) -> Result:
        call, target = self.call, target_of(self.node, self.options)
        first = self.last is None and self.before.listed is not None
        listed = (self.before.listed if first else None) or list_pods(call, target)
        on_node = [pods.pod(p) for p in listed.items or ()]
        notice = call.policy.gang_notice
        if notice:
            warned = warn.warn(
                call,
                self.node.name,
                on_node,
                started=started,
                notice=notice,
                latest=None,
                reason=f"node {self.node.name} is being drained",
            )
            self.warned.update(warned.fresh)
            for gang in warned.fresh:
                until = f"{warned.notice[gang]:%H:%M:%S}Z"
                self.screen.say(f"{self.node.name}: {gang} is warned, until {until}")
            at = warned.notice
        else:
            at = {drain_plan.gang_of(pod): started for pod in on_node}
        result = evict(
            call,
            replace(target, notice=at, returned=self.returned, seen_at=self.seen_at),
            lambda node: "" if node.unschedulable else "somebody uncordoned the node",
            seconds=AGAIN_SECONDS if any(g and t > call.now() for g, t in at.items()) else None,
            wait=Wait(stay=True),
            listed=listed,
            before_cordon=first,
            report=self._report,
        )
        self.seen_at = float("-inf")
        self.evicted += [*result.evicted, *result.deleted]
        self.returned = dict(result.returned)
        self.last = result
        return result

    def _report(self, result: Result) -> None:
        self.screen.progress(self.node.name, result)

    def _withdraw(self) -> None:
        """The gangs were told that they would have to go, which is not so any more."""
        session = self.session
        try:
            with Call(
                session.cluster,
                session.clock,
                self.call.policy,
                _CLOSING_SECONDS,
                session.namespace,
            ) as closing:
                listed = closing.cluster.list_pods(node=self.node.name)
                warn.withdraw(closing, self.node.name, map(pods.pod, listed.items or ()))
        except errors.KubernetesError as problem:
            self.screen.say(f"{self.node.name}: the warnings could not be taken back: {problem}")


def _may_change(result: Result) -> bool:
    """Whether waiting may help; where nothing is known to be in the way, it does."""
    if result.leaving or result.held or not result.blocked:
        return True
    return any(b.leaving or not b.lasting for b in result.blocked)


def _take_back(call: Call, cordoned: Cordoned) -> bool:
    try:
        return cordon_by_hand.take_back(call.unbounded, cordoned)
    except errors.KubernetesError:
        return False


@contextmanager
def interrupts(call: Call, screen: Screen) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the call; the second one the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if call.cancelled:
            print("groundcrew: ended without waiting for answers", file=sys.stderr, flush=True)
            os._exit(INTERRUPTED)
        call.cancel()
        screen.say("interrupted: nothing more is asked; waiting for answers (again to leave now)")

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
