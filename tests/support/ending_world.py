"""A cluster with one sick machine for which all speaks, and a cloud, on simulated time."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import msgspec

from events.notice import Cause, Kind, Severity
from functions import replace
from functions.edge.context import Context, Outcome, Settings
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request, Response, Transport
from functions.rules import drain_state, incidents, keys
from functions.rules import policy as policies
from functions.rules.drain_state import DrainState
from functions.rules.incidents import Cordon, Incident, Record
from functions.rules.ledger import Ledger
from functions.rules.ledger import encode as encode_ledger
from functions.rules.replacing import book
from functions.rules.replacing.book import Book, Entry
from functions.steps import active
from functions.steps.replacing.crew import Crew
from infra.local.cloud import SimulatedAws
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport, builders
from tests.support.crew import ping
from tests.support.simulated import SimClock

NAMESPACE = "groundcrew-system"
POLICY = "replace: {act_in: ['*']}\nladder: [{rungs: [replace]}]\n"
MINUTE = timedelta(minutes=1)


class EndingWorld:
    def __init__(self, rules: str = POLICY, nodes: int = 3) -> None:
        self.clock = SimClock()
        self.server = EmbeddedCluster(self.clock)
        self.cloud = SimulatedAws(self.clock)
        self.outcomes: list[Outcome] = []
        for number in range(nodes):
            self.add(f"n{number}")
        self.set_policy(rules)
        for pool in ("", "gpu"):
            self._ledger(pool, nodes)
        self.call()  # begins the books
        self.wait(timedelta(hours=2))
        self.sick("n0")

    # what there is

    def add(self, name: str, provider_id: str = "") -> None:
        number = int(name[1:])
        made = builders.node(
            name,
            pool="gpu",
            provider_id=provider_id or f"aws:///us-east-1a/i-{number:017x}",
            now=self.clock.now(),
        )
        self.server.apply(made)

    def machine(self, name: str = "n0") -> str:
        return f"aws:///us-east-1a/i-{int(name[1:]):017x}"

    def node(self, name: str = "n0") -> dict[str, Any]:
        found = self.server.get("nodes", "", name)
        assert found is not None
        return {"apiVersion": "v1", "kind": "Node", **found}

    def sick(self, name: str = "n0", **more: Any) -> None:
        """As cordon and drain leave a machine whose GPU fell off the bus two hours ago."""
        now = self.clock.now()
        ago = now - timedelta(hours=2)
        found = self.node(name)
        made: dict[str, Any] = {
            "source": "kubernetes.event", "check": "xid-79", "kind": Kind.FAULT,
            "severity": Severity.EVICT, "cause": Cause.HARDWARE, "first": ago, "last": ago,
            "boot": found["status"]["nodeInfo"]["bootID"], "in_log": True, "latched": True,
        }  # fmt: skip
        self.record(name, Incident(**(made | more)))
        found = self.node(name)
        state = drain_state.State.DRAINED
        drained = DrainState(
            state=state, started=ago, changed=ago, provider_id=found["spec"]["providerID"]
        )
        found["metadata"]["annotations"][keys.DRAIN] = drain_state.encode(drained)
        self.server.apply(found)

    def record(self, name: str, *found: Incident, cordoned: bool = True) -> None:
        """The incidents of ``name``; without a cordon it is given back."""
        node = self.node(name)
        machine = node["spec"]["providerID"]
        cordon = Cordon(at=found[0].first) if cordoned else None
        record = Record(machine=machine, cordon=cordon, incidents=found)
        node["metadata"].setdefault("annotations", {})[keys.INCIDENTS] = incidents.encode(record)
        node["metadata"]["labels"][keys.STATE] = "evict" if cordoned else "released"
        node["spec"]["unschedulable"] = cordoned
        self.server.apply(node)

    def closed(self, name: str = "n0") -> None:
        """A test has passed, and cordon gives the node back."""
        text = self.node(name)["metadata"]["annotations"][keys.INCIDENTS]
        over = [
            msgspec.structs.replace(
                i, state=incidents.State.CLOSED, ended=self.clock.now(), why="tested well"
            )
            for i in incidents.decode(text).incidents
        ]
        self.record(name, *over, cordoned=False)

    def set_policy(self, text: str) -> None:
        data = active.policy_data(policies.parse("version: 1\n" + text), "a test")
        self.config_map(active.POLICY_NAME, "policy", data)

    def config_map(self, name: str, part: str, data: dict[str, str]) -> None:
        meta = {"name": name, "namespace": NAMESPACE, "labels": {keys.PART: part}}
        self.server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})

    def book(self, pool: str = "gpu") -> Book:
        found = self.server.get("configmaps", NAMESPACE, active.ledger_name(pool))
        assert found is not None
        return book.decode(found["data"].get(book.KEY))

    def entry(self, name: str = "n0") -> Entry:
        return self.book().machines[self.machine(name)]

    # what happens

    def wait(self, length: timedelta) -> None:
        self.clock.sleep(length.total_seconds())
        self.server.advance(self.clock.now())
        self.cloud.advance(self.clock.now())
        self._read()

    def call(self, transport: Transport | None = None, aws: Any = None) -> Outcome:
        """One call, over a connection of its own as each process has."""
        outcome = replace.handle(ping("resync-replace"), self.context(transport, aws))
        self.outcomes.append(outcome)
        return outcome

    def context(self, transport: Transport | None = None, aws: Any = None) -> Context:
        way = transport or EmbeddedTransport(self.server, self.clock.sleep)
        settings = Settings(namespace=NAMESPACE, call_seconds=4.0, parallel=1)
        return Context(lambda: Cluster(way), self.clock, settings, aws=lambda: aws or self.cloud)

    def crew(self) -> Crew:
        """What the steps of a call act with."""
        way = EmbeddedTransport(self.server, self.clock.sleep)
        return Crew(Cluster(way), self.clock, NAMESPACE, 30.0, lambda: self.cloud)

    def minutes(self, count: int) -> list[Outcome]:
        """The resync, each minute."""
        done = []
        for _ in range(count):
            self.wait(MINUTE)
            done.append(self.call())
        return done

    def actions(self) -> list[str]:
        said = (d for o in self.outcomes for d in o.decisions)
        return [d.action.value for d in said if d.action.value != "nothing"]

    def events(self) -> list[str]:
        return [e["reason"] for e in self.server.all("events")]

    def answers(self) -> list[str]:
        return [o.answer.type.removeprefix("dev.groundcrew.") for o in self.outcomes if o.answer]

    # cordon's part

    def _ledger(self, pool: str, size: int) -> None:
        led = Ledger(pool=pool, size=100 if pool else 0, rebuilt=self.clock.now())
        data = {"pool": pool, "ledger": encode_ledger(led)}
        self.config_map(active.ledger_name(pool), "ledger", data)

    def _read(self) -> None:
        """cordon has just read all nodes."""
        for pool in ("", "gpu"):
            name = active.ledger_name(pool)
            found = self.server.get("configmaps", NAMESPACE, name)
            assert found is not None
            led = Ledger(pool=pool, size=100 if pool else 0, rebuilt=self.clock.now())
            self.config_map(name, "ledger", {**found["data"], "ledger": encode_ledger(led)})


class Died(BaseException):
    """The process ends here, wherever it is: nothing in it runs any more."""


class Mortal:
    """A transport, and a cloud, that let a process die before or after one of their requests."""

    def __init__(self, world: EndingWorld, dies_at: int, *, after: bool) -> None:
        self._inner = EmbeddedTransport(world.server, world.clock.sleep)
        self._cloud = world.cloud
        self._dies_at, self._after = dies_at, after
        self.said: list[str] = []
        """What was asked, in order."""

    @property
    def count(self) -> int:
        return len(self.said)

    def send(self, request: Request) -> Response:
        name = f"{request.method} {request.path}"
        return self._pass(name, lambda: self._inner.send(request))

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        return self._inner.stream(request)

    def _pass(self, name: str, act: Callable[[], Any]) -> Any:
        self.said.append(name)
        dies = self.count == self._dies_at
        if dies and not self._after:
            raise Died
        done = act()
        if dies:
            raise Died
        return done

    def bounded(self, left: Callable[[], float]) -> "Mortal":
        return self

    def __getattr__(self, name: str) -> Any:
        """A call of the cloud is a request, too."""
        call = getattr(self._cloud, name)
        return lambda *given, **more: self._pass(name, lambda: call(*given, **more))
