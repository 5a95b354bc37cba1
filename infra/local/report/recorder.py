"""Listens while a scenario plays, without a word of its own.

It stands in three places: around the world, where it hears what becomes of every Node and what
is written to pods, ledgers and the pause; around the functions, where it learns which event a
decision came of; and behind the player, which tells the timeline's entries. It reads and never
writes, so that a play with a report is the play without one.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from events.cloudevent import CloudEvent
from functions.edge.call import Function
from functions.edge.context import Context, Outcome
from functions.gateways.kubernetes.transport import Request, Response, Transport
from functions.rules import breaker, keys, ledger, pause
from functions.rules.policy import Policy
from functions.steps import active
from infra.local.clock import PING, SimulatedClock
from infra.local.report import model, node_state
from infra.local.report.history import History, milliseconds
from infra.local.scenario import Scenario
from infra.local.timeline import Did, Entry, Trouble
from infra.local.world import Change, World

MOST_TROUBLES = 500
_OURS = "dev.groundcrew."
_NODE_EVENT = "dev.knative.apiserver.resource."


@dataclasses.dataclass
class Breaker:
    pool: str
    check: str
    opened: datetime
    closed: datetime | None = None


@dataclasses.dataclass
class Paused:
    pool: str
    since: datetime
    until: datetime
    text: str


class Recorder:
    def __init__(self, scenario: Scenario, policy: Policy) -> None:
        self.scenario = scenario
        self.policy = policy
        self.nodes = {
            name: History(name, pool, scenario.start, policy)
            for name, pool in scenario.pool_of_nodes.items()
        }
        """In the scenario's order; nodes that come later are the last."""
        self.entries: list[tuple[Entry, int | None]] = []
        """With the place in ``calls`` of the call that the entry belongs to."""
        self.troubles = 0
        """How often something went wrong; the first `MOST_TROUBLES` are among the entries."""
        self.calls: list[model.Call] = []
        self.heard = [0] * model.BINS
        self.breakers: dict[tuple[str, str, datetime], Breaker] = {}
        self.pauses: list[Paused] = []
        self._length = max(1, milliseconds(scenario.end - scenario.start))
        self._call: int | None = None
        self._clock: SimulatedClock | None = None

    # where it stands

    def world(self, world: World) -> World:
        self._clock = world.clock
        return _HeardWorld(world, self)

    def through(self, functions: Mapping[str, Function]) -> Mapping[str, Function]:
        return {name: self._heard_function(function) for name, function in functions.items()}

    def entry(self, entry: Entry) -> None:
        if isinstance(entry, Did):
            history = self.nodes.get(entry.decision.node)
            if history is None or not history.has_room():
                return
        elif isinstance(entry, Trouble):
            self.troubles += 1
            if self.troubles > MOST_TROUBLES:
                return
        self.entries.append((entry, self._call))

    @property
    def in_a_call(self) -> bool:
        return self._call is not None

    # what it hears

    def changed(self, change: Change) -> None:
        if change.kind == "Node":
            node = node_state.decode(change.body)
            name = node.metadata.name
            if name not in self.nodes:
                pool = self.policy.pool_of(node.metadata.labels or {})
                self.nodes[name] = History(name, pool, self.scenario.start, self.policy)
            self.nodes[name].see(self._now(), change.verb, node)

    def answered(self, request: Request, response: Response, pod: "_Pod | None") -> None:
        """``pod`` is as it was before it was asked to go."""
        if pod is not None:
            self._asked_to_go(request, response, pod)
        elif "/configmaps" in request.path and request.method != "GET":
            self._config_map(request, response)
        elif request.method == "PATCH" and _is_pod(request) and 200 <= response.status < 300:
            self._warned(msgspec.json.decode(response.body, type=_Pod))

    def _heard_function(self, function: Function) -> Function:
        inner = function.handle

        def heard(event: CloudEvent, context: Context) -> Outcome:
            self._call, before = len(self.calls), len(self.entries)
            self.calls.append(_call(function.name, event, {}))
            try:
                outcome = inner(event, context)
            finally:
                place, self._call = self._call, None
                if len(self.entries) == before:
                    self.calls.pop()
                else:
                    self.calls[place] = _call(function.name, event, context.requests)
            self._count(event, quiet=len(self.entries) == before)
            return outcome

        return dataclasses.replace(function, handle=heard)

    def _count(self, event: CloudEvent, *, quiet: bool) -> None:
        now = self._now()
        if event.type == PING or event.type.startswith(_OURS) or now < self.scenario.start:
            return
        at = milliseconds(now - self.scenario.start)
        place = min(at * model.BINS // self._length, model.BINS - 1)
        self.heard[place] += 1
        if quiet and event.type.startswith(_NODE_EVENT):
            history = self.nodes.get(_about(event))
            if history is not None:
                history.heard[place] += 1

    def _asked_to_go(self, request: Request, response: Response, pod: "_Pod") -> None:
        history = self.nodes.get(pod.spec.node)
        if history is None:
            return
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        now = self._now()
        if not 200 <= response.status < 300:
            status = msgspec.json.decode(response.body, type=_Status)
            text = f"{name}: {response.status} {status.message}"
            said = [one.text for one in history.happenings if one.kind == "refused"]
            if text not in said[-3:]:
                history.happens(now, "refused", text)
            return
        history.pods += 1
        kind = "deleted" if request.method == "DELETE" else "evicted"
        grace = f", {pod.spec.grace} s of grace" if pod.spec.grace is not None else ""
        history.happens(now, kind, f"{name} is asked to go{grace}.")

    def _warned(self, pod: "_Pod") -> None:
        after = (pod.metadata.annotations or {}).get(keys.EVICT_AFTER)
        history = self.nodes.get(pod.spec.node)
        if after and history is not None:
            due = datetime.fromisoformat(after)
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            history.warned(self._now(), due, f"{name} is warned: it may stay until {due:%H:%M:%S}")

    def _config_map(self, request: Request, response: Response) -> None:
        if not 200 <= response.status < 300:
            return
        if request.method == "DELETE":
            if request.path.rpartition("/")[2] == active.PAUSE_NAME:
                self._resumed()
            return
        found = msgspec.json.decode(response.body, type=_ConfigMap)
        part = (found.metadata.labels or {}).get(keys.PART)
        data = found.data or {}
        if part == "ledger":
            self._ledger(data.get("pool", ""), data.get("ledger", ""))
        elif part == "pause":
            self._paused(data)

    def _ledger(self, pool: str, text: str) -> None:
        try:
            found = ledger.decode(text)
        except ledger.Unreadable:
            return
        for name, check in found.checks.items():
            if check.opened is not None:
                self._breaker(pool, name, check, check.opened)

    def _breaker(self, pool: str, name: str, check: breaker.Check, opened: datetime) -> None:
        fresh = Breaker(pool, name, opened)
        known = self.breakers.setdefault((pool, name, opened), fresh)
        if not check.is_open and known.closed is None:
            known.closed = check.closed

    def _paused(self, data: Mapping[str, str]) -> None:
        now = self._now()
        self._resumed()
        for key, text in data.items():
            stop = msgspec.json.decode(text, type=pause.Pause)
            pool = "" if key == pause.CLUSTER else key.removeprefix("pool.")
            by = f" by {stop.by}" if stop.by else ""
            self.pauses.append(Paused(pool, now, stop.until, f"paused{by}: {stop.reason}"))

    def _resumed(self) -> None:
        for one in self.pauses:
            one.until = min(one.until, self._now())

    def _now(self) -> datetime:
        assert self._clock is not None, "no world to listen to yet"
        return self._clock.now()


class _HeardWorld:
    """A `World` whose changes and requests are told to a recorder, too."""

    def __init__(self, world: World, recorder: Recorder) -> None:
        self._world = world
        self._recorder = recorder
        self.clock = world.clock
        self.transport: Transport = _HeardTransport(world.transport, recorder)

    @property
    def version(self) -> int:
        return self._world.version

    def advance(self, to: datetime) -> None:
        self._world.advance(to)

    def next_due(self) -> datetime | None:
        return self._world.next_due()

    def changes(self) -> list[Change]:
        found = self._world.changes()
        for change in found:
            self._recorder.changed(change)
        return found

    def close(self) -> None:
        self._world.close()


class _HeardTransport:
    def __init__(self, inner: Transport, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    def send(self, request: Request) -> Response:
        pod = self._pod_before(request)
        response = self._inner.send(request)
        if request.method != "GET":
            self._recorder.answered(request, response, pod)
        return response

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        return self._inner.stream(request)

    def _pod_before(self, request: Request) -> "_Pod | None":
        """The pod that is asked to go: afterwards it may be gone already."""
        path = request.path.removesuffix("/eviction")
        deleted = request.method == "DELETE" and _is_pod(request) and self._recorder.in_a_call
        if "dryRun" in request.query or not (deleted or path != request.path):
            return None
        answer = self._inner.send(Request(method="GET", path=path))
        return msgspec.json.decode(answer.body, type=_Pod) if answer.status == 200 else None


def _is_pod(request: Request) -> bool:
    return request.path.split("/")[-2:-1] == ["pods"]


def _call(name: str, event: CloudEvent, requests: Mapping[str, int]) -> model.Call:
    return model.Call(
        f=name,
        type=event.type,
        id=event.id,
        source=event.source,
        subject=event.subject or "",
        requests=tuple(sorted(requests.items())),
    )


def _about(event: CloudEvent) -> str:
    """The node that a watch event is about."""
    if event.extensions.get("kind") == "Node":
        return str(event.extensions.get("name", ""))
    if event.extensions.get("kind") == "Event" and isinstance(event.data, bytes):
        return msgspec.json.decode(event.data, type=_Event).involved.name
    return ""


class _Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _PodSpec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")
    grace: int | None = msgspec.field(default=None, name="terminationGracePeriodSeconds")


class _Pod(msgspec.Struct):
    metadata: _Named
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _ConfigMap(msgspec.Struct):
    metadata: _Named
    data: dict[str, str] | None = None


class _Status(msgspec.Struct):
    message: str = ""


class _Event(msgspec.Struct):
    involved: _Named = msgspec.field(default_factory=_Named, name="involvedObject")
