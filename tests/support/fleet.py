"""A small GPU fleet on the embedded cluster, the real functions over it, and a command line that
reaches it: what an operator's command is tried on."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from events.notice import Cause, Identity, Kind, Notice, Severity
from functions import cordon, drain, replace
from functions.edge.context import Context, Outcome
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request, Response
from functions.rules.pause import Pause
from infra.cli import connect, main
from infra.local.cloud import SimulatedAws
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport, builders
from tests.support.crew import context, node_update, ping
from tests.support.simulated import SimClock

NAMESPACE = "groundcrew-system"


class Fleet:
    """Pools ``a`` and ``b`` of twenty nodes each: ``a-01`` to ``b-20``."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.server = EmbeddedCluster(self.clock)
        self.transport = EmbeddedTransport(self.server, self.clock.sleep)
        self.aws = SimulatedAws(self.clock)
        self.server.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        for pool in "ab":
            for number in range(1, 21):
                self.server.apply(builders.node(f"{pool}-{number:02}", pool=pool))

    @property
    def context(self) -> Context:
        return context(self.transport, self.clock, parallel=1)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def pass_time(self, **length: float) -> None:
        self.clock.sleep(timedelta(**length).total_seconds())

    def resync(self) -> None:
        cordon.handle(ping(), self.context)

    def look(self, node: str) -> None:
        """The event of a changed Node reaches cordon."""
        cordon.handle(node_update(self.server.get("nodes", "", node) or {}), self.context)

    def drain(self) -> None:
        drain.handle(ping("drain-resync"), self.context)

    def replace(self) -> Outcome:
        """Its resync, with a cloud that knows every machine as running."""
        settings = self.context.settings
        made = Context(lambda: Cluster(self.transport), self.clock, settings, aws=lambda: self.aws)
        return replace.handle(ping("resync-replace"), made)

    def say(self, node: str, check: str = "xid-79", **more: Any) -> Outcome:
        """A source says that something is wrong with ``node``."""
        made: dict[str, Any] = {
            "kind": Kind.FAULT,
            "severity": Severity.EVICT,
            "cause": Cause.HARDWARE,
            "source": "kubernetes.event",
            "check": check,
            "identity": Identity(node=node, provider_id=self.provider_id(node)),
            "since": self.now,
            "evidence": f"NVRM: Xid (PCI:0000:0f:00): {check} on {node}",
        }
        return cordon.hear([Notice(**(made | more))], self.context)

    def provider_id(self, node: str) -> str:
        found = self.server.get("nodes", "", node)
        return found["spec"]["providerID"] if found else ""

    def change(self, node: str, act: Callable[[Any], object]) -> None:
        """What somebody else does to a Node."""
        found = self.server.get("nodes", "", node)
        act(found)
        self.server.apply({"apiVersion": "v1", "kind": "Node", **(found or {})})

    def config_map(self, name: str, part: str, data: dict[str, str]) -> None:
        labels = {"groundcrew.dev/part": part}
        meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
        self.server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})

    def data(self, name: str) -> dict[str, str]:
        found = self.server.get("configmaps", NAMESPACE, name)
        return dict(found.get("data") or {}) if found else {}

    def pauses(self) -> dict[str, Pause]:
        return {
            name: msgspec.json.decode(text, type=Pause)
            for name, text in self.data("groundcrew-pause").items()
        }

    def written(self) -> int:
        """Changes whenever anything in the cluster does."""
        return self.server.resource_version


class Shell:
    """The command line, called as the shell calls it."""

    def __init__(self, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
        self._fleet = fleet
        self._capsys = capsys
        self.asked: list[Request] = []
        """What the last command sent."""

    def send(self, request: Request) -> Response:
        self.asked.append(request)
        return self._fleet.transport.send(request)

    def stream(self, request: Request) -> Any:
        return self._fleet.transport.stream(request)

    @property
    def cluster(self) -> Cluster:
        return Cluster(self)

    def reach(self, args: Any) -> connect.Session:
        return connect.Session(self.cluster, args.namespace, lambda: "jane", self._fleet.clock)

    def __call__(self, *argv: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        self.asked.clear()
        try:
            code = main(list(argv))
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = self._capsys.readouterr()
        return code, out, err


def words(printed: str) -> str:
    """What was printed, on one line: tables fold where they like."""
    return " ".join(printed.split())


__all__: Sequence[str] = ("NAMESPACE", "Fleet", "Shell", "words")
