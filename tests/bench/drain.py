"""How long a drain takes: kubectl, ``groundcrew drain``, and the drain function with its resync.

    python -m tests.bench.drain [--cases instant-110,...] [--rounds 3]

Each drains the same pods on the same control plane (a real API server, scheduler and controllers,
with kwok for kubelets), in turns, as a process of its own that has to start. Told are seconds,
the ratio to kubectl, and from the API server's audit log the requests that each pod costs, how
many evictions came within a second at most, and how many were refused.
``bound`` is what no drain can beat: the longest grace, and for the disruption budget one
replacement after the other, each as long as it took when nothing else was going on.
"""

import argparse
import bisect
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from functions import drain
from functions.rules import policy
from functions.rules.drain_state import State
from tests.controlplane.access import eventually
from tests.controlplane.bed import STARTS, STOPS, Bed
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.nodes import Nodes
from tests.support.crew import context, ping, transport_to

REPLACEMENT_SECONDS = 2
CALL_SECONDS = 4.0
TICK_SECONDS = 5.0
"""How often the clock wakes the drain function."""
OURS = ("command", "function")
USERS = ("kubectl", *OURS)
EVICTIONS_A_SECOND = policy.default().drain.evictions_per_second
A_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    nodes: int = 1
    pods: int
    """On each node."""
    grace: int = 0
    stops: str = ""
    """How long a pod takes to stop, if not its grace."""
    gated: bool = False
    """A Deployment under a budget of one, whose pods take a while to be ready."""
    wanted_ratio: float | None = None
    over_bound: float | None = None
    """How far above the bound it may be, as a share of it."""
    bound: float | None = None


CASES = (
    Case(name="instant-10", pods=10, wanted_ratio=2.0),
    Case(name="instant-110", pods=110, wanted_ratio=0.12),
    Case(name="instant-250", pods=250, wanted_ratio=0.12),
    Case(name="grace30-110", pods=110, grace=30, over_bound=0.04, bound=30.0),
    Case(name="pdb-gated", pods=10, gated=True, over_bound=0.15),
    Case(name="two-nodes", nodes=2, pods=3, grace=10, over_bound=0.10, bound=10.0),
    Case(name="fifty-nodes", nodes=50, pods=10, wanted_ratio=0.12),
)


@dataclass
class Taken:
    seconds: list[float] = field(default_factory=list)
    asked: list["Asked"] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """What the API server was asked."""

    requests: float
    """For each pod."""
    a_second: int
    """The most evictions that came within one."""
    refused: int
    """Evictions."""


