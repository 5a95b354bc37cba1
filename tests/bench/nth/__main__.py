"""Spot interruptions, all at once: aws-node-termination-handler and ours, side by side.

    python -m tests.bench.nth [--cases spot-1,nth-1,...] [--nth-limit 400] [--logs FOLDER]

Both consume a queue of the same emulation of SQS, as a process of their own, and act on the same
real API server (with its controllers, and kwok for kubelets) on nodes with ten pods each, which
end at once. NTH runs in queue mode with its defaults. Ours is ``groundcrew consume --in-process``,
consumer, functions and resync in one process (``spot-``), or as Knative runs it, consumer, cordon
and drain in a process each (``apart-``). They are measured in turns.

Told are, for each case, the seconds from the message to the cordon and to the node without pods,
as somebody sees them who watches; how many nodes were lost: not empty when the two minutes of
their notice were over; the requests to the API server for each node, by the audit log; and the
most memory that the process which reads the queue has had, and the one which acts. In the case of
one, notices come one after the other.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.nth.apart import Apart
from tests.bench.nth.cloud import Cloud, cloud
from tests.bench.nth.stand import Fleet, Seen
from tests.bench.nth.subjects import Ours, Subject, nth
from tests.controlplane.cluster import ControlPlane

NOTICE_SECONDS = 120.0
"""What a spot interruption gives.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html"""
SETTLE_SECONDS = 3.0
"""Between the start of a process and the first message, and from the last node on: what it does
then belongs to the nodes, too."""
LONE = 5
"""Notices of the case of one: one of them says little about a process that polls."""
USERS = ("nth",)


@dataclass(frozen=True)
class Case:
    name: str
    nodes: int
    at_once: bool = True

    @property
    def who(self) -> str:
        return self.name.partition("-")[0]


SUBJECTS: dict[str, Callable[[], Subject]] = {"spot": Ours, "apart": Apart, "nth": nth}
CASES = tuple(
    Case(f"{who}-{count}", LONE if count == 1 else count, at_once=count > 1)
    for count in (1, 20, 100)
    for who in SUBJECTS
)
WANTED = {"cordon_p90": 3.0, "drain_p90": 20.0, "lost": 0, "requests_per_node": 20,
          "acting_mb": 130}  # fmt: skip
"""Of ours."""
CONSUMER_MB = 80
"""Where it is a process of its own."""
COLUMNS = ("cordon_p50", "cordon_p90", "drain_p90", "drain_max", "lost", "requests_per_node",
           "rss_mb", "acting_mb", "cpu_s")  # fmt: skip


def measure(
    case: Case, cluster: ControlPlane, machines: Cloud, subject: Subject, limit: float
) -> dict[str, Any]:
    name = f"{case.name}-{random.randrange(16**6):06x}"
    queue = machines.queue(name)
    fleet = Fleet(cluster, name)
    try:
        fleet.fill(machines.machines(case.nodes))
        with subject.running(cluster, queue, f"{name}-own") as it:
            time.sleep(SETTLE_SECONDS)
            mark = cluster.audit_mark()
            busy = it.cpu_seconds()
            with fleet.watched() as seen:
                sent = _send(case, machines, queue, fleet, seen, limit)
                ends = max(sent.values()) + limit
                while len(seen.drained) < case.nodes and time.monotonic() < ends:
                    it.check()
                    time.sleep(0.1)
                time.sleep(SETTLE_SECONDS)
            user = cluster.username(subject.user)
            asked = {
                e.raw["auditID"]: f"{e.verb} {'/'.join(filter(None, (e.resource, e.subresource)))}"
                for e in cluster.audit_since(mark)
                if e.user == user
            }
            told = figures(sent, seen, fleet.machines, limit)
            told["requests_per_node"] = round(len(asked) / case.nodes, 1)
            told["rss_mb"] = round(it.rss_mb())
            told["acting_mb"] = round(it.acting_mb())
            told["cpu_s"] = round(it.cpu_seconds() - busy, 2)
            told["requests"] = dict(Counter(asked.values()).most_common())
            return told
    finally:
        fleet.clear()


def _send(
    case: Case, machines: Cloud, queue: str, fleet: Fleet, seen: Seen, limit: float
) -> dict[str, float]:
    if case.at_once:
        return machines.interrupt(queue, list(fleet.machines))
    sent: dict[str, float] = {}
    for machine, node in fleet.machines.items():
        time.sleep(random.uniform(1.0, 5.0))  # at no certain place in the rhythm of either
        sent |= machines.interrupt(queue, [machine])
        ends = time.monotonic() + limit
        while node not in seen.drained and time.monotonic() < ends:
            time.sleep(0.05)
    return sent


def figures(
    sent: Mapping[str, float], seen: Seen, nodes: Mapping[str, str], limit: float
) -> dict[str, Any]:
    """Seconds by what share of all nodes; a node that never came to it counts with ``limit``."""

    def took(when: Mapping[str, float]) -> list[float]:
        return sorted(
            min(when[nodes[m]] - at, limit) if nodes[m] in when else limit for m, at in sent.items()
        )

    cordoned, drained = took(seen.cordoned), took(seen.drained)
    return {
        "nodes": len(sent),
        "cordon_p50": _share(cordoned, 50),
        "cordon_p90": _share(cordoned, 90),
        "drain_p90": _share(drained, 90),
        "drain_max": round(drained[-1], 2),
        "lost": sum(seconds >= min(limit, NOTICE_SECONDS) for seconds in drained),
    }


def _share(ordered: list[float], percent: int) -> float:
    return round(statistics.quantiles(ordered, n=100, method="inclusive")[percent - 1], 2)


def verdict(case: Case, found: Mapping[str, Any]) -> str:
    """What is not as wanted; empty when all is. Of NTH nothing is wanted."""
    if case.who == "nth":
        return ""
    wanted = {**WANTED, "rss_mb": CONSUMER_MB} if case.who == "apart" else WANTED
    over = [f"{name} over {most}" for name, most in wanted.items() if found[name] > most]
    return ", ".join(over) or "holds"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of ours")
    parser.add_argument("--nth-limit", type=float, default=400.0, help="seconds of NTH's")
    parser.add_argument("--logs", type=Path, help="an empty folder that keeps all logs")
    args = parser.parse_args()
    chosen = [case for case in CASES if case.name in args.cases.split(",")]
    subjects = {who: SUBJECTS[who]() for who in {case.who for case in chosen}}
    measured: dict[str, dict[str, Any]] = {}
    print(f"{'case':9}" + "".join(f"{column:>{len(column) + 2}}" for column in COLUMNS), flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="groundcrew-bench-nth-") as folder,
        ControlPlane(extra_users=USERS, folder=args.logs) as cluster,
        cloud(args.logs or Path(folder)) as machines,
    ):
        for user in {subject.user for subject in subjects.values()}:
            cluster.kubectl(
                "create", "clusterrolebinding", f"bench-{user}", "--clusterrole=cluster-admin",
                f"--user={cluster.username(user)}",
            )  # fmt: skip
        for case in chosen:
            limit = args.nth_limit if case.who == "nth" else args.limit
            found = measure(case, cluster, machines, subjects[case.who], limit)
            measured[case.name] = found
            row = "".join(f"{found[column]:>{len(column) + 2}}" for column in COLUMNS)
            print(f"{case.name:9}{row}  {verdict(case, found)}", flush=True)
    print(json.dumps({"bench": "nth", "cases": measured}))


if __name__ == "__main__":
    main()