class Bench:
    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster
        self.binary = Path(sys.executable).with_name("groundcrew")
        for user in USERS:
            cluster.kubectl(
                "create", "clusterrolebinding", user, "--clusterrole=cluster-admin",
                f"--user={cluster.username(user)}",
            )  # fmt: skip

    def measure(self, case: Case, rounds: int) -> dict[str, Any]:
        ways: dict[str, Callable[[Bed, Sequence[str]], None]] = {
            "kubectl": self._kubectl, "command": self._command, "function": self._function,
        }  # fmt: skip
        taken = {way: Taken() for way in ways}
        bounds: list[float] = []
        for number in range(rounds):
            for way, go in ways.items():
                with self._filled(case, f"{way}-{number}") as (bed, names):
                    if case.gated and way == "command":
                        bounds.append(self._replacement(bed) * (case.pods - 1))
                    mark = self.cluster.audit_mark()
                    started = time.monotonic()
                    go(bed, names)
                    taken[way].seconds.append(time.monotonic() - started)
                    self._check(bed, names)
                    taken[way].asked.append(self._asked(mark, way, case.pods * case.nodes))
        return _figures(case, taken, statistics.median(bounds) if bounds else case.bound)

    @contextmanager
    def _filled(self, case: Case, name: str) -> Iterator[tuple[Bed, list[str]]]:
        namespace = f"bench-{case.name}-{name}"
        nodes = Nodes(self.cluster)
        self.cluster.kubectl("create", "namespace", namespace)
        bed = Bed.on(self.cluster, nodes, namespace)
        names = [f"{namespace}-{number:02}" for number in range(case.nodes)]
        try:
            bed.add_together(*names)
            self._fill(case, bed, names)
            yield bed, names
        finally:
            self.cluster.kubectl("delete", "namespace", namespace, "--wait=false")
            self.cluster.kubectl(
                "delete", "pod", "--all", "--force", "--grace-period=0", f"-n={namespace}",
                timeout_seconds=300,
            )  # fmt: skip
            nodes.remove_all()
            bed.transport.close()

    def _fill(self, case: Case, bed: Bed, names: Sequence[str]) -> None:
        if case.gated:
            ready = {f"{STARTS}/delay": f"{REPLACEMENT_SECONDS}s"}
            ready[f"{STARTS}/jitter-delay"] = ready[f"{STARTS}/delay"]
            made = bed.workload("Deployment", "web", case.pods, annotations=ready)
            self.cluster.create(made, bed.pdb("web", maxUnavailable=1))
            bed.are_ready(case.pods)
            bed.add(f"{names[0]}-spare")
        else:
            stops = {STOPS: case.stops} if case.stops else {}
            owner = bed.owner("web")
            bed.create([
                bed.pod(f"web-{node}-{n}", node, owner=owner, grace=case.grace, annotations=stops)
                for node in names
                for n in range(case.pods)
            ])  # fmt: skip
            bed.are_ready(case.pods * case.nodes)
        if case.gated:
            self._budget_is_free(bed)

    def _replacement(self, bed: Bed) -> float:
        """How long one pod of the budget takes to be replaced: from its eviction until the
        budget lets the next one go. The spare node is not there for it, so it stays the same."""
        [pod, *_] = bed.pods()
        before = time.monotonic()
        self.cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", bed.namespace,
                             "--wait=false")  # fmt: skip
        self._budget(bed, lambda allowed: allowed == 0)
        self._budget_is_free(bed)
        return time.monotonic() - before

    def _budget_is_free(self, bed: Bed) -> None:
        self._budget(bed, lambda allowed: allowed == 1)

    def _budget(self, bed: Bed, holds: Callable[[int], bool]) -> None:
        def looks() -> bool:
            listed = bed.api.list_pdbs(bed.namespace).items
            assert listed is not None
            [found] = listed
            return holds(found.status.disruptions_allowed)

        eventually(looks, "the budget's status")

    def _kubectl(self, bed: Bed, names: Sequence[str]) -> None:
        kubeconfig = self.cluster.kubeconfig("kubectl")
        self._run([
            str(self.cluster.kubectl_binary), f"--kubeconfig={kubeconfig}",
            f"--cache-dir={self.cluster.work_folder / 'kubectl-cache'}", "drain", *names,
            "--ignore-daemonsets", "--delete-emptydir-data",
        ])  # fmt: skip

    def _command(self, bed: Bed, names: Sequence[str]) -> None:
        kubeconfig = self.cluster.kubeconfig("command")
        self._run([
            str(self.binary), "drain", *names, f"--kubeconfig={kubeconfig}",
            "--delete-emptydir-data",
        ])  # fmt: skip

    def _run(self, command: Sequence[str]) -> None:
        environment = os.environ | {"KUBERC": "off"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=600
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")

    def _function(self, bed: Bed, names: Sequence[str]) -> None:
        """Woken by the event at once, and by the clock every five seconds; a call of four."""
        transport = transport_to(self.cluster.kubeconfig("function"))
        try:
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(bed.mark, names))
            next_call = time.monotonic()
            while True:
                drain.handle(ping("resync-drain"), context(transport, call_seconds=CALL_SECONDS))
                states = [bed.state(name) for name in names]
                if all(s is not None and s.state is State.DRAINED for s in states):
                    return
                next_call += TICK_SECONDS
                time.sleep(max(0.0, next_call - time.monotonic()))
        finally:
            transport.close()

    def _check(self, bed: Bed, names: Sequence[str]) -> None:
        left = [p for p in bed.pods() if p["spec"].get("nodeName") in names]
        if left:
            raise SystemExit(f"{len(left)} pods are left on {names}")

    def _asked(self, mark: int, way: str, pods: int) -> Asked:
        user = self.cluster.username(way)
        # A watch is logged twice: when it begins, and when it ends.
        ours = {e.raw["auditID"]: e for e in self.cluster.audit_since(mark) if e.user == user}
        evictions = [e for e in ours.values() if e.subresource == "eviction"]
        came = sorted(datetime.fromisoformat(e.raw["requestReceivedTimestamp"]) for e in evictions)
        within = (bisect.bisect_left(came, at + A_SECOND) - n for n, at in enumerate(came))
        return Asked(
            requests=len(ours) / pods,
            a_second=max(within, default=0),
            refused=sum(e.code >= 400 for e in evictions),
        )


def _figures(case: Case, taken: dict[str, Taken], bound: float | None) -> dict[str, Any]:
    seconds = {way: statistics.median(t.seconds) for way, t in taken.items()}
    requests = {way: statistics.median(a.requests for a in t.asked) for way, t in taken.items()}
    asked = {way: t.asked for way, t in taken.items()}
    return {
        "kubectl_s": round(seconds["kubectl"], 2),
        "groundcrew_s": round(seconds["command"], 2),
        "function_s": round(seconds["function"], 2),
        "ratio": round(seconds["command"] / seconds["kubectl"], 3),
        "requests_per_pod": round(requests["command"], 2),
        "kubectl_requests_per_pod": round(requests["kubectl"], 2),
        "function_requests_per_pod": round(requests["function"], 2),
        "bound_s": None if bound is None else round(bound, 2),
        "most_evictions_a_second": max(a.a_second for w in OURS for a in asked[w]),
        "refused_evictions": {way: max(a.refused for a in asked[way]) for way in USERS},
    }


def verdict(case: Case, found: dict[str, Any]) -> str:
    """What is not as wanted; empty when all is."""
    wrong = []
    if case.wanted_ratio is not None and found["ratio"] > case.wanted_ratio:
        wrong.append(f"ratio over {case.wanted_ratio}")
    if case.over_bound is not None and found["bound_s"] is not None:
        most = found["bound_s"] * (1 + case.over_bound)
        if found["groundcrew_s"] > most:
            wrong.append(f"over {most:.1f} s")
    if case.pods >= 100 and found["requests_per_pod"] > 1.3:
        wrong.append("over 1.3 requests a pod")
    if found["most_evictions_a_second"] > EVICTIONS_A_SECOND:
        wrong.append(f"{found['most_evictions_a_second']} evictions within a second")
    return ", ".join(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    chosen = [case for case in CASES if case.name in args.cases.split(",")]
    measured: dict[str, dict[str, Any]] = {}
    print(
        f"{'case':14}{'kubectl':>9}{'command':>9}{'function':>9}{'bound':>8}{'ratio':>8}"
        f"{'req/pod':>9}  wanted"
    )
    with ControlPlane(extra_users=USERS) as cluster:
        bench = Bench(cluster)
        for case in chosen:
            found = measured[case.name] = bench.measure(case, args.rounds)
            bound = math.nan if found["bound_s"] is None else found["bound_s"]
            print(
                f"{case.name:14}{found['kubectl_s']:9.2f}{found['groundcrew_s']:9.2f}"
                f"{found['function_s']:9.2f}{bound:8.2f}{found['ratio']:8.3f}"
                f"{found['requests_per_pod']:9.2f}  {verdict(case, found) or 'holds'}",
                flush=True,
            )
    print(json.dumps({"bench": "drain", "cases": measured}))


if __name__ == "__main__":
    main()
